// SPDX-License-Identifier: MIT
// Which node serves which slot.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "redis/transport/cluster_state.hpp"

namespace seenby::redis {
namespace {

constexpr std::array<std::uint16_t, 256> crc_table = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0U);
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

/// A node in the answer to CLUSTER SLOTS: [host, port, id, ...]. "?" means that the asked node does not know.
std::optional<Endpoint> node_of(const Reply& reply, const Endpoint& from) {
  const auto* parts = reply.array();
  if (parts == nullptr || parts->size() < 2) return std::nullopt;
  const std::string* host = (*parts)[0].string();
  const std::int64_t* port = (*parts)[1].integer();
  if (port == nullptr || *port < 1 || *port > 65'535) return std::nullopt;
  if (host != nullptr && *host == "?") return std::nullopt;
  return Endpoint{.host = host == nullptr || host->empty() ? from.host : *host,
                  .port = static_cast<std::uint16_t>(*port)};
}

}  // namespace

std::uint16_t crc16(std::string_view bytes) noexcept {
  unsigned crc = 0;
  for (const char byte : bytes) {
    crc = ((crc << 8) & 0xffffU) ^ crc_table[(crc >> 8) ^ static_cast<unsigned char>(byte)];
  }
  return static_cast<std::uint16_t>(crc);
}

std::string_view hash_tag(std::string_view key) noexcept {
  const auto open = key.find('{');
  if (open == std::string_view::npos) return key;
  const auto close = key.find('}', open + 1);
  return close == std::string_view::npos || close == open + 1 ? key : key.substr(open + 1, close - open - 1);
}

std::uint16_t key_slot(std::string_view key) noexcept { return crc16(hash_tag(key)) % cluster_slots; }

std::shared_ptr<ClusterExecutor::Topology> ClusterExecutor::topology() const {
  const std::lock_guard lock(mutex_);
  return topology_;
}

ClusterExecutor::Pool ClusterExecutor::pool_of(const Endpoint& endpoint) {
  std::string text = endpoint.text();
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[std::move(text)];
  if (!pool) pool = std::make_shared<ConnectionPool>(endpoint, connection_, options_.pool);
  return pool;
}

Result<std::shared_ptr<ClusterExecutor::Topology>> ClusterExecutor::topology_or_refresh(Deadline deadline) {
  std::uint64_t version = 0;
  {
    const std::lock_guard lock(mutex_);
    if (topology_ &&
        ((refreshing_ && reader_ == getpid()) || Deadline::clock::now() - refreshed_at_ < options_.refresh_every))
      return topology_;
    if (topology_) version = topology_->version;
  }
  auto read = refresh(version, deadline);
  if (auto map = topology()) return map;
  return std::move(read).error();
}

Result<void> ClusterExecutor::refresh(std::uint64_t seen_version, Deadline deadline) {
  std::unique_lock lock(mutex_);
  // Not waited for in a forked child, where the thread that reads it does not run.
  while (refreshing_ && reader_ == getpid()) {
    if (refreshed_.wait_until(lock, deadline.at) == std::cv_status::timeout) {
      return cluster_error(ErrorCode::timed_out, "timed out waiting for the topology");
    }
  }
  const bool lately = Deadline::clock::now() - refreshed_at_ < options_.refresh_pause;
  if (topology_ && (topology_->version != seen_version || lately)) return {};
  refreshing_ = true;
  reader_ = getpid();
  lock.unlock();
  auto map = read_topology(deadline);
  if (map) install(std::move(*map));
  lock.lock();
  refreshing_ = false;
  refreshed_at_ = Deadline::clock::now();
  lock.unlock();
  refreshed_.notify_all();
  if (!map) return std::move(map).error();
  return {};
}

void ClusterExecutor::install(std::shared_ptr<Topology> map) {
  refreshes_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  map->version = topology_ ? topology_->version + 1 : 1;
  topology_ = std::move(map);
  // Nodes that left the cluster; a call that still uses one holds its pool.
  std::erase_if(pools_, [&](const auto& entry) {
    const Pool& pool = entry.second;
    const auto is_seed = std::find(seeds_.begin(), seeds_.end(), pool->endpoint()) != seeds_.end();
    return !is_seed && std::none_of(topology_->shards.begin(), topology_->shards.end(), [&](const auto& shard) {
      return shard.master == pool ||
             std::find(shard.replicas.begin(), shard.replicas.end(), pool) != shard.replicas.end();
    });
  });
}

std::vector<ClusterExecutor::Pool> ClusterExecutor::who_to_ask() {
  std::vector<Pool> pools;
  const auto add = [&](const Pool& pool) {
    if (std::find(pools.begin(), pools.end(), pool) == pools.end()) pools.push_back(pool);
  };
  if (const auto map = topology()) {
    for (const auto& shard : map->shards) add(shard.master);
    if (!pools.empty()) {
      const auto turn = turn_.fetch_add(1, std::memory_order_relaxed) % pools.size();
      std::rotate(pools.begin(), pools.begin() + static_cast<std::ptrdiff_t>(turn), pools.end());
    }
    for (const auto& shard : map->shards) {
      for (const Pool& replica : shard.replicas) add(replica);
    }
  }
  for (const Endpoint& seed : seeds_) add(pool_of(seed));
  std::stable_partition(pools.begin(), pools.end(), [](const Pool& pool) { return !pool->is_failing(); });
  return pools;
}

/// A line of CLUSTER SLOTS: [first slot, last slot, master, replica...]. What cannot be read is passed over.
void ClusterExecutor::take_range(Topology& map, const Reply& range, const Endpoint& from) {
  const auto* parts = range.array();
  if (parts == nullptr || parts->size() < 3) return;
  const std::int64_t* first = (*parts)[0].integer();
  const std::int64_t* end = (*parts)[1].integer();
  const auto master = node_of((*parts)[2], from);
  if (first == nullptr || end == nullptr || *first < 0 || *end >= cluster_slots || !master) return;
  const std::uint16_t index = map.index_of(pool_of(*master));
  for (std::int64_t slot = *first; slot <= *end; ++slot) {
    map.shard_of_slot[static_cast<std::size_t>(slot)].store(index, std::memory_order_relaxed);
  }
  auto& replicas = map.shards[index].replicas;
  for (std::size_t i = 3; i < parts->size(); ++i) {
    const auto replica = node_of((*parts)[i], from);
    if (!replica) continue;
    const Pool known = pool_of(*replica);
    if (std::find(replicas.begin(), replicas.end(), known) == replicas.end()) replicas.push_back(known);
  }
}

Result<std::shared_ptr<ClusterExecutor::Topology>> ClusterExecutor::read_topology(Deadline deadline) {
  Command ask;
  ask.add("CLUSTER").add("SLOTS");
  Error last = cluster_error(ErrorCode::unreachable, "no node to ask");
  for (const Pool& pool : who_to_ask()) {
    auto replies = pool->execute({&ask, 1}, deadline);
    if (!replies) {
      last = std::move(replies).error();
      continue;
    }
    const Reply& reply = replies->front();
    if (reply.array() == nullptr) {
      last =
          reply.is_error() ? *reply.error() : cluster_error(ErrorCode::corrupt, "expected an array from CLUSTER SLOTS");
      continue;
    }
    auto map = std::make_shared<Topology>();
    for (const Reply& range : *reply.array()) take_range(*map, range, pool->endpoint());
    if (!map->shards.empty()) return map;
    last = cluster_error(ErrorCode::unreachable, "no slot is served yet");
  }
  return last;
}

Result<Endpoint> ClusterExecutor::master_of(std::uint16_t slot, Deadline deadline) {
  auto map = topology_or_refresh(deadline);
  if (!map) return std::move(map).error();
  const auto* shard = (*map)->shard_of(slot % cluster_slots);
  if (shard == nullptr) return cluster_error(ErrorCode::unreachable, "no node serves the slot");
  return shard->master->endpoint();
}

}  // namespace seenby::redis
