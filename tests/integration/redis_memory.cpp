// SPDX-License-Identifier: MIT
// What a user costs in Redis, by MEMORY USAGE, beside the sets people keep instead.

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

/// One item at a time, as users really see things, so that growth's own slack is in the figure.
std::int64_t grown_bytes(const RedisServer& server, RedisStore<>& store, TruthfulHistory& history, std::size_t items) {
  const std::uint64_t user = items;
  for (std::uint64_t item = 0; item < std::min<std::size_t>(items, 2'000); ++item) {
    history.append(user, {{item}});
    REQUIRE(record(store, user, {item}));
  }
  constexpr std::size_t batch = 50;
  for (std::uint64_t item = 2'000; item < items; item += batch) {
    const auto more = sequence(item, batch);
    history.append(user, more);
    REQUIRE(record(store, user, more));
  }
  REQUIRE(ask(store, {user}, sequence(0, items)).seen() == items);
  return server.call_integer({"MEMORY", "USAGE", store.key_of(user), "SAMPLES", "0"});
}

std::int64_t set_bytes(const RedisServer& server, std::size_t items, bool sorted) {
  const std::string key = (sorted ? "zset:" : "set:") + std::to_string(items);
  for (std::uint64_t at = 0; at < items; at += 1'000) {
    std::vector<std::string> arguments{sorted ? "ZADD" : "SADD", key};
    for (std::uint64_t item = at; item < std::min<std::uint64_t>(items, at + 1'000); ++item) {
      if (sorted) arguments.push_back(std::to_string(1'700'000'000 + item));
      // Ids as they are in the wild: 64 bits, no two neighbours.
      arguments.push_back(std::to_string(Xxh3Hash{}(item).value >> 1));
    }
    server.call_integer(arguments);
  }
  return server.call_integer({"MEMORY", "USAGE", key, "SAMPLES", "0"});
}

std::string bloom_bytes(const RedisServer& server, std::size_t items) {
  const std::string key = "bloom:" + std::to_string(items);
  if (server.call({"BF.RESERVE", key, "0.01", std::to_string(items)}).is_error()) return "SKIPPED";
  return std::to_string(server.call_integer({"MEMORY", "USAGE", key}));
}

}  // namespace

TEST_CASE("A user's filter at 1% costs a few bytes an item in Redis", "[redis][000-15][003-02]") {
  std::vector<std::string> arguments;
  if (const char* module = std::getenv("SEENBY_REDISBLOOM_MODULE")) arguments = {"--loadmodule", module};
  const RedisServer server("redis-server", arguments);
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), {.wrong_hide_rate = 0.01, .users_per_request = 1});
  store.set_replay(history.replay());
  std::printf("%8s %10s %10s %10s %10s   bytes a user in Redis\n", "items", "seenby", "SET", "ZSET", "RedisBloom");
  const std::pair<std::size_t, std::int64_t> limits[] = {{20, 136}, {100, 392}, {1'000, 2'632}, {100'000, 164'000}};
  for (const auto& [items, limit] : limits) {
    const auto bytes = grown_bytes(server, store, history, items);
    const auto set = set_bytes(server, items, false);
    const auto sorted = set_bytes(server, items, true);
    std::printf("%8zu %10lld %10lld %10lld %10s\n", items, static_cast<long long>(bytes), static_cast<long long>(set),
                static_cast<long long>(sorted), bloom_bytes(server, items).c_str());
    CHECK(bytes <= limit);
    CHECK(bytes < set);
    CHECK(set < sorted);
    // And the rate is kept all the same: five standard deviations over 1% of 20,000.
    CHECK(ask(store, {items}, sequence(5'000'000, 20'000)).seen() <= 200 + 5 * 15);
  }
}
