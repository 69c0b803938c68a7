// SPDX-License-Identifier: MIT
// SharedSet: many clients, one set, on real servers.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/metrics.hpp"
#include "seenby/redis/shared_set.hpp"
#include "support/binomial.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/shared_set_uses.hpp"

namespace {

using namespace seenby;
using redis::SharedSet;
using test::RedisServer;
using Set = SharedSet<std::uint64_t>;

Set open_set(const RedisServer& server, std::uint64_t items = 1'000, std::string name = "crawled") {
  return Set(redis::make_executor(server.socket_url()).value(), std::move(name), {.expected_items = items});
}

}  // namespace

TEST_CASE("What one client added another finds, and only the first is told that it is new", "[redis][001-08]") {
  for (const std::string& program : test::installed_servers()) {
    const RedisServer server(program);
    Set first = open_set(server);
    Set second = open_set(server);
    REQUIRE(first.create().value());
    CHECK_FALSE(second.create().value());
    CHECK(first.add(7).value());
    CHECK_FALSE(second.add(7).value());
    CHECK(second.may_contain(7).value());
    const auto items = test::sequence(100, 900);
    std::vector<std::uint8_t> fresh(items.size());
    REQUIRE(second.add(items, fresh));
    std::vector<std::uint8_t> found(items.size());
    REQUIRE(first.may_contain(items, found));
    for (const std::uint8_t one : found) REQUIRE(one == 1);
    const auto others = test::sequence(1'000'000, 10'000);
    std::vector<std::uint8_t> wrong(others.size());
    REQUIRE(first.may_contain(others, wrong));
    std::uint64_t errors = 0;
    for (const std::uint8_t one : wrong) errors += one;
    CHECK(errors <= test::most_hits(others.size(), 0.01));
    CHECK(first.info().value().items > 890);
    CHECK(first.drop().value());
    CHECK_FALSE(second.drop().value());
  }
}

TEST_CASE("Of clients that race for one item exactly one is told that it is new", "[redis][concurrent][001-08]") {
  const RedisServer server;
  REQUIRE(open_set(server, 10'000).create().value());
  std::atomic<std::uint64_t> told{0};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        Set set = open_set(server, 10'000);
        for (std::uint64_t item = 0; item < 500; ++item) told += set.add(item).value() ? 1U : 0U;
      });
    }
  }
  CHECK(told <= 500);
  CHECK(told >= 500 - test::most_hits(500, 0.01));
}

TEST_CASE("A set that is not there, of another seed, or lost a part is an error and never absent", "[redis][001-06]") {
  const RedisServer server;
  const auto executor = redis::make_executor(server.socket_url()).value();
  Set set = open_set(server, 2'000'000);  // three strings
  CHECK(set.may_contain(1).error().code == ErrorCode::unavailable);
  CHECK(set.add(1).error().code == ErrorCode::unavailable);
  REQUIRE(set.create());
  SharedSet<std::uint64_t> other(executor, "crawled", {.expected_items = 10}, Xxh3Hash{42});
  CHECK(other.may_contain(1).error().code == ErrorCode::parameter_mismatch);
  const auto deadline = redis::Deadline::after(std::chrono::seconds{1});
  const std::string lost_part = "seenby:set:{crawled}:" + std::to_string(set.info().value().version) + ":1";
  REQUIRE(redis::execute_one(*executor, redis::Command::with_key(1, "DEL", lost_part), deadline));
  std::uint64_t lost = 0;
  for (std::uint64_t item = 0; item < 50; ++item) {
    const auto found = set.may_contain(item);
    if (!found) CHECK(found.error().code == ErrorCode::unavailable);
    lost += found ? 0U : 1U;
    const auto added = set.add(item);
    CHECK(added.has_value() == found.has_value());
    if (!added) CHECK(added.error().code == ErrorCode::unavailable);
  }
  CHECK(lost > 5);
  CHECK_THROWS_AS(Set(executor, "a{b}", {.expected_items = 10}), std::invalid_argument);
}

TEST_CASE("Growth past what a set was sized for can be read, loses nothing, and ends with a rebuild",
          "[redis][001-08]") {
  const RedisServer server;
  Set set = open_set(server, 100);
  REQUIRE(set.create());
  const auto items = test::sequence(0, 400);
  REQUIRE(set.add(items, {}));
  const auto grown = set.info().value();
  CHECK(grown.expected_items == 100);
  CHECK(grown.items > 200);
  CHECK(grown.over_capacity());
  std::vector<std::uint8_t> found(items.size());
  REQUIRE(set.may_contain(items, found));
  CHECK(std::count(found.begin(), found.end(), 1) == 400);
  auto rebuild = set.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(items));
  REQUIRE(rebuild.commit());
  CHECK(set.info().value().expected_items == 1'000);
  CHECK_FALSE(set.info().value().over_capacity());
  REQUIRE(set.may_contain(items, found));
  CHECK(std::count(found.begin(), found.end(), 1) == 400);
}

TEST_CASE("What a rebuild scans again, or finds added already, is counted once", "[redis][001-08]") {
  const RedisServer server;
  Set set(redis::make_executor(server.socket_url()).value(), "crawled",
          {.expected_items = 10'000, .write_lag = std::chrono::seconds{60}});
  REQUIRE(set.create());
  REQUIRE(set.add(test::sequence(0, 200), {}));  // carried into the rebuild
  auto rebuild = set.begin_rebuild(10'000).value();
  REQUIRE(set.add(test::sequence(200, 200), {}));  // to both versions
  for (int scan = 0; scan < 3; ++scan) REQUIRE(rebuild.add(test::sequence(0, 1'000)));
  REQUIRE(set.add(test::sequence(900, 200), {}));  // half of them are new to it
  REQUIRE(rebuild.commit());
  const auto info = set.info().value();
  CHECK(info.items <= 1'100);
  CHECK(info.items >= 1'100 - test::most_hits(1'100, 0.01));
  CHECK_FALSE(info.over_capacity());
}

TEST_CASE("As many as a server writes in a minute are added at once and carried into a rebuild",
          "[redis][001-08][004-10]") {
  const RedisServer server;
  Set set(redis::make_executor(server.socket_url()).value(), "crawled",
          {.expected_items = 20'000, .write_lag = std::chrono::seconds{60}});
  REQUIRE(set.create());
  const auto items = test::sequence(0, 10'000);
  std::vector<std::uint8_t> fresh(items.size());
  REQUIRE(set.add(items, fresh));
  CHECK(std::count(fresh.begin(), fresh.end(), 1) > 9'800);
  auto rebuild = set.begin_rebuild(20'000);
  REQUIRE(rebuild);
  REQUIRE(rebuild->commit());
  std::vector<std::uint8_t> found(items.size());
  REQUIRE(set.may_contain(items, found));
  CHECK(std::count(found.begin(), found.end(), 1) == 10'000);
}

TEST_CASE("The shortener's codes: free is certain, a positive asks storage", "[redis][001-09]") {
  const RedisServer server;
  SharedSet<std::string> codes(redis::make_executor(server.socket_url()).value(), "codes", {.expected_items = 1'000});
  REQUIRE(codes.create());
  test::give_out_codes(codes);
}

TEST_CASE("Crawlers that share a set fetch every link, and a positive is confirmed", "[redis][concurrent][001-08]") {
  const RedisServer server;
  const auto open = [&] {
    return SharedSet<std::string>(redis::make_executor(server.socket_url()).value(), "links",
                                  {.expected_items = 1'000});
  };
  REQUIRE(open().create().value());
  test::crawl(open);
}

TEST_CASE("A set counts what it did, and a page tells it with the set's size", "[redis][metrics]") {
  RedisServer server;
  Set set = open_set(server, 100);
  CHECK_FALSE(set.may_contain(1));  // there is none yet
  REQUIRE(set.create());
  REQUIRE(set.add(7).value());
  CHECK_FALSE(set.add(7).value());
  REQUIRE(set.add(test::sequence(1'000, 10), {}));  // nobody asked which are new
  REQUIRE(set.may_contain(7).value());
  std::vector<std::uint8_t> found(3);
  REQUIRE(set.may_contain(std::vector<std::uint64_t>{7, 1'000, 1'001}, found));
  std::uint64_t absent = 1'000'000;
  std::uint64_t asked = 4;
  for (++asked; set.may_contain(absent).value(); ++asked) ++absent;
  const auto before = set.counters();
  CHECK(before.adds == 12);
  CHECK(before.added_new == 1);
  CHECK(before.checks == asked);
  CHECK(before.negatives == 1);
  CHECK(before.failures == 1);
  CHECK(before.over_capacity == 0);
  auto rebuild = set.begin_rebuild(20).value();
  REQUIRE(rebuild.add(test::sequence(0, 40)));
  REQUIRE(rebuild.commit());
  REQUIRE(set.add(3));  // of a set for 20 that holds 40
  CHECK(set.counters().over_capacity == 1);
  CHECK(set.counters().rebuilds == 1);

  Metrics metrics;
  metrics.watch(set, {{"set", "crawled"}});
  const auto has = [](const std::string& page, const std::string& name, std::uint64_t value) {
    const std::string line = std::string("\n").append(name).append("{set=\"crawled\"} ");
    return page.find(line + std::to_string(value) + "\n") != std::string::npos;
  };
  const std::string page = metrics.text();
  CHECK(has(page, "seenby_set_adds_total", 13));
  CHECK(has(page, "seenby_set_negatives_total", 1));
  CHECK(has(page, "seenby_set_up", 1));
  CHECK(has(page, "seenby_set_capacity_items", 20));
  CHECK(has(page, "seenby_set_items", set.info().value().items));
  server.kill_at_once();
  CHECK_FALSE(set.add(4));
  const std::string without = metrics.text();
  CHECK(has(without, "seenby_set_up", 0));
  CHECK(has(without, "seenby_set_items_failed_total", 2));
  CHECK(without.find("seenby_set_capacity_items") == std::string::npos);  // unknown is no size
}
