// SPDX-License-Identifier: MIT
// SeenFilter::record_many and the stores' own: one write a user, all in one go, and a failure that is one user's.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/history_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/salted_store.hpp"
#include "support/exact_store.hpp"
#include "support/failing_history.hpp"
#include "support/map_blobs.hpp"
#include "support/random.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::MapBlobs;
using test::TestClock;
using Event = SeenEvent<std::uint64_t, std::uint64_t>;
using Events = std::vector<Event>;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
constexpr std::uint64_t carol = 3;
const StorePolicy rare{.wrong_hide_rate = 1e-6};

Time day(int number) { return Time{std::chrono::days{number}}; }

/// Blobs that load and swap many keys at once, and count how often.
class BatchBlobs : public MapBlobs {
 public:
  Result<std::vector<std::optional<Blob>>> load_many(std::span<const std::string> keys) {
    ++counts_->loads;
    std::vector<std::optional<Blob>> values;
    for (const std::string& key : keys) {
      auto value = load(key);
      if (!value) return std::move(value).error();
      values.push_back(*std::move(value));
    }
    return values;
  }
  Result<std::vector<bool>> swap_many(std::span<const BlobSwap> swaps) {
    ++counts_->swaps;
    if (counts_->before_swap) std::exchange(counts_->before_swap, nullptr)();
    std::vector<bool> swapped;
    for (const BlobSwap& swap : swaps) {
      auto won = compare_and_swap(swap.key, swap.expected, *swap.desired);
      if (!won) return std::move(won).error();
      swapped.push_back(*won);
    }
    return swapped;
  }
  struct Counts {
    int loads = 0;
    int swaps = 0;
    std::function<void()> before_swap;
  };
  [[nodiscard]] Counts& counts() noexcept { return *counts_; }

 private:
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};
static_assert(BatchSwappingBackend<BatchBlobs> && BatchLoadingBackend<BatchBlobs>);

/// Every event is seen, and what nobody saw is not.
template <class Filter>
std::size_t wrong(const Filter& filter, const Events& events) {
  std::size_t count = 0;
  for (const Event& event : events) {
    count += filter.ask(event.user, event.item) == Answer::seen ? 0U : 1U;
    count += filter.ask(event.user, event.item + 1'000'000) == Answer::unseen ? 0U : 1U;
  }
  return count;
}

template <class Filter>
void takes_a_mixed_batch(Filter& filter) {
  Events events;
  for (std::uint64_t n = 0; n < 600; ++n) events.push_back({n % 7, n, day(20'000), {}});
  const auto recorded = filter.record_many(events);
  recorded.or_throw();
  REQUIRE(recorded.size() == 7);
  for (std::uint64_t user = 0; user < 7; ++user) {
    CHECK(recorded[user].user == user);
    CHECK(recorded[user].events == (user < 5 ? 86 : 85));
  }
  CHECK(recorded.acknowledged() == 600);
  CHECK(wrong(filter, events) == 0);
}

}  // namespace

TEST_CASE("many users' events in any order are recorded at once, in every store", "[many]") {
  SeenFilter exact{test::ExactStore<>{rare}};
  takes_a_mixed_batch(exact);
  SeenFilter memory{MemoryStore<std::uint64_t>{rare}};
  takes_a_mixed_batch(memory);
  SeenFilter blobs{BlobStore<MapBlobs>{MapBlobs{}, rare}};
  takes_a_mixed_batch(blobs);
  SeenFilter batched{BlobStore<BatchBlobs>{BatchBlobs{}, rare}};
  takes_a_mixed_batch(batched);
  SeenFilter salted{
      SaltedStore{MemoryStore<std::uint64_t>{rare}, [](std::uint64_t user) { return std::optional(user * 77); }}};
  takes_a_mixed_batch(salted);
  History rows;
  SeenFilter history{HistoryStore{rows, rare}};
  takes_a_mixed_batch(history);
  CHECK(rows.seen_since(3, all_time).value().size() == 86);
}

TEST_CASE("many users' events go into the history first, each at its own time and once", "[many]") {
  History history;
  SeenFilter filter{MemoryStore<std::uint64_t>{rare}, history};
  const Events events{
      {alice, 5, day(10), "a"}, {bob, 5, day(11), "b"}, {alice, 5, day(10), "a"}, {alice, 6, day(12), "c"}};
  filter.record_many(events).or_throw();
  filter.record_many(events).or_throw();
  CHECK(history.event_count(5).value() == 2);
  CHECK(history.seen_since(alice, day(12)).value().size() == 1);
  CHECK(filter.ask(bob, 5U) == Answer::seen);
}

TEST_CASE("many users' events land in the slices they belong to", "[many]") {
  const auto age_of = [](auto& filter, std::uint64_t user, std::uint64_t item) {
    const Digest digest = filter.store().hasher()(item);
    std::uint8_t age = 77;
    filter.store().age(user, ItemBatch<std::uint64_t>{std::span(&item, 1), std::span(&digest, 1)}, std::span(&age, 1));
    return int{age};
  };
  const auto check = [&](auto& filter) {
    const Events events{{alice, 1, day(100), {}}, {bob, 2, day(97), {}},  {alice, 3, day(95), {}},
                        {alice, 4, day(80), {}},  {bob, 1, day(100), {}}, {alice, 1, day(96), {}}};
    const auto recorded = filter.record_many(events);
    CHECK(recorded.acknowledged() == 6);
    CHECK(age_of(filter, alice, 1) == 0);
    CHECK(age_of(filter, alice, 3) == 5);
    CHECK(age_of(filter, bob, 2) == 3);
    CHECK(age_of(filter, bob, 1) == 0);
    CHECK(age_of(filter, alice, 4) == 255);
  };
  StorePolicy policy = rare;
  policy.window = std::chrono::days{10};
  policy.slices = 10;
  policy.clock = Clock::simulated([] { return day(100); });
  SeenFilter memory{MemoryStore<std::uint64_t>{policy}};
  check(memory);
  SeenFilter blobs{BlobStore<BatchBlobs>{BatchBlobs{}, policy}};
  check(blobs);
}

TEST_CASE("one user's failure is no other's, and what was acknowledged stays", "[many]") {
  MapBlobs blobs;
  SeenFilter filter{BlobStore<MapBlobs>{blobs, rare}};
  filter.record(alice, 1U).or_throw();
  blobs.state().values["1"].resize(20);
  const Events events{{alice, 2, {}, {}}, {bob, 2, {}, {}}, {carol, 3, {}, {}}};
  const auto recorded = filter.record_many(events);
  REQUIRE(recorded.size() == 3);
  REQUIRE_FALSE(recorded[0].outcome);
  CHECK(recorded[0].outcome.error().code == ErrorCode::truncated);
  CHECK(recorded[0].outcome.error().message.find("\"1\"") != std::string::npos);
  CHECK(recorded.acknowledged() == 2);
  CHECK_THROWS_AS(recorded.or_throw(), BadResult);
  CHECK(filter.ask(bob, 2U) == Answer::seen);
  CHECK(filter.ask(carol, 3U) == Answer::seen);
  CHECK(filter.counters().write_failures == 1);

  // A store without record_many that goes down is not asked for the rest.
  test::ExactStore<> store{rare};
  SeenFilter exact{store};
  store.state().fail_write = 2;
  const auto some = exact.record_many(events);
  CHECK(some[0].outcome);
  CHECK_FALSE(some[1].outcome);
  CHECK(some[2].outcome);
}

TEST_CASE("what the history refuses is in no filter, and every user's outcome says so", "[many]") {
  test::FailingHistory history;  // takes no events: a write a user and a time
  SeenFilter filter{MemoryStore<std::uint64_t>{rare}, history};
  history.fail_write = 2;
  const Events events{{alice, 2, day(1), {}}, {bob, 2, day(1), {}}, {carol, 3, day(1), {}}};
  const auto recorded = filter.record_many(events);
  CHECK(recorded[0].outcome);
  CHECK_FALSE(recorded[1].outcome);
  CHECK(recorded[2].outcome);
  CHECK(filter.ask(bob, 2U) != Answer::seen);
  CHECK(filter.ask(carol, 3U) == Answer::seen);
}

TEST_CASE("a batch is one load and one swap where a backend can, and again only for those another writer changed",
          "[many]") {
  BatchBlobs blobs;
  SeenFilter filter{BlobStore<BatchBlobs>{blobs, rare}};
  Events events;
  for (std::uint64_t user = 0; user < 500; ++user) events.push_back({user, user, {}, {}});
  filter.record_many(events).or_throw();
  CHECK(blobs.counts().swaps == 1);
  CHECK(blobs.counts().loads == 2);  // the values, and what version 1 may have of those that have none
  blobs.counts() = {};
  for (Event& event : events) event.item += 1'000;
  filter.record_many(events).or_throw();
  CHECK(blobs.counts().swaps == 1);
  CHECK(blobs.counts().loads == 1);
  // Another writer between the load and the swap, twice.
  blobs.counts() = {};
  SeenFilter other{BlobStore<BatchBlobs>{blobs, rare}};
  blobs.counts().before_swap = [&] {
    other.record(7, 77'777U).or_throw();
    other.record(400, 77'777U).or_throw();
  };
  for (Event& event : events) event.item += 1'000;
  filter.record_many(events).or_throw();
  CHECK(wrong(filter, events) == 0);
  CHECK(filter.ask(7, 77'777U) == Answer::seen);
  CHECK(filter.ask(400, 77'777U) == Answer::seen);
  // Nothing new is nothing written.
  blobs.counts() = {};
  filter.record_many(events).or_throw();
  CHECK(blobs.counts().swaps == 0);
}

TEST_CASE("in memory, missing users are made from the history first, by a batch as by a record", "[many]") {
  History history;
  for (std::uint64_t item = 0; item < 40; ++item) {
    history.append(alice, std::span(&item, 1), day(1)).or_throw();
    history.append(bob, std::span(&item, 1), day(1)).or_throw();
  }
  SeenFilter filter{MemoryStore<std::uint64_t>{rare}, history};
  filter.record_many(Events{{alice, 100, day(2), {}}, {bob, 101, day(2), {}}, {alice, 102, day(2), {}}}).or_throw();
  for (std::uint64_t item = 0; item < 40; ++item) {
    CHECK(filter.ask(alice, item) == Answer::seen);
    CHECK(filter.ask(bob, item) == Answer::seen);
  }
  CHECK(filter.ask(alice, 102U) == Answer::seen);
  CHECK(filter.ask(bob, 102U) == Answer::unseen);
}

TEST_CASE("a batch keeps the last items and settles what is in flight", "[many]") {
  SeenFilter filter{test::ExactStore<>{rare}};  // keeps neither itself
  filter.keep_last(2);
  filter.mark_in_flight(alice, std::vector<std::uint64_t>{7});
  filter.record_many(Events{{alice, 7, day(3), {}}, {alice, 8, day(2), {}}, {alice, 9, day(1), {}}}).or_throw();
  filter.store().state().users.clear();
  CHECK(filter.ask(alice, 7U) == Answer::seen);  // of the latest two
  CHECK(filter.ask(alice, 8U) == Answer::seen);
  CHECK(filter.ask(alice, 9U) == Answer::unknown);
}

TEST_CASE("names, views and prescribed items are grouped by what they are", "[many]") {
  using Text = SeenEvent<std::string, std::string>;
  SeenFilter filter{MemoryStore<std::string>{rare}};
  const std::vector<Text> events{
      {"ann", "x", {}, {}}, {"", "y", {}, {}}, {std::string("a\0b", 3), "x", {}, {}}, {"ann", "y", {}, {}}};
  const auto recorded = filter.record_many(events);
  CHECK(recorded.size() == 3);
  CHECK(recorded[0].events == 2);
  CHECK(filter.ask("ann", std::string("y")) == Answer::seen);
  CHECK(filter.ask("", std::string("x")) == Answer::unseen);
  MemoryHistory<std::string, std::string> history;
  SeenFilter durable{MemoryStore<std::string>{rare}, history};
  durable.record_many(events).or_throw();
  CHECK(history.seen_since("ann", all_time).value().size() == 2);
  CHECK(durable.record_many(std::vector<Text>{}).size() == 0);
}

TEST_CASE("batches and merges of the same users at once lose nothing", "[many][concurrent]") {
  SEENBY_RANDOM(random);
  SeenFilter filter{MemoryStore<std::uint64_t>{rare}};
  constexpr std::uint64_t users = 40;
  constexpr std::uint64_t batches = 60;
  const auto write = [&](std::uint64_t first) {
    for (std::uint64_t n = 0; n < batches; ++n) {
      Events events;
      for (std::uint64_t user = 0; user < users; ++user) events.push_back({user, first + n, {}, {}});
      filter.record_many(events).or_throw();
    }
  };
  std::thread one([&] { write(10'000); });
  std::thread two([&] { write(20'000); });
  for (int n = 0; n < 200; ++n) filter.merge_users(users + random.below(3), random.below(users)).or_throw();
  one.join();
  two.join();
  std::size_t lost = 0;
  for (std::uint64_t user = 0; user < users; ++user) {
    for (std::uint64_t n = 0; n < batches; ++n) {
      lost += filter.ask(user, 10'000 + n) == Answer::seen ? 0U : 1U;
      lost += filter.ask(user, 20'000 + n) == Answer::seen ? 0U : 1U;
    }
  }
  CHECK(lost == 0);
}
