// SPDX-License-Identifier: MIT
// RedisStore in the race harness: no acknowledged item is ever called unseen, on Redis, Valkey and a cluster.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "seenby/redis/store.hpp"
#include "support/race.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_server.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::Race;
using seenby::test::RaceHistory;
using seenby::test::RaceOptions;
using seenby::test::RaceResult;
using seenby::test::RedisCluster;
using seenby::test::RedisServer;

namespace {

/// Small first filters that grow by a tenth: hardly a moment without a growth.
constexpr std::uint64_t first_items = 16;

RaceResult race(const std::string& url, StorePolicy policy, RedisStoreOptions store_options = {}) {
  RaceHistory history;
  auto executor = make_executor(url).value();
  const bool grows = policy.initial_items <= first_items;
  policy.growth_factor = 1.1;
  store_options.timeout = 5s;
  RedisStore<std::uint64_t> store(executor, policy, store_options);
  store.set_replay(replay_of(history, store.hasher()));
  std::atomic<std::uint64_t> deletions{0};
  std::mt19937_64 random(7);
  RaceOptions options{.duration = seenby::test::race_duration(3s)};
  options.seed = std::random_device{}();
  options.disturb = [&](std::uint64_t user) {
    if (random() % 2 == 0) {
      // A failed rebuild leaves the filter as it is.
      static_cast<void>(store.rebuild(user));
    } else {
      const Command del = Command::with_key(1, "DEL", store.key_of(user));
      deletions += execute_one(*executor, del, Deadline::after(5s)).has_value() ? 1U : 0U;
    }
  };
  const RaceResult result = Race(store, history, options).run();
  const StoreCounters counters = store.counters();
  std::cout << executor->name() << ": " << result << "; " << deletions << " deletions, " << counters.growths
            << " growths, " << counters.rebuilds << " rebuilds\n";
  CHECK(deletions > 10);
  if (grows) CHECK(counters.growths > 20);
  CHECK(counters.rebuilds > 10);
  return result;
}

void check_race(const RaceResult& result) {
  CHECK(result.false_negatives == 0);
  CHECK(result.lost_for_good == 0);
  CHECK(result.refused == 0);
  CHECK(result.unreachable == 0);
  // The race was one: many adds, and readers who got answers in the middle of it.
  CHECK(result.acknowledged > 500);
  CHECK(result.checks > 10'000);
}

}  // namespace

TEST_CASE("A hot user's filter is added to, grown, rebuilt and deleted at once, and no reader is told unseen",
          "[redis][race][concurrent][000-02][000-20]") {
  const RedisServer server;
  check_race(race(server.socket_url(), {.initial_items = first_items}));
}

TEST_CASE("The race on Valkey", "[redis][race][concurrent][000-20]") {
  if (!RedisServer::installed("valkey-server")) SKIP("SKIPPED: valkey-server is not installed");
  const RedisServer server("valkey-server");
  check_race(race(server.socket_url(), {.initial_items = first_items}));
}

TEST_CASE("The race on a cluster", "[redis][race][cluster][000-20]") {
  RedisCluster cluster("redis-server", false);
  check_race(race(cluster.url(), {.initial_items = first_items}));
}

TEST_CASE("The race over a rolling window", "[redis][race][000-20]") {
  const RedisServer server;
  check_race(race(server.socket_url(), {.window = 24h, .slices = 4, .initial_items = first_items}));
}

TEST_CASE("The race over large values, read by block and whole", "[redis][race][concurrent][000-20]") {
  const RedisServer server;
  // 35 KB: the first store reads by block whatever it asks, the second whole.
  for (const std::size_t whole : {std::size_t{1'024}, std::size_t{1} << 20}) {
    INFO("whole up to " << whole);
    check_race(race(server.socket_url(), {.initial_items = 25'000}, {.whole_read_bytes = whole}));
  }
}
