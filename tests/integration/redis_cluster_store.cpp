// SPDX-License-Identifier: MIT
// RedisStore on a cluster: users over all nodes, slots that move under load, a master killed, a node stalled or full.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/cluster.hpp"
#include "seenby/redis/store.hpp"
#include "support/race.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/wait_until.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::uint64_t> users_up_to(std::uint64_t count) { return sequence(0, count); }

}  // namespace

TEST_CASE("A request for users of all nodes is answered in one go, scripts flushed or not", "[redis][cluster]") {
  for (const std::string& program : installed_servers()) {
    INFO(program);
    RedisCluster cluster(program, false);
    auto executor = std::make_shared<ClusterExecutor>(cluster.endpoints(), ConnectionOptions{});
    TruthfulHistory history;
    RedisStore<> store(executor, {.users_per_request = 60});
    store.set_replay(history.replay());
    for (const std::uint64_t user : users_up_to(60)) {
      history.append(user, sequence(user * 100, 20));
      REQUIRE(record(store, user, sequence(user * 100, 20)));
      if (user % 20 == 10) {
        for (std::size_t i = 0; i < 3; ++i) cluster.node(i).call_string({"SCRIPT", "FLUSH"});
      }
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(cluster.node(i).call_integer({"DBSIZE"}) > 5);
    const auto answer = ask(store, users_up_to(60), sequence(0, 6'000));
    for (const UserStatus& status : answer.status) CHECK(status.state == UserState::known);
    std::size_t lost = 0;
    for (const std::uint64_t user : users_up_to(60)) {
      for (const std::uint64_t item : sequence(user * 100, 20)) lost += answer.seen_by[item] == 0 ? 1U : 0U;
    }
    CHECK(lost == 0);
    // A wrong type on one node is that user's error alone.
    cluster.first_master_of(key_slot(store.key_of(3))).call({"DEL", store.key_of(3)});
    cluster.first_master_of(key_slot(store.key_of(3))).call({"RPUSH", store.key_of(3), "x"});
    const auto odd = ask(store, users_up_to(60), sequence(0, 100));
    REQUIRE(odd.status[3].state == UserState::unreachable);
    CHECK(odd.status[3].error->code == ErrorCode::wrong_type);
    CHECK(odd.status[4].state == UserState::known);
  }
}

TEST_CASE("The hot user's slot moves from node to node in the middle of the race, and nothing is lost or refused",
          "[redis][race][cluster][000-20]") {
  RedisCluster cluster("redis-server", false);
  auto executor = std::make_shared<ClusterExecutor>(cluster.endpoints(), ConnectionOptions{.command_timeout = 5s});
  RaceHistory history;
  RedisStore<std::uint64_t> store(executor, {.initial_items = 16, .growth_factor = 1.1}, {.timeout = 5s});
  store.set_replay(replay_of(history, store.hasher()));
  RaceOptions options{.duration = race_duration(3s)};
  options.seed = std::random_device{}();
  options.disturb_pause = 30ms;
  std::map<std::uint16_t, std::size_t> owners;
  options.disturb = [&](std::uint64_t user) {
    const std::uint16_t slot = key_slot(store.key_of(user));
    std::size_t& owner = owners.try_emplace(slot, cluster.first_master_index(slot)).first->second;
    cluster.move_slot(slot, cluster.node(owner), cluster.node((owner + 1) % 3), 1ms);
    owner = (owner + 1) % 3;
  };
  const RaceResult result = Race(store, history, options).run();
  const ClusterCounters counters = executor->counters();
  std::cout << "moving slots: " << result << "; " << counters.moved << " MOVED, " << counters.asked << " ASK, "
            << counters.retried << " retried, " << counters.topology_refreshes << " topologies\n";
  CHECK(result.false_negatives == 0);
  CHECK(result.lost_for_good == 0);
  CHECK(result.refused == 0);
  CHECK(result.unreachable == 0);
  CHECK(result.disturbances > 5);
  CHECK(counters.moved > 0);
  CHECK(result.checks > 5'000);
}

TEST_CASE("A master killed while eight threads record: right answers or typed errors in time, and the rebuild mends",
          "[redis][cluster][concurrent][002-12][002-13]") {
  RedisCluster cluster;
  auto executor = std::make_shared<ClusterExecutor>(cluster.endpoints(), ConnectionOptions{.command_timeout = 500ms});
  TruthfulHistory history;
  RedisStore<> store(executor, {.users_per_request = 30}, {.timeout = 1s, .rebuild_timeout = 3s});
  store.set_replay(history.replay());
  constexpr std::uint64_t users = 30;
  std::atomic<bool> stop{false};
  std::atomic<int> late{0};
  std::atomic<int> untyped{0};
  std::atomic<int> failed{0};
  std::atomic<std::uint64_t> recorded{0};
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> acknowledged;
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 8; ++id) {
    threads.emplace_back([&, id] {
      for (std::uint64_t i = 0; !stop; ++i) {
        const std::uint64_t user = (id * 7 + i) % users;
        const std::uint64_t item = id * 1'000'000 + i;
        history.append(user, {{item}});
        const auto before = std::chrono::steady_clock::now();
        const auto outcome = record(store, user, {item});
        // A record may take a few round trips, a rebuild among them.
        if (std::chrono::steady_clock::now() - before > 4s) ++late;
        ++recorded;
        if (outcome) {
          const std::lock_guard lock(mutex);
          acknowledged.emplace_back(user, item);
        } else {
          ++failed;
          const ErrorCode code = outcome.error().code;
          if (code != ErrorCode::unreachable && code != ErrorCode::timed_out) ++untyped;
          std::this_thread::sleep_for(5ms);
        }
      }
    });
  }
  const bool began = wait_until([&] { return recorded >= 2'000; });
  cluster.node(0).kill_at_once();
  const auto killed_at = std::chrono::steady_clock::now();
  std::size_t answered_meanwhile = 0;
  bool over = false;
  const std::string key = [&] {
    for (std::uint64_t user = 0;; ++user) {
      if (key_slot(store.key_of(user)) < cluster_slots / 3) return store.key_of(user);
    }
  }();
  while (!over && std::chrono::steady_clock::now() - killed_at < 30s) {
    const auto before = std::chrono::steady_clock::now();
    const auto answer = ask(store, users_up_to(users), {1, 2, 3});
    CHECK(std::chrono::steady_clock::now() - before < 2s);
    for (const UserStatus& status : answer.status) {
      if (status.state != UserState::unreachable) ++answered_meanwhile;
    }
    over = executor->master_of(key_slot(key), Deadline::after(1s)).value() == cluster.node(3).tcp();
    std::this_thread::sleep_for(20ms);
  }
  const std::uint64_t so_far = recorded;
  const bool went_on = wait_until([&] { return recorded >= so_far + 1'000; });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(began);
  CHECK(over);
  CHECK(went_on);
  CHECK(late == 0);
  CHECK(untyped == 0);
  CHECK(failed > 0);
  CHECK(answered_meanwhile > 0);
  CHECK(store.counters().write_failures == static_cast<std::uint64_t>(failed.load()));
  CHECK(store.counters().records == acknowledged.size());

  const auto unseen = [&] {
    std::size_t count = 0;
    for (std::uint64_t user = 0; user < users; ++user) {
      std::vector<std::uint64_t> items;
      for (const auto& [owner, item] : acknowledged) {
        if (owner == user) items.push_back(item);
      }
      const auto answer = ask(store, {user}, items);
      REQUIRE(answer.status[0].state != UserState::unreachable);
      count += items.size() - answer.seen();
    }
    return count;
  };
  // What the replica had not got yet when its master died is lost by the server; the rebuild has it from the history.
  std::cout << acknowledged.size() << " acknowledged, " << failed << " typed errors, " << unseen()
            << " lost by the failover\n";
  for (std::uint64_t user = 0; user < users; ++user) REQUIRE(store.rebuild(user));
  CHECK(unseen() == 0);
}

TEST_CASE("A node that stalls for two seconds costs its own users a typed error in time", "[redis][cluster]") {
  RedisCluster cluster("redis-server", false);
  auto executor = std::make_shared<ClusterExecutor>(cluster.endpoints(), ConnectionOptions{.command_timeout = 300ms});
  RedisStore<> store(executor, {.users_per_request = 30}, {.timeout = 300ms});
  for (const std::uint64_t user : users_up_to(30)) REQUIRE(record(store, user, {user}));
  cluster.node(1).call({"CLIENT", "PAUSE", "2000", "ALL"});
  const auto before = std::chrono::steady_clock::now();
  const auto answer = ask(store, users_up_to(30), sequence(0, 30));
  const auto took = std::chrono::steady_clock::now() - before;
  CHECK(took >= 290ms);
  CHECK(took < 900ms);
  std::size_t stalled = 0;
  for (const std::uint64_t user : users_up_to(30)) {
    const bool on_node_1 = &cluster.first_master_of(key_slot(store.key_of(user))) == &cluster.node(1);
    stalled += on_node_1 ? 1U : 0U;
    CHECK(answer.status[user].state == (on_node_1 ? UserState::unreachable : UserState::known));
    if (on_node_1) {
      REQUIRE(answer.status[user].error != nullptr);
      CHECK(answer.status[user].error->code == ErrorCode::timed_out);
    } else {
      CHECK(answer.seen_by[user] == 1);
    }
  }
  CHECK(stalled > 3);
  std::this_thread::sleep_for(2'000ms);
  const auto patience = Deadline::after(5s);
  auto after = ask(store, users_up_to(30), sequence(0, 30));
  while (after.seen() != 30 && !patience.passed()) after = ask(store, users_up_to(30), sequence(0, 30));
  CHECK(after.seen() == 30);
}

TEST_CASE("Eviction on a cluster makes users unknown, never wrongly unseen", "[redis][cluster][002-12]") {
  RedisCluster cluster("redis-server", false, {"--maxmemory-policy", "allkeys-lru"});
  TruthfulHistory history;
  RedisStore<> store(cluster.url(), {});
  store.set_replay(history.replay());
  constexpr std::uint64_t users = 300;
  constexpr std::size_t items = 300;
  for (std::uint64_t user = 0; user < users; ++user) {
    history.append(user, sequence(user * 1'000, items));
    REQUIRE(record(store, user, sequence(user * 1'000, items)));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const auto used = std::stoll(cluster.node(i).info("memory", "used_memory"));
    cluster.node(i).call({"CONFIG", "SET", "maxmemory", std::to_string(used - 20'000)});
  }
  // A write to each node makes it evict.
  for (std::uint64_t user = users; user < users + 20; ++user) static_cast<void>(store.create(user));
  std::size_t missing = 0;
  std::size_t wrong = 0;
  for (std::uint64_t user = 0; user < users; ++user) {
    const auto answer = ask(store, {user}, sequence(user * 1'000, items));
    REQUIRE(answer.status[0].state != UserState::unreachable);
    if (answer.status[0].state == UserState::missing) {
      ++missing;
    } else if (answer.seen() != items) {
      ++wrong;
    }
  }
  CHECK(missing > 0);
  CHECK(wrong == 0);
  for (std::size_t i = 0; i < 3; ++i) cluster.node(i).call({"CONFIG", "SET", "maxmemory", "0"});
  for (std::uint64_t user = 0; user < users; ++user) {
    REQUIRE(record(store, user, {user * 1'000}));
    REQUIRE(ask(store, {user}, sequence(user * 1'000, items)).seen() == items);
  }
}

TEST_CASE("Filters are read from replicas by choice, and written to masters", "[redis][cluster]") {
  RedisCluster cluster;
  cluster.wait_until_replicas_are_offered();
  auto executor = std::make_shared<ClusterExecutor>(parse_url(cluster.url() + "?replicas=1").value());
  RedisStore<> store(executor, {.users_per_request = 20});
  for (const std::uint64_t user : users_up_to(20)) REQUIRE(record(store, user, {user}));
  cluster.wait_for_replicas();
  const std::uint64_t before = executor->counters().replica_reads;
  const auto answer = ask(store, users_up_to(20), sequence(0, 20));
  CHECK(answer.seen() == 20);
  CHECK(executor->counters().replica_reads >= before + 20);
}
