#pragma once
// SPDX-License-Identifier: MIT
// What the cluster executor keeps: the slot map, and the state of each command of a batch.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/transport/cluster.hpp"

namespace seenby::redis {

[[nodiscard]] inline Error cluster_error(ErrorCode code, std::string_view what) {
  std::string message = "seenby::redis cluster: ";
  return {code, std::move(message.append(what))};
}

struct ClusterExecutor::Topology {
  static constexpr std::uint16_t unserved = 0xffff;
  struct Shard {
    Pool master;
    std::vector<Pool> replicas;
  };
  std::uint64_t version = 0;
  std::vector<Shard> shards;
  std::array<std::atomic<std::uint16_t>, cluster_slots> shard_of_slot;

  Topology() {
    for (auto& shard : shard_of_slot) shard.store(unserved, std::memory_order_relaxed);
  }
  [[nodiscard]] const Shard* shard_of(std::uint16_t slot) const noexcept {
    const std::uint16_t index = shard_of_slot[slot].load(std::memory_order_relaxed);
    return index < shards.size() ? &shards[index] : nullptr;
  }
  /// Notes that a known master took a slot over; false when this map does not know it.
  bool note_move(std::uint16_t slot, const Pool& master) noexcept {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].master != master) continue;
      shard_of_slot[slot].store(static_cast<std::uint16_t>(i), std::memory_order_relaxed);
      return true;
    }
    return false;
  }
  /// The shard of this master, added when new.
  std::uint16_t index_of(const Pool& master) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].master == master) return static_cast<std::uint16_t>(i);
    }
    shards.push_back({.master = master, .replicas = {}});
    return static_cast<std::uint16_t>(shards.size() - 1);
  }
};

/// The state of one command of the batch.
struct ClusterExecutor::Call {
  std::uint16_t slot = 0;
  bool asking = false;       ///< the next attempt is preceded by ASKING
  bool master_only = false;  ///< a replica failed it
  bool to_replica = false;   ///< the attempt under way goes to a replica
  std::uint32_t redirections = 0;
  Pool redirected;  ///< where MOVED or ASK sent it
  Pool failed_at;   ///< the node that could not be asked
  std::optional<Error> last;
};

struct ClusterExecutor::Round {
  std::span<const Command> batch;
  std::vector<Reply> replies;
  std::vector<Call> calls;
  std::vector<std::size_t> pending;  ///< in the batch's order
  std::vector<std::size_t> again;    ///< of those, what is sent again
  bool wait = false;
  bool refresh = false;
  bool answered = false;  ///< a server answered at least one command

  explicit Round(std::span<const Command> commands)
      : batch(commands), replies(commands.size()), calls(commands.size()) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      calls[i].slot = key_slot(commands[i].key());
      pending.push_back(i);
    }
  }
  struct Again {
    bool wait;     ///< not at once: pause first
    bool refresh;  ///< the map may be wrong
  };
  void try_again(std::size_t index, Again how) {
    again.push_back(index);
    wait = wait || how.wait;
    refresh = refresh || how.refresh;
  }
  void fail(std::size_t index, Error error) { replies[index] = Reply(std::move(error)); }
};

}  // namespace seenby::redis
