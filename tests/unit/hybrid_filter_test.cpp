// SPDX-License-Identifier: MIT
// HybridFilter: hides, the last items and the long tail answer as one.

#include "seenby/stores/hybrid_filter.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/binomial.hpp"
#include "support/random.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::HybridFilter;
using seenby::Knowledge;
using seenby::Time;
using seenby::test::day;
using seenby::test::TestClock;
using Filter = HybridFilter<std::uint64_t>;

TEST_CASE("one call answers from the hides, the last items and the tail", "[hybrid][003-07]") {
  TestClock clock;
  HybridFilter<std::string> filter({.recent_items = 2, .clock = clock.clock()});
  for (const char* item : {"a", "b", "c"}) filter.insert(item);
  filter.hide("x");
  CHECK(filter.ask("x") == Knowledge::hidden);
  CHECK(filter.ask("c") == Knowledge::recent);
  CHECK(filter.ask("b") == Knowledge::recent);
  CHECK(filter.ask("a") == Knowledge::probable);
  CHECK(filter.ask("z") == Knowledge::unseen);
  CHECK(filter.recent() == std::vector<std::string>{"c", "b"});
  CHECK(filter.tail_items() == 1);
  const std::vector<std::string> items{"x", "a", "z"};
  std::vector<Knowledge> answers(3);
  filter.ask(items, answers);
  CHECK(answers == std::vector{Knowledge::hidden, Knowledge::probable, Knowledge::unseen});
  CHECK_THROWS_AS(filter.ask(items, std::span(answers).first(2)), std::invalid_argument);
}

TEST_CASE("a hide outlives every window, is listed, and is taken back without a trace", "[hybrid][003-07]") {
  TestClock clock;
  Filter filter({.recent_items = 5, .window = 30 * day, .clock = clock.clock()});
  CHECK(filter.hide(std::uint64_t{1}));
  CHECK_FALSE(filter.hide(std::uint64_t{1}));
  filter.insert(std::uint64_t{2});
  filter.hide(std::uint64_t{2});
  clock.advance(5'000 * day);
  CHECK(filter.ask(std::uint64_t{1}) == Knowledge::hidden);
  CHECK(filter.hidden().size() == 2);
  CHECK(filter.unhide(std::uint64_t{1}));
  CHECK_FALSE(filter.unhide(std::uint64_t{1}));
  CHECK(filter.ask(std::uint64_t{1}) == Knowledge::unseen);
  CHECK(filter.unhide(std::uint64_t{2}));
  CHECK(filter.ask(std::uint64_t{2}) == Knowledge::unseen);  // its being seen has left the window
}

TEST_CASE("taking a hide back leaves an item seen that was seen", "[hybrid][003-07]") {
  TestClock clock;
  Filter filter({.recent_items = 1, .clock = clock.clock()});
  filter.insert(std::uint64_t{1});
  filter.hide(std::uint64_t{1});
  filter.unhide(std::uint64_t{1});
  CHECK(filter.ask(std::uint64_t{1}) == Knowledge::recent);
  filter.insert(std::uint64_t{2});
  filter.hide(std::uint64_t{1});
  filter.unhide(std::uint64_t{1});
  CHECK(filter.ask(std::uint64_t{1}) == Knowledge::probable);
}

TEST_CASE("an item pushed out while the clock lags keeps its whole window", "[hybrid][003-07]") {
  TestClock clock;
  Filter filter({.recent_items = 1, .window = 30 * day, .slices = 6, .clock = clock.clock()});
  CHECK(filter.ask(std::uint64_t{0}) == Knowledge::unseen);
  clock.advance(20 * day);
  filter.insert(std::uint64_t{1});  // the tail is not asked, and does not know the time yet
  clock.advance(-20 * day);
  filter.insert(std::uint64_t{2});  // pushes item 1 out
  clock.advance(49 * day);
  CHECK(filter.ask(std::uint64_t{1}) == Knowledge::probable);
}

TEST_CASE("the last items never err, and the tail stays within its rate", "[hybrid][003-07]") {
  SEENBY_RANDOM(random);
  TestClock clock;
  Filter filter({.recent_items = 100, .target_fpr = 0.01, .expected_items = 200, .clock = clock.clock()},
                seenby::Xxh3Hash{random.seed()});
  for (std::uint64_t item = 0; item < 5'000; ++item) filter.insert(item);
  std::uint64_t wrong = 0;
  for (std::uint64_t item = 0; item < 5'000; ++item) {
    const Knowledge expected = item < 4'900 ? Knowledge::probable : Knowledge::recent;
    wrong += filter.ask(item) == expected ? 0U : 1U;
  }
  CHECK(wrong == 0);
  constexpr std::uint64_t probes = 100'000;
  std::uint64_t hits = 0;
  for (std::uint64_t item = 1'000'000; item < 1'000'000 + probes; ++item) hits += filter.may_contain(item) ? 1U : 0U;
  CHECK(hits <= seenby::test::most_hits(probes, 0.01));
}

TEST_CASE("a hybrid filter agrees with an exact model under random clocks", "[hybrid][003-07][property]") {
  SEENBY_RANDOM(random);
  const std::chrono::seconds window{GENERATE(0, 4'000)};
  INFO("window " << window.count() << " s");
  TestClock clock;
  Filter filter({.recent_items = 20, .window = window, .slices = 4, .expected_items = 100, .clock = clock.clock()});
  std::map<std::uint64_t, Time> seen;
  std::set<std::uint64_t> hidden;
  Time latest = clock.now();
  CHECK_FALSE(filter.may_contain(std::uint64_t{0}));  // time begins with the first call
  std::uint64_t fresh = 0;
  std::uint64_t wrong = 0;
  for (int step = 0; step < 6'000; ++step) {
    const auto stride = static_cast<std::int64_t>(random() % 60);
    clock.advance(std::chrono::seconds{random() % 25 == 0 ? -10 * stride : stride});
    latest = std::max(latest, clock.now());
    const std::uint64_t item = random() % 400;
    switch (random() % 10) {
      case 0:
        if (filter.hide(item) != hidden.insert(item).second) FAIL("hide " << item);
        break;
      case 1:
      case 2:
        if (filter.unhide(item) != (hidden.erase(item) == 1)) FAIL("unhide " << item);
        break;
      case 3: {
        const Time back = clock.now() - std::chrono::seconds{static_cast<std::int64_t>(random() % 5'000)};
        filter.insert_at(item, back);
        Time& at = seen.try_emplace(item, back).first->second;
        at = std::max(at, back);
        break;
      }
      default: filter.insert(item); seen[item] = latest;
    }
    for (int probe = 0; probe < 5; ++probe) {
      const std::uint64_t asked = random() % 500;
      const Knowledge answer = filter.ask(asked);
      const auto known = seen.find(asked);
      if (hidden.contains(asked)) {
        if (answer != Knowledge::hidden) FAIL("hidden " << asked << " answered " << to_string(answer));
      } else if (known != seen.end() && (window == 0s || latest - known->second <= window)) {
        if (answer == Knowledge::unseen || answer == Knowledge::hidden) FAIL("lost " << asked << " at step " << step);
      } else if (known == seen.end() || latest - known->second > window + window / 4 + 1s) {
        ++fresh;
        wrong += answer == Knowledge::unseen ? 0U : 1U;
        if (answer == Knowledge::hidden || answer == Knowledge::recent) FAIL("invented " << asked);
      }
    }
  }
  REQUIRE(fresh > 500);
  CHECK(wrong <= fresh / 20);
  filter.clear();
  CHECK(filter.hidden().empty());
  for (std::uint64_t item = 0; item < 400; ++item) CHECK_FALSE(filter.may_contain(item));
}

}  // namespace
