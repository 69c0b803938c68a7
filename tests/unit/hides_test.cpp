// SPDX-License-Identifier: MIT
// What users hide: exact, listable, whatever the window.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
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

TEST_CASE("what a user hides stays hidden until it is unhidden, and can be listed", "[003-07]") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{range(0, 4)};
  CHECK(filter.hide(alice, std::uint64_t{2}).value());
  CHECK_FALSE(filter.hide(alice, std::uint64_t{2}).value());
  CHECK(filter.hide(alice, std::uint64_t{0}).value());
  CHECK(filter.hidden<std::uint64_t>(alice).value() == Ids{2, 0});
  CHECK(picked(pool, filter.select_unseen(pool, {alice}, {.limit = 4, .relax = {SeenByAtMost{1}}})) == Ids{1, 3});
  CHECK(filter.ask(alice, std::uint64_t{2}) == Answer::seen);
  CHECK(filter.unhide(alice, std::uint64_t{2}).value());
  CHECK_FALSE(filter.unhide(alice, std::uint64_t{2}).value());
  CHECK(picked(pool, filter.select_unseen(pool, {alice})) == Ids{1, 2, 3});
  CHECK(filter.select_unseen(pool, {bob}).size() == 4);
}

TEST_CASE("a hide outlives every window, and taking it back leaves an item seen that was seen", "[003-07]") {
  test::TestClock clock;
  SeenFilter filter{Store{{.window = std::chrono::hours(24), .clock = clock.clock()}}};
  filter.keep_last(1);
  REQUIRE(filter.record_all(alice, Ids{1, 2}));
  REQUIRE(filter.hide(alice, std::uint64_t{1}));
  REQUIRE(filter.hide(alice, std::uint64_t{3}));
  const CandidatePool pool{Ids{1, 2, 3, 4}};
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{4});
  CHECK(filter.unhide(alice, std::uint64_t{1}).value());
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{4});
  clock.advance(std::chrono::hours(24));
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{1, 2, 4});
  clock.advance(std::chrono::hours(1'000'000));
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{1, 2, 4});
}

TEST_CASE("the second user's hides, behind the first piece of a pool, are heeded") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.create(alice));
  REQUIRE(filter.record_all(bob, range(0, 200)));
  REQUIRE(filter.hide(alice, std::uint64_t{205}));
  REQUIRE(filter.hide(bob, std::uint64_t{201}));
  REQUIRE(filter.hide(bob, std::uint64_t{203}));
  const CandidatePool pool{range(0, 300)};
  CHECK(picked(filter.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{200, 202, 204, 206});
  CHECK(picked(filter.select_unseen(pool, {bob, alice}, {.limit = 4})) == Ids{200, 202, 204, 206});
}

TEST_CASE("hides are listed by the kind of item they are") {
  SeenFilter filter{Store{}};
  CHECK(filter.hide(alice, 42).value());
  CHECK_FALSE(filter.hide(alice, std::uint64_t{42}).value());
  CHECK(filter.hide(alice, "42").value());
  CHECK(filter.hide(alice, std::uint64_t{1} << 40).value());
  CHECK(filter.hidden(alice).value() == Ids{42, std::uint64_t{1} << 40});
  CHECK(filter.hidden<std::string>(alice).value() == std::vector<std::string>{"42"});
  // What an Item cannot hold is not listed as another number.
  CHECK(filter.hidden<std::uint8_t>(alice).value() == std::vector<std::uint8_t>{42});

  MemoryHistory<std::uint64_t, std::string> history;
  SeenFilter typed{Store{}, history};
  REQUIRE(typed.hide(alice, "song"));
  CHECK(typed.hidden(alice).value() == std::vector<std::string>{"song"});
}
