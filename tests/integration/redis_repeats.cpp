// SPDX-License-Identifier: MIT
// At-least-once delivery: what is there already grows nothing, and a batch counts its distinct items.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

/// All that is kept for a user, by STRLEN.
std::int64_t bytes_of(const RedisServer& server, const std::string& key) {
  std::int64_t bytes = server.call_integer({"STRLEN", key});
  const redis::Reply slices = server.call({"KEYS", key + ":*"});
  for (const redis::Reply& slice : *slices.array()) bytes += server.call_integer({"STRLEN", *slice.string()});
  return bytes;
}

}  // namespace

TEST_CASE("Items that are recorded again and again grow nothing", "[redis]") {
  const RedisServer server;
  for (const bool with_history : {false, true}) {
    for (const bool windowed : {false, true}) {
      for (const std::size_t batch : {std::size_t{1}, std::size_t{7}, std::size_t{100}}) {
        INFO((with_history ? "with" : "without")
             << " a history, " << (windowed ? "windowed" : "no window") << ", by " << batch);
        TruthfulHistory history;
        StorePolicy policy{.growth_factor = 1.5};
        if (windowed) policy.window = std::chrono::hours{24}, policy.slices = 2;
        RedisStore<> store(server.socket_url(), policy);
        if (with_history) store.set_replay(history.replay());
        const auto deliver = [&](std::uint64_t user) {
          for (std::uint64_t first = 0; first < 400; first += batch) {
            const auto items = sequence(first, batch);
            history.append(user, items);
            REQUIRE(record(store, user, items));
          }
        };
        for (const std::uint64_t user : {1U, 2U}) {
          REQUIRE(store.forget(user));
          deliver(user);
        }
        // Once more, since a filter that follows another is given what the others hold, too.
        deliver(1);
        const std::int64_t settled = bytes_of(server, store.key_of(1));
        for (int round = 0; round < 5; ++round) deliver(1);
        CHECK(bytes_of(server, store.key_of(1)) == settled);
        CHECK(settled <= 2 * bytes_of(server, store.key_of(2)));
        CHECK(ask(store, {1}, sequence(0, 400)).seen() == 400);
        CHECK(store.counters().over_budget == 0);
        for (const std::uint64_t user : {1U, 2U}) REQUIRE(store.forget(user));
      }
    }
  }
}

TEST_CASE("A first batch is sized by its distinct items", "[redis]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {});
  const std::vector<std::uint64_t> same(20'000, 7);
  REQUIRE(record(store, 1, same));
  REQUIRE(record(store, 2, {7}));
  CHECK(server.call_integer({"STRLEN", store.key_of(1)}) == server.call_integer({"STRLEN", store.key_of(2)}));
}
