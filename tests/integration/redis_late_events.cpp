// SPDX-License-Identifier: MIT
// RedisStore with events' own times: a late one belongs to the slice of its time, as if it had come in order.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/counting_executor.hpp"
#include "support/random.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using redis::RedisStore;

/// So strict that no answer of a test is wrong.
StorePolicy thirty_days(const TestClock& clock, std::uint32_t slices = 30) {
  return {.wrong_hide_rate = 1e-7, .window = 30 * day, .slices = slices, .clock = clock.clock()};
}
Result<RecordOutcome> record_at(RedisStore<>& store, std::uint64_t user, const std::vector<std::uint64_t>& items,
                                Time when) {
  const auto digests = digests_of(items, store.hasher());
  return store.record(user, ItemBatch<std::uint64_t>{items, digests}, when);
}
std::vector<std::uint8_t> ages_of(const RedisStore<>& store, std::uint64_t user,
                                  const std::vector<std::uint64_t>& items) {
  const auto digests = digests_of(items, store.hasher());
  std::vector<std::uint8_t> ages(items.size());
  store.age(user, ItemBatch<std::uint64_t>{items, digests}, ages);
  return ages;
}

TEST_CASE("A log recorded in random order gives the same windowed answers and ages as in order", "[redis]") {
  SEENBY_RANDOM(random);
  for (const std::string& program : installed_servers()) {
    for (const std::uint32_t slices : {1U, 7U, 30U}) {
      INFO(program << ", " << slices << " slices");
      const RedisServer server(program);
      TestClock clock;
      RedisStore<> in_order(server.socket_url(), thirty_days(clock, slices), {.prefix = "o:"});
      RedisStore<> late(server.socket_url(), thirty_days(clock, slices), {.prefix = "l:"});
      struct Event {
        std::uint64_t user;
        std::uint64_t item;
        Time at;
      };
      std::vector<Event> log;
      const Time begin = clock.now();
      for (std::uint64_t n = 0; n < 400; ++n) {
        const std::uint64_t item = random.below(250);
        log.push_back({1 + n % 2, item, begin + std::chrono::seconds{random.below(45 * 86'400)}});
      }
      std::sort(log.begin(), log.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
      for (const Event& event : log) {
        clock.set(event.at);
        REQUIRE(record(in_order, event.user, {event.item}));
      }
      clock.set(begin + 45 * day);
      std::shuffle(log.begin(), log.end(), random);
      for (const Event& event : log) REQUIRE(record_at(late, event.user, {event.item}, event.at));
      const auto items = sequence(0, 250);
      for (const std::uint64_t user : {1U, 2U}) {
        const auto expected = ask(in_order, {user}, items);
        REQUIRE(expected.seen() > 50);
        REQUIRE(expected.seen() < 250);
        CHECK(ask(late, {user}, items).seen_by == expected.seen_by);
        CHECK(ages_of(late, user, items) == ages_of(in_order, user, items));
      }
      // And so it stays while slices leave the window.
      clock.advance(10 * day);
      for (const std::uint64_t user : {1U, 2U}) {
        CHECK(ask(late, {user}, items).seen_by == ask(in_order, {user}, items).seen_by);
      }
    }
  }
}

TEST_CASE("An event older than the window is acknowledged and not stored; one from ahead counts as the newest",
          "[redis]") {
  const RedisServer server;
  TestClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  REQUIRE(record(store, 1, {1}));
  const auto keys = server.call_integer({"DBSIZE"});
  CHECK(record_at(store, 1, {2}, clock.now() - 31 * day).or_throw().newly_added == 0);
  CHECK(record_at(store, 2, {2}, all_time).or_throw().newly_added == 0);
  CHECK(server.call_integer({"DBSIZE"}) == keys);
  CHECK(ask(store, {2}, {2}).status[0].state == UserState::missing);
  REQUIRE(record_at(store, 1, {3}, clock.now() - 30 * day));
  REQUIRE(record_at(store, 1, {4}, Time::max()));
  CHECK(ages_of(store, 1, {1, 2, 3, 4}) == std::vector<std::uint8_t>{0, 255, 30, 0});
  // The key lives until what was seen last has left the window, whatever came late.
  const auto lives = server.call_integer({"TTL", store.key_of(1)});
  CHECK(lives > 30 * 86'400);
  CHECK(lives <= 31 * 86'400 + 60);
  // Without a window every time is the same.
  RedisStore<> plain(server.socket_url(), {.wrong_hide_rate = 1e-7}, {.prefix = "p:"});
  REQUIRE(record_at(plain, 1, {5}, all_time));
  CHECK(ask(plain, {1}, {5, 6}).seen() == 1);
}

TEST_CASE("A late event goes to its own slice, also where its user was evicted meanwhile", "[redis]") {
  const RedisServer server;
  TestClock clock;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  store.set_replay(history.replay());
  const auto seen_at = [&](std::uint64_t item, Time when) {
    history.append(1, std::vector{item}, when);
    return record_at(store, 1, {item}, when);
  };
  for (std::uint64_t n = 0; n < 30; ++n) {
    REQUIRE(seen_at(n, clock.now()));
    clock.advance(day);
  }
  const Time ten_days_ago = clock.now() - 10 * day;
  const std::uint64_t rebuilds = store.counters().rebuilds;
  clock.advance(5 * day);
  REQUIRE(seen_at(100, ten_days_ago));
  CHECK(store.counters().rebuilds == rebuilds);
  CHECK(ages_of(store, 1, {100}) == std::vector<std::uint8_t>{15});
  server.call({"DEL", store.key_of(1)});
  CHECK(ask(store, {1}, {100}).status[0].state == UserState::missing);
  REQUIRE(seen_at(101, ten_days_ago));
  const auto all = ask(store, {1}, {100, 101, 28});
  CHECK(all.status[0].state == UserState::known);
  CHECK(all.seen() == 3);
  CHECK(ages_of(store, 1, {100, 101, 28}) == std::vector<std::uint8_t>{15, 15, 7});
}

TEST_CASE("The facade hands an event's time to a RedisStore, and to what it keeps of the last items", "[redis]") {
  const RedisServer server;
  TestClock clock;
  SeenFilter filter{RedisStore<>(server.socket_url(), thirty_days(clock))};
  filter.record(1, std::uint64_t{7}, clock.now() - 20 * day).or_throw();
  filter.record(1, std::uint64_t{8}, clock.now() - 31 * day).or_throw();
  CHECK(ages_of(filter.store(), 1, {7, 8}) == std::vector<std::uint8_t>{20, 255});
}

}  // namespace
