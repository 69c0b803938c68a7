// SPDX-License-Identifier: MIT
// SeenFilter::mark_in_flight: what is reported but not recorded yet.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

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

TEST_CASE("items in flight and the request's own are hidden at once, and no relaxation brings them back", "[002-11]") {
  Time now{std::chrono::seconds(1000)};
  SeenFilter filter{Store{{.clock = [&now] { return now; }}}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{range(0, 6)};
  filter.mark_in_flight(alice, Ids{0, 1}, std::chrono::seconds(60));
  const std::vector<Digest> own{pool.hasher()(std::uint64_t{5})};
  const SelectOptions<std::uint64_t> options{.limit = 6, .relax = {SeenByAtMost{1}}, .also_seen = own};
  CHECK(picked(pool, filter.select_unseen(pool, {alice}, options)) == Ids{2, 3, 4});
  REQUIRE(filter.record(alice, std::uint64_t{0}));
  now += std::chrono::seconds(61);
  CHECK(picked(pool, filter.select_unseen(pool, {alice})) == Ids{1, 2, 3, 4, 5});
}

TEST_CASE("the second user's items in flight, behind the first piece of a pool, are heeded") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, range(0, 200)));
  REQUIRE(filter.create(bob));
  filter.mark_in_flight(alice, Ids{205});
  filter.mark_in_flight(bob, Ids{201, 203});
  const CandidatePool pool{range(0, 300)};
  CHECK(picked(filter.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{200, 202, 204, 206});
  CHECK(picked(filter.select_unseen(pool, {bob, alice}, {.limit = 4})) == Ids{200, 202, 204, 206});
  // The same for what the request itself knows.
  const std::vector<Digest> own{pool.hasher()(std::uint64_t{202})};
  CHECK(picked(filter.select_unseen(pool, {alice, bob}, {.limit = 2, .also_seen = own})) == Ids{200, 204});
}

TEST_CASE("a time to live without end hides without end") {
  test::TestClock clock;
  SeenFilter filter{Store{{.clock = clock.clock()}}};
  REQUIRE(filter.create(alice));
  filter.mark_in_flight(alice, Ids{1}, std::chrono::seconds::max());
  CHECK(filter.ask(alice, 1) == Answer::seen);
  clock.advance(std::chrono::hours(24 * 365 * 100));
  CHECK(filter.ask(alice, 1) == Answer::seen);
}

TEST_CASE("a record settles its items, and they are seen on") {
  SeenFilter filter{Store{}};
  filter.mark_in_flight(alice, Ids{1, 2, 3});
  REQUIRE(filter.record_all(alice, Ids{1, 3}));
  filter.store().state().users[alice].clear();
  const CandidatePool pool{Ids{1, 2, 3}};
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{1, 3});
}

namespace {

using Marks = detail::InFlight<detail::UserKey>;
constexpr Time noon{std::chrono::seconds(1'000'000)};

std::size_t marks_left(const Marks& marks, std::uint64_t users) {
  std::size_t left = 0;
  for (std::uint64_t user = 0; user < users; ++user)
    marks.visit(
        detail::user_key(user), Time::min(), [](void* to, Digest) { ++*static_cast<std::size_t*>(to); }, &left);
  return left;
}

}  // namespace

TEST_CASE("expired marks of users who never come back are taken away by others' marks and records") {
  constexpr std::uint64_t users = 20'000;
  const std::vector<Digest> items{Digest{1}, Digest{2}};
  for (const bool by_records : {false, true}) {
    CAPTURE(by_records);
    Marks marks;
    for (std::uint64_t user = 0; user < users; ++user) {
      marks.add(detail::user_key(user), items, noon, noon + std::chrono::seconds(10));
    }
    CHECK(marks_left(marks, users) == 2 * users);
    const Time later = noon + std::chrono::minutes(2);
    // One user's hundred writes see to all.
    for (int i = 0; i < 100; ++i) {
      if (by_records) {
        marks.settle(detail::user_key(users + 1), items, later);
      } else {
        marks.add(detail::user_key(users + 1), items, later, later);
      }
    }
    CHECK(marks_left(marks, users) == 0);
    marks.settle(detail::user_key(users + 1), items, later);
    CHECK(marks.empty());
  }
}

TEST_CASE("marks that have not expired are kept, and a clock that goes back does not stop the taking away") {
  Marks marks;
  const std::vector<Digest> items{Digest{1}};
  for (std::uint64_t user = 0; user < 200; ++user) {
    marks.add(detail::user_key(user), items, noon, noon + std::chrono::seconds(user < 100 ? 10 : 1'000));
  }
  const Time earlier = noon - std::chrono::hours(1);
  for (int i = 0; i < 100; ++i) marks.settle(detail::user_key(std::uint64_t{999}), items, earlier);
  CHECK(marks_left(marks, 200) == 200);
  for (int i = 0; i < 100; ++i)
    marks.settle(detail::user_key(std::uint64_t{999}), items, noon + std::chrono::minutes(1));
  CHECK(marks_left(marks, 200) == 100);
}
