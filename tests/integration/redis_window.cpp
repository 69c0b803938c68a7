// SPDX-License-Identifier: MIT
// RedisStore with a rolling window: one key a user, whose items age slice by slice; one that is lost is noticed.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using namespace std::chrono_literals;

namespace {

/// A clock that stands still until it is told otherwise.
struct ManualClock {
  std::shared_ptr<std::atomic<std::int64_t>> seconds =
      std::make_shared<std::atomic<std::int64_t>>(system_time().time_since_epoch().count() / 86'400 * 86'400);
  [[nodiscard]] Clock clock() const {
    return Clock::simulated([at = seconds] { return Time(std::chrono::seconds(at->load())); });
  }
  void advance(std::chrono::seconds span) { *seconds += span.count(); }
  [[nodiscard]] Time now() const { return Time(std::chrono::seconds(seconds->load())); }
};

StorePolicy thirty_days(const ManualClock& clock, std::uint32_t slices = 6) {
  return {.wrong_hide_rate = 0.01,
          .users_per_request = 1,
          .window = std::chrono::hours(24 * 30),
          .slices = slices,
          .clock = clock.clock()};
}

constexpr std::chrono::seconds days(int count) { return std::chrono::hours(24 * count); }

}  // namespace

TEST_CASE("A rolling window forgets slice by slice, neither never nor all at once", "[redis][002-17]") {
  for (const std::string& program : installed_servers()) {
    const RedisServer server(program);
    ManualClock clock;
    RedisStore<> store(server.socket_url(), thirty_days(clock));
    // An active user: ten items every five days. What is older than the window fades, ten at a time.
    for (int step = 0; step < 20; ++step) {
      REQUIRE(record(store, 1, sequence(static_cast<std::uint64_t>(step) * 10, 10)));
      const auto lives = [&](int past) {
        return ask(store, {1}, sequence(static_cast<std::uint64_t>(step - past) * 10, 10)).seen();
      };
      for (int past = 0; past <= std::min(step, 6); ++past) CHECK(lives(past) == 10);
      for (int past = 8; past <= step; ++past) CHECK(lives(past) <= 1);
      clock.advance(days(5));
    }
  }
}

TEST_CASE("A windowed user is one key, which lives until its newest slice has left the window", "[redis][002-17]") {
  const RedisServer server;
  ManualClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  const std::string key = store.key_of(1);
  const auto lives_a_window = [&] {
    CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->size() == 1);
    const auto ttl = server.call_integer({"TTL", key});
    CHECK(ttl > days(30).count());
    CHECK(ttl <= days(35).count() + 60);
  };
  REQUIRE(record(store, 1, {1}));
  lives_a_window();
  // Recording again in the same slice refreshes nothing; the first of the next slice sets its time.
  server.call({"EXPIRE", key, "1000"});
  REQUIRE(record(store, 1, {2}));
  REQUIRE(record(store, 1, {1}));
  CHECK(server.call_integer({"TTL", key}) <= 1000);
  clock.advance(days(5));
  REQUIRE(record(store, 1, {3}));
  lives_a_window();
  // An event of days ago refreshes nothing, too.
  server.call({"EXPIRE", key, "1000"});
  const std::vector<std::uint64_t> late{4};
  REQUIRE(store.record(1, ItemBatch<std::uint64_t>{late, digests_of(late)}, clock.now() - days(7)));
  CHECK(server.call_integer({"TTL", key}) <= 1000);
  CHECK(ask(store, {1}, {1, 2, 3, 4}).seen() == 4);
}

TEST_CASE("Thirty slices together keep the wrong-hide rate", "[redis][003-04]") {
  const RedisServer server;
  ManualClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock, 30));
  for (int day = 0; day < 31; ++day) {
    REQUIRE(record(store, 1, sequence(static_cast<std::uint64_t>(day) * 20, 20)));
    if (day < 30) clock.advance(days(1));
  }
  CHECK(ask(store, {1}, sequence(0, 620)).seen() == 620);
  CHECK(ask(store, {1}, sequence(1'000'000, 20'000)).seen() <= 200 + 5 * 15 + 5);
}

TEST_CASE("A lost window makes its user unknown, and the next record rebuilds it from the history",
          "[redis][002-15][002-17]") {
  for (const std::string& program : installed_servers()) {
    const RedisServer server(program);
    ManualClock clock;
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), thirty_days(clock));
    store.set_replay(history.replay());
    for (int slice = 0; slice < 3; ++slice) {
      const auto items = sequence(static_cast<std::uint64_t>(slice) * 100, 40);
      history.append(1, items, clock.now());
      REQUIRE(record(store, 1, items));
      if (slice < 2) clock.advance(days(5));
    }
    const auto all_there = [&] {
      for (std::uint64_t slice = 0; slice < 3; ++slice) {
        const auto answer = ask(store, {1}, sequence(slice * 100, 40));
        CHECK(answer.status[0].state == UserState::known);
        CHECK(answer.seen() == 40);
      }
    };
    all_there();
    REQUIRE(server.call_integer({"DEL", store.key_of(1)}) == 1);
    CHECK(ask(store, {1}, {0}).status[0].state == UserState::missing);
    history.append(1, {{999}}, clock.now());
    REQUIRE(record(store, 1, {999}));
    all_there();
    // Rebuilt into the slices in which the items were seen.
    const std::vector<std::uint64_t> items{0, 100, 200, 999};
    std::vector<std::uint8_t> ages(items.size());
    store.age(1, ItemBatch<std::uint64_t>{items, digests_of(items)}, ages);
    CHECK(ages == std::vector<std::uint8_t>{2, 1, 0, 0});
  }
}

TEST_CASE("A slice begun by a writer whose clock is ahead is read all the same", "[redis]") {
  const RedisServer server;
  ManualClock clock;
  RedisStore<> behind(server.socket_url(), thirty_days(clock));
  ManualClock fast = {std::make_shared<std::atomic<std::int64_t>>(clock.seconds->load() + days(5).count())};
  RedisStore<> ahead(server.socket_url(), thirty_days(fast));
  REQUIRE(record(behind, 1, {1}));
  REQUIRE(record(ahead, 1, {2}));
  CHECK(ask(behind, {1}, {1, 2}).seen() == 2);
}

TEST_CASE("Ages count slices since an item was last seen", "[redis]") {
  const RedisServer server;
  ManualClock clock;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  for (std::uint64_t slice = 0; slice < 4; ++slice) {
    REQUIRE(record(store, 1, {slice, 99}));
    if (slice < 3) clock.advance(days(5));
  }
  const std::vector<std::uint64_t> items{0, 1, 2, 3, 99, 5'000'000};
  const auto digests = digests_of(items);
  std::vector<std::uint8_t> ages(items.size());
  store.age(1, ItemBatch<std::uint64_t>{items, digests}, ages);
  CHECK(ages == std::vector<std::uint8_t>{3, 2, 1, 0, 0, 255});
}

TEST_CASE("A window is created empty, forgotten whole, and rebuilt on request", "[redis]") {
  const RedisServer server;
  ManualClock clock;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), thirty_days(clock));
  REQUIRE(store.create(1));
  CHECK(ask(store, {1}, sequence(0, 50)).status[0].state == UserState::known);
  CHECK(ask(store, {1}, sequence(0, 50)).seen() == 0);
  REQUIRE(record(store, 1, {1}));
  CHECK(store.forget(1).value());
  CHECK(server.call_integer({"DBSIZE"}) == 1);  // the kind of the store's items
  history.append(1, sequence(0, 300), clock.now() - days(10));
  store.set_replay(history.replay());
  REQUIRE(store.rebuild(1));
  CHECK(ask(store, {1}, sequence(0, 300)).seen() == 300);
}

TEST_CASE("Forgetting finds every slice, whatever window it was recorded under and it is forgotten under", "[redis]") {
  const RedisServer server;
  ManualClock clock;
  const auto window = [&](std::uint32_t slices, int of_days = 30) {
    return StorePolicy{.window = std::chrono::hours{24 * of_days}, .slices = slices, .clock = clock.clock()};
  };
  RedisStore<> by_thirty(server.socket_url(), window(30));
  RedisStore<> by_six(server.socket_url(), window(6));
  RedisStore<> of_a_day(server.socket_url(), window(24, 1));
  RedisStore<> without(server.socket_url(), {});
  for (RedisStore<>* forgetting : {&by_six, &of_a_day, &without, &by_thirty}) {
    for (std::uint64_t day = 0; day < 4; ++day) {
      for (const std::uint64_t user : {1U, 2U}) REQUIRE(record(by_thirty, user, {user * 100 + day}));
      clock.advance(days(1));
    }
    // The other configuration has recorded, too: the list names slices of both.
    if (forgetting != &without) REQUIRE(record(*forgetting, 1, {900}));
    CHECK(forgetting->forget(1).or_throw());
    CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->empty());
    REQUIRE(record(by_thirty, 1, {1'000}));
    CHECK(ask(by_thirty, {1}, {100, 101, 102, 103, 900}).seen() == 0);
    CHECK(ask(by_thirty, {2}, {200, 201, 202, 203}).seen() == 4);
    REQUIRE(by_thirty.forget(1));
    REQUIRE(by_thirty.forget(2));
  }
}

TEST_CASE("A clock that is a year ahead for a moment empties no window, in Redis neither", "[redis]") {
  const RedisServer server;
  Time wall{std::chrono::seconds{1'700'000'000}};
  std::chrono::seconds steady{0};
  const StorePolicy policy{.window = std::chrono::hours{24 * 30},
                           .slices = 30,
                           .clock = Clock([&] { return wall; }, [&] { return steady; })};
  RedisStore<> store(server.socket_url(), policy);
  RedisStore<> other(server.socket_url(), policy);
  for (const std::uint64_t user : {1U, 2U}) REQUIRE(record(store, user, {user}));
  REQUIRE(ask(other, {1, 2}, {1, 2}).seen() == 2);
  wall += days(365);
  for (RedisStore<>* each : {&store, &other}) {
    CHECK(ask(*each, {1, 2}, {1, 2}).seen() == 2);
    for (const std::uint64_t user : {1U, 2U}) REQUIRE(record(*each, user, {user + 10}));
  }
  wall -= days(365);
  CHECK(ask(store, {1, 2}, {1, 2, 11, 12}).seen() == 4);
  for (const std::string key : {"seenby:{1}*", "seenby:{2}*"}) {
    const Reply keys = server.call({"KEYS", key});
    REQUIRE(keys.array()->size() == 1);
    for (const Reply& each : *keys.array()) CHECK(server.call_integer({"TTL", *each.string()}) > 29 * 86'400);
  }
  wall += days(365);
  CHECK(store.forget(1).or_throw());
  CHECK(server.call({"KEYS", "seenby:{1}*"}).array()->empty());
  // What was recorded in the wrong year would never age: it does.
  wall -= days(365);
  wall += days(32);
  steady += days(32);
  CHECK(ask(store, {2}, {2, 12}).seen() == 0);
}

TEST_CASE("What was recorded under other slices stays seen after a change of the window's slices", "[redis]") {
  const RedisServer server;
  ManualClock clock;
  const auto window = [&](std::uint32_t slices) {
    return StorePolicy{.window = std::chrono::hours{24 * 30}, .slices = slices, .clock = clock.clock()};
  };
  RedisStore<> before(server.socket_url(), window(30));
  RedisStore<> after(server.socket_url(), window(6));
  for (std::uint64_t day = 0; day < 4; ++day) {
    REQUIRE(record(before, 1, {day}));
    clock.advance(days(1));
  }
  CHECK(ask(after, {1}, sequence(0, 4)).seen() == 4);
  REQUIRE(record(after, 1, {50}));
  CHECK(ask(after, {1}, sequence(0, 4)).seen() == 4);
  CHECK(ask(after, {1}, {50}).seen() == 1);
  CHECK(ask(before, {1}, sequence(0, 4)).seen() == 4);
}

TEST_CASE("A whole-key time to live is fixed or refreshed, as chosen, and both faults show", "[redis][002-17]") {
  const RedisServer server;
  RedisStore<> fixed(server.socket_url(), {}, {.prefix = "f:", .time_to_live = TimeToLive::fixed, .ttl = 1000s});
  RedisStore<> refreshed(server.socket_url(), {},
                         {.prefix = "r:", .time_to_live = TimeToLive::refreshed, .ttl = 1000s});
  for (RedisStore<>* store : {&fixed, &refreshed}) {
    REQUIRE(record(*store, 1, {1}));
    CHECK(server.call_integer({"TTL", store->key_of(1)}) >= 998);
    server.call({"EXPIRE", store->key_of(1), "100"});
    // Also through a growth.
    REQUIRE(record(*store, 1, sequence(0, 100)));
  }
  CHECK(server.call_integer({"TTL", fixed.key_of(1)}) <= 100);      // the cliff comes
  CHECK(server.call_integer({"TTL", refreshed.key_of(1)}) >= 998);  // never for an active user
}
