#pragma once
// SPDX-License-Identifier: MIT
// What a Redis Cluster needs to hold users' records and to answer requests about them.

#include <cstdint>

namespace seenby::tool {

/// What the cluster is asked.
struct Traffic {
  double users = 1;
  double bytes_per_user = 0;  ///< the record itself
  double requests_per_second = 1;
  std::uint64_t users_per_request = 1;
  std::uint64_t candidates = 100;  ///< of a request
  std::uint64_t replicas = 1;      ///< of each node
  double node_bytes = 16e9;        ///< memory a node may use
};

/// What it takes. Microseconds are of the server's processor, as traffic.cpp says they were measured.
struct Cluster {
  std::uint64_t nodes = 1;        ///< that take writes
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

}  // namespace seenby::tool
