// SPDX-License-Identifier: MIT
// The whole path over servers: a history in PostgreSQL, filters in Redis, and what happens when either goes away.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/replay.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "seenby/postgres/history.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/postgres_server.hpp"
#include "support/redis_server.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using History = PostgresHistory<std::uint64_t, std::uint64_t>;
using Store = redis::RedisStore<std::uint64_t>;
using Event = SeenEvent<std::uint64_t, std::uint64_t>;
using Queue = BoundedQueue<Event>;

constexpr std::uint64_t users = 20;

void push(Queue& queue, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t n = first; n < first + count; ++n) {
    queue.push({n % users, n, system_time(), "e" + std::to_string(n)}).or_throw();
  }
}

/// How many of a user's items the filter calls unseen; nothing when it cannot be asked.
std::optional<std::size_t> unseen(const Store& store, std::uint64_t user, std::uint64_t items) {
  std::vector<std::uint64_t> asked;
  std::vector<Digest> digests;
  for (std::uint64_t n = user; n < items; n += users) {
    asked.push_back(n);
    digests.push_back(store.hasher()(n));
  }
  std::vector<std::uint8_t> seen(asked.size());
  UserStatus status;
  store.check({&user, 1}, ItemBatch<std::uint64_t>{asked, digests}, seen, {&status, 1});
  if (status.state != UserState::known) return std::nullopt;
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), 0));
}

TEST_CASE("Redis flushed under load: answers are unknown, not unseen, until a sweep has brought every filter back",
          "[ingest][002-12][002-15]") {
  SEENBY_NEED_POSTGRES();
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  const PostgresServer postgres;
  const RedisServer redis;
  auto history = History::open(postgres.address()).or_throw();
  Store store(redis.socket_url(), {.wrong_hide_rate = 0.001});
  store.set_replay(replay_of(history, store.hasher()));
  Queue queue;
  Ingestor ingestor(queue, history, store, {.batch = 200, .wait = 5ms});
  std::jthread worker([&](std::stop_token stop) { ingestor.run(stop); });

  push(queue, 0, 4'000);
  REQUIRE(wait_until([&] { return queue.backlog() == 0; }));
  for (std::uint64_t user = 0; user < users; ++user) CHECK(unseen(store, user, 4'000) == 0);
  // Events keep coming while all filters are lost. Nobody is told "unseen" of what they saw.
  std::size_t wrong = 0;
  std::size_t unknown = 0;
  for (int round = 0; round < 5; ++round) {
    push(queue, 4'000 + static_cast<std::uint64_t>(round) * 100, 100);
    redis.call({"FLUSHALL"});
    for (std::uint64_t user = 0; user < users; ++user) {
      const auto missed = unseen(store, user, 4'000);
      missed ? wrong += *missed : ++unknown;
    }
  }
  CHECK(wrong == 0);
  CHECK(unknown > 0);
  RepairJob job(history, store);
  const RepairProgress swept = job.sweep().or_throw();
  CHECK(swept.users == users);
  CHECK(swept.errors == 0);
  REQUIRE(wait_until([&] { return queue.backlog() == 0; }));
  RepairJob verify(history, store, {.repair = false});
  const RepairProgress verified = verify.sweep().or_throw();
  CHECK(verified.healthy == users);
  CHECK(verified.items == 4'500);
  CHECK(verified.false_negatives == 0);
}

TEST_CASE("PostgreSQL stopped: ingest holds and resumes, nothing is lost, nothing is in a filter before it is durable",
          "[ingest][002-04]") {
  SEENBY_NEED_POSTGRES();
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  PostgresServer postgres;
  const RedisServer redis;
  auto history = History::open(postgres.address(), {.timeout = 500ms}).or_throw();
  Store store(redis.socket_url(), {.wrong_hide_rate = 0.0001});
  store.set_replay(replay_of(history, store.hasher()));
  for (std::uint64_t user = 0; user < users; ++user) store.create(user).or_throw();
  Queue queue;
  Ingestor ingestor(queue, history, store, {.batch = 100, .wait = 5ms, .longest_pause = 100ms});
  postgres.crash();
  push(queue, 0, 1'000);
  std::jthread worker([&](std::stop_token stop) { ingestor.run(stop); });
  REQUIRE(wait_until([&] { return ingestor.counters().failures >= 3; }));
  for (std::uint64_t user = 0; user < users; ++user) CHECK(unseen(store, user, 1'000) == 50);
  CHECK(queue.backlog() == 1'000);
  postgres.start();
  REQUIRE(wait_until([&] { return queue.backlog() <= 400; }));
  // Once more, while batches are on their way; the server does not answer, and then it does.
  postgres.pause();
  std::this_thread::sleep_for(1'500ms);
  postgres.resume();
  REQUIRE(wait_until([&] { return queue.backlog() == 0; }));
  CHECK(postgres.sql("SELECT count(*) || ' ' || count(DISTINCT item) FROM seenby.events") == "1000 1000");
  for (std::uint64_t user = 0; user < users; ++user) CHECK(unseen(store, user, 1'000) == 0);
}

}  // namespace
