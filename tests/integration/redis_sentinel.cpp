// SPDX-License-Identifier: MIT
// The master that Sentinels name, before and after failovers, on real servers.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/pool.hpp"
#include "seenby/metrics.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/redis_server.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::ErrorCode;
using seenby::redis::Command;
using seenby::redis::Deadline;
using seenby::redis::make_executor;
using seenby::test::RedisServer;
using seenby::test::TemporaryFolder;

/// A master, its replica, and a Sentinel that fails over after half a second.
struct Group {
  RedisServer first{"redis-server", {"--repl-diskless-sync-delay", "0"}};
  RedisServer second{"redis-server", {"--replicaof", "127.0.0.1", std::to_string(first.port())}};
  TemporaryFolder folder;
  std::unique_ptr<RedisServer> sentinel;

  Group() {
    wait_until([&] { return second.info("replication", "master_link_status") == "up"; });
    const std::string path = folder.path("sentinel.conf");
    std::ofstream(path) << "sentinel monitor shop 127.0.0.1 " << first.port() << " 1\n"
                        << "sentinel down-after-milliseconds shop 500\n"
                        << "sentinel failover-timeout shop 3000\n";
    sentinel = std::make_unique<RedisServer>("redis-server", std::vector<std::string>{}, path);
    wait_until([&] { return sentinel->call_string({"INFO", "sentinel"}).find("slaves=1") != std::string::npos; });
  }
  [[nodiscard]] std::string url(const std::string& more = "") const {
    return std::string("redis+sentinel://127.0.0.1:").append(std::to_string(sentinel->port())).append("/shop") + more;
  }
  template <class Ready>
  static void wait_until(Ready&& ready) {
    const auto deadline = Deadline::after(30s);
    while (!ready()) {
      REQUIRE_FALSE(deadline.passed());
      std::this_thread::sleep_for(20ms);
    }
  }
};

std::string port_of(seenby::redis::Executor& executor) {
  const auto info = Command::with_key(Command::no_key, "INFO", "server");
  const auto reply = execute_one(executor, info, Deadline::after(2s));
  if (!reply) return {};
  const std::string& text = *reply->string();
  const auto at = text.find("tcp_port:") + 9;
  return text.substr(at, text.find('\r', at) - at);
}

}  // namespace

TEST_CASE("After the master's death the next one answers, and what was replicated is there", "[redis][sentinel]") {
  Group group;
  using Store = seenby::redis::RedisStore<std::string>;
  seenby::SeenFilter filter{Store{group.url("?timeout_ms=500"), {.wrong_hide_rate = 0.01}}};
  filter.record("ann", 1).or_throw();
  filter.record("bob", 2).or_throw();
  Group::wait_until([&] { return group.second.call_integer({"DBSIZE"}) == group.first.call_integer({"DBSIZE"}); });

  group.first.kill_at_once();
  CHECK(filter.ask("ann", 1) == seenby::Answer::unknown);  // at once, or when its time is up
  Group::wait_until([&] { return filter.ask("ann", 1) == seenby::Answer::seen; });
  CHECK(filter.ask("bob", 2) == seenby::Answer::seen);
  CHECK(filter.ask("ann", 2) == seenby::Answer::unseen);
  filter.record("ann", 3).or_throw();
  CHECK(filter.ask("ann", 3) == seenby::Answer::seen);
  CHECK(group.second.info("replication", "role") == "master");

  // The counters of both masters' pools, through the store and on the page.
  CHECK(filter.store().connections().connects >= 2);
  CHECK(filter.store().connections().connect_failures >= 1);
  seenby::Metrics metrics;
  metrics.watch(filter, {{"filter", "shop"}});
  const std::string connects = std::to_string(filter.store().connections().connects);
  CHECK(metrics.text().find("seenby_redis_connects_total{filter=\"shop\"} " + connects + "\n") != std::string::npos);
}

TEST_CASE("A failover asked for loses no acknowledged record, whichever call meets the demoted master",
          "[redis][sentinel]") {
  Group group;
  using Store = seenby::redis::RedisStore<std::string>;
  seenby::SeenFilter filter{Store{group.url("?timeout_ms=500"), {.wrong_hide_rate = 0.01}}};
  filter.create("ann").or_throw();
  for (int failover = 0; failover < 2; ++failover) {
    const bool back = failover == 1;
    RedisServer& next = back ? group.first : group.second;
    Group::wait_until([&] {
      const auto reply = group.sentinel->call({"SENTINEL", "FAILOVER", "shop"});
      return reply.is_status("OK");
    });
    std::vector<std::uint64_t> recorded;
    std::uint64_t item = 1'000 * (static_cast<std::uint64_t>(failover) + 1);
    Group::wait_until([&] {
      if (filter.record("ann", ++item)) recorded.push_back(item);
      return next.info("replication", "role") == "master" && recorded.size() > 20;
    });
    // Both sides agree on who is the master before the count: a write that the old one took meanwhile is Redis's to
    // lose.
    Group::wait_until([&] { return filter.record("ann", ++item).has_value(); });
    CHECK(filter.ask("ann", item) == seenby::Answer::seen);
    Group::wait_until([&] {
      RedisServer& old = back ? group.second : group.first;
      return old.info("replication", "role") == "slave" && old.info("replication", "master_link_status") == "up";
    });
    CHECK(filter.record("ann", item + 1));
  }
}

TEST_CASE("A new connection to a demoted master is refused, so that no replica's answer is taken for the master's",
          "[redis][sentinel]") {
  RedisServer master;
  RedisServer replica{"redis-server", {"--replicaof", "127.0.0.1", std::to_string(master.port())}};
  const auto ping = Command::with_key(Command::no_key, "PING");
  using seenby::redis::ConnectionPool;
  ConnectionPool to_master{master.tcp(), {}, {.size = 1, .masters_only = true, .breaker = {}}};
  ConnectionPool to_replica{replica.tcp(), {}, {.size = 1, .masters_only = true, .breaker = {}}};
  CHECK(to_master.execute({&ping, 1}, Deadline::after(2s)));
  const auto refused = to_replica.execute({&ping, 1}, Deadline::after(2s));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unreachable);
  CHECK(refused.error().message.find("to be a master") != std::string::npos);
}

TEST_CASE("Sentinels that are away are passed over, and the one that answered is asked first from then on",
          "[redis][sentinel]") {
  Group group;
  const std::string live = std::to_string(group.sentinel->port());
  auto executor = make_executor("redis+sentinel://127.0.0.1:1,127.0.0.1:" + live + "/shop").value();
  CHECK(executor->name() == "redis+sentinel://127.0.0.1:1,127.0.0.1:" + live + "/shop");
  CHECK(executor->is_local());
  CHECK(port_of(*executor) == std::to_string(group.first.port()));
  group.sentinel->kill_at_once();
  CHECK(port_of(*executor) == std::to_string(group.first.port()));  // a known master needs no Sentinel
}

TEST_CASE("Without a Sentinel, or with a master that it does not know, the error says so", "[redis][sentinel]") {
  Group group;
  const auto ping = Command::with_key(Command::no_key, "PING");
  auto unknown = make_executor(group.url().append("s")).value();
  const auto no_master = execute_one(*unknown, ping, Deadline::after(1s));
  REQUIRE_FALSE(no_master);
  CHECK(no_master.error().code == ErrorCode::unreachable);
  CHECK(no_master.error().message.find("shops") != std::string::npos);
  auto away = make_executor("redis+sentinel://127.0.0.1:1/shop").value();
  const auto no_sentinel = execute_one(*away, ping, Deadline::after(1s));
  REQUIRE_FALSE(no_sentinel);
  CHECK(no_sentinel.error().code == ErrorCode::unreachable);
  CHECK(no_sentinel.error().message.find("no Sentinel names the master shop") != std::string::npos);
}
