// SPDX-License-Identifier: MIT
// Counters a thread: exact whatever threads come and go, and a thread's first count allocates nothing.

#include "seenby/detail/thread_counters.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "support/allocations.hpp"
#include "support/wait_until.hpp"

namespace {

using seenby::detail::ThreadCounters;
using seenby::detail::ThreadSlots;

TEST_CASE("a thread's first count allocates nothing") {
  ThreadCounters<1> counters;
  std::uint64_t allocated = 1;
  std::thread([&] { allocated = seenby::test::allocations_of([&] { counters.row().add(0, 5); }).count; }).join();
  CHECK(allocated == 0);
  CHECK(counters.sum(0) == 5);
}

TEST_CASE("threads that live at once have slots of their own, and give them back", "[concurrent]") {
  constexpr std::size_t threads = 100;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::size_t> slots(threads);
    std::atomic<std::size_t> ready{0};
    std::atomic<std::size_t> alone{0};  // threads that never saw the others
    {
      std::vector<std::jthread> running;
      for (std::size_t& slot : slots) {
        running.emplace_back([&] {
          slot = ThreadSlots::mine();
          ++ready;
          alone += seenby::test::wait_until([&] { return ready == threads; }) ? 0U : 1U;
        });
      }
    }
    REQUIRE(alone == 0);
    CHECK(std::set<std::size_t>(slots.begin(), slots.end()).size() == threads);
    CHECK(*std::max_element(slots.begin(), slots.end()) < ThreadSlots::own);
  }
}

TEST_CASE("more threads than slots lose no count", "[concurrent]") {
  constexpr std::uint64_t threads = ThreadSlots::own + 40;
  ThreadCounters<2> counters;
  std::atomic<std::uint64_t> ready{0};
  std::atomic<std::uint64_t> alone{0};
  {
    std::vector<std::jthread> running;
    for (std::uint64_t i = 0; i < threads; ++i) {
      running.emplace_back([&] {
        auto row = counters.row();
        ++ready;
        alone += seenby::test::wait_until([&] { return ready == threads; }) ? 0U : 1U;
        for (int count = 0; count < 1'000; ++count) row.add(1, 2);
      });
    }
  }
  REQUIRE(alone == 0);
  CHECK(counters.sum(0) == 0);
  CHECK(counters.sum(1) == threads * 2'000);
}

}  // namespace
