// SPDX-License-Identifier: MIT
// SharedBloomSet: one key of the module, shared with its other clients; on a peer that plays the module, and on the
// module where there is one.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/metrics.hpp"
#include "seenby/redis/shared_bloom_set.hpp"
#include "support/bloom_peer.hpp"
#include "support/redis_server.hpp"
#include "support/shared_set_uses.hpp"

/// `module` is the path of RedisBloom; skips the test aloud where none is given.
#define SEENBY_NEED_REDISBLOOM(module)                                \
  const char* const module = std::getenv("SEENBY_REDISBLOOM_MODULE"); \
  if (module == nullptr) SKIP("SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so (2.8)")

namespace {

using namespace seenby;
using test::BloomPeer;
using test::RedisServer;
using Set = redis::SharedBloomSet<std::string>;

Set open_set(const std::string& url, std::string key = "myfilter", redis::RedisBloomOptions options = {}) {
  return Set(redis::make_executor(url).value(), std::move(key), std::move(options));
}

/// Another client of the module, at the same server.
redis::Reply run(const std::string& url, const redis::Command& command) {
  const auto executor = redis::make_executor(url).value();
  return redis::execute_one(*executor, command, redis::Deadline::after(std::chrono::seconds{1})).value();
}

void is_shared(const std::string& url) {
  Set first = open_set(url);
  Set second = open_set(url);
  CHECK(first.may_contain("a").error().code == ErrorCode::unavailable);
  REQUIRE(first.create());
  REQUIRE(second.create());  // which keeps what is there
  CHECK(first.add("a").value());
  CHECK_FALSE(second.add("a").value());
  CHECK(second.may_contain("a").value());
  CHECK_FALSE(second.may_contain("b").value());
  CHECK(*run(url, redis::Command::with_key(1, "BF.EXISTS", "myfilter", "a")).integer() == 1);
  CHECK(*run(url, redis::Command::with_key(1, "BF.ADD", "myfilter", "b")).integer() == 1);
  CHECK(first.may_contain("b").value());
  CHECK_FALSE(first.add("b").value());
  REQUIRE(second.create());
  CHECK(first.may_contain("a").value());
}

void uses_hold(const std::string& url) {
  Set codes = open_set(url, "codes");
  REQUIRE(codes.create());
  test::give_out_codes(codes);
  REQUIRE(open_set(url, "links").create());
  test::crawl([&] { return open_set(url, "links"); });
}

}  // namespace

TEST_CASE("A set under the module's key is shared with its other clients", "[redis][001-05][001-06][001-08]") {
  const BloomPeer peer;
  is_shared(peer.url());
}

TEST_CASE("A set under the key of the module itself is shared with its other clients",
          "[redis][001-05][001-06][001-08]") {
  SEENBY_NEED_REDISBLOOM(module);
  is_shared(RedisServer("redis-server", {"--loadmodule", module}).socket_url());
}

TEST_CASE("The shortener's codes and the crawlers' links in a set of the module",
          "[redis][concurrent][001-08][001-09]") {
  const BloomPeer peer;
  uses_hold(peer.url());
}

TEST_CASE("The shortener's codes and the crawlers' links in a set of the module itself",
          "[redis][concurrent][001-08][001-09]") {
  SEENBY_NEED_REDISBLOOM(module);
  uses_hold(RedisServer("redis-server", {"--loadmodule", module}).socket_url());
}

TEST_CASE("Of clients of the module that race for one item exactly one is told that it is new",
          "[redis][concurrent][001-06][001-08]") {
  const BloomPeer peer;
  REQUIRE(open_set(peer.url()).create());
  std::atomic<int> told{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      Set set = open_set(peer.url());
      for (int item = 0; item < 100; ++item) told += set.add(std::to_string(item)).value_or(false) ? 1 : 0;
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(told == 100);  // the peer's filter never errs
}

TEST_CASE("The first add makes the filter by the set's options, as the module is told them",
          "[redis][001-05][001-07][001-08]") {
  const BloomPeer peer;
  Set set = open_set(peer.url(), "myfilter", {.capacity = 5'000, .error_rate = 1e-7, .expansion = 4});
  CHECK(set.add("a").value());
  const auto sent = peer.commands();
  const auto made = std::ranges::find_if(sent, [](const auto& words) { return words[0] == "EVAL" && words[4] == "1"; });
  REQUIRE(made != sent.end());
  CHECK((*made)[3] == "myfilter");  // no prefix of ours
  CHECK((*made)[5] == "1e-07");
  CHECK((*made)[6] == "5000");
  CHECK((*made)[7] == "4");
}

TEST_CASE("An error of the module is neither yes nor no", "[redis][001-06][001-08]") {
  BloomPeer peer;
  Set set = open_set(peer.url());
  REQUIRE(set.create());
  REQUIRE(set.add("a"));
  SECTION("the key holds something else") {
    peer.run({"SET", "myfilter", "x"});
    CHECK(set.may_contain("a").error().code == ErrorCode::wrong_type);
    CHECK(set.add("a").error().code == ErrorCode::wrong_type);
    CHECK(set.create().error().code == ErrorCode::wrong_type);
  }
  SECTION("the module is gone") {
    peer.unload();
    CHECK(set.may_contain("a").error().code == ErrorCode::unavailable);
    CHECK(set.add("b").error().code == ErrorCode::unavailable);
    Set other = open_set(peer.url());
    CHECK(other.create().error().code == ErrorCode::unavailable);
  }
  SECTION("the key is gone") {
    peer.run({"DEL", "myfilter"});
    CHECK(set.may_contain("a").error().code == ErrorCode::unavailable);
  }
}

TEST_CASE("A full set grows by its expansion, or refuses what it has no room for and keeps the rest",
          "[redis][001-06][001-08]") {
  BloomPeer peer;
  Set growing = open_set(peer.url(), "growing", {.capacity = 10, .expansion = 2});
  for (int i = 0; i < 70; ++i) REQUIRE(growing.add(std::to_string(i)).value());
  CHECK(peer.filters("growing") == 3);  // 10, 20 and 40
  for (int i = 0; i < 70; ++i) CHECK(growing.may_contain(std::to_string(i)).value());
  Set fixed = open_set(peer.url(), "fixed", {.capacity = 10, .expansion = 0});
  for (int i = 0; i < 10; ++i) REQUIRE(fixed.add(std::to_string(i)).value());
  CHECK(fixed.add("one more").error().code == ErrorCode::too_large);
  CHECK_FALSE(fixed.add("3").value());  // is there
  for (int i = 0; i < 10; ++i) CHECK(fixed.may_contain(std::to_string(i)).value());
  CHECK_FALSE(fixed.may_contain("one more").value());
}

TEST_CASE(
    "A filter that is filled beside the old one and renamed over it answers at once, and a lookup that a switch "
    "meets is no \"no\"",
    "[redis][001-06][001-08]") {
  BloomPeer peer;
  const Set set = open_set(peer.url());
  peer.run({"BF.MADD", "myfilter", "a"});
  CHECK(set.may_contain("a").value());
  peer.run({"BF.RESERVE", "next", "0.01", "1000"});
  peer.run({"BF.MADD", "next", "a", "b"});
  CHECK_FALSE(set.may_contain("b").value());
  peer.run({"RENAME", "next", "myfilter"});
  CHECK(set.may_contain("a").value());
  CHECK(set.may_contain("b").value());
  // Dropped and filled again by a client that does not know better: between the first TYPE and BF.MEXISTS.
  int dropped = 0;
  peer.before("BF.MEXISTS", [&] { dropped += peer.drop("myfilter") ? 1 : 0; });
  CHECK(set.may_contain("a").error().code == ErrorCode::unavailable);
  CHECK(dropped == 1);
}

TEST_CASE("A set under the module's key counts what it did", "[redis][metrics]") {
  const BloomPeer peer;
  Set set = open_set(peer.url());
  CHECK_FALSE(set.may_contain("a"));  // no filter: neither yes nor no
  REQUIRE(set.create());
  CHECK(set.add("a").value());
  CHECK_FALSE(set.add("a").value());
  CHECK(set.may_contain("a").value());
  CHECK_FALSE(set.may_contain("b").value());
  CHECK_FALSE(set.may_contain("c").value());
  const auto counted = set.counters();
  CHECK(counted.adds == 2);
  CHECK(counted.added_new == 1);
  CHECK(counted.checks == 3);
  CHECK(counted.negatives == 2);
  CHECK(counted.failures == 1);
  Metrics metrics;
  metrics.watch(set, {{"set", "links"}});
  CHECK(metrics.text().find("\nseenby_set_negatives_total{set=\"links\"} 2\n") != std::string::npos);
}
