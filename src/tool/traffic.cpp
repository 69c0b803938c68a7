// SPDX-License-Identifier: MIT
// Prices a cluster.

#include "traffic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/sizing.hpp"
#include "seenby/stores/policy.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

constexpr double slots = 16'384;
// A key beside its value: 56 by MEMORY USAGE (dictionary entry, object, key text; tests/tool/redis/plan_redis_test.cpp
// compares), its places in the dictionary's tables, and longer names. A key that expires is in a second dictionary.
constexpr double key_bytes = 80;
constexpr double expiry_bytes = 40;
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

/// What jemalloc gives for a string of so many bytes: sizes 16 apart up to 128, then four between powers of two.
std::uint64_t allocated(std::uint64_t bytes) {
  const std::uint64_t wanted = bytes + 10;  // a length before it, a zero behind it
  const std::uint64_t step = wanted <= 128 ? 16 : std::bit_floor(wanted - 1) / 4;
  return (wanted + step - 1) / step * step;
}

}  // namespace

double largest_node_users(double users, std::uint64_t nodes) {
  if (nodes <= 1) return users;
  const double share = std::ceil(slots / static_cast<double>(nodes)) / slots;
  return users * share + 3 * std::sqrt(users * share * (1 - share));
}

RedisUser redis_user(std::uint64_t items, double fpr) {
  // As StoreWriter grows a filter: from a history, which holds the item that did not fit.
  const StorePolicy policy;
  FilterShape shape = SplitBlockLayout::shape_for(policy.initial_items, fpr);
  for (std::uint64_t room = sizing::capacity_of(shape, fpr); room < items; room = sizing::capacity_of(shape, fpr)) {
    const double wanted = std::ceil(static_cast<double>(room + 1) * policy.growth_factor);
    shape = SplitBlockLayout::shape_for(static_cast<std::uint64_t>(wanted), fpr);
  }
  const std::uint64_t value = header_bytes + shape.bytes();
  return {.value_bytes = static_cast<double>(value), .allocated_bytes = static_cast<double>(allocated(value))};
}

RedisUser windowed_redis_user(std::uint64_t items, double share) {
  // As a table is written: all items in it, and room for recent ones, a sixteenth of those and what the allocation has
  // left.
  constexpr std::uint64_t section_header_bytes = 8;
  FingerprintShape shape = sizing::grown_table(std::max<std::uint64_t>(items, 1), share, true).shape;
  const std::uint64_t entry = 6U + shape.tail_bytes;
  const std::uint64_t least = std::clamp<std::uint64_t>(items / 16, 8, 64);
  const std::uint64_t written = table_header_bytes + shape.bytes() + section_header_bytes + least * entry;
  const std::uint64_t spare = (allocated(written) - written - 10) / entry;
  const std::uint64_t value = written + std::min(spare, least) * entry;
  return {.expires = true,
          .value_bytes = static_cast<double>(value),
          .allocated_bytes = static_cast<double>(allocated(value))};
}

Cluster cluster_for(const Traffic& traffic) {
  Cluster cluster{.traffic = traffic};
  const RedisUser& user = traffic.user;
  const auto keys = static_cast<double>(user.keys);
  cluster.bytes_per_user = user.allocated_bytes + keys * (key_bytes + (user.expires ? expiry_bytes : 0));
  const auto users = static_cast<double>(traffic.users_per_request);
  const double request_microseconds =
      call_microseconds + users * (keys * read_microseconds + byte_microseconds * user.value_bytes);
  cluster.cpu_seconds_per_second = traffic.requests_per_second * request_microseconds / 1e6;
  cluster.network_bytes_per_second = traffic.requests_per_second * users * (user.value_bytes + keys * read_wire_bytes);
  cluster.nodes =
      static_cast<std::uint64_t>(std::clamp(std::ceil(cluster.cpu_seconds_per_second / busy_share), 1.0, slots));
  while (static_cast<double>(cluster.nodes) < slots &&
         largest_node_users(traffic.users, cluster.nodes) * cluster.bytes_per_user > traffic.node_bytes) {
    ++cluster.nodes;
  }
  cluster.largest_node_users = largest_node_users(traffic.users, cluster.nodes);
  cluster.largest_node_bytes = cluster.largest_node_users * cluster.bytes_per_user;
  cluster.memory_bytes = traffic.users * cluster.bytes_per_user * static_cast<double>(1 + traffic.replicas);
  const auto candidates = static_cast<double>(traffic.candidates);
  cluster.whole_value_bytes_cpu = candidates * block_microseconds / byte_microseconds;
  cluster.whole_value_bytes_network = candidates * block_wire_bytes;
  return cluster;
}

nlohmann::ordered_json as_json(const Cluster& cluster) {
  return {{"nodes", cluster.nodes},
          {"keys_per_user", cluster.traffic.user.keys},
          {"value_bytes_per_user", cluster.traffic.user.value_bytes},
          {"bytes_per_user", cluster.bytes_per_user},
          {"memory_bytes", cluster.memory_bytes},
          {"largest_node_users", cluster.largest_node_users},
          {"largest_node_bytes", cluster.largest_node_bytes},
          {"network_bytes_per_second", cluster.network_bytes_per_second},
          {"cpu_seconds_per_second", cluster.cpu_seconds_per_second},
          {"whole_value_bytes_cpu", cluster.whole_value_bytes_cpu},
          {"whole_value_bytes_network", cluster.whole_value_bytes_network}};
}

void add_cluster(Report& report, const Cluster& cluster) {
  const Traffic& traffic = cluster.traffic;
  const auto whole = [&](double bytes) {
    const FilterShape shape = SplitBlockLayout::shape_of(static_cast<std::uint64_t>(bytes) * 8);
    return as_bytes(bytes) + " (" + with_commas(sizing::capacity_of(shape, traffic.filter_fpr)) + " items)";
  };
  report.heading("Redis Cluster of nodes with " + as_bytes(traffic.node_bytes));
  report.row("a user", as_bytes(traffic.user.value_bytes) + " in " + with_commas(traffic.user.keys) +
                           (traffic.user.keys == 1 ? " value, " : " values, ") + as_bytes(cluster.bytes_per_user) +
                           " with what Redis keeps beside");
  report.row("nodes", with_commas(cluster.nodes) + ", the fullest " + as_bytes(cluster.largest_node_bytes) + " of " +
                          as_short(cluster.largest_node_users) + " users");
  report.row("memory", as_bytes(cluster.memory_bytes) + " with " + with_commas(traffic.replicas) +
                           (traffic.replicas == 1 ? " replica each" : " replicas each"));
  if (traffic.requests_per_second > 0) {
    report.row("network", as_bytes(cluster.network_bytes_per_second) + " a second");
    report.row("server CPU", as_short(cluster.cpu_seconds_per_second) + " s a second, one request a call");
  }
  report.row("whole values pay up to", whole(cluster.whole_value_bytes_network) + " on the network,");
  report.row("", whole(cluster.whole_value_bytes_cpu) + " of the server's time, for " +
                     with_commas(traffic.candidates) + " candidates");
}

}  // namespace seenby::tool
