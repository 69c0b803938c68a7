// SPDX-License-Identifier: MIT
// SeenFilter::keep_last: the last records exact, within the window.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>

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

TEST_CASE("the last items are exact: no relaxation brings them back, and no look-up is spent on them", "[003-07]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{}, history};
  filter.keep_last(3);
  for (std::uint64_t item = 0; item < 10; ++item) REQUIRE(filter.record(alice, item));
  const CandidatePool pool{range(0, 11)};
  const SelectOptions<std::uint64_t> options{.limit = 11, .relax = {Verify{}, SeenByAtMost{1}}};
  const auto page = filter.select_unseen(pool, {alice}, options);
  CHECK(picked(pool, page) == Ids{10, 0, 1, 2, 3, 4, 5, 6});
  CHECK(page.lookups() == 7);
  CHECK(filter.forget(alice).value());
  CHECK(filter.select_unseen(pool, {alice}).size() == 11);
}

TEST_CASE("an item that left the window is no longer one of the last") {
  test::TestClock clock;
  SeenFilter filter{Store{{.window = 30 * test::day, .clock = clock.clock()}}};
  filter.keep_last(10);
  REQUIRE(filter.record(alice, 1));
  clock.advance(10 * test::day);
  REQUIRE(filter.record(alice, 2));
  const CandidatePool pool{Ids{1, 2, 3}};
  clock.advance(20 * test::day - std::chrono::seconds(1));
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{3});
  clock.advance(std::chrono::seconds(1));
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{1, 3});
  clock.advance(400 * test::day);
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{1, 2, 3});
}

TEST_CASE("the second user's last items, behind the first piece of a pool, are heeded") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  filter.keep_last(3);
  REQUIRE(filter.record_all(alice, range(0, 200)));
  REQUIRE(filter.record_all(bob, Ids{900, 201, 203}));
  for (auto& user : filter.store().state().users) user.second.clear();  // the exact items alone are left
  REQUIRE(filter.record_all(alice, range(0, 200)));
  const CandidatePool pool{range(0, 300)};
  CHECK(picked(filter.select_unseen(pool, {alice, bob}, {.limit = 3})) == Ids{200, 202, 204});
  CHECK(picked(filter.select_unseen(pool, {bob, alice}, {.limit = 3})) == Ids{200, 202, 204});
}

TEST_CASE("a batch larger than what is kept leaves its last items") {
  SeenFilter filter{Store{}};
  filter.keep_last(2);
  REQUIRE(filter.record_all(alice, Ids{1, 2, 3, 4}));
  filter.store().state().users[alice].clear();
  const CandidatePool pool{range(1, 5)};
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{1, 2});
}
