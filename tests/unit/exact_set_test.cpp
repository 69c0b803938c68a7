// SPDX-License-Identifier: MIT
// ExactSet: a set that never errs, and what it takes.

#include "seenby/sets/exact_set.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/sizing.hpp"
#include "support/random.hpp"

namespace {

using seenby::ExactSet;

template <class List>
auto sorted(const List& list) {
  std::vector<typename List::value_type> copy(list.begin(), list.end());
  std::ranges::sort(copy);
  return copy;
}

TEST_CASE("an exact set agrees with std::set under random inserts and erases", "[exact][003-01][property]") {
  SEENBY_RANDOM(random);
  ExactSet<std::uint64_t> set;
  std::set<std::uint64_t> model;
  for (int step = 0; step < 50'000; ++step) {
    const std::uint64_t item = random() % 700;
    // Long phases that grow and that shrink, so that the table fills up and is emptied by shifting back.
    if (random() % 10 < (step / 5'000 % 2 == 0 ? 7U : 3U)) {
      if (set.insert(item) != model.insert(item).second) FAIL("insert " << item << " at step " << step);
    } else if (set.erase(item) != (model.erase(item) == 1)) {
      FAIL("erase " << item << " at step " << step);
    }
    const std::uint64_t probe = random() % 700;
    if (set.contains(probe) != model.contains(probe)) FAIL("contains " << probe << " at step " << step);
  }
  CHECK(set.size() == model.size());
  CHECK(sorted(set.items()) == sorted(model));
  set.clear();
  CHECK(set.empty());
  CHECK_FALSE(set.contains(std::uint64_t{1}));
}

TEST_CASE("an exact set takes strings by any name and bytes by value", "[exact][003-01]") {
  ExactSet<std::string> set;
  CHECK(set.insert("a"));
  CHECK_FALSE(set.insert(std::string_view{"a"}));
  CHECK(set.insert(std::string{""}));
  CHECK(set.contains(""));
  CHECK(set.erase("a"));
  CHECK_FALSE(set.erase("a"));
  CHECK(set.size() == 1);
}

TEST_CASE("2,000 ids of 8 bytes are 16 KB, at 1% in a filter a sixth to a seventh of it", "[exact][003-02]") {
  constexpr double ids = 2'000 * 8;
  const double filter = static_cast<double>(seenby::sizing::textbook_bits(2'000, 0.01)) / 8;
  CHECK(ids == 16'000);
  CHECK(filter > 2'390);
  CHECK(filter < 2'400);
  CHECK(ids / filter > 6);
  CHECK(ids / filter < 7);
  CHECK(100e6 * ids == 1.6e12);
  CHECK(100e6 * filter < 240e9);
  // And a set in memory is no smaller than its ids: it says what it takes.
  ExactSet<std::uint64_t> set;
  for (std::uint64_t id = 0; id < 2'000; ++id) set.insert(id);
  CHECK(set.memory_bytes() >= 16'000);
  CHECK(set.memory_bytes() <= 2'000 * 33);
}

}  // namespace
