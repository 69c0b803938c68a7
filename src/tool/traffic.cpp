// SPDX-License-Identifier: MIT
// Prices a cluster.

#include "traffic.hpp"

#include <algorithm>
#include <cmath>

namespace seenby::tool {
namespace {

constexpr double slots = 16'384;
// A key beside its value, as MEMORY USAGE counts it: dictionary entry, object, key text, allocator rounding, expiry.
constexpr double key_bytes = 110;
// Of the server's processor: `seenby bench --items 200` with --requests-per-call 1 and 20, `--items 8000` for a byte,
// `--items 100000` for a block (Redis 7.0 over a Unix socket, two cores of an AMD EPYC).
constexpr double call_microseconds = 8.0;
constexpr double read_microseconds = 0.4;
constexpr double byte_microseconds = 0.00025;
constexpr double block_microseconds = 0.26;
constexpr double busy_share = 0.5;  // of a node's one processor; past it requests queue
// On the wire: a GET and its reply beside the value; a block's command and reply.
constexpr double read_wire_bytes = 70;
constexpr double block_wire_bytes = 80;

}  // namespace

double largest_node_users(double users, std::uint64_t nodes) {
  if (nodes <= 1) return users;
  const double share = std::ceil(slots / static_cast<double>(nodes)) / slots;
  return users * share + 3 * std::sqrt(users * share * (1 - share));
}

Cluster cluster_for(const Traffic& traffic) {
  Cluster cluster;
  const double record = traffic.bytes_per_user + key_bytes;
  const double reads = traffic.requests_per_second * static_cast<double>(traffic.users_per_request);
  const double request_microseconds =
      call_microseconds +
      static_cast<double>(traffic.users_per_request) * (read_microseconds + byte_microseconds * traffic.bytes_per_user);
  cluster.cpu_seconds_per_second = traffic.requests_per_second * request_microseconds / 1e6;
  cluster.network_bytes_per_second = reads * (traffic.bytes_per_user + read_wire_bytes);
  cluster.nodes =
      static_cast<std::uint64_t>(std::clamp(std::ceil(cluster.cpu_seconds_per_second / busy_share), 1.0, slots));
  while (static_cast<double>(cluster.nodes) < slots &&
         largest_node_users(traffic.users, cluster.nodes) * record > traffic.node_bytes) {
    ++cluster.nodes;
  }
  cluster.largest_node_users = largest_node_users(traffic.users, cluster.nodes);
  cluster.largest_node_bytes = cluster.largest_node_users * record;
  cluster.memory_bytes = traffic.users * record * static_cast<double>(1 + traffic.replicas);
  const auto candidates = static_cast<double>(traffic.candidates);
  cluster.whole_value_bytes_cpu = candidates * block_microseconds / byte_microseconds;
  cluster.whole_value_bytes_network = candidates * block_wire_bytes;
  return cluster;
}

}  // namespace seenby::tool
