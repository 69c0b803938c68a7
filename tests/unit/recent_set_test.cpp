// SPDX-License-Identifier: MIT
// RecentSet: the last N, the last days, and clocks that jump.

#include "seenby/sets/recent_set.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/random.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::RecentSet;
using seenby::Time;
using seenby::test::day;
using seenby::test::TestClock;

TEST_CASE("a recent set keeps the last N, an item seen again counts as the newest", "[recent][003-01]") {
  TestClock clock;
  RecentSet<std::uint64_t> set({.max_items = 3, .clock = clock.clock()});
  std::vector<std::uint64_t> out;
  for (const std::uint64_t item : {1U, 2U, 3U, 1U, 4U, 5U}) {
    set.insert(item, [&](std::uint64_t old, Time) { out.push_back(old); });
    clock.advance(1s);
  }
  CHECK(out == std::vector<std::uint64_t>{2, 3});
  CHECK(set.items() == std::vector<std::uint64_t>{5, 4, 1});
  CHECK(set.erase(4));
  CHECK_FALSE(set.erase(4));
  CHECK(set.items() == std::vector<std::uint64_t>{5, 1});
}

TEST_CASE("a recent set forgets to the second", "[recent][003-01]") {
  TestClock clock;
  RecentSet<std::string> set({.max_items = 10, .window = 30 * day, .clock = clock.clock()});
  set.insert("a");
  clock.advance(30 * day);
  CHECK(set.contains("a"));
  CHECK(set.seen_at("a") == clock.now() - 30 * day);
  clock.advance(1s);
  CHECK_FALSE(set.contains("a"));
  CHECK(set.size() == 0);
  clock.advance(-10s);
  CHECK_FALSE(set.contains("a"));  // what has expired stays expired
}

TEST_CASE("a wall clock a year ahead expires nothing in a recent set, and what is inserted meanwhile ages as all else",
          "[recent]") {
  TestClock clock;
  std::chrono::seconds steady{0};
  RecentSet<std::uint64_t> set(
      {.max_items = 100, .window = 30 * day, .clock = seenby::Clock(clock.wall(), [&] { return steady; })});
  set.insert(1);
  clock.advance(365 * day);
  CHECK(set.contains(1));
  set.insert(2);
  CHECK(set.size() == 2);
  CHECK(set.clock_jumps() == 1);
  clock.advance(-365 * day);
  CHECK(set.contains(1));
  clock.advance(31 * day);
  steady += 31 * day;
  CHECK(set.size() == 0);
  CHECK(set.clock_jumps() == 1);
}

TEST_CASE("a recent set agrees with an exact model under random clocks", "[recent][003-01][property]") {
  SEENBY_RANDOM(random);
  const std::size_t most = GENERATE(std::size_t{1}, std::size_t{7}, std::size_t{60});
  const std::chrono::seconds window{GENERATE(0, 500)};
  INFO("the last " << most << ", " << window.count() << " s");
  TestClock clock;
  RecentSet<std::uint64_t> set({.max_items = most, .window = window, .clock = clock.clock()});
  // Newest first. Equal times keep the order of arrival.
  std::vector<std::pair<Time, std::uint64_t>> model;
  Time latest = clock.now();
  CHECK(set.size() == 0);  // time begins with the first call
  const auto add = [&](std::uint64_t item, Time when) {
    std::erase_if(model, [&](const auto& one) { return window > 0s && latest - one.first > window; });
    if (window > 0s && latest - when > window) return;
    const auto known = std::ranges::find(model, item, [](const auto& one) { return one.second; });
    if (known != model.end() && known->first > when) return;
    if (known != model.end()) model.erase(known);
    model.insert(std::ranges::find_if(model, [&](const auto& one) { return one.first <= when; }), {when, item});
    if (model.size() > most) model.pop_back();
  };
  for (int step = 0; step < 4'000; ++step) {
    const auto stride = static_cast<std::int64_t>(random() % 20);
    clock.advance(std::chrono::seconds{random() % 30 == 0 ? -10 * stride : stride});
    latest = std::max(latest, clock.now());
    const std::uint64_t item = random() % 100;
    switch (random() % 8) {
      case 0: {
        const Time back = clock.now() - std::chrono::seconds{static_cast<std::int64_t>(random() % 600)};
        set.insert_at(item, back);
        add(item, std::min(back, latest));
        break;
      }
      case 1: {
        const auto known = std::ranges::find(model, item, [](const auto& one) { return one.second; });
        const bool live = known != model.end() && !(window > 0s && latest - known->first > window);
        if (set.erase(item) != live) FAIL("erase " << item << " at step " << step);
        if (known != model.end()) model.erase(known);
        break;
      }
      default: set.insert(item); add(item, latest);
    }
    std::vector<std::uint64_t> expected;
    for (const auto& [when, one] : model) {
      if (window == 0s || latest - when <= window) expected.push_back(one);
    }
    if (set.items() != expected) FAIL("step " << step);
  }
}

TEST_CASE("a recent set refuses options that cannot be", "[recent]") {
  CHECK_THROWS_AS(RecentSet<int>({.max_items = 0}), std::invalid_argument);
  CHECK_THROWS_WITH(RecentSet<int>({.max_items = 5, .window = -1s}),
                    "seenby: expected 1 to 2^31 items and a window of no less than 0 s, got 5 items and -1 s");
}

}  // namespace
