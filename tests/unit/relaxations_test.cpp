// SPDX-License-Identifier: MIT
// Verify, SeenByAtMost and OldestSeenFirst: what a thin page lets in, and in which order.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
constexpr std::uint64_t carol = 3;

}  // namespace

namespace {

/// The filter calls these seen, whoever asks.
template <class Filter>
void err_at(Filter& filter, const Ids& items) {
  for (const std::uint64_t item : items)
    filter.store().state().false_positives.insert(filter.store().hasher()(item).value);
}

std::vector<PickReason> reasons(const Selection<std::uint64_t>& page) {
  std::vector<PickReason> all;
  for (const Pick& pick : page.picks()) all.push_back(pick.reason);
  return all;
}

}  // namespace

TEST_CASE("verify wins back what a filter hides wrongly, in ranking order, within its look-ups", "[001-01]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{}, history};
  REQUIRE(filter.record_all(alice, Ids{1, 4, 6}));
  err_at(filter, {0, 2, 5});
  const CandidatePool pool{range(0, 8)};
  const auto all = filter.select_unseen(pool, {alice}, {.limit = 8, .relax = {Verify{.lookups = 6}}});
  CHECK(picked(all) == Ids{0, 2, 3, 5, 7});
  CHECK(all.lookups() == 6);
  CHECK(reasons(all)[0] == PickReason::verified);
  CHECK(reasons(all)[2] == PickReason::unseen);
  CHECK(filter.counters().verified == 3);
  CHECK(filter.counters().lookups == 6);
  // One is wanted, and the first suspect is it.
  const auto one = filter.select_unseen(pool, {alice}, {.limit = 3, .relax = {Verify{.lookups = 6}}});
  CHECK(picked(one) == Ids{0, 3, 7});
  CHECK(one.lookups() == 1);
  const auto frugal = filter.select_unseen(pool, {alice}, {.limit = 8, .relax = {Verify{.lookups = 2}}});
  CHECK(picked(frugal) == Ids{0, 3, 7});
  CHECK(frugal.lookups() == 2);
}

TEST_CASE("verify asks about every user of the request") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{{.users_per_request = 2}}, history};
  REQUIRE(filter.record_all(alice, Ids{0}));
  REQUIRE(filter.record_all(bob, Ids{1}));
  err_at(filter, {0, 1, 2});
  const CandidatePool pool{range(0, 3)};
  for (const Ids& users : {Ids{alice, bob}, Ids{bob, alice}}) {
    const auto page = filter.select_unseen(pool, users, {.limit = 3, .relax = {Verify{.lookups = 6}}});
    CHECK(picked(page) == Ids{2});
    CHECK(page.lookups() == 5);  // three for the first, and the two that are left for the second
  }
}

TEST_CASE("verify asks within the window: what left it is won back") {
  test::TestClock clock;
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{
      MemoryStore{{.wrong_hide_rate = 1e-6, .window = 30 * test::day, .slices = 6, .clock = clock.clock()}}, history};
  REQUIRE(filter.record_all(alice, range(0, 100)));
  clock.advance(test::day);
  REQUIRE(filter.record_all(alice, range(100, 200)));
  const CandidatePool pool{range(0, 200)};
  const SelectOptions<std::uint64_t> options{.limit = 200, .relax = {Verify{.lookups = 200}}};
  clock.advance(29 * test::day - std::chrono::seconds(1));
  CHECK(filter.select_unseen(pool, {alice}, options).empty());
  clock.advance(std::chrono::seconds(1));              // to the second the window of the first hundred
  CHECK(filter.select_unseen(pool, {alice}).empty());  // their slice is still there
  CHECK(picked(filter.select_unseen(pool, {alice}, options)) == range(0, 100));
}

TEST_CASE("verify without a history says that it could not") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record_all(alice, Ids{1}));
  const CandidatePool pool{Ids{1}};
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 1, .relax = {Verify{}}});
  REQUIRE(page.error());
  CHECK(page.error()->code == ErrorCode::unavailable);
}

TEST_CASE("seen by few lets in what the fewest users have seen", "[000-12]") {
  SeenFilter filter{Store{{.users_per_request = 3}}};
  REQUIRE(filter.record_all(alice, Ids{1, 2, 3}));
  REQUIRE(filter.record_all(bob, Ids{1, 2}));
  REQUIRE(filter.record_all(carol, Ids{1}));
  const CandidatePool pool{Ids{1, 2, 3, 4}};
  const auto page = filter.select_unseen(pool, {alice, bob, carol}, {.limit = 4, .relax = {SeenByAtMost{2}}});
  CHECK(picked(pool, page) == Ids{4, 3, 2});
  CHECK(page[1].seen_by == 1);
  CHECK(page[2].seen_by == 2);
  CHECK(page[2].reason == PickReason::seen_by_few);
}

TEST_CASE("relaxations run in the order they are listed, and one that is not needed does not run") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{{.users_per_request = 2}}, history};
  REQUIRE(filter.record_all(alice, Ids{0, 1}));
  REQUIRE(filter.create(bob));
  err_at(filter, {2});
  const CandidatePool pool{range(0, 4)};
  const CandidatePool other{Ids{9}};
  const SelectOptions<std::uint64_t> options{.limit = 5, .relax = {NextPool{other}, Verify{}, SeenByAtMost{1}}};
  const auto page = filter.select_unseen(pool, {alice, bob}, options);
  CHECK(picked(page) == Ids{2, 3, 9, 0, 1});
  CHECK(reasons(page) == std::vector{PickReason::verified, PickReason::unseen, PickReason::next_pool,
                                     PickReason::seen_by_few, PickReason::seen_by_few});
  const auto filled = filter.select_unseen(pool, {alice, bob}, {.limit = 1, .relax = options.relax});
  CHECK(picked(filled) == Ids{3});
  CHECK(filled.lookups() == 0);
}

TEST_CASE("oldest seen first goes by the latest of the users", "[003-03]") {
  test::TestClock clock;
  SeenFilter filter{MemoryStore{{.wrong_hide_rate = 1e-6,
                                 .users_per_request = 2,
                                 .window = 30 * test::day,
                                 .slices = 6,
                                 .clock = clock.clock()}}};
  for (const std::uint64_t item : range(1, 4)) {
    REQUIRE(filter.record(alice, item));
    clock.advance(5 * test::day);
  }
  REQUIRE(filter.record(bob, 1));
  const CandidatePool pool{range(1, 4)};
  for (const Ids& users : {Ids{alice, bob}, Ids{bob, alice}}) {
    const auto page = filter.select_unseen(pool, users, {.limit = 2, .relax = {OldestSeenFirst{}}});
    CHECK(picked(page) == Ids{2, 3});
    CHECK(page[0].reason == PickReason::seen_long_ago);
  }
}
