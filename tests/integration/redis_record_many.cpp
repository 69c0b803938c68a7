// SPDX-License-Identifier: MIT
// RedisStore::record_many: one pipelined round trip for all users, whatever one of them needs; marks for every process.

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/counting_executor.hpp"
#include "support/picks.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using Store = RedisStore<>;
using Event = SeenEvent<std::uint64_t, std::uint64_t>;

static_assert(MarkingStore<Store> && ManyRecordingStoreFor<Store, std::uint64_t>);

namespace {

const StorePolicy rare{.wrong_hide_rate = 1e-6, .users_per_request = 2};

std::vector<Event> events_of(std::uint64_t users, std::uint64_t first, std::uint64_t each, Time when = {}) {
  std::vector<Event> events;
  for (std::uint64_t n = 0; n < users * each; ++n) events.push_back({n % users, first + n, when, {}});
  return events;
}
std::size_t lost(const auto& filter, const std::vector<Event>& events) {
  std::size_t count = 0;
  for (const Event& event : events) count += filter.ask(event.user, event.item) == Answer::seen ? 0U : 1U;
  return count;
}

}  // namespace

TEST_CASE("A batch of users this process knows is one round trip to Redis", "[redis][many]") {
  for (const std::string& program : installed_servers()) {
    CAPTURE(program);
    RedisServer server(program);
    const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
    SeenFilter filter{Store{counting, rare}};
    const auto first = events_of(300, 0, 3);
    filter.record_many(first).or_throw();  // the kind of items, the script, a question, a filter each
    counting->trips = 0;
    const auto second = events_of(300, 10'000, 2);
    const auto recorded = filter.record_many(second);
    recorded.or_throw();
    CHECK(counting->trips == 1);
    CHECK(recorded[0].outcome->newly_added == 2);
    CHECK(lost(filter, first) == 0);
    CHECK(lost(filter, second) == 0);
    // Another process: one trip to learn where the filters are, one to add.
    const auto fresh = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
    SeenFilter other{Store{fresh, rare}};
    CHECK(other.ask(alice, 1U) == Answer::seen);
    fresh->trips = 0;
    const auto third = events_of(300, 20'000, 1);
    other.record_many(third).or_throw();
    CHECK(fresh->trips == 2);
    CHECK(lost(filter, third) == 0);
    // New users: a question, and a filter put.
    fresh->trips = 0;
    std::vector<Event> newcomers;
    for (std::uint64_t user = 1'000; user < 1'200; ++user) newcomers.push_back({user, user, {}, {}});
    other.record_many(newcomers).or_throw();
    CHECK(fresh->trips == 2);
    CHECK(lost(filter, newcomers) == 0);
  }
}

TEST_CASE("In a batch some filters grow, some are new, one is damaged and one is another's: each has its own outcome",
          "[redis][many]") {
  RedisServer server("redis-server");
  SeenFilter filter{Store{server.socket_url(), rare}};
  const auto first = events_of(10, 0, 10);
  filter.record_many(first).or_throw();
  server.call({"SET", filter.store().key_of(3), "no filter"});
  server.call({"DEL", filter.store().key_of(4)});
  server.call({"LPUSH", filter.store().key_of(4), "a"});
  server.call({"DEL", filter.store().key_of(5)});
  auto events = events_of(10, 1'000, 300);  // past what a script takes, and past every filter's room
  for (std::uint64_t user = 20; user < 30; ++user) events.push_back({user, user, {}, {}});
  const auto recorded = filter.record_many(events);
  REQUIRE(recorded.size() == 20);
  for (const auto& [user, count, outcome] : recorded) {
    CAPTURE(user);
    CHECK(outcome.has_value() == (user != 3 && user != 4));
    if (!outcome) CHECK(outcome.error().message.find(filter.store().key_of(user)) != std::string::npos);
  }
  CHECK(recorded.acknowledged() == 8 * 300 + 10);
  std::erase_if(events, [](const Event& event) { return event.user == 3 || event.user == 4; });
  CHECK(lost(filter, events) == 0);
  CHECK(filter.counters().write_failures == 600);
}

TEST_CASE("A batch that Redis does not get is every user's error, and again records it", "[redis][many]") {
  RedisServer server("redis-server");
  SeenFilter filter{Store{server.socket_url(), rare, {.timeout = std::chrono::milliseconds(200)}}};
  const auto events = events_of(50, 0, 2);
  filter.record_many(events).or_throw();
  ::kill(server.pid(), SIGSTOP);
  const auto begun = std::chrono::steady_clock::now();
  const auto recorded = filter.record_many(events_of(50, 1'000, 2));
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(3));
  ::kill(server.pid(), SIGCONT);
  CHECK(recorded.acknowledged() == 0);
  for (const auto& one : recorded) CHECK_FALSE(one.outcome);
  const auto again = events_of(50, 1'000, 2);
  filter.record_many(again).or_throw();
  CHECK(lost(filter, again) == 0);
}

TEST_CASE("In a batch each user that needs round trips of its own has a deadline of its own", "[redis][many]") {
  RedisServer server("redis-server");
  const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  SeenFilter filter{Store{counting, rare, {.timeout = std::chrono::seconds(1)}}};
  // More items than a script takes: none of these users shares a round trip once its filter is known.
  filter.record_many(events_of(16, 0, 300)).or_throw();
  counting->delay = std::chrono::milliseconds(40);
  const auto begun = std::chrono::steady_clock::now();
  const auto events = events_of(16, 1'000, 300);
  filter.record_many(events).or_throw();
  CHECK(std::chrono::steady_clock::now() - begun > std::chrono::seconds(1));
  counting->delay = {};
  CHECK(lost(filter, events) == 0);
}

TEST_CASE("In a batch a server that is down is not asked for each user again", "[redis][many]") {
  RedisServer server("redis-server");
  const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  SeenFilter filter{Store{counting, rare, {.timeout = std::chrono::milliseconds(100)}}};
  filter.record_many(events_of(20, 0, 300)).or_throw();
  ::kill(server.pid(), SIGSTOP);
  counting->trips = 0;
  const auto events = events_of(20, 1'000, 300);
  const auto recorded = filter.record_many(events);
  ::kill(server.pid(), SIGCONT);
  CHECK(counting->trips == 1);
  for (const auto& [user, count, outcome] : recorded) {
    CAPTURE(user);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == ErrorCode::timed_out);
    CHECK(outcome.error().message.find(filter.store().key_of(user)) != std::string::npos);
  }
  filter.record_many(events).or_throw();
  CHECK(lost(filter, events) == 0);
}

TEST_CASE("In a batch late events go into the slices they belong to, and what is older is acknowledged",
          "[redis][many]") {
  RedisServer server("redis-server");
  const Time now = system_time();
  StorePolicy policy{.wrong_hide_rate = 1e-4, .window = std::chrono::days{10}, .slices = 5};
  const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  SeenFilter filter{Store{counting, policy}};
  std::vector<Event> events;
  for (std::uint64_t user = 0; user < 40; ++user) {
    events.push_back({user, 1, now, {}});
    events.push_back({user, 2, now - std::chrono::days{4}, {}});
    events.push_back({user, 3, now - std::chrono::days{40}, {}});
  }
  const auto recorded = filter.record_many(events);
  CHECK(recorded.acknowledged() == 120);
  const auto age_of = [&](std::uint64_t item) {
    const Digest digest = filter.store().hasher()(item);
    std::uint8_t age = 77;
    filter.store().age(7, ItemBatch<std::uint64_t>{std::span(&item, 1), std::span(&digest, 1)}, std::span(&age, 1));
    return int{age};
  };
  CHECK(age_of(1) == 0);
  CHECK(age_of(2) == 2);
  CHECK(age_of(3) == 255);
  counting->trips = 0;
  for (Event& event : events) event.item += 10;
  filter.record_many(events).or_throw();
  CHECK(counting->trips == 1);
  CHECK(age_of(11) == 0);
  CHECK(age_of(12) == 2);
}

TEST_CASE("With a history a batch rebuilds what is lost", "[redis][many]") {
  RedisServer server("redis-server");
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{server.socket_url(), rare}, history};
  const auto first = events_of(30, 0, 20);
  filter.record_many(first).or_throw();
  server.call({"FLUSHALL"});
  const auto second = events_of(30, 5'000, 1);
  filter.record_many(second).or_throw();
  CHECK(lost(filter, first) == 0);
  CHECK(lost(filter, second) == 0);
}

TEST_CASE("What one process says is in flight, another hides with its next request, in the same round trip",
          "[redis][in_flight]") {
  for (const std::string& program : installed_servers()) {
    CAPTURE(program);
    RedisServer server(program);
    const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
    SeenFilter here{Store{server.socket_url(), rare}};
    SeenFilter there{Store{counting, rare}};
    here.record(alice, 9U).or_throw();
    here.create(bob).or_throw();
    const CandidatePool pool{Ids{1, 2, 3, 4}};
    CHECK(there.select_unseen(pool, {alice, bob}, {.limit = 4}).size() == 4);
    here.share_in_flight(alice, Ids{1, 3}, std::chrono::seconds(2)).or_throw();
    here.share_in_flight(bob, Ids{2}, std::chrono::hours(1)).or_throw();
    counting->trips = 0;
    CHECK(picked(there.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{4});
    CHECK(counting->trips == 1);
    // A key of marks alone goes with the last of them; hides keep it.
    const std::string marks = here.store().key_of(alice) + ":hides";
    CHECK(server.call_integer({"PTTL", marks}) <= 3'000);
    CHECK(server.call_integer({"PTTL", marks}) > 0);
    here.hide(alice, 77U).or_throw();
    CHECK(server.call_integer({"PTTL", marks}) == -1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2'100));
    CHECK(picked(there.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{1, 3, 4});
    CHECK(there.ask(alice, 77U) == Answer::seen);
  }
}
