// SPDX-License-Identifier: MIT
// A damaged value is noticed by the next record: healed from the history, or told.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

/// What may have become of a value.
std::vector<std::string> damaged(const std::string& value) {
  std::string bit_flipped = value;
  bit_flipped[5] = static_cast<char>(bit_flipped[5] ^ 0x10);  // in the size
  return {value + "x",         value + std::string(40, '\0'), value.substr(0, value.size() - 5),
          value.substr(0, 40), value.substr(0, 20),           value.substr(0, 1),
          bit_flipped};
}

StorePolicy policy_of(bool windowed) {
  if (!windowed) return {};
  return {.window = std::chrono::hours{24 * 30}, .slices = 6};
}

}  // namespace

TEST_CASE("A damaged filter heals from the history with the next record, with a window and without", "[redis]") {
  for (const bool windowed : {false, true}) {
    const RedisServer server;
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), policy_of(windowed));
    store.set_replay(history.replay());
    const auto filter_key = [&](std::uint64_t user) { return store.key_of(user); };
    history.append(1, sequence(0, 30));
    history.append(2, sequence(0, 10));
    REQUIRE(record(store, 1, sequence(0, 30)));
    REQUIRE(record(store, 2, sequence(0, 10)));
    const auto values = damaged(server.call_string({"GET", filter_key(1)}));
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO("damage " << i << (windowed ? " in a window" : ""));
      server.call({"SET", filter_key(1), values[i], "KEEPTTL"});
      const auto broken = ask(store, {1, 2}, sequence(0, 30));
      REQUIRE(broken.status[0].state == UserState::unreachable);
      CHECK(broken.status[1].state == UserState::known);
      // By one item, as a rule, and by a batch that is swapped in whole.
      const std::size_t count = i % 2 == 0 ? 1 : 100;
      const auto more = sequence(1'000 + 1'000 * i, count);
      history.append(1, more);
      const auto recorded = record(store, 1, more);
      INFO((recorded ? "recorded" : recorded.error().message));
      REQUIRE(recorded);
      CHECK(ask(store, {1}, sequence(0, 30)).seen() == 30);
      CHECK(ask(store, {1}, more).seen() == count);
      CHECK(ask(store, {2}, sequence(0, 10)).seen() == 10);
      // On request, too.
      server.call({"SET", filter_key(1), values[i], "KEEPTTL"});
      REQUIRE(store.rebuild(1));
      CHECK(ask(store, {1}, more).seen() == count);
    }
  }
}

TEST_CASE("Without a history a record of a damaged filter says so", "[redis]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {});
  REQUIRE(record(store, 1, sequence(0, 30)));
  for (const std::string& value : damaged(server.call_string({"GET", store.key_of(1)}))) {
    server.call({"SET", store.key_of(1), value});
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}}) {
      const auto refused = record(store, 1, sequence(0, count));
      REQUIRE_FALSE(refused);
      CHECK((refused.error().code == ErrorCode::truncated || refused.error().code == ErrorCode::corrupt));
      CHECK(refused.error().message.find(store.key_of(1)) != std::string::npos);
    }
  }
  CHECK(store.counters().write_failures > 0);
  REQUIRE(store.forget(1));
  REQUIRE(record(store, 1, {1}));
}

TEST_CASE("A list of slices that was cut is made anew by the next record", "[redis]") {
  const RedisServer server;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), policy_of(true));
  store.set_replay(history.replay());
  history.append(1, sequence(0, 30), system_time() - std::chrono::hours{24 * 12});
  history.append(1, sequence(30, 30));
  REQUIRE(record(store, 1, sequence(30, 30)));
  const std::string list = server.call_string({"GET", store.key_of(1)});
  for (const std::size_t bytes : {list.size() - 3, std::size_t{17}, std::size_t{10}, std::size_t{1}}) {
    INFO(bytes);
    server.call({"SET", store.key_of(1), list.substr(0, bytes)});
    REQUIRE(ask(store, {1}, {1}).status[0].state == UserState::unreachable);
    REQUIRE(record(store, 1, {31}));
    CHECK(ask(store, {1}, sequence(0, 60)).seen() == 60);
  }
}

TEST_CASE("A value that is nobody's filter is never replaced", "[redis]") {
  const RedisServer server;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), {});
  store.set_replay(history.replay());
  history.append(1, sequence(0, 30));
  for (const std::string& value : {std::string("hello"), std::string(100, 'x')}) {
    server.call({"SET", store.key_of(1), value});
    CHECK(record(store, 1, {1}).error().code == ErrorCode::bad_magic);
    CHECK_FALSE(store.rebuild(1));
    CHECK(server.call_string({"GET", store.key_of(1)}) == value);
  }
}
