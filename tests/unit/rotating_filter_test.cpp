// SPDX-License-Identifier: MIT
// RotatingFilter: remembers a window of time, forgets what lies before it, and its slices share one error budget.

#include "seenby/filters/rotating_filter.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "seenby/filters/layout/split_block.hpp"
#include "support/binomial.hpp"
#include "support/random.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::ErrorCode;
using seenby::RotatingFilter;
using seenby::RotatingFilterOptions;
using seenby::Time;
using seenby::test::day;
using seenby::test::TestClock;
using Filter = RotatingFilter<std::uint64_t>;

RotatingFilterOptions thirty_days(const TestClock& clock, std::uint32_t slices = 6) {
  return {.window = 30 * day, .slices = slices, .target_fpr = 0.01, .expected_items = 600, .clock = clock.clock()};
}

TEST_CASE("an item is seen for the window and forgotten a slice after it", "[rotating][003-03]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  filter.insert(std::uint64_t{1});
  CHECK(filter.may_contain(std::uint64_t{1}));
  clock.advance(30 * day);
  CHECK(filter.may_contain(std::uint64_t{1}));
  clock.advance(5 * day + 1s);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
}

TEST_CASE("inserting again renews, and the age tells when", "[rotating][003-03]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  filter.insert(std::uint64_t{1});
  filter.insert(std::uint64_t{2});
  clock.advance(20 * day);
  CHECK(filter.age_of(std::uint64_t{1}) == 4);
  filter.insert(std::uint64_t{1});
  CHECK(filter.age_of(std::uint64_t{1}) == 0);
  CHECK(filter.age_of(std::uint64_t{2}) == 4);
  CHECK(filter.age_of(std::uint64_t{3}) == std::nullopt);
  clock.advance(20 * day);
  CHECK(filter.may_contain(std::uint64_t{1}));
  CHECK_FALSE(filter.may_contain(std::uint64_t{2}));
}

TEST_CASE("a window never holds more than slices + 1, and drops the oldest", "[rotating][003-03]") {
  const std::uint32_t slices = GENERATE(1U, 6U, 30U);
  TestClock clock;
  Filter filter(thirty_days(clock, slices));
  std::uint64_t item = 0;
  for (int step = 0; step < 200; ++step) {
    filter.insert(item++);
    clock.advance(filter.slice_length());
    CHECK(filter.live_slices() <= slices + 1);
  }
  CHECK(filter.size() <= slices + 1);
  clock.advance(100 * day);
  CHECK(filter.expire() > 0);
  CHECK(filter.capacity_bits() == 0);
}

TEST_CASE("thirty filters at 1% hide 26%; thirty slices of a window hide 1%", "[rotating][003-04]") {
  SEENBY_RANDOM(random);
  constexpr std::uint64_t probes = 50'000;
  std::vector<seenby::BloomFilter<std::uint64_t>> naive;
  TestClock clock;
  RotatingFilterOptions options = thirty_days(clock, 30);
  options.expected_items = 30 * 500;
  Filter window(options, seenby::Xxh3Hash{random.seed()});
  for (std::uint64_t slice = 0; slice < 30; ++slice) {
    naive.emplace_back(seenby::BloomFilterOptions{.expected_items = 500, .target_fpr = 0.01},
                       seenby::Xxh3Hash{random.seed()});
    for (std::uint64_t i = 0; i < 500; ++i) {
      naive.back().insert(slice * 500 + i);
      window.insert(slice * 500 + i);
    }
    clock.advance(1 * day);
  }
  std::uint64_t hidden_by_naive = 0;
  std::uint64_t hidden_by_window = 0;
  for (std::uint64_t probe = 1'000'000; probe < 1'000'000 + probes; ++probe) {
    hidden_by_naive += std::ranges::any_of(naive, [&](const auto& f) { return f.may_contain(probe); }) ? 1U : 0U;
    hidden_by_window += window.may_contain(probe) ? 1U : 0U;
  }
  CHECK(hidden_by_naive > probes / 5);
  CHECK(hidden_by_window <= seenby::test::most_hits(probes, 0.01));
}

TEST_CASE("the wrong-hide rate stays in the budget whatever the slices and users", "[rotating][003-04][property]") {
  const std::uint32_t slices = GENERATE(1U, 6U, 30U);
  const std::uint32_t users = GENERATE(1U, 2U);
  SEENBY_RANDOM(random);
  INFO(slices << " slices, " << users << " users");
  TestClock clock;
  RotatingFilterOptions options = thirty_days(clock, slices);
  options.target_fpr = seenby::sizing::split_budget(0.01, users);
  std::vector<Filter> filters;
  for (std::uint32_t user = 0; user < users; ++user) filters.emplace_back(options, seenby::Xxh3Hash{random.seed()});
  // Days of very different volume, most of them far over the plan of 600 a window.
  for (int step = 0; step < 45; ++step) {
    const std::uint64_t today = random() % 400;
    for (auto& filter : filters) {
      for (std::uint64_t i = 0; i < today; ++i) filter.insert(random() | 1U);
    }
    clock.advance(1 * day);
  }
  constexpr std::uint64_t probes = 50'000;
  std::uint64_t hidden = 0;
  for (std::uint64_t i = 0; i < probes; ++i) {
    const std::uint64_t fresh = random() & ~std::uint64_t{1};
    hidden += std::ranges::any_of(filters, [&](const Filter& f) { return f.may_contain(fresh); }) ? 1U : 0U;
  }
  CHECK(hidden <= seenby::test::most_hits(probes, 0.01));
  for (const Filter& filter : filters) CHECK(filter.estimated_fpr() <= options.target_fpr);
}

TEMPLATE_TEST_CASE("a window agrees with an exact model under random clocks", "[rotating][003-03][property]",
                   seenby::ClassicLayout, seenby::SplitBlockLayout) {
  using Window = RotatingFilter<std::uint64_t, TestType>;
  SEENBY_RANDOM(random);
  std::uint64_t fresh_probes = 0;
  std::uint64_t wrong = 0;
  for (int run = 0; run < 20; ++run) {
    TestClock clock;
    const auto window = std::chrono::seconds{1 + static_cast<std::int64_t>(random() % 10'000)};
    const auto slices = static_cast<std::uint32_t>(
        1 + random() % std::min<std::uint64_t>(12, static_cast<std::uint64_t>(window.count())));
    INFO("run " << run << ": window " << window.count() << " s in " << slices);
    Window filter({.window = window, .slices = slices, .expected_items = 50, .clock = clock.clock()});
    std::map<std::uint64_t, Time> model;  // item to the latest time it was seen, time never running backwards
    Time latest = clock.now();
    filter.expire();  // time begins with the first call
    for (int step = 0; step < 400; ++step) {
      // Mostly small steps; at times a leap of windows, at times a jump back.
      const auto stride = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(window.count() / 8 + 1));
      const auto kind = random() % 20;
      clock.advance(std::chrono::seconds{kind == 0 ? -10 * stride : kind == 1 ? 10 * stride : stride});
      latest = std::max(latest, clock.now());
      const std::uint64_t item = random() % 300;
      switch (random() % 8) {
        case 0: {
          const Time back = clock.now() - std::chrono::seconds{static_cast<std::int64_t>(random() % 20'000)};
          if (filter.insert_at(item, back)) {
            Time& at = model.try_emplace(item, back).first->second;
            at = std::max(at, back);
          }
          break;
        }
        case 1: {
          auto copy = Window::decode(filter.encode(), clock.clock());
          REQUIRE(copy.has_value());
          filter = std::move(*copy);
          break;
        }
        case 2: filter.expire(); break;
        default: filter.insert(item); model[item] = latest;
      }
      for (std::uint64_t probe = random() % 300, last = probe + 20; probe < last; ++probe) {
        const auto known = model.find(probe);
        const bool seen = filter.may_contain(probe);
        if (known != model.end() && latest - known->second <= window) {
          if (!seen) FAIL("lost item " << probe << " seen " << (latest - known->second).count() << " s ago");
        } else if (known == model.end() ||
                   latest - known->second > window + filter.slice_length() + std::chrono::seconds{slices}) {
          ++fresh_probes;
          wrong += seen ? 1U : 0U;
        }
      }
    }
  }
  REQUIRE(fresh_probes > 10'000);
  // Probes repeat, so their answers are not independent and no binomial bound holds: twice the rate, over all runs.
  CHECK(wrong <= fresh_probes / 50);
}

TEST_CASE("a clock that jumps back loses nothing", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  for (std::uint64_t item = 0; item < 100; ++item) {
    filter.insert(item);
    clock.advance(12h);
  }
  std::vector<std::uint64_t> seen;
  for (std::uint64_t item = 0; item < 100; ++item) {
    if (filter.may_contain(item)) seen.push_back(item);
  }
  const std::chrono::seconds jump = GENERATE(1s, 5 * day, 40 * day, 15'000 * day);
  clock.advance(-jump);
  filter.insert(std::uint64_t{1'000});
  for (const std::uint64_t item : seen) CHECK(filter.may_contain(item));
  CHECK(filter.may_contain(std::uint64_t{1'000}));
  // And what is recorded while the clock lags stays for its whole window once it has caught up.
  clock.advance(jump);
  clock.advance(30 * day);
  CHECK(filter.may_contain(std::uint64_t{1'000}));
}

TEST_CASE("a wall clock a year ahead empties no window, and what is inserted meanwhile ages as all else",
          "[rotating]") {
  TestClock clock;
  std::chrono::seconds steady{0};
  const auto pass = [&](std::chrono::seconds time) {
    clock.advance(time);
    steady += time;
  };
  Filter filter({.window = 30 * day, .slices = 6, .clock = seenby::Clock(clock.wall(), [&] { return steady; })});
  filter.insert(std::uint64_t{1});
  pass(5 * day);
  clock.advance(365 * day);
  CHECK(filter.may_contain(std::uint64_t{1}));
  filter.insert(std::uint64_t{2});
  CHECK(filter.expire() == 0);
  CHECK(filter.clock_jumps() == 1);
  const auto saved = filter.encode();
  clock.advance(-365 * day);
  CHECK(filter.may_contain(std::uint64_t{1}));
  CHECK(filter.may_contain(std::uint64_t{2}));
  const auto copy = Filter::decode(saved, clock.clock());
  REQUIRE(copy.has_value());
  CHECK(copy->may_contain(std::uint64_t{1}));
  pass(31 * day);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
  CHECK(filter.may_contain(std::uint64_t{2}));
  pass(5 * day);
  CHECK_FALSE(filter.may_contain(std::uint64_t{2}));
  CHECK(filter.clock_jumps() == 1);
}

TEST_CASE("a dropped slice never comes back, even one that only a query saw leave", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  filter.insert(std::uint64_t{1});
  clock.advance(36 * day);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
  clock.advance(-36 * day);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
  const auto copy = Filter::decode(filter.encode(), clock.clock());
  REQUIRE(copy.has_value());
  CHECK_FALSE(copy->may_contain(std::uint64_t{1}));
}

TEST_CASE("slices follow the volume, up and down", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  std::uint64_t item = 0;
  const auto days_of = [&](int days, std::uint64_t volume) {
    for (int d = 0; d < days; ++d) {
      for (std::uint64_t i = 0; i < volume; ++i) filter.insert(item++);
      clock.advance(1 * day);
    }
  };
  days_of(60, 20);
  CHECK(filter.planned_items() >= 100);
  CHECK(filter.planned_items() <= 150);
  days_of(60, 1'000);
  CHECK(filter.planned_items() >= 5'000);
  CHECK(filter.planned_items() <= 7'000);
  const double busy_bits = static_cast<double>(filter.capacity_bits());
  CHECK(busy_bits / static_cast<double>(filter.size()) < 25);  // a fresh chain would spend 30 and more
  days_of(90, 20);
  CHECK(filter.planned_items() <= 150);
  CHECK(static_cast<double>(filter.capacity_bits()) < busy_bits / 20);
}

TEST_CASE("a slice that outgrows its plan a hundredfold keeps the rate", "[rotating]") {
  TestClock clock;
  RotatingFilterOptions options = thirty_days(clock);
  options.expected_items = 60;
  Filter filter(options);
  for (std::uint64_t item = 0; item < 10'000; ++item) filter.insert(item);
  CHECK(filter.estimated_fpr() <= filter.slice_fpr());
  for (std::uint64_t item = 0; item < 10'000; ++item) REQUIRE(filter.may_contain(item));
}

TEST_CASE("a window fills from a history in any order", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  CHECK(filter.insert_at(std::uint64_t{1}, clock.now() - 29 * day));
  CHECK(filter.insert_at(std::uint64_t{2}, clock.now()));
  CHECK(filter.insert_at(std::uint64_t{3}, clock.now() - 14 * day));
  CHECK(filter.insert_at(std::uint64_t{4}, clock.now() + 14 * day));
  CHECK_FALSE(filter.insert_at(std::uint64_t{5}, clock.now() - 36 * day));
  CHECK(filter.live_slices() == 3);
  CHECK_FALSE(filter.may_contain(std::uint64_t{5}));
  clock.advance(7 * day);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
  for (const std::uint64_t item : {2U, 3U, 4U}) CHECK(filter.may_contain(item));
  clock.advance(29 * day);
  CHECK_FALSE(filter.may_contain(std::uint64_t{4}));
}

TEST_CASE("a batch of ages answers as one by one", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  for (std::uint64_t item = 0; item < 900; ++item) {
    filter.insert(item);
    if (item % 100 == 99) clock.advance(4 * day);
  }
  std::vector<seenby::Digest> digests;
  for (std::uint64_t item = 0; item < 1'500; ++item) digests.push_back(filter.digest(item));
  std::vector<std::uint8_t> ages(digests.size());
  std::vector<std::uint8_t> seen(digests.size());
  filter.ages(digests, ages);
  filter.may_contain(digests, seen);
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const auto age = filter.age_of(digests[i]);
    CHECK(ages[i] == (age ? *age : Filter::no_age));
    CHECK(seen[i] == (age ? 1 : 0));
  }
  CHECK_THROWS_AS(filter.ages(digests, std::span(ages).first(5)), std::invalid_argument);
}

TEST_CASE("insert_if_absent asks the whole window and renews", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  CHECK(filter.insert_if_absent(std::uint64_t{1}));
  clock.advance(20 * day);
  CHECK_FALSE(filter.insert_if_absent(std::uint64_t{1}));
  CHECK(filter.age_of(std::uint64_t{1}) == 0);
}

TEST_CASE("times before 1970 fall into slices as all others do", "[rotating]") {
  TestClock clock{Time{-7s}};
  Filter filter({.window = 10s, .slices = 2, .clock = clock.clock()});
  filter.insert(std::uint64_t{1});
  clock.advance(10s);
  CHECK(filter.may_contain(std::uint64_t{1}));
  clock.advance(6s);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
}

TEST_CASE("damaged bytes of a window are a typed error", "[rotating]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  for (std::uint64_t item = 0; item < 300; ++item) {
    filter.insert(item);
    clock.advance(2h);
  }
  const auto bytes = filter.encode();
  for (std::size_t size = 0; size < bytes.size(); size += 11) {
    CHECK(Filter::decode(std::span(bytes).first(size)).error().code == ErrorCode::truncated);
  }
  for (std::size_t at = 8; at < bytes.size(); at += 13) {
    auto flipped = bytes;
    flipped[at] ^= std::byte{0x04};
    const auto code = Filter::decode(flipped).error().code;
    CHECK((code == ErrorCode::corrupt || (at < 16 && code == ErrorCode::truncated)));
  }
  CHECK(Filter::decode(bytes, {}, seenby::Xxh3Hash{3}).error().code == ErrorCode::parameter_mismatch);
}

TEST_CASE("a window refuses options that cannot be", "[rotating]") {
  CHECK_THROWS_AS(Filter({.window = 0s}), std::invalid_argument);
  CHECK_THROWS_AS(Filter({.slices = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Filter({.slices = 251}), std::invalid_argument);
  CHECK_THROWS_AS(Filter({.target_fpr = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Filter({.expected_items = 0}), std::invalid_argument);
  CHECK_THROWS_WITH(
      Filter({.window = 5s, .slices = 6}),
      "seenby: expected slices of at least a second, got a window of 5 s in 6 slices at fpr 0.01 for 1000 items");
}

TEST_CASE("readers share a window while the clock moves on", "[rotating][concurrent]") {
  TestClock clock;
  Filter filter(thirty_days(clock));
  for (std::uint64_t item = 0; item < 200; ++item) filter.insert(item);
  std::atomic<bool> stop{false};
  std::atomic<int> came_back{0};
  {
    std::vector<std::jthread> readers;
    for (int reader = 0; reader < 3; ++reader) {
      readers.emplace_back([&] {
        bool gone = false;
        while (!stop) {
          const bool seen = filter.may_contain(std::uint64_t{7});
          came_back += gone && seen ? 1 : 0;
          gone = gone || !seen;
        }
      });
    }
    for (int step = 0; step < 400; ++step) clock.advance(step % 3 == 2 ? -4h : 6h);
    stop = true;
  }
  CHECK(came_back == 0);
}

}  // namespace
