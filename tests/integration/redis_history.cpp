// SPDX-License-Identifier: MIT
// RedisHistory: what every history promises, in Redis, and what it trims.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "seenby/histories/replay.hpp"
#include "seenby/redis/history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/history_store.hpp"
#include "support/counting_executor.hpp"
#include "support/history_contract.hpp"
#include "support/picks.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using redis::RedisHistory;
using Integers = RedisHistory<std::uint64_t, std::uint64_t>;
using Texts = RedisHistory<std::string, std::string>;

std::uint64_t number(int n) { return static_cast<std::uint64_t>(n); }
std::string text(int n) { return std::string("us{e}r %7B \0 \xff ", 15).append(std::to_string(n)); }

TEST_CASE("RedisHistory keeps the contract of a history, with integers and with strings, and hides",
          "[redis][002-21][003-07]") {
  for (const std::string& program : installed_servers()) {
    INFO(program);
    const RedisServer server(program);
    auto integers = Integers::open(server.socket_url(), {.prefix = "n*[:"}).or_throw();
    check_history(integers, number, number);
    auto texts = Texts::open(server.socket_url()).or_throw();
    check_history(texts, text, text);
    auto same_integers = Integers::open(server.socket_url(), {.prefix = "n*[:"}).or_throw();
    check_hides(integers, same_integers, number, number);
    auto same_texts = Texts::open(server.socket_url()).or_throw();
    check_hides(texts, same_texts, text, text);
    CHECK(server.call_integer({"DBSIZE"}) == 2);  // what users and items are, of each
  }
}

TEST_CASE("RedisHistory loses nothing when users are merged while both are written", "[redis][concurrent]") {
  const RedisServer server;
  auto history = Integers::open(server.socket_url()).or_throw();
  check_history_under_merges(history, number, number, 300);
}

TEST_CASE("RedisHistory keeps what a window needs: items by time, and the newest of each user", "[redis]") {
  const RedisServer server;
  TestClock clock;
  const Time now = clock.now();
  auto month =
      Integers::open(server.socket_url(), {.prefix = "m:", .keep = 30 * day, .clock = clock.clock()}).or_throw();
  auto newest = Integers::open(server.socket_url(), {.prefix = "n:", .most_items = 3}).or_throw();
  for (const std::uint64_t user : {1U, 2U}) {
    // In any order; one second within the window is kept, the window's length ago is not.
    month.append(user, std::vector<std::uint64_t>{3}, now).or_throw();
    month.append(user, std::vector<std::uint64_t>{1}, now - 30 * day).or_throw();
    month.append(user, std::vector<std::uint64_t>{2}, now - 30 * day + std::chrono::seconds{1}).or_throw();
    CHECK(seen(month, user).size() == 2);
    CHECK(contained(month, user, {1, 2, 3}) == std::vector<std::uint8_t>{0, 1, 1});
    CHECK(server.call_integer({"TTL", "m:{" + std::to_string(user) + "}"}) > 29 * 86'400);
    for (const std::uint64_t item : {5U, 1U, 4U, 2U, 3U}) {
      newest.append(user, std::vector{item}, at(static_cast<std::int64_t>(item))).or_throw();
    }
    CHECK(contained(newest, user, {1, 2, 3, 4, 5}) == std::vector<std::uint8_t>{0, 0, 1, 1, 1});
    CHECK(server.call_integer({"HLEN", "n:{" + std::to_string(user) + "}:events"}) == 3);
  }
  // What leaves the window is not listed, before it is trimmed and after.
  clock.advance(day);
  CHECK(contained(month, 1, {2, 3}) == std::vector<std::uint8_t>{0, 1});
  CHECK(month.item_count(1).or_throw() == 1);
  CHECK(seen(month, 1).size() == 1);
  month.append(1, std::vector<std::uint64_t>{9}, clock.now()).or_throw();
  CHECK(server.call_integer({"ZCARD", "m:{1}"}) == 2);
  CHECK(server.call_integer({"HLEN", "m:{1}:events"}) == 2);
  CHECK(server.call_integer({"ZCARD", "m:{2}"}) == 2);
}

TEST_CASE("Many events of many users, many items of a question and a listing are one round trip each",
          "[redis][003-10]") {
  const RedisServer server;
  const auto counting = std::make_shared<CountingExecutor>(redis::make_executor(server.socket_url()).or_throw());
  auto history = Integers::open(counting).or_throw();
  std::vector<SeenEvent<std::uint64_t, std::uint64_t>> events;
  for (std::uint64_t n = 0; n < 1'000; ++n) events.push_back({n % 50, n, at(1'000), {}});
  CHECK(history.append(std::span<const SeenEvent<std::uint64_t, std::uint64_t>>(events)).or_throw() == 1'000);
  counting->trips = 0;
  CHECK(history.append(std::span<const SeenEvent<std::uint64_t, std::uint64_t>>(events)).or_throw() == 0);
  CHECK(counting->trips == 1);
  std::vector<std::uint8_t> out(500);
  history.contains(1, sequence(0, 500), out).or_throw();
  CHECK(counting->trips == 2);
  CHECK(history.seen_since(1).or_throw().size() == 20);
  CHECK(counting->trips == 3);
  // A page of two users over it, hides included, is one each.
  SeenFilter filter{HistoryStore{history}};
  CHECK(filter.hide(1, std::uint64_t{7}).or_throw());
  const CandidatePool pool{range(1, 10)};
  counting->trips = 0;
  CHECK(picked(filter.select_unseen(pool, {1, 2}, {.relax = {SeenByAtMost{2}}})) == Ids{3, 4, 5, 6, 8, 9, 1, 2});
  CHECK(counting->trips == 2);
  // However long the pool is.
  const CandidatePool long_pool{range(0, 5'000)};
  counting->trips = 0;
  CHECK(filter.select_unseen(long_pool, {1, 2}, {.limit = 10'000}).size() > 4'000);
  CHECK(counting->trips == 2);
}

TEST_CASE("A filter is rebuilt from a RedisHistory on the same server", "[redis][002-15]") {
  const RedisServer server;
  auto history = Integers::open(server.socket_url()).or_throw();
  redis::RedisStore<> store(server.socket_url(), {});
  store.set_replay(replay_of(history, store.hasher()));
  for (const std::uint64_t user : {1U, 2U}) {
    history.append(user, sequence(user * 1'000, 300), at(1'000)).or_throw();
    REQUIRE(record(store, user, {user * 1'000}));
    CHECK(ask(store, {user}, sequence(user * 1'000, 300)).seen() == 300);
  }
}

TEST_CASE("RedisHistory refuses other kinds, keys of someone else's, and what it cannot be asked of a cluster",
          "[redis]") {
  const RedisServer server;
  auto history = Integers::open(server.socket_url()).or_throw();
  const auto other = RedisHistory<std::string, std::uint64_t>::open(server.socket_url());
  CHECK(other.error().code == ErrorCode::parameter_mismatch);
  CHECK(other.error().message.find("integer integer, which it holds, got text integer") != std::string::npos);
  server.call({"SET", "seenby:history:{1}", "text"});
  CHECK(history.append(1, std::vector<std::uint64_t>{1}, at(1)).error().code == ErrorCode::wrong_type);
  CHECK(history.seen_since(1).error().code == ErrorCode::wrong_type);
  server.call({"SET", "seenby:history:{2}:hides", "text"});
  SeenFilter filter{HistoryStore{history}};
  CHECK(filter.ask(2, std::uint64_t{1}) == Answer::unknown);
  CHECK(filter.hide(2, std::uint64_t{1}).error().code == ErrorCode::wrong_type);
  CHECK(filter.hidden(2).error().code == ErrorCode::wrong_type);
  CHECK_THROWS_AS(Integers::open(server.socket_url(), {.prefix = "{"}), std::invalid_argument);
  CHECK_THROWS_AS(Integers::open(server.socket_url(), {.keep = std::chrono::seconds{-1}}), std::invalid_argument);
  const RedisCluster cluster("redis-server", false);
  auto sharded = Integers::open(cluster.url()).or_throw();
  for (const std::uint64_t user : {1U, 2U, 3U}) {
    sharded.append(user, std::vector<std::uint64_t>{user}, at(1)).or_throw();
    CHECK(contained(sharded, user, {user, 9}) == std::vector<std::uint8_t>{1, 0});
  }
  CHECK(sharded.users(std::nullopt, 10).error().code == ErrorCode::unavailable);
  CHECK(sharded.merge(1, 2).error().code == ErrorCode::unavailable);
  CHECK(sharded.item_count(1).or_throw() == 1);
}

}  // namespace
