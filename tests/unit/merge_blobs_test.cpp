// SPDX-License-Identifier: MIT
// merge_users in a BlobStore: filter, hides, last items and what is in flight move, whatever dies on the way.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "support/binomial.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"
#include "support/random.hpp"

using namespace seenby;
using test::Ids;
using test::MapBlobs;
using Store = BlobStore<MapBlobs>;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
const StorePolicy rare{.wrong_hide_rate = 1e-6};

/// first, first + 1, ...
Ids numbers(std::uint64_t first, std::size_t count) { return test::range(first, first + count); }

Time day(int number) { return Time{std::chrono::days{number}}; }

std::size_t unseen(const auto& filter, std::uint64_t user, const Ids& items) {
  std::size_t count = 0;
  for (const std::uint64_t item : items) count += filter.ask(user, item) == Answer::seen ? 0U : 1U;
  return count;
}

}  // namespace

TEST_CASE("a merge in a BlobStore unites tables of any two sizes, and keeps to the rate", "[merge][blob]") {
  SEENBY_RANDOM(random);
  for (const auto& [first, second] : {std::pair{3, 3}, {3, 700}, {700, 3}, {300, 320}, {1, 0}, {0, 5}, {5'000, 90}}) {
    CAPTURE(first, second);
    SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.01}}};
    const Ids ours = numbers(0, static_cast<std::size_t>(first));
    const Ids theirs = numbers(static_cast<std::uint64_t>(first) / 2, static_cast<std::size_t>(second));
    filter.create(alice).or_throw();
    filter.create(bob).or_throw();
    filter.record_all(bob, ours).or_throw();
    filter.record_all(alice, theirs).or_throw();
    filter.merge_users(alice, bob).or_throw();
    CHECK(unseen(filter, bob, ours) == 0);
    CHECK(unseen(filter, bob, theirs) == 0);
    CHECK(filter.ask(alice, 1U) == Answer::unknown);
    constexpr std::size_t asked = 20'000;
    std::size_t hidden = 0;
    const std::uint64_t from = 1'000'000 + random.below(1U << 30);
    for (std::uint64_t i = 0; i < asked; ++i) hidden += filter.ask(bob, from + i) == Answer::seen ? 1U : 0U;
    CHECK(hidden <= test::most_hits(asked, 0.01));
    // It grows on.
    filter.record_all(bob, numbers(50'000, 2'000)).or_throw();
    CHECK(unseen(filter, bob, theirs) == 0);
    CHECK(unseen(filter, bob, numbers(50'000, 2'000)) == 0);
  }
}

TEST_CASE("a merge in a BlobStore moves slices, hides, last items and what is in flight", "[merge][blob]") {
  StorePolicy policy = rare;
  policy.window = std::chrono::days{10};
  policy.slices = 10;
  policy.clock = Clock::simulated([] { return day(100); });
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, policy}};
  filter.keep_last(1);
  filter.record(alice, 1U, day(95)).or_throw();
  filter.record(bob, 1U, day(97)).or_throw();
  filter.record(alice, 2U, day(99)).or_throw();
  filter.hide(alice, 33U).or_throw();
  filter.hide(bob, 34U).or_throw();
  filter.share_in_flight(alice, Ids{44}).or_throw();
  filter.merge_users(alice, bob).or_throw();
  const Ids items{1, 2};
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(filter.store().hasher()(item));
  std::vector<std::uint8_t> ages(2);
  filter.store().age(bob, ItemBatch<std::uint64_t>{items, digests}, std::span(ages));
  CHECK(ages == std::vector<std::uint8_t>{3, 1});
  CHECK(filter.hidden(bob).value() == Ids{34, 33});
  CHECK(filter.hidden(alice).value().empty());
  SeenFilter there{Store{blobs, policy}};
  CHECK(unseen(there, bob, {1, 2, 33, 34, 44}) == 0);
  filter.merge_users(alice, bob).or_throw();  // nobody any more
  CHECK(filter.hidden(bob).value() == Ids{34, 33});
}

TEST_CASE("a merge in a BlobStore that dies after any write loses nothing, and again finishes it", "[merge][blob]") {
  for (int writes = 0; writes < 4; ++writes) {
    CAPTURE(writes);
    MapBlobs blobs;
    SeenFilter filter{Store{blobs, rare}};
    filter.keep_last(3);
    filter.record_all(alice, numbers(0, 40)).or_throw();
    filter.hide(alice, 77U).or_throw();
    filter.record_all(bob, numbers(100, 40)).or_throw();
    blobs.state().writes_left = writes;
    const bool done = filter.merge_users(alice, bob).has_value();
    CHECK(done == (writes >= 2));
    blobs.state().writes_left = -1;
    // What alice had is with one of the two; bob has lost nothing.
    CHECK(unseen(filter, bob, numbers(100, 40)) == 0);
    CHECK((unseen(filter, alice, numbers(0, 40)) == 0 || unseen(filter, bob, numbers(0, 40)) == 0));
    CHECK((filter.ask(alice, 77U) == Answer::seen || filter.ask(bob, 77U) == Answer::seen));
    filter.merge_users(alice, bob).or_throw();
    CHECK(unseen(filter, bob, numbers(0, 40)) == 0);
    CHECK(unseen(filter, bob, numbers(100, 40)) == 0);
    CHECK(filter.hidden(bob).value() == Ids{77});
    CHECK(filter.ask(alice, 1U) == Answer::unknown);
  }
}

TEST_CASE("a record by another process between or after a merge's writes is kept", "[merge][blob]") {
  for (const int at : {1, 2}) {  // after bob's value, before alice's is emptied; and after that
    CAPTURE(at);
    MapBlobs blobs;
    SeenFilter filter{Store{blobs, rare}};
    SeenFilter other{Store{blobs, rare}};
    filter.record(alice, 1U).or_throw();
    filter.record(bob, 2U).or_throw();
    int writes = 0;
    blobs.state().after_write = [&] {
      if (++writes == at) other.record(alice, 3U).or_throw();
    };
    filter.merge_users(alice, bob).or_throw();
    CHECK(writes > at);  // the other's was one of them
    CHECK(unseen(filter, bob, {1, 2}) == 0);
    CHECK(unseen(filter, at == 1 ? bob : alice, {3}) == 0);
    filter.merge_users(alice, bob).or_throw();
    CHECK(unseen(filter, bob, {1, 2, 3}) == 0);
    CHECK(filter.ask(alice, 3U) == Answer::unknown);
  }
}

TEST_CASE("a merge in a BlobStore counts a missing user with what the history has", "[merge][blob]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, rare}, history};
  filter.record_all(alice, numbers(0, 20)).or_throw();
  filter.record_all(bob, numbers(50, 20)).or_throw();
  blobs.state().values.erase("2");
  filter.merge_users(alice, bob).or_throw();
  CHECK(unseen(filter, bob, numbers(0, 20)) == 0);
  CHECK(unseen(filter, bob, numbers(50, 20)) == 0);
  blobs.state().values.clear();
  filter.record_all(alice, numbers(70, 20)).or_throw();
  blobs.state().values.clear();
  filter.merge_users(alice, bob).or_throw();
  CHECK(unseen(filter, bob, numbers(50, 40)) == 0);
}

TEST_CASE("a damaged value that is healed from the history keeps the hides that can still be read", "[blob]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, rare}, history};
  filter.record_all(alice, numbers(0, 20)).or_throw();
  filter.hide(alice, 500U).or_throw();
  filter.hide(alice, 501U).or_throw();
  Blob& value = blobs.state().values["1"];
  value[60] = ~value[60];  // in the table
  CHECK(filter.ask(alice, 500U) == Answer::unknown);
  filter.record(alice, 30U).or_throw();
  CHECK(unseen(filter, alice, numbers(0, 20)) == 0);
  CHECK(filter.hidden(alice).value() == Ids{500, 501});
  Blob& again = blobs.state().values["1"];
  again[again.size() - 3] = ~again[again.size() - 3];  // in the second hide's item: it is believed no more
  filter.record(alice, 31U).or_throw();
  CHECK(filter.hidden(alice).value() == Ids{500});
  CHECK(unseen(filter, alice, numbers(0, 20)) == 0);
}

TEST_CASE("a BlobStore knows the kind of its items, and refuses another by name", "[blob]") {
  MapBlobs blobs;
  SeenFilter numbers{Store{blobs, rare}};
  SeenFilter names{Store{blobs, rare}};
  SeenFilter early{Store{blobs, rare}};
  CHECK(early.ask(alice, std::string("42")) == Answer::unknown);
  numbers.record(alice, 42U).or_throw();
  const auto refused = names.record(alice, std::string("42"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::parameter_mismatch);
  CHECK(refused.error().message.find("integer") != std::string::npos);
  CHECK(refused.error().message.find("text") != std::string::npos);
  CHECK(early.ask(alice, std::string("42")) == Answer::unknown);
  CHECK(early.ask(alice, 42U) == Answer::seen);
  const auto many = names.record_many(std::vector<SeenEvent<std::uint64_t, std::string>>{{bob, "x", {}, {}}});
  CHECK(many[0].outcome.error().code == ErrorCode::parameter_mismatch);
  // Asked once a process, not once a request.
  const std::size_t before = blobs.state().loads;
  CHECK(numbers.ask(alice, 43U) == Answer::unseen);
  CHECK(blobs.state().loads == before + 1);
}

TEST_CASE("no user's name is the key of the items' kind", "[blob]") {
  MapBlobs blobs;
  SeenFilter filter{BlobStore<MapBlobs, std::string>{blobs, rare}};
  const std::string name("\0items", 6);
  filter.record(name, 1U).or_throw();
  CHECK(filter.ask(name, 1U) == Answer::seen);
  CHECK(filter.forget(name).value());
  SeenFilter names{BlobStore<MapBlobs, std::string>{blobs, rare}};
  CHECK_FALSE(names.record("ann", std::string("text")));
}
