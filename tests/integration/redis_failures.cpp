// SPDX-License-Identifier: MIT
// What RedisStore answers when the server dies, stalls, evicts, or holds something else under a key.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "seenby/filters/format.hpp"
#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using namespace std::chrono_literals;

namespace {

template <class Function>
std::chrono::milliseconds duration_of(Function&& function) {
  const auto before = std::chrono::steady_clock::now();
  function();
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - before);
}

}  // namespace

TEST_CASE("A server killed and restarted empty is a typed error, then unknown users, then rebuilt ones",
          "[redis][002-12][002-13]") {
  for (const std::string& program : installed_servers()) {
    INFO(program);
    RedisServer server(program);
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), {});
    store.set_replay(history.replay());
    history.append(1, sequence(0, 100));
    REQUIRE(record(store, 1, sequence(0, 100)));
    server.kill_at_once();
    const auto dead = ask(store, {1}, sequence(0, 100));
    CHECK(dead.status[0].state == UserState::unreachable);
    REQUIRE(dead.status[0].error != nullptr);
    CHECK(dead.status[0].error->code == ErrorCode::unreachable);
    CHECK(dead.seen() == 0);
    // The history has it, the filter does not: the item may be shown again, nothing else is lost, and it is counted.
    history.append(1, {{500}});
    const auto failed = record(store, 1, {500});
    REQUIRE_FALSE(failed.has_value());
    CHECK(failed.error().code == ErrorCode::unreachable);
    CHECK(store.counters().write_failures == 1);
    CHECK(store.counters().records == 100);
    server.start();
    const auto patience = Deadline::after(10s);
    while (ask(store, {1}, {1}).status[0].state == UserState::unreachable && !patience.passed()) {
      std::this_thread::sleep_for(5ms);
    }
    CHECK(ask(store, {1}, {1}).status[0].state == UserState::missing);
    history.append(1, {{501}});
    REQUIRE(record(store, 1, {501}));
    auto all = sequence(0, 100);
    all.push_back(500);
    all.push_back(501);
    CHECK(ask(store, {1}, all).seen() == all.size());
  }
}

TEST_CASE("Killed while eight threads record: every answer is right or a typed error, and nothing acknowledged is lost",
          "[redis][concurrent]") {
  RedisServer server;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), {}, {.timeout = 500ms});
  store.set_replay(history.replay());
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> acknowledged{0};
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 8; ++id) {
    threads.emplace_back([&, id] {
      for (std::uint64_t i = 0; !stop; ++i) {
        const std::uint64_t item = id * 1'000'000 + i;
        history.append(1, {{item}});
        if (!record(store, 1, {item})) {
          std::this_thread::sleep_for(1ms);
          continue;
        }
        ++acknowledged;
        const auto answer = ask(store, {1}, {item});
        if (answer.status[0].state == UserState::known && answer.seen() != 1) ++wrong;
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(150ms);
    server.kill_at_once();
    std::this_thread::sleep_for(50ms);
    server.start();
  }
  std::this_thread::sleep_for(500ms);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(acknowledged > 100);
}

TEST_CASE("SCRIPT FLUSH is not noticed", "[redis]") {
  for (const std::string& program : installed_servers()) {
    const RedisServer server(program);
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), {});
    store.set_replay(history.replay());
    for (std::uint64_t item = 0; item < 200; ++item) {
      if (item % 7 == 0) server.call({"SCRIPT", "FLUSH"});
      history.append(1, {{item}});
      REQUIRE(record(store, 1, {item}));
    }
    CHECK(ask(store, {1}, sequence(0, 200)).seen() == 200);
  }
}

TEST_CASE("Evicted filters and slices are unknown, never wrongly unseen, and the rebuild mends them",
          "[redis][002-12]") {
  for (const auto window : {0s, 2'592'000s}) {
    INFO("window " << window.count());
    const RedisServer server("redis-server", {"--maxmemory-policy", "allkeys-lru"});
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), {.window = window, .slices = window == 0s ? 1U : 3U});
    store.set_replay(history.replay());
    constexpr std::uint64_t users = 400;
    constexpr std::size_t items = 400;
    for (std::uint64_t user = 0; user < users; ++user) {
      history.append(user, sequence(user * 1'000, items));
      REQUIRE(record(store, user, sequence(user * 1'000, items)));
    }
    const auto all = std::stoll(server.info("memory", "used_memory"));
    server.call({"CONFIG", "SET", "maxmemory", std::to_string(all - 40'000)});
    // A write that makes the server evict.
    RedisServer::text_of(server.call({"SET", "ballast", std::string(20'000, 'x')}));
    std::size_t missing = 0;
    std::size_t wrong = 0;
    for (std::uint64_t user = 0; user < users; ++user) {
      const auto answer = ask(store, {user}, sequence(user * 1'000, items));
      if (answer.status[0].state == UserState::missing) {
        ++missing;
      } else if (answer.seen() != items) {
        ++wrong;
      }
    }
    CHECK(missing > 0);
    CHECK(missing < users);
    CHECK(wrong == 0);
    server.call({"CONFIG", "SET", "maxmemory", "0"});
    for (std::uint64_t user = 0; user < users; ++user) {
      REQUIRE(record(store, user, {user * 1'000}));
      const auto answer = ask(store, {user}, sequence(user * 1'000, items));
      REQUIRE(answer.status[0].state == UserState::known);
      REQUIRE(answer.seen() == items);
    }
  }
}

TEST_CASE("A full server refuses writes with a typed error and still answers", "[redis][002-13][002-16]") {
  const RedisServer server("redis-server", {"--maxmemory-policy", "noeviction"});
  RedisStore<> store(server.socket_url(), {});
  REQUIRE(record(store, 1, {1}));
  server.call({"CONFIG", "SET", "maxmemory", "1"});
  const auto refused = record(store, 1, {2});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::refused);
  CHECK(refused.error().message.find(store.key_of(1)) != std::string::npos);
  CHECK(store.counters().write_failures == 1);
  CHECK(ask(store, {1}, {1}).seen() == 1);
}

TEST_CASE("A key of another type is an error that names it, and the other users are answered", "[redis]") {
  for (const std::string& program : installed_servers()) {
    for (const auto window : {0s, 2'592'000s}) {
      const RedisServer server(program);
      RedisStore<> store(server.socket_url(), {.window = window, .slices = window == 0s ? 1U : 3U});
      REQUIRE(record(store, 2, {7}));
      server.call({"RPUSH", store.key_of(1), "not", "a", "filter"});
      const auto answer = ask(store, {1, 2}, {7});
      REQUIRE(answer.status[0].state == UserState::unreachable);
      CHECK(answer.status[0].error->code == ErrorCode::wrong_type);
      CHECK(answer.status[0].error->message.find(store.key_of(1)) != std::string::npos);
      CHECK(answer.status[1].state == UserState::known);
      CHECK(answer.seen_by[0] == 1);
      const auto refused = record(store, 1, {7});
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().code == ErrorCode::wrong_type);
      CHECK(refused.error().message.find(store.key_of(1)) != std::string::npos);
      CHECK(server.call_string({"TYPE", store.key_of(1)}) == "list");
    }
  }
}

TEST_CASE("Truncated, foreign and mismatched values are typed errors, never answers", "[redis]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.initial_items = 200});
  REQUIRE(record(store, 1, sequence(0, 100)));
  const std::string key = store.key_of(1);
  const std::string good = server.call_string({"GET", key});
  const auto code_of = [&](const std::string& value) {
    server.call({"SET", key, value});
    const auto answer = ask(store, {1}, sequence(0, 100));
    REQUIRE(answer.status[0].state == UserState::unreachable);
    CHECK(answer.status[0].error->message.find(key) != std::string::npos);
    CHECK(answer.seen() == 0);
    // A process that has never seen the key, so that it must read the header.
    RedisStore<> writer(server.socket_url(), {});
    (void)record(writer, 1, {5});
    return answer.status[0].error->code;
  };
  CHECK(code_of(good.substr(0, good.size() - 1)) == ErrorCode::truncated);
  CHECK(code_of(good.substr(0, 40)) == ErrorCode::truncated);
  CHECK(code_of(good.substr(0, 20)) == ErrorCode::truncated);
  CHECK(code_of(good + "x") == ErrorCode::truncated);
  CHECK(code_of("a session cookie, for all we know, and a long one") == ErrorCode::bad_magic);
  std::string newer = good;
  newer[0] = '\xb2';
  CHECK(code_of(newer) == ErrorCode::unsupported_version);
  std::string damaged = good;
  damaged[9] = static_cast<char>(damaged[9] ^ 1);
  CHECK(code_of(damaged) == ErrorCode::corrupt);
  // The article's own layout: a 5-bit exponent, then bits.
  CHECK(code_of(std::string("\x58") + std::string(256, '\x11')) == ErrorCode::bad_magic);
  RedisStore<> other_seed(server.socket_url(), {.seed = 99}, {.prefix = "other:"});
  REQUIRE(record(other_seed, 1, {1}));
  CHECK(code_of(server.call_string({"GET", other_seed.key_of(1)})) == ErrorCode::parameter_mismatch);
  RedisStore<std::uint64_t, Mix64Hash> other_hash(server.socket_url(), {}, {.prefix = "mix:"});
  const std::vector<std::uint64_t> items{1};
  const std::vector<Digest> digests{other_hash.hasher()(std::uint64_t{1})};
  REQUIRE(other_hash.record(1, ItemBatch<std::uint64_t>{items, digests}));
  CHECK(code_of(server.call_string({"GET", other_hash.key_of(1)})) == ErrorCode::parameter_mismatch);
  std::string classic_bytes(32 + 128, '\0');
  const auto bytes = std::as_writable_bytes(std::span(classic_bytes));
  encode_header(
      {.shape = {.layout = LayoutKind::classic, .hash_count = 7, .bits = 1'024}, .seed_check = seed_check(Xxh3Hash{})},
      bytes.subspan(32), bytes.first<32>());
  CHECK(code_of(classic_bytes) == ErrorCode::parameter_mismatch);
}

TEST_CASE("Writes to a truncated or foreign value are refused and leave it as it is", "[redis]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.initial_items = 200});
  REQUIRE(record(store, 1, sequence(0, 100)));
  const std::string key = store.key_of(1);
  const std::string cut = server.call_string({"GET", key}).substr(0, 32);
  for (const std::string& value : {cut, std::string("short"), std::string(64, 'z')}) {
    server.call({"SET", key, value});
    for (const bool known_before : {true, false}) {
      RedisStore<> fresh(server.socket_url(), {});
      const auto refused = record(known_before ? store : fresh, 1, {12'345});
      REQUIRE_FALSE(refused.has_value());
      CHECK((refused.error().code == ErrorCode::truncated || refused.error().code == ErrorCode::bad_magic));
      CHECK(refused.error().message.find(key) != std::string::npos);
    }
    CHECK(server.call_string({"GET", key}) == value);
  }
}

TEST_CASE("CLIENT KILL in the middle of a load is not noticed", "[redis][concurrent]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.initial_items = 5'000});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> lookups{0};
  REQUIRE(record(store, 1, sequence(0, 100)));
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto answer = ask(store, {1}, sequence(0, 100));
        ++lookups;
        if (answer.status[0].state == UserState::known && answer.seen() != 100) ++wrong;
        if (answer.status[0].state == UserState::missing) ++wrong;
        // A reply cut in half is an error, not an answer; it is rare, and it is typed.
        if (answer.status[0].state == UserState::unreachable &&
            answer.status[0].error->code != ErrorCode::unreachable) {
          ++wrong;
        }
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    server.call({"CLIENT", "KILL", "TYPE", "normal"});
    std::this_thread::sleep_for(4ms);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(lookups > 50);
  CHECK(ask(store, {1}, sequence(0, 100)).seen() == 100);
}

TEST_CASE("A stall of two seconds ends inside the deadline with a typed error, and the next answers are right",
          "[redis]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {}, {.timeout = 200ms});
  REQUIRE(record(store, 1, {1}));
  REQUIRE(record(store, 2, {2}));
  constexpr auto stall = 2s;
  server.call({"CLIENT", "PAUSE", "2000", "ALL"});
  const auto started = std::chrono::steady_clock::now();
  CheckAnswer answer;
  CHECK(duration_of([&] { answer = ask(store, {1}, {1}); }) < 1'500ms);
  CHECK(answer.status[0].state == UserState::unreachable);
  CHECK(answer.status[0].error->code == ErrorCode::timed_out);
  CHECK(duration_of([&] {
          const auto late = record(store, 1, {3});
          CHECK(late.error().code == ErrorCode::timed_out);
        }) < 1'500ms);
  // Three time-outs open the breaker: the stall costs nothing more.
  (void)ask(store, {1}, {1});
  CHECK(duration_of([&] {
          for (int i = 0; i < 20; ++i) CHECK(ask(store, {1}, {1}).status[0].state == UserState::unreachable);
        }) < 1'500ms);
  std::this_thread::sleep_until(started + stall);
  const auto patience = Deadline::after(10s);
  while (ask(store, {1}, {1}).status[0].state != UserState::known && !patience.passed()) {
    std::this_thread::sleep_for(10ms);
  }
  // No late reply answers the wrong request.
  for (int i = 0; i < 20; ++i) {
    CHECK(ask(store, {1}, {1, 2}).seen_by == std::vector<std::uint8_t>{1, 0});
    CHECK(ask(store, {2}, {1, 2}).seen_by == std::vector<std::uint8_t>{0, 1});
  }
}

TEST_CASE("A dead server costs a request microseconds", "[redis]") {
  RedisServer server;
  RedisStore<> store(server.tcp_url(), {});
  REQUIRE(record(store, 1, {1}));
  server.kill_at_once();
  for (int i = 0; i < 5; ++i) CHECK(ask(store, {1, 2}, {1}).status[1].state == UserState::unreachable);
  // The best of many small rounds: a busy machine may take any of them away from us.
  auto best = std::chrono::steady_clock::duration::max();
  for (int round = 0; round < 30; ++round) {
    constexpr int asked = 20;
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < asked; ++i) (void)ask(store, {1, 2}, {1});
    best = std::min(best, (std::chrono::steady_clock::now() - before) / asked);
  }
  CHECK(best < 50us);
}
