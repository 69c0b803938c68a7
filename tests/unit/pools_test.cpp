// SPDX-License-Identifier: MIT
// NextPool: fallback pools behind the first.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

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

TEST_CASE("fallback pools fill the page after the first, each pick naming its pool", "[000-12][002-10][002-14]") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record_all(alice, Ids{1, 2, 20}));
  const CandidatePool discovery{Ids{1, 2, 3}};
  const CandidatePool trending{Ids{3, 20, 21}};
  const CandidatePool evergreen{Ids{21, 30, 31, 32}};
  using Options = SelectOptions<std::uint64_t>;
  const Options options{.limit = 4, .relax = {NextPool{trending}, NextPool{evergreen}}};
  const auto page = filter.select_unseen(discovery, {alice}, options);
  REQUIRE(page.size() == 4);
  CHECK(page.picks()[0] == Pick{2, PickReason::unseen, 0, 0});
  CHECK(page.picks()[1] == Pick{2, PickReason::next_pool, 0, 1});
  CHECK(page.picks()[2] == Pick{1, PickReason::next_pool, 0, 2});
  CHECK(page.picks()[3] == Pick{2, PickReason::next_pool, 0, 2});
}

TEST_CASE("a fallback pool is asked about every user, and heeds all that is known of each") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, Ids{1, 10}));
  REQUIRE(filter.record_all(bob, Ids{2, 11}));
  REQUIRE(filter.hide(bob, 12));
  filter.mark_in_flight(alice, Ids{13});
  const CandidatePool pool{Ids{1, 2}};
  const CandidatePool next{range(10, 16)};
  for (const Ids& users : {Ids{alice, bob}, Ids{bob, alice}}) {
    const auto page = filter.select_unseen(pool, users, {.limit = 5, .relax = {NextPool{next}}});
    CHECK(picked(page) == Ids{14, 15});
  }
}

TEST_CASE("no pool shows what an earlier one has shown, repeats and all") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{Ids{5, 3, 5, 4}};
  const CandidatePool second{Ids{4, 6, 6, 3}};
  const CandidatePool third{Ids{6, 7, 5}};
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 9, .relax = {NextPool{second}, NextPool{third}}});
  CHECK(picked(page) == Ids{5, 3, 4, 6, 7});
  CHECK(page[4].pool == 2);
  CHECK(page.duplicates() == 1 + 3 + 2);
  CHECK(page.checked() == 3 + 3 + 3);
  CHECK(page.removed() == 0);
}
