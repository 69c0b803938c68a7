// SPDX-License-Identifier: MIT
// The cluster executor against three masters and three replicas: slots, redirections, failover.

#include "support/redis_cluster.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/cluster.hpp"
#include "redis/transport/script.hpp"
#include "support/wait_until.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::RedisCluster;
using seenby::test::RedisServer;
using seenby::test::wait_until;

namespace {

Command set(const std::string& key, const std::string& value) { return Command::with_key(1, "SET", key, value); }
Command get(const std::string& key) { return Command::with_key(1, "GET", key); }
Command ping() { return Command().add("PING"); }

template <class Number>
std::string numbered(std::string_view prefix, Number number) {
  return std::string(prefix).append(std::to_string(number));
}

std::vector<Reply> all_of(Executor& executor, const std::vector<Command>& batch) {
  return executor.execute(batch, Deadline::after(5s)).value();
}

/// A key whose slot lies among those of the given master.
std::string key_at(std::size_t master) {
  for (int i = 0;; ++i) {
    std::string key = numbered("k", i);
    if (std::min<std::size_t>(key_slot(key) / (cluster_slots / 3), 2) == master) return key;
  }
}

std::vector<Command> sets(int count, const std::string& value) {
  std::vector<Command> batch;
  for (int i = 0; i < count; ++i) batch.push_back(set(numbered("user:", i), value + std::to_string(i)));
  return batch;
}

}  // namespace

TEST_CASE("Slots are the CRC-16 of the key or of its hash tag", "[redis][cluster]") {
  // The check value of CRC-16/XMODEM, which the cluster specification gives as well.
  CHECK(crc16("123456789") == 0x31c3);
  CHECK(crc16("") == 0);
  CHECK(key_slot("foo") == 12'182);
  CHECK(key_slot("bar") == 5'061);
  CHECK(key_slot("hello") == 866);
  CHECK(key_slot("somekey") == 11'058);
  CHECK(key_slot("{user1000}.following") == key_slot("{user1000}.followers"));
  CHECK(key_slot("{user1000}.following") == key_slot("user1000"));
  // Examples of the specification: an empty tag counts for nothing, the first tag and its first closing brace count.
  CHECK(key_slot("foo{}{bar}") == crc16("foo{}{bar}") % 16'384);
  CHECK(key_slot("foo{{bar}}zap") == key_slot("{bar"));
  CHECK(key_slot("foo{bar}{zap}") == key_slot("bar"));
  CHECK(key_slot("no}{tag") == crc16("no}{tag") % 16'384);
}

TEST_CASE("The server agrees on every key's slot", "[redis][cluster]") {
  const RedisServer server("redis-server", {"--cluster-enabled", "yes"});
  for (const std::string key : {"", "a", "foo{}{bar}", "x{y}z", "{", "}", "{}", "a{b", "a}b{c}", "\x00\xff{\xfe}"}) {
    CHECK(server.call_integer({"CLUSTER", "KEYSLOT", key}) == key_slot(key));
  }
}

TEST_CASE("A cluster answers one batch over all its nodes in order, through one seed", "[redis][cluster]") {
  RedisCluster cluster("redis-server", false);
  ClusterExecutor executor({cluster.node(1).tcp()}, {});
  const auto deadline = [] { return Deadline::after(5s); };
  for (const Reply& reply : all_of(executor, sets(300, "v"))) REQUIRE(reply.is_status("OK"));
  std::vector<Command> gets;
  for (int i = 299; i >= 0; --i) gets.push_back(get(numbered("user:", i)));
  gets.push_back(ping());
  const auto replies = executor.execute(gets, deadline()).value();
  for (int i = 0; i < 300; ++i) REQUIRE(*replies[static_cast<std::size_t>(i)].string() == numbered("v", 299 - i));
  CHECK(replies.back().is_status("PONG"));
  std::int64_t keys = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t here = cluster.node(i).call_integer({"DBSIZE"});
    CHECK(here > 50);
    keys += here;
  }
  CHECK(keys == 300);
  CHECK(executor.counters().moved == 0);
  CHECK(executor.counters().topology_refreshes == 1);
  CHECK(executor.execute({}, deadline()).value().empty());

  SECTION("a script is loaded into each node that lacks it") {
    const Script script("return redis.call('GET', KEYS[1])");
    for (std::size_t i = 0; i < 3; ++i) cluster.node(i).call({"SCRIPT", "FLUSH"});
    std::vector<Command> calls;
    for (int i = 0; i < 30; ++i) {
      const std::string key = numbered("user:", i);
      const std::string_view keys_of_call[] = {key};
      calls.push_back(script.call(keys_of_call, {}));
    }
    const std::vector<const Script*> scripts(calls.size(), &script);
    const auto answers = execute_scripts(executor, calls, scripts, deadline()).value();
    for (std::size_t i = 0; i < 30; ++i) REQUIRE(*answers[i].string() == numbered("v", i));
  }
  SECTION("a moved slot is followed, then known") {
    const std::uint16_t slot = key_slot("user:7");
    RedisServer& from = cluster.first_master_of(slot);
    RedisServer& to = &from == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
    cluster.move_slot(slot, from, to, 0ms);
    for (int i = 0; i < 3; ++i) CHECK(*execute_one(executor, get("user:7"), deadline()).value().string() == "v7");
    CHECK(executor.counters().moved == 1);
    CHECK(executor.master_of(slot, deadline()).value() == to.tcp());
  }
}

TEST_CASE("A slot that moves under load loses no write and no answer", "[redis][cluster][concurrent]") {
  RedisCluster cluster("redis-server", false);
  ClusterExecutor executor(cluster.endpoints(), {});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> asked{0};
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 1; !stop; ++i) {
        const std::string key = "{moving}" + std::to_string(id) + numbered(":", i % 50);
        const std::vector<Command> batch{set(key, std::to_string(i)), get(key),
                                         Command::with_key(1, "MGET", key, "{moving}x")};
        const auto replies = executor.execute(batch, Deadline::after(10s));
        const bool right = replies && (*replies)[1].is_status(std::to_string(i)) && (*replies)[2].array() != nullptr;
        if (!right) ++wrong;
        ++asked;
      }
    });
  }
  const std::uint16_t slot = key_slot("{moving}");
  const bool began = wait_until([&] { return asked >= 200; });
  RedisServer& home = cluster.first_master_of(slot);
  RedisServer& other = &home == &cluster.node(2) ? cluster.node(0) : cluster.node(2);
  cluster.move_slot(slot, home, other, 1ms);
  cluster.move_slot(slot, other, home, 1ms);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(began);
  CHECK(wrong == 0);
  CHECK(executor.counters().moved > 0);
  CHECK(executor.counters().asked > 0);
}

TEST_CASE("A master killed with kill -9 costs its own keys typed errors, then its replica answers",
          "[redis][cluster]") {
  RedisCluster cluster;
  ClusterExecutor executor(cluster.endpoints(), {.command_timeout = 500ms});
  std::map<std::size_t, std::string> keys;
  for (std::size_t i = 0; i < 3; ++i) keys[i] = key_at(i);
  for (const auto& [master, key] : keys) REQUIRE(execute_one(executor, set(key, "kept"), Deadline::after(2s)));
  cluster.wait_for_replicas();
  cluster.node(0).kill_at_once();

  const std::vector<Command> batch{get(keys[0]), get(keys[1]), get(keys[2])};
  const auto killed_at = std::chrono::steady_clock::now();
  bool failed_fast = false;
  bool failed_over = false;
  while (!failed_over && std::chrono::steady_clock::now() - killed_at < 30s) {
    const auto before = std::chrono::steady_clock::now();
    const auto replies = executor.execute(batch, Deadline::after(1s));
    const auto took = std::chrono::steady_clock::now() - before;
    REQUIRE(replies);
    REQUIRE(took < 1500ms);
    // The living answer for themselves all the time.
    REQUIRE((*replies)[1].is_status("kept"));
    REQUIRE((*replies)[2].is_status("kept"));
    if (const Error* error = (*replies)[0].error()) {
      REQUIRE((error->code == ErrorCode::unreachable || error->code == ErrorCode::timed_out));
      failed_fast = failed_fast || took < 50ms;
    } else {
      REQUIRE((*replies)[0].is_status("kept"));
      failed_over = true;
    }
    std::this_thread::sleep_for(10ms);
  }
  CHECK(failed_fast);
  CHECK(failed_over);
  CHECK(executor.master_of(key_slot(keys[0]), Deadline::after(1s)).value() == cluster.node(3).tcp());
  CHECK(execute_one(executor, set(keys[0], "written"), Deadline::after(2s)));
}

TEST_CASE("A caller who chooses to wait rides out a failover", "[redis][cluster]") {
  RedisCluster cluster;
  ClusterOptions options;
  options.wait_for_failover = true;
  ClusterExecutor executor(cluster.endpoints(), {.command_timeout = 500ms}, options);
  const std::string key = key_at(1);
  REQUIRE(execute_one(executor, set(key, "kept"), Deadline::after(2s)));
  cluster.wait_for_replicas();
  cluster.node(1).kill_at_once();
  const auto reply = execute_one(executor, get(key), Deadline::after(30s));
  REQUIRE(reply);
  CHECK(reply->is_status("kept"));
  CHECK(executor.counters().retried > 0);
}

TEST_CASE("Replicas serve reads when asked to, and only reads", "[redis][cluster]") {
  RedisCluster cluster;
  cluster.wait_until_replicas_are_offered();
  const auto url = parse_url(cluster.url() + "?replicas=1").value();
  ClusterExecutor executor(url);
  std::vector<Command> writes;
  std::vector<Command> reads;
  for (std::size_t i = 0; i < 3; ++i) {
    writes.push_back(set(key_at(i), "value"));
    // Bit 7 of 'v' is its lowest: 0x76.
    reads.push_back(Command::with_key(1, "BITFIELD_RO", key_at(i), "GET", "u8", "#0").reads_only());
  }
  for (const Reply& reply : all_of(executor, writes)) REQUIRE(reply.is_status("OK"));
  cluster.wait_for_replicas();
  for (int round = 0; round < 4; ++round) {
    for (const Reply& reply : all_of(executor, reads)) {
      REQUIRE(reply.array() != nullptr);
      CHECK(*reply.array()->front().integer() == 'v');
    }
    for (const Reply& reply : all_of(executor, writes)) CHECK(reply.is_status("OK"));
  }
  CHECK(executor.counters().replica_reads == 12);
  CHECK(executor.counters().moved == 0);
  CHECK(cluster.node(3).info("commandstats", "cmdstat_bitfield_ro").starts_with("calls=4,"));

  SECTION("a dead replica's reads go to its master") {
    for (std::size_t i = 3; i < 6; ++i) cluster.node(i).kill_at_once();
    for (int round = 0; round < 4; ++round) {
      for (const Reply& reply : all_of(executor, reads)) { REQUIRE(reply.array() != nullptr); }
    }
    CHECK(executor.counters().replica_reads == 12);
  }
}

TEST_CASE("A cluster that is not there is an error at once", "[redis][cluster]") {
  const Endpoint nobody{.host = "127.0.0.1", .port = seenby::test::free_port()};
  ClusterExecutor executor({nobody}, {});
  for (int i = 0; i < 5; ++i) {
    const auto outcome = executor.execute(std::vector<Command>{get("k")}, Deadline::after(2s));
    REQUIRE(!outcome);
    CHECK(outcome.error().code == ErrorCode::unreachable);
  }
  const RedisServer lonely("redis-server", {"--cluster-enabled", "yes"});
  ClusterExecutor unformed({lonely.tcp()}, {});
  CHECK(unformed.execute(std::vector<Command>{get("k")}, Deadline::after(200ms)).error().code ==
        ErrorCode::unreachable);
  const RedisServer alone;
  ClusterExecutor not_a_cluster({alone.tcp()}, {});
  CHECK(not_a_cluster.execute(std::vector<Command>{get("k")}, Deadline::after(200ms)).error().code ==
        ErrorCode::refused);
  CHECK_THROWS_AS(ClusterExecutor({}, {}), std::invalid_argument);
}

TEST_CASE("CLUSTERDOWN is tried again within the deadline and is an error after it", "[redis][cluster]") {
  RedisCluster cluster("redis-server", false, {"--cluster-require-full-coverage", "yes"});
  ClusterExecutor executor(cluster.endpoints(), {});
  const std::string key = key_at(0);
  REQUIRE(execute_one(executor, set(key, "v"), Deadline::after(2s)));
  // A slot without an owner takes the whole cluster down until it has one.
  cluster.node(2).call_string({"CLUSTER", "DELSLOTS", "16383"});
  const auto patience = Deadline::after(10s);
  while (!cluster.node(2).call({"GET", key_at(2)}).is_error() && !patience.passed()) std::this_thread::sleep_for(5ms);
  const std::string down = key_at(2);
  const auto before = std::chrono::steady_clock::now();
  const auto refused = execute_one(executor, get(down), Deadline::after(300ms));
  const auto took = std::chrono::steady_clock::now() - before;
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unreachable);
  CHECK(refused.error().message.starts_with("CLUSTERDOWN"));
  CHECK(took >= 290ms);
  CHECK(took < 600ms);
  std::thread mend([&] {
    std::this_thread::sleep_for(300ms);
    cluster.node(2).call_string({"CLUSTER", "ADDSLOTS", "16383"});
  });
  CHECK(execute_one(executor, get(down), Deadline::after(20s)));
  mend.join();
  CHECK(executor.counters().retried > 1);
}
