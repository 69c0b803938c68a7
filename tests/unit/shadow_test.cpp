// SPDX-License-Identifier: MIT
// SeenFilter::shadow: an exact referee beside the filters.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::MapBlobs;
using test::range;
using Store = BlobStore<MapBlobs>;

namespace {

StorePolicy pair_policy() { return {.wrong_hide_rate = 1e-6, .users_per_request = 2}; }

}  // namespace

TEST_CASE("shadow mode measures the wrong-hide rate and finds no false negative") {
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.2, .users_per_request = 2}}};
  filter.shadow(1);
  REQUIRE(filter.record_all(alice, range(0, 400)));
  REQUIRE(filter.record_all(bob, range(200, 600)));
  const CandidatePool pool{range(0, 20000)};
  const auto page = filter.select_unseen(pool, {alice, bob}, {.limit = 19400});
  const auto counters = filter.counters();
  CHECK(counters.shadow_requests == 1);
  CHECK(counters.shadow_fresh == 19400);
  CHECK(counters.shadow_wrong_hides == 19400 - page.size());
  CHECK(counters.shadow_wrong_hides > 0);
  CHECK(counters.shadow_false_negatives == 0);
  CHECK(counters.shadow_underfilled == 1);
}

TEST_CASE("an event that arrives late does not make the shadow forget a later one") {
  test::TestClock clock;
  SeenFilter filter{
      Store{MapBlobs{}, {.wrong_hide_rate = 1e-6, .window = 10 * test::day, .slices = 10, .clock = clock.clock()}}};
  filter.shadow(1);
  REQUIRE(filter.record(alice, 7));
  REQUIRE(filter.record(alice, 7, clock.now() - 9 * test::day));
  clock.advance(4 * test::day);  // the late one has left the window
  const CandidatePool pool{Ids{7}};
  CHECK(filter.select_unseen(pool, {alice}).empty());
  CHECK(filter.counters().shadow_requests == 1);
  CHECK(filter.counters().shadow_fresh == 0);
  CHECK(filter.counters().shadow_wrong_hides == 0);
}

TEST_CASE("shadow mode finds a filter that lost its items, and leaves out users whose past it does not know") {
  MapBlobs blobs;
  {
    SeenFilter before{Store{blobs, pair_policy()}};
    REQUIRE(before.record_all(bob, range(0, 10)));
  }
  SeenFilter filter{Store{blobs, pair_policy()}};
  filter.shadow(1);
  REQUIRE(filter.record_all(alice, range(0, 10)));
  REQUIRE(filter.record_all(bob, range(10, 20)));
  const auto empty = [&] {
    MapBlobs other;
    SeenFilter maker{Store{other, pair_policy()}};
    (void)maker.create(alice);
    return other.state().values.at("1");
  }();
  blobs.state().values["1"] = empty;
  const CandidatePool pool{range(0, 20)};
  (void)filter.select_unseen(pool, {alice, bob});
  CHECK(filter.counters().shadow_false_negatives == 10);
  CHECK(filter.counters().shadow_fresh == 10);
}
