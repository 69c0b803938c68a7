#pragma once
// SPDX-License-Identifier: MIT
// ClusterExecutor: a Redis or Valkey cluster behind the one execute(batch) call.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/transport/pool.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/url.hpp"

namespace seenby::redis {

inline constexpr std::uint16_t cluster_slots = 16'384;

/// CRC-16/XMODEM (polynomial 0x1021, start 0), which a cluster places its keys by.
[[nodiscard]] std::uint16_t crc16(std::string_view bytes) noexcept;

/// What of a key decides its slot: what is between the first '{' and the first '}' after it, so that keys of one tag
/// share a node; all of it where that is empty or not there.
[[nodiscard]] std::string_view hash_tag(std::string_view key) noexcept;
/// A key's slot: the CRC16 of its hash tag modulo 16,384.
[[nodiscard]] std::uint16_t key_slot(std::string_view key) noexcept;

/// How a cluster is asked.
struct ClusterOptions {
  PoolOptions pool{};  ///< for each node
  /// Sends commands that are `reads_only()` to replicas, round robin. A replica lags its master by what is in flight,
  /// and by everything since the link broke when it did: an item acknowledged a moment ago may be answered as unseen.
  /// For filters that tolerate lag (an overlay bridges it); never for what a rebuild or a compare-and-swap reads.
  bool read_from_replicas = false;
  /// Waits until the deadline while a dead master is being replaced. Off, a node's commands fail at once as soon as
  /// its circuit breaker is open, and the next request tries the new master as soon as the cluster names one.
  bool wait_for_failover = false;
  /// Redirections one command may follow; a cluster that needs more contradicts itself.
  std::uint32_t max_redirections = 16;
  /// The shortest time between two readings of the topology.
  std::chrono::milliseconds refresh_pause{50};
  /// How old the topology may grow when nothing calls for another reading: that is how new replicas are found.
  std::chrono::milliseconds refresh_every{10'000};
};

/// What a cluster executor counts. Each figure is exact, the set of them is not atomic.
struct ClusterCounters {
  std::uint64_t moved = 0;               ///< MOVED redirections followed
  std::uint64_t asked = 0;               ///< ASK redirections followed
  std::uint64_t retried = 0;             ///< commands sent again after TRYAGAIN, CLUSTERDOWN, LOADING or a lost node
  std::uint64_t replica_reads = 0;       ///< commands that a replica answered
  std::uint64_t topology_refreshes = 0;  ///< readings of the slot map
  PoolCounters connections{};            ///< of all nodes together
};

/// A cluster's nodes, each behind its own connection pool and circuit breaker, and the map from slots to nodes.
///
/// - The map comes from CLUSTER SLOTS of the first node that answers, the given ones or any learnt since, and is read
///   again when a node is lost or redirects. MOVED and ASK are followed; TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN
///   and lost connections are tried again, with a growing pause, until the deadline.
/// - One pipeline a node: all are written before the first is read, so that the nodes work in parallel.
/// - A node that cannot be asked costs its own commands only: their replies are `unreachable` or `timed_out` errors.
///   The whole result is an error only when no command was answered.
/// - A deadline bounds the whole call. `ConnectionOptions::command_timeout` bounds one attempt at one node.
/// - The commands of one key keep their order, unless its slot moves while the batch is under way.
/// - Commands without a key go to any master; those with several keys need one hash tag.
///
/// Every member may be called from any thread.
class ClusterExecutor final : public Executor {
 public:
  /// Connects on first use. Throws std::invalid_argument without a seed.
  ClusterExecutor(std::vector<Endpoint> seeds, ConnectionOptions connection, ClusterOptions options = {});
  explicit ClusterExecutor(const Url& url);
  ~ClusterExecutor() override;

  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override;
  [[nodiscard]] std::string name() const override;
  /// Whether all given nodes are on this machine.
  [[nodiscard]] bool is_local() const override;

  [[nodiscard]] std::chrono::milliseconds default_timeout() const override { return connection_.command_timeout; }
  [[nodiscard]] PoolCounters connections() const override { return counters().connections; }

  [[nodiscard]] ClusterCounters counters() const;
  /// Who serves a slot now, as far as known; reads the map first if there is none. Errors: `unreachable`, `timed_out`.
  [[nodiscard]] Result<Endpoint> master_of(std::uint16_t slot, Deadline deadline);

 private:
  struct Topology;
  struct Call;
  struct Round;
  class NodeBatch;
  using Pool = std::shared_ptr<ConnectionPool>;

  [[nodiscard]] std::shared_ptr<Topology> topology() const;
  [[nodiscard]] Result<std::shared_ptr<Topology>> topology_or_refresh(Deadline deadline);
  [[nodiscard]] Result<void> refresh(std::uint64_t seen_version, Deadline deadline);
  [[nodiscard]] Result<std::shared_ptr<Topology>> read_topology(Deadline deadline);
  void take_range(Topology& map, const Reply& range, const Endpoint& from);
  [[nodiscard]] std::vector<Pool> who_to_ask();
  [[nodiscard]] Pool pool_of(const Endpoint& endpoint);
  void install(std::shared_ptr<Topology> map);

  [[nodiscard]] Pool target_of(const Command& command, Call& call, const Topology& map);
  [[nodiscard]] Pool replica_in_turn(std::span<const Pool> replicas);
  void ask_nodes(Round& round, Topology& map, Deadline deadline);
  void take_reply(Round& round, std::size_t index, Reply reply, const Pool& from, Topology& map);
  bool follow(Call& call, const Error& error, const Pool& from, Topology& map, Round& round);
  void take_failure(Round& round, std::size_t index, const Error& error, const Pool& from);
  void give_up_on_dead_nodes(Round& round);

  const std::vector<Endpoint> seeds_;
  const ConnectionOptions connection_;
  const ClusterOptions options_;

  mutable std::mutex mutex_;  ///< guards the next six
  std::condition_variable refreshed_;
  bool refreshing_ = false;
  pid_t reader_ = 0;  ///< the process that refreshes
  Deadline::clock::time_point refreshed_at_{};
  std::shared_ptr<Topology> topology_;
  std::map<std::string, Pool, std::less<>> pools_;

  std::atomic<std::uint64_t> turn_{0};
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> retried_{0};
  std::atomic<std::uint64_t> replica_reads_{0};
  std::atomic<std::uint64_t> refreshes_{0};
};

}  // namespace seenby::redis
