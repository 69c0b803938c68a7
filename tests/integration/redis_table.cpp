// SPDX-License-Identifier: MIT
// A windowed user's table in Redis: what the script adds, what is sorted in, and what version 1 wrote, taken over.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "redis/protocol/store_value.hpp"
#include "redis/protocol/table_value.hpp"
#include "seenby/redis/store.hpp"
#include "support/counting_executor.hpp"
#include "support/random.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using namespace std::chrono_literals;

namespace {

StorePolicy thirty_days(const TestClock& clock, double rate = 0.01) {
  return {.wrong_hide_rate = rate, .window = 30 * day, .slices = 30, .clock = clock.clock()};
}

template <class Store>
std::vector<std::uint8_t> ages_of(const Store& store, const std::vector<std::uint64_t>& items) {
  std::vector<std::uint8_t> ages(items.size());
  store.age(1, ItemBatch<std::uint64_t>{items, digests_of(items)}, ages);
  return ages;
}

template <class Store>
Result<RecordOutcome> record_at(Store& store, const std::vector<std::uint64_t>& items, Time when) {
  return store.record(1, ItemBatch<std::uint64_t>{items, digests_of(items)}, when);
}

/// Runs something before a swap is sent, once.
class BeforeSwap final : public Executor {
 public:
  explicit BeforeSwap(std::shared_ptr<Executor> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override {
    // A swap's third argument behind its keys is a table.
    const Command& first = batch.front();
    const std::size_t value = first[0] == "EVALSHA" ? 3 + std::stoul(std::string(first[2])) + 2 : first.size();
    const bool swaps = value < first.size() && is_table(first[value]);
    if (swaps) ++swaps_sent;
    if (swaps && then) std::exchange(then, nullptr)();
    return inner_->execute(batch, deadline);
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }

  std::function<void()> then;
  int swaps_sent = 0;

 private:
  std::shared_ptr<Executor> inner_;
};

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

/// What version 1 wrote: slices, each a filter in a key of its own, and the list that names them.
class OldWindow {
 public:
  OldWindow(const RedisServer& server, Time now) : server_(server), newest_(now.time_since_epoch() / day) {}
  void add(int days_ago, const std::vector<std::uint64_t>& items) {
    put(days_ago, items);
    list_ += little_endian(static_cast<std::uint64_t>(newest_ - days_ago), 8);
    server_.call({"SET", "seenby:{1}", list_, "PX", "30000"});
  }
  void put(int days_ago, const std::vector<std::uint64_t>& items) {
    const HashIdentity hash{HashKind::xxh3_64, seed_check(Xxh3Hash{})};
    std::string value = make_frame(SplitBlockLayout::shape_for(items.size(), 1e-6), 1e-6, hash);
    insert_into_first(value, decode_frame(value, 0, value.size(), hash)->header, digests_of(items));
    server_.call({"SET", slice_key(days_ago), value});
  }
  void mark() {
    list_[1] = 0x40;
    server_.call({"SET", "seenby:{1}", list_, "PX", "30000"});
  }
  [[nodiscard]] std::string slice_key(int days_ago) const { return "seenby:{1}:" + std::to_string(newest_ - days_ago); }

 private:
  const RedisServer& server_;
  std::int64_t newest_;
  std::string list_ = std::string("\xd1\0\0\0", 4) + little_endian(86'400, 4) + "12345678";
};

}  // namespace

TEST_CASE("A table in Redis holds each item in the newest slice it was seen in, however it was recorded",
          "[redis][property]") {
  SEENBY_RANDOM(random);
  const RedisServer server;
  // At a billionth no answer is a false positive; lanes have tails then.
  for (const double rate : {0.01, 1e-9}) {
    for (const std::size_t most_in_a_batch : {1U, 5U, 300U}) {
      INFO("rate " << rate << ", batches up to " << most_in_a_batch);
      server.call({"FLUSHALL"});
      TestClock clock;
      RedisStore<> store(server.socket_url(), thirty_days(clock, rate));
      std::map<std::uint64_t, std::int64_t> slices;
      std::size_t added = 0;
      const std::size_t records = most_in_a_batch == 300 ? 30 : 700;
      for (std::size_t n = 0; n < records; ++n) {
        std::vector<std::uint64_t> items(1 + random.below(most_in_a_batch));
        for (std::uint64_t& item : items) item = random.below(4'000);
        const auto days_ago = random.below(3) == 0 ? static_cast<int>(random.below(31)) : 0;
        const auto outcome = record_at(store, items, clock.now() - days_ago * day);
        REQUIRE(outcome);
        added += outcome->newly_added;
        for (const std::uint64_t item : items) {
          const std::int64_t slice = clock.now().time_since_epoch() / day - days_ago;
          slices[item] = slices.contains(item) ? std::max(slices[item], slice) : slice;
        }
        if (random.below(40) == 0) {
          clock.advance(day);
          std::erase_if(slices,
                        [&](const auto& each) { return each.second < clock.now().time_since_epoch() / day - 30; });
        }
      }
      std::vector<std::uint64_t> items;
      std::vector<std::uint8_t> expected;
      for (const auto& [item, slice] : slices) {
        items.push_back(item);
        expected.push_back(static_cast<std::uint8_t>(clock.now().time_since_epoch() / day - slice));
      }
      const auto answer = ask(store, {1}, items);
      REQUIRE(answer.status[0].state == UserState::known);
      CHECK(answer.seen() == items.size());
      const auto ages = ages_of(store, items);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < items.size(); ++i) {
        REQUIRE(ages[i] <= expected[i]);
        wrong += ages[i] != expected[i] ? 1U : 0U;
      }
      CHECK(wrong <= (rate < 1e-6 ? 0 : items.size() / 50));
      CHECK(added <= records * most_in_a_batch);
      CHECK(ask(store, {1}, sequence(1'000'000, 20'000)).seen() <= (rate < 1e-6 ? 0 : 200 + 5 * 15));
      CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->size() == 1);
    }
  }
}

TEST_CASE("What was there is not counted as added, in the table and among the recent items", "[redis]") {
  const RedisServer server;
  TestClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock, 1e-9));
  for (std::uint64_t item = 0; item < 200; ++item) {
    CHECK(record(store, 1, {item}).value().newly_added == 1);
    CHECK(record(store, 1, {item / 2}).value().newly_added == 0);
  }
  clock.advance(day);
  CHECK(record(store, 1, {3, 199, 1'000}).value().newly_added == 1);
  CHECK(record(store, 1, {3, 199, 1'000}).value().newly_added == 0);
  CHECK(ages_of(store, {3, 199, 1'000, 4}) == std::vector<std::uint8_t>{0, 0, 0, 1});
}

TEST_CASE("A user's first record is one round trip, and so is the next", "[redis]") {
  const RedisServer server;
  TestClock clock;
  const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  RedisStore<> store(counting, thirty_days(clock));
  REQUIRE(record(store, 2, {1}));  // the scripts, and the kind of the items
  for (const std::uint64_t item : {1U, 2U, 3U}) {
    const std::size_t before = counting->trips;
    REQUIRE(record(store, 1, {item}));
    CHECK(counting->trips == before + 1);
  }
  const std::size_t before = counting->trips;
  CHECK(ask(store, {1}, {1, 2, 3, 4}).seen() == 3);
  CHECK(counting->trips == before + 1);
}

TEST_CASE("Adds of others never make a swap fail, and none is lost by it", "[redis]") {
  const RedisServer server;
  TestClock clock;
  const auto executor = std::make_shared<BeforeSwap>(make_executor(server.socket_url()).value());
  RedisStore<> store(executor, thirty_days(clock));
  RedisStore<> other(server.socket_url(), thirty_days(clock));
  // Five at a time are swapped in. Between the reading and the swap, another process adds by script.
  for (std::uint64_t n = 0; n < 60; ++n) {
    executor->then = [&] { REQUIRE(record(other, 1, {10'000 + n})); };
    executor->swaps_sent = 0;
    REQUIRE(record(store, 1, sequence(5 * n, 5)));
    REQUIRE((executor->then == nullptr) == (n > 0));  // the first is put, not swapped
    if (n > 0) CHECK(executor->swaps_sent == 1);
    if (n > 0) CHECK(ask(store, {1}, {10'000 + n}).seen() == 1);
  }
  CHECK(ask(store, {1}, sequence(0, 300)).seen() == 300);
  CHECK(ask(store, {1}, sequence(10'001, 59)).seen() == 59);
  CHECK(ask(store, {1}, sequence(1'000'000, 10'000)).seen() <= 100 + 5 * 10);
}

TEST_CASE("A windowed user of thirty live items is one key of at most 300 bytes", "[redis]") {
  const RedisServer server;
  TestClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  for (std::uint64_t item = 0; item < 60; ++item) {
    REQUIRE(record(store, 1, {item}));
    clock.advance(day);
  }
  CHECK(ask(store, {1}, sequence(30, 30)).seen() == 30);
  CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->size() == 1);
  const auto bytes = server.call_integer({"MEMORY", "USAGE", store.key_of(1)});
  INFO(bytes << " B, a value of " << server.call_integer({"STRLEN", store.key_of(1)}));
  CHECK(bytes <= 300);
}

TEST_CASE("Slices of version 1 are read, and taken over by the next record with the ages they had", "[redis]") {
  const RedisServer server;
  TestClock clock;
  for (const bool batch : {false, true}) {
    server.call({"FLUSHALL"});
    OldWindow old(server, clock.now());
    old.add(29, {1});
    old.add(3, {2, 3});
    old.add(0, {4});
    RedisStore<> store(server.socket_url(), thirty_days(clock, 1e-6));
    CHECK(ask(store, {1}, {1, 2, 3, 4, 5}).seen_by == std::vector<std::uint8_t>{1, 1, 1, 1, 0});
    CHECK(ages_of(store, {1, 2, 3, 4, 5}) == std::vector<std::uint8_t>{29, 3, 3, 0, 255});
    REQUIRE(record(store, 1, batch ? sequence(100, 400) : std::vector<std::uint64_t>{100}));
    CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->size() == 1);
    CHECK(ask(store, {1}, {1, 2, 3, 4, 5, 100}).seen_by == std::vector<std::uint8_t>{1, 1, 1, 1, 0, 1});
    CHECK(ages_of(store, {1, 2, 3, 4, 5, 100}) == std::vector<std::uint8_t>{29, 3, 3, 0, 255, 0});
    // The table lives as long as its newest slice now.
    CHECK(server.call_integer({"TTL", store.key_of(1)}) > 29 * 86'400);
    // They leave the window when they would have, and their bytes with them.
    clock.advance(4 * day);
    REQUIRE(record(store, 1, {101}));
    CHECK(ask(store, {1}, {1, 2, 3, 4}).seen_by == std::vector<std::uint8_t>{0, 1, 1, 1});
    clock.advance(28 * day);
    REQUIRE(record(store, 1, {102}));
    CHECK(ask(store, {1}, {1, 2, 3, 4, 101, 102}).seen_by == std::vector<std::uint8_t>{0, 0, 0, 0, 1, 1});
  }
}

TEST_CASE("What is added to an old slice while it is taken over is not lost", "[redis]") {
  const RedisServer server;
  TestClock clock;
  OldWindow old(server, clock.now());
  old.add(2, {1});
  const auto executor = std::make_shared<BeforeSwap>(make_executor(server.socket_url()).value());
  RedisStore<> store(executor, thirty_days(clock, 1e-6));
  executor->then = [&] { old.put(2, {1, 7}); };
  REQUIRE(record(store, 1, {2}));
  CHECK(executor->then == nullptr);
  CHECK(ask(store, {1}, {1, 2, 7}).seen() == 3);
  CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->size() == 1);
}

TEST_CASE("A lost slice of version 1 makes its user unknown, and the history brings it back", "[redis][002-15]") {
  const RedisServer server;
  TestClock clock;
  TruthfulHistory history;
  OldWindow old(server, clock.now());
  old.add(5, {1, 2});
  old.add(1, {3});
  history.append(1, {{1, 2}}, clock.now() - 5 * day);
  history.append(1, {{3}}, clock.now() - 1 * day);
  server.call({"DEL", old.slice_key(5)});
  RedisStore<> store(server.socket_url(), thirty_days(clock, 1e-6));
  CHECK(ask(store, {1}, {1}).status[0].state == UserState::missing);
  store.set_replay(history.replay());
  history.append(1, {{4}}, clock.now());
  REQUIRE(record(store, 1, {4}));
  CHECK(ages_of(store, {1, 2, 3, 4}) == std::vector<std::uint8_t>{5, 5, 1, 0});
  CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->size() == 1);
}

TEST_CASE("A window that a process of version 1 is still building stays unknown until it is built", "[redis]") {
  const RedisServer server;
  TestClock clock;
  OldWindow old(server, clock.now());
  old.add(1, {1});
  old.mark();
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  CHECK(ask(store, {1}, {1}).status[0].state == UserState::missing);
  REQUIRE(record(store, 1, {2}));
  CHECK(ask(store, {1}, {1, 2}).status[0].state == UserState::missing);
  CHECK(server.call_integer({"PTTL", store.key_of(1)}) <= 30'000);
  TruthfulHistory history;
  history.append(1, {{1, 2, 3}}, clock.now());
  store.set_replay(history.replay());
  REQUIRE(store.rebuild(1));
  CHECK(ask(store, {1}, {1, 2, 3}).seen() == 3);
}

TEST_CASE("A program of version 1 refuses a table instead of misreading it", "[redis]") {
  const RedisServer server;
  TestClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  REQUIRE(record(store, 1, {1}));
  const std::string value = server.call_string({"GET", store.key_of(1)});
  CHECK(SliceList::decode(value).error().code == ErrorCode::bad_magic);
  const HashIdentity hash{HashKind::xxh3_64, seed_check(Xxh3Hash{})};
  CHECK(decode_frame(value, 0, value.size(), hash).error().code == ErrorCode::unsupported_version);
}
