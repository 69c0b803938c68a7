// SPDX-License-Identifier: MIT
// MemoryHistory: what every history promises, in memory.

#include "seenby/histories/memory_history.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/history_contract.hpp"

namespace {

using seenby::MemoryHistory;
using namespace seenby::test;

std::uint64_t number(int n) { return static_cast<std::uint64_t>(n); }
std::string text(int n) { return std::string("user \0 \xff ", 9).append(std::to_string(n)); }

TEST_CASE("MemoryHistory keeps the contract of a history, with integers and with strings", "[002-21]") {
  MemoryHistory<std::uint64_t, std::uint64_t> integers;
  check_history(integers, number, number);
  MemoryHistory<std::string, std::string> strings;
  check_history(strings, text, text);
}

TEST_CASE("MemoryHistory keeps hides, with integers and with strings", "[history][003-07]") {
  MemoryHistory<std::uint64_t, std::uint64_t> integers;
  check_hides(integers, integers, number, number);
  MemoryHistory<std::string, std::string> strings;
  check_hides(strings, strings, text, text);
}

TEST_CASE("MemoryHistory loses nothing when users are merged while both are written", "[concurrent]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  check_history_under_merges(history, number, number, 2'000);
}

TEST_CASE("An append of no items makes no user", "[history]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  history.append(7, std::vector<std::uint64_t>{}, at(1)).value();
  CHECK(all_users(history, 10).empty());
  CHECK_FALSE(history.forget(7).value());
}

TEST_CASE("Items and users given as bytes are told apart by their bytes", "[history]") {
  using Bytes = std::vector<std::byte>;
  MemoryHistory<Bytes, Bytes> history;
  const Bytes user{std::byte{0}, std::byte{255}};
  const Bytes item{std::byte{0}};
  const Bytes longer{std::byte{0}, std::byte{0}};
  history.append(user, std::vector<Bytes>{item}, at(1)).value();
  CHECK(contained(history, user, {item, longer}) == std::vector<std::uint8_t>{1, 0});
}

TEST_CASE("The first second within a window is one after the window's length ago, and never overflows", "[history]") {
  using std::chrono::seconds;
  CHECK(seenby::window_start(at(100), seconds{30}) == at(71));
  CHECK(seenby::within_window(at(71), at(100), seconds{30}));
  CHECK_FALSE(seenby::within_window(at(70), at(100), seconds{30}));
  CHECK(seenby::window_start(at(100), seconds{0}) == seenby::all_time);
  CHECK(seenby::window_start(at(-100), seconds::max()) == seenby::all_time + seconds{1});
}

}  // namespace
