// SPDX-License-Identifier: MIT
// SeenFilter::select_many, and how often a store is asked.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;

namespace {

using Ask = Request<std::uint64_t, std::uint64_t>;
using Page = Selection<std::uint64_t>;
constexpr std::uint64_t stranger = 9;

}  // namespace

TEST_CASE("many requests in one call answer as each alone, relaxations and all") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{{.users_per_request = 2}}, history};
  filter.keep_last(1);
  REQUIRE(filter.record_all(alice, range(0, 50)));
  REQUIRE(filter.record_all(bob, range(25, 75)));
  REQUIRE(filter.hide(bob, 80));
  filter.store().state().false_positives.insert(filter.store().hasher()(std::uint64_t{90}).value);
  const CandidatePool pool{range(0, 100)};
  const CandidatePool repeating{Ids{80, 81, 81, 82, 90}};
  const CandidatePool next{Ids{1, 81, 200}};
  const Ids both{alice, bob};
  const Ids one{bob};
  const Ids unknown{stranger};
  const std::vector<Ask> requests{{pool, both, {.limit = 5}},
                                  {pool, one},
                                  {pool, unknown},
                                  {repeating, both, {.limit = 4, .relax = {Verify{}}}},
                                  {repeating, one, {.limit = 9, .relax = {NextPool{next}, SeenByAtMost{1}}}},
                                  {pool, unknown, {.on_unknown = OnUnknown::fail}}};
  std::vector<Page> pages(requests.size());
  filter.select_many(requests, pages);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    const Page alone = filter.select_unseen(requests[i].pool(), requests[i].users(), requests[i].options());
    CHECK(std::ranges::equal(pages[i].picks(), alone.picks()));
    CHECK(picked(pages[i]) == picked(alone));
    CHECK(pages[i].unknown_users().size() == alone.unknown_users().size());
    CHECK(pages[i].error().has_value() == alone.error().has_value());
    CHECK(pages[i].removed() == alone.removed());
    CHECK(pages[i].lookups() == alone.lookups());
  }
  CHECK(picked(pages[3]) == Ids{81, 82, 90});
  CHECK(picked(pages[4]) == Ids{81, 82, 1, 200, 90});
}

TEST_CASE("a request is of a pool that is there, and an odd number of pages is refused") {
  using Pool = CandidatePool<std::uint64_t>;
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Ask, Pool, std::span<const std::uint64_t>>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<Ask, const Pool*, std::span<const std::uint64_t>>);
  SeenFilter filter{Store{}};
  const Pool pool{Ids{1}};
  const Ids users{alice};
  const std::vector requests{Request{pool, users}, Request{pool, users, {.limit = 1}}};
  std::vector<Page> pages(1);
  CHECK_THROWS_AS(filter.select_many(requests, pages), std::invalid_argument);
}

TEST_CASE("when one request raises, every page is made and every request counted") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{Ids{1}};
  const Ids known{alice};
  const Ids unknown{stranger};
  const std::vector<Ask> requests{{pool, unknown, {.on_unknown = OnUnknown::raise}}, {pool, known}};
  std::vector<Page> pages(2);
  CHECK_THROWS_AS(filter.select_many(requests, pages), BadResult);
  CHECK(picked(pages[1]) == Ids{1});
  CHECK(filter.counters().requests == 2);
  CHECK(filter.counters().unknown_users == 1);
}

TEST_CASE("a remote store is asked once a request, however large the pool and however small the page", "[000-05]") {
  SeenFilter filter{test::ExactStore<true>{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, range(0, 2'990)));
  REQUIRE(filter.create(bob));
  const CandidatePool pool{range(0, 3'000)};
  auto& state = filter.store().state();
  CHECK(filter.select_unseen(pool, {alice, bob}).size() == 10);
  CHECK(state.checks == 1);
  CHECK(picked(filter.select_unseen(pool, {alice, bob}, {.limit = 3})) == range(2'990, 2'993));
  CHECK(state.checks == 2);
  CHECK(state.candidates == 6'000);
}

TEST_CASE("a local store is asked in pieces, and no further than the page needs", "[000-11]") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{range(0, 3'000)};
  CHECK(filter.select_unseen(pool, {alice}, {.limit = 10}).checked() == 64);
  CHECK(filter.store().state().candidates == 64);
}

TEST_CASE("many requests are one question to a store that takes many", "[000-05]") {
  const auto asked = [](auto filter) {
    REQUIRE(filter.record_all(alice, Ids{1}));
    REQUIRE(filter.create(bob));
    const CandidatePool pool{range(0, 300)};
    const Ids first{alice, bob};
    const Ids second{bob};
    const std::vector<Ask> requests{{pool, first, {.limit = 2}}, {pool, second}, {pool, first}};
    std::vector<Page> pages(requests.size());
    filter.select_many(requests, pages);
    CHECK(picked(pages[0]) == Ids{0, 2});
    CHECK(pages[1].size() == 300);
    CHECK(pages[2].size() == 299);
    return std::pair(filter.store().state().checks, filter.store().state().batched_checks);
  };
  CHECK(asked(SeenFilter{test::ExactStore<true, true>{{.users_per_request = 2}}}) ==
        std::pair<std::size_t, std::size_t>(0, 1));
  CHECK(asked(SeenFilter{test::ExactStore<true>{{.users_per_request = 2}}}) ==
        std::pair<std::size_t, std::size_t>(3, 0));
}
