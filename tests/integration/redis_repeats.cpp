// SPDX-License-Identifier: MIT
// At-least-once delivery: what is there already grows nothing, and a batch counts its distinct items.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "redis/protocol/store_value.hpp"
#include "seenby/filters/layout/split_block.hpp"
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

TEST_CASE("What only a filter behind the first may contain is recorded in the first, which outlives it", "[redis]") {
  const RedisServer server;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), {});
  store.set_replay(history.replay());
  const HashIdentity hash{HashKind::xxh3_64, seed_check(Xxh3Hash{})};
  const auto filter_of = [&](const std::vector<std::uint64_t>& items) {
    std::string value = make_frame(SplitBlockLayout::shape_for(16, 0.01), 0.01, hash);
    insert_into_first(value, decode_frame(value, 0, value.size(), hash)->header, digests_of(items));
    return value;
  };
  // The first is full to the last item; the one behind it is of a growth that others have won meanwhile.
  history.append(1, sequence(0, 10));
  std::string full = filter_of(sequence(0, 10));
  full[20] = static_cast<char>(sizing::capacity_of(SplitBlockLayout::shape_for(16, 0.01), 0.01));
  server.call({"SET", store.key_of(1), full + filter_of({7'000})});
  history.append(1, {{7'000}});
  REQUIRE(record(store, 1, {7'000}));
  const std::string value = server.call_string({"GET", store.key_of(1)});
  const auto first = decode_frame(value, 0, value.size(), hash).value();
  const auto* const bits = std::as_bytes(std::span(value)).data() + first.bits_at;
  CHECK(SplitBlockLayout::test(bits, first.header.shape, store.hasher()(std::uint64_t{7'000})));
}
