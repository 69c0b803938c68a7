// SPDX-License-Identifier: MIT
// `seenby plan --store redis` beside what a RedisStore keeps.

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "seenby/histories/memory_history.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/redis_server.hpp"
#include "tool/seenby_command.hpp"

using Catch::Approx;
using seenby::test::json_of;
using seenby::test::RedisServer;

TEST_CASE("plan prices a user in Redis as RedisStore keeps one who saw the items one by one") {
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  const RedisServer server;
  seenby::MemoryHistory<std::uint64_t, std::uint64_t> history;
  seenby::SeenFilter filter{
      seenby::redis::RedisStore<std::uint64_t>(server.socket_url(), {.wrong_hide_rate = 0.01, .users_per_request = 2}),
      history};
  for (const std::uint64_t items : {5U, 40U, 300U, 1'200U}) {
    INFO(items << " items");
    const auto cluster =
        json_of({"plan", "--store", "redis", "--users-per-request", "2", "--items", std::to_string(items)})["cluster"];
    for (std::uint64_t item = 0; item < items; ++item) REQUIRE(filter.record(items, item));
    const std::string key = filter.store().key_of(items);
    CHECK(cluster["value_bytes_per_user"] == server.call_integer({"STRLEN", key}));
    // Beside what MEMORY USAGE counts: the dictionary's tables, and names longer than these.
    const auto used = static_cast<double>(server.call_integer({"MEMORY", "USAGE", key}));
    CHECK(cluster["bytes_per_user"].get<double>() >= used);
    CHECK(cluster["bytes_per_user"].get<double>() <= used + 40);
  }
}

TEST_CASE("plan prices a windowed user in Redis within 15% of what RedisStore keeps") {
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  const RedisServer server;
  constexpr auto day = std::chrono::hours{24};
  seenby::Time now{std::chrono::seconds{1'700'006'400}};
  seenby::redis::RedisStore<std::uint64_t> store(server.socket_url(),
                                                 {.wrong_hide_rate = 0.01,
                                                  .users_per_request = 2,
                                                  .window = 30 * day,
                                                  .slices = 30,
                                                  .clock = seenby::Clock::simulated([&] { return now; })});
  for (const std::uint64_t items : {6U, 30U, 300U, 1'200U}) {
    INFO(items << " items");
    const auto cluster = json_of({"plan", "--store", "redis", "--users-per-request", "2", "--items",
                                  std::to_string(items), "--window", "30d", "--slices", "30"})["cluster"];
    // Two windows of them, one by one and evenly.
    for (std::uint64_t item = 0; item < 2 * items; ++item) {
      const std::uint64_t seen[] = {item};
      const seenby::Digest digests[] = {store.hasher()(item)};
      REQUIRE(store.record(items, seenby::ItemBatch<std::uint64_t>{seen, digests}));
      now += std::chrono::seconds(30 * day) / items;
    }
    const std::string key = store.key_of(items);
    CHECK(cluster["keys_per_user"] == 1);
    const auto value = static_cast<double>(server.call_integer({"STRLEN", key}));
    CHECK(cluster["value_bytes_per_user"].get<double>() == Approx(value).epsilon(0.15));
    // With the key's place among those that expire, and in the dictionary's tables, which MEMORY USAGE does not count.
    const auto used = static_cast<double>(server.call_integer({"MEMORY", "USAGE", key})) + 40;
    CHECK(cluster["bytes_per_user"].get<double>() == Approx(used + 24).epsilon(0.15));
  }
}
