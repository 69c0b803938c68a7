// SPDX-License-Identifier: MIT
// SeenFilter::share_in_flight: what one process is told of, every other hides with its next request, until a deadline.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/salted_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::Ids;
using test::MapBlobs;
using test::picked;
using Store = BlobStore<MapBlobs>;

static_assert(MarkingStore<Store> && !MarkingStore<MemoryStore<>>);

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;

struct Fixture {
  Time now{std::chrono::seconds{1'000'000}};
  StorePolicy policy{
      .wrong_hide_rate = 1e-6, .users_per_request = 2, .clock = Clock::simulated([this] { return now; })};
  MapBlobs blobs;
  SeenFilter<Store> here{Store{blobs, policy}};
  SeenFilter<Store> there{Store{blobs, policy}};
  CandidatePool<std::uint64_t> pool{Ids{1, 2, 3, 4}};

  Ids page(const SeenFilter<Store>& filter) { return picked(filter.select_unseen(pool, {alice, bob}, {.limit = 4})); }
};

}  // namespace

TEST_CASE("what one process is told is in flight, another hides with its next request, in the same question",
          "[in_flight][blob]") {
  Fixture test;
  for (const std::uint64_t user : {alice, bob}) test.here.create(user).or_throw();
  test.here.share_in_flight(alice, Ids{1, 3}, std::chrono::seconds(60)).or_throw();
  test.here.share_in_flight(bob, Ids{2}, std::chrono::seconds(30)).or_throw();
  CHECK(test.page(test.there) == Ids{4});
  CHECK(test.page(test.here) == Ids{4});
  const std::size_t before = test.blobs.state().loads;
  static_cast<void>(test.page(test.there));
  CHECK(test.blobs.state().loads ==
        before + 3);  // two users, and the kind of the items, which nothing has recorded yet
  CHECK(test.there.ask(alice, 1U) == Answer::seen);
  test.now += std::chrono::seconds(30);
  CHECK(test.page(test.there) == Ids{2, 4});
  test.now += std::chrono::seconds(30);
  CHECK(test.page(test.there) == Ids{1, 2, 3, 4});
  CHECK(test.page(test.here) == Ids{1, 2, 3, 4});
}

TEST_CASE("a record settles what was in flight, and a later mark prolongs an earlier one", "[in_flight][blob]") {
  Fixture test;
  test.here.share_in_flight(alice, Ids{1, 2}, std::chrono::seconds(60)).or_throw();
  const std::size_t marked = test.blobs.state().values["1"].size();
  test.there.record(alice, 1U).or_throw();
  CHECK(test.blobs.state().values["1"].size() < marked + 2 + 18);
  test.there.share_in_flight(alice, Ids{2}, std::chrono::seconds(90)).or_throw();
  test.there.share_in_flight(alice, Ids{2}, std::chrono::seconds(5)).or_throw();
  test.now += std::chrono::seconds(89);
  CHECK(test.here.ask(alice, 2U) == Answer::seen);
  test.now += std::chrono::seconds(1);
  CHECK(test.there.ask(alice, 2U) == Answer::unseen);
  CHECK(test.there.ask(alice, 1U) == Answer::seen);
}

TEST_CASE("a store that cannot be written leaves the mark to this process, and says so", "[in_flight][blob]") {
  Fixture test;
  for (const std::uint64_t user : {alice, bob}) test.here.create(user).or_throw();
  test.blobs.state().writes_left = 0;
  CHECK_FALSE(test.here.share_in_flight(alice, Ids{1}));
  CHECK(test.page(test.here) == Ids{2, 3, 4});
  CHECK(test.page(test.there) == Ids{1, 2, 3, 4});
}

TEST_CASE("a SaltedStore hides, lists and shares marks; without the salt nothing of it can be read",
          "[in_flight][salted]") {
  std::optional<std::uint64_t> salt = 0x5eed;
  MapBlobs blobs;
  const auto salts = [&](std::uint64_t) { return salt; };
  SeenFilter here{SaltedStore{Store{blobs, {.wrong_hide_rate = 1e-6}}, salts}};
  SeenFilter there{SaltedStore{Store{blobs, {.wrong_hide_rate = 1e-6}}, salts}};
  static_assert(HidingStore<SaltedStore<Store>> && MarkingStore<SaltedStore<Store>>);
  here.create(alice).or_throw();
  here.hide(alice, std::string("a name to remember")).or_throw();
  here.hide(alice, std::string("x")).or_throw();
  here.share_in_flight(alice, std::vector<std::string>{"y"}).or_throw();
  CHECK(there.ask(alice, std::string("a name to remember")) == Answer::seen);
  CHECK(there.ask(alice, std::string("y")) == Answer::seen);
  CHECK(there.ask(alice, std::string("z")) == Answer::unseen);
  CHECK(there.hidden<std::string>(alice).value() == std::vector<std::string>{"a name to remember", "x"});
  CHECK(there.unhide(alice, std::string("x")).value());
  CHECK(here.ask(alice, std::string("x")) == Answer::unseen);
  const Blob& value = blobs.state().values["1"];
  const std::string_view bytes(reinterpret_cast<const char*>(value.data()), value.size());
  CHECK(bytes.find("name") == std::string_view::npos);
  salt.reset();
  CHECK(there.hidden<std::string>(alice).value().empty());
  CHECK_FALSE(here.hide(alice, std::string("w")));
  CHECK(there.ask(alice, std::string("y")) == Answer::unknown);
}
