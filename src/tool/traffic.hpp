#pragma once
// SPDX-License-Identifier: MIT
// What a Redis Cluster needs to hold users' filters and to answer requests about them.

#include <cstdint>
#include <nlohmann/json.hpp>

#include "report.hpp"

namespace seenby::tool {

/// A user's values in Redis, as RedisStore writes them.
struct RedisUser {
  std::uint64_t keys = 1;
  bool expires = false;        ///< the key has a time to live
  double value_bytes = 0;      ///< of all of them together, headers included
  double allocated_bytes = 0;  ///< as Redis's allocator rounds them
};

/// A user who saw `items` one by one, with a history to grow from, in a filter of rate `fpr`.
[[nodiscard]] RedisUser redis_user(std::uint64_t items, double fpr);
/// A user of a window whose table holds `items`, recorded one by one, and may err `share`.
[[nodiscard]] RedisUser windowed_redis_user(std::uint64_t items, double share);

/// What the cluster is asked.
struct Traffic {
  double users = 1;
  RedisUser user{};
  double filter_fpr = 0.01;        ///< of each of a user's filters
  double requests_per_second = 0;  ///< 0: only memory decides
  std::uint64_t users_per_request = 1;
  std::uint64_t candidates = 100;  ///< of a request
  std::uint64_t replicas = 1;      ///< of each node
  double node_bytes = 16e9;        ///< memory a node may use
};

/// What it takes. Microseconds are of the server's processor, as traffic.cpp says they were measured.
struct Cluster {
  Traffic traffic;
  std::uint64_t nodes = 1;        ///< that take writes
  double bytes_per_user = 0;      ///< values, keys and what Redis keeps beside them
  double memory_bytes = 0;        ///< with all replicas
  double largest_node_users = 0;  ///< of the fullest node, with three standard deviations
  double largest_node_bytes = 0;
  double network_bytes_per_second = 0;
  double cpu_seconds_per_second = 0;
  double whole_value_bytes_cpu = 0;      ///< past this, reading by block is cheaper for the server
  double whole_value_bytes_network = 0;  ///< past this, for the network
};

[[nodiscard]] Cluster cluster_for(const Traffic& traffic);

/// The users of the fullest of `nodes` nodes that share 16,384 slots, each user in a slot by hash: a node has at most
/// one slot more than another, and the slots' sum lies 3 standard deviations above its mean.
[[nodiscard]] double largest_node_users(double users, std::uint64_t nodes);

/// The figures of a cluster, for either form of the command's output.
[[nodiscard]] nlohmann::ordered_json as_json(const Cluster& cluster);
void add_cluster(Report& report, const Cluster& cluster);

}  // namespace seenby::tool
