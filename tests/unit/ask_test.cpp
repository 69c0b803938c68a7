// SPDX-License-Identifier: MIT
// SeenFilter::ask: what the filter says of one item.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/allocations.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;

TEST_CASE("an item is unseen, seen, or its user unknown") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record(alice, std::uint64_t{1}));
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::seen);
  CHECK(filter.ask(alice, 1) == Answer::seen);  // an integer has one digest, whatever its width
  CHECK(filter.ask(alice, std::uint64_t{2}) == Answer::unseen);
  CHECK(filter.ask(alice, "1") == Answer::unseen);  // but text is no integer
  CHECK(filter.ask(bob, std::uint64_t{1}) == Answer::unknown);
  filter.store().state().down = true;
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
}

TEST_CASE("what is known for certain is seen, of unknown users too") {
  test::TestClock clock;
  SeenFilter filter{Store{{.window = std::chrono::hours(24), .clock = clock.clock()}}};
  filter.keep_last(2);
  REQUIRE(filter.hide(bob, std::uint64_t{1}));
  filter.mark_in_flight(bob, Ids{2}, std::chrono::seconds(10));
  CHECK(filter.ask(bob, std::uint64_t{1}) == Answer::seen);
  CHECK(filter.ask(bob, std::uint64_t{2}) == Answer::seen);
  CHECK(filter.ask(bob, std::uint64_t{3}) == Answer::unknown);
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
  clock.advance(std::chrono::seconds(10));
  CHECK(filter.ask(bob, std::uint64_t{2}) == Answer::unknown);
  REQUIRE(filter.record(bob, std::uint64_t{4}));
  filter.store().state().users[bob].clear();
  CHECK(filter.ask(bob, std::uint64_t{4}) == Answer::seen);  // one of the last two
  clock.advance(std::chrono::hours(24));
  CHECK(filter.ask(bob, std::uint64_t{4}) == Answer::unseen);
}

TEST_CASE("asking allocates nothing and counts as no request") {
  SeenFilter filter{Store{}};
  const std::string longer = "a string that is too long for a string's own buffer";
  REQUIRE(filter.record(alice, longer));
  REQUIRE(filter.hide(alice, std::uint64_t{7}));
  Answer text{};
  Answer number{};
  CHECK(test::allocations_of([&] { text = filter.ask(alice, longer); }).count == 0);
  CHECK(test::allocations_of([&] { number = filter.ask(alice, std::uint64_t{7}); }).count == 0);
  CHECK(text == Answer::seen);
  CHECK(number == Answer::seen);
  const auto counters = filter.counters();
  CHECK(counters.requests == 0);
  CHECK(counters.candidates_checked == 0);
  CHECK(counters.removed == 0);
  CHECK(filter.store().state().checks == 1);  // the hide needed none
}
