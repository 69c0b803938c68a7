#pragma once
// SPDX-License-Identifier: MIT
// RedisCluster: three masters and three replicas of the test's own, on loopback ports, ended by process id.

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/cluster.hpp"
#include "support/redis_server.hpp"

namespace seenby::test {

/// A cluster, formed with cluster commands alone. Node i below `masters` starts as a master, node i + masters as its
/// replica.
class RedisCluster {
 public:
  static constexpr std::size_t masters = 3;

  explicit RedisCluster(const std::string& program = "redis-server", bool with_replicas = true,
                        std::vector<std::string> extra = {}) {
    std::vector<std::string> arguments{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                                       // Long enough for a machine under load, short enough for a test of failover.
                                       "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
                                       "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    for (std::size_t i = 0; i < masters * (with_replicas ? 2 : 1); ++i) {
      nodes_.push_back(std::make_unique<RedisServer>(program, arguments));
    }
    form();
  }

  [[nodiscard]] RedisServer& node(std::size_t index) { return *nodes_[index]; }
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  [[nodiscard]] std::string url() const {
    std::string text = "redis-cluster://";
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      text.append(i == 0 ? "" : ",").append("127.0.0.1:").append(std::to_string(nodes_[i]->port()));
    }
    return text;
  }
  [[nodiscard]] std::vector<redis::Endpoint> endpoints() const {
    std::vector<redis::Endpoint> list;
    for (const auto& server : nodes_) list.push_back(server->tcp());
    return list;
  }
  /// The node that serves a slot at first.
  [[nodiscard]] std::size_t first_master_index(std::uint16_t slot) const {
    return std::min<std::size_t>(slot / slots_each, masters - 1);
  }
  [[nodiscard]] RedisServer& first_master_of(std::uint16_t slot) { return *nodes_[first_master_index(slot)]; }
  [[nodiscard]] std::string id_of(const RedisServer& server) const { return server.call_string({"CLUSTER", "MYID"}); }

  /// Waits until CLUSTER SLOTS names the replicas: a node does so once it has heard of their offsets, which takes
  /// seconds of gossip.
  void wait_until_replicas_are_offered() {
    wait("the replicas to be offered", [&](const RedisServer& server) { return offers_replicas(server); });
  }
  /// Waits until every replica has everything its master wrote before the call. (WAIT counts only the writes of its
  /// own connection.)
  void wait_for_replicas() const {
    for (std::size_t i = masters; i < nodes_.size(); ++i) {
      const auto written = std::stoll(nodes_[i - masters]->info("replication", "master_repl_offset"));
      wait_for("a replica to catch up",
               [&] { return std::stoll(nodes_[i]->info("replication", "slave_repl_offset")) >= written; });
    }
  }

  /// Moves a slot with its keys from one master to another the way redis-cli does, `pause` between keys.
  void move_slot(std::uint16_t slot, RedisServer& from, RedisServer& to, std::chrono::milliseconds pause) {
    const std::string number = std::to_string(slot);
    to.call_string({"CLUSTER", "SETSLOT", number, "IMPORTING", id_of(from)});
    from.call_string({"CLUSTER", "SETSLOT", number, "MIGRATING", id_of(to)});
    while (true) {
      const redis::Reply keys = from.call({"CLUSTER", "GETKEYSINSLOT", number, "1"});
      if (keys.array() == nullptr || keys.array()->empty()) break;
      from.call_string(
          {"MIGRATE", "127.0.0.1", std::to_string(to.port()), *keys.array()->front().string(), "0", "5000"});
      std::this_thread::sleep_for(pause);
    }
    to.call_string({"CLUSTER", "SETSLOT", number, "NODE", id_of(to)});
    from.call_string({"CLUSTER", "SETSLOT", number, "NODE", id_of(to)});
  }

 private:
  static constexpr std::size_t slots_each = redis::cluster_slots / masters;

  void form() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i]->call_string({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
    }
    for (std::size_t i = 0; i < masters; ++i) {
      const std::size_t end = i + 1 == masters ? redis::cluster_slots : (i + 1) * slots_each;
      nodes_[i]->call_string({"CLUSTER", "ADDSLOTSRANGE", std::to_string(i * slots_each), std::to_string(end - 1)});
    }
    for (std::size_t i = 1; i < nodes_.size(); ++i) {
      nodes_[0]->call_string({"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[i]->port())});
    }
    wait("every node to know every other", [&](RedisServer& server) {
      return server.call_string({"CLUSTER", "INFO"}).find("cluster_known_nodes:" + std::to_string(size())) !=
             std::string::npos;
    });
    for (std::size_t i = masters; i < nodes_.size(); ++i) replicate(*nodes_[i], id_of(*nodes_[i - masters]));
    wait("the cluster to be whole", [&](RedisServer& server) {
      const std::string info = server.call_string({"CLUSTER", "INFO"});
      return info.find("cluster_state:ok") != std::string::npos &&
             info.find("cluster_slots_ok:16384") != std::string::npos && knows_replicas(server);
    });
  }

  static void replicate(RedisServer& replica, const std::string& master) {
    // Refused until the master's handshake is over.
    wait_for("a replica to find its master", [&] {
      return !replica.call({"CLUSTER", "REPLICATE", master}).is_error();
    });
  }
  [[nodiscard]] bool knows_replicas(const RedisServer& server) const {
    std::istringstream lines(server.call_string({"CLUSTER", "NODES"}));
    std::size_t replicas = 0;
    for (std::string line; std::getline(lines, line);) replicas += line.find("slave") != std::string::npos ? 1U : 0U;
    return replicas == nodes_.size() - masters;
  }
  [[nodiscard]] bool offers_replicas(const RedisServer& server) const {
    const redis::Reply slots = server.call({"CLUSTER", "SLOTS"});
    if (slots.array() == nullptr || slots.array()->size() != masters) return false;
    const std::size_t wanted = 2 + nodes_.size() / masters;
    return std::all_of(slots.array()->begin(), slots.array()->end(),
                       [&](const redis::Reply& range) { return range.array()->size() == wanted; });
  }
  template <class Condition>
  void wait(const std::string& what, Condition condition) {
    for (const auto& server : nodes_) wait_for(what, [&] { return condition(*server); });
  }
  template <class Condition>
  static void wait_for(const std::string& what, Condition condition) {
    const auto deadline = redis::Deadline::after(std::chrono::seconds(30));
    while (!condition()) {
      if (deadline.passed()) throw std::runtime_error("waited 30 s for " + what);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace seenby::test
