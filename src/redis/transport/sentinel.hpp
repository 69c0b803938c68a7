#pragma once
// SPDX-License-Identifier: MIT
// SentinelExecutor: the master that a group of Sentinels names, and its successor after a failover.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "redis/transport/pool.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/url.hpp"

namespace seenby::redis {

/// The executor for `redis+sentinel://`. Asks the Sentinels for the master's address at the first call, and again when
/// the master cannot be asked or has become a replica: then a batch goes to the new master within the same deadline.
/// Every new connection says by ROLE that it leads to a master, so that a demoted one is not read from.
///
/// What a master acknowledged and had not replicated when it failed is lost, by Redis's design: the history brings it
/// back. Thread-safe.
class SentinelExecutor final : public Executor {
 public:
  explicit SentinelExecutor(Url url);

  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override;
  [[nodiscard]] std::string name() const override;
  /// Whether the Sentinels are on this machine; the master is taken to be where they are.
  [[nodiscard]] bool is_local() const override;
  [[nodiscard]] std::chrono::milliseconds default_timeout() const override { return url_.connection.command_timeout; }
  /// Of all masters so far.
  [[nodiscard]] PoolCounters connections() const override;

 private:
  using Pool = std::shared_ptr<ConnectionPool>;

  /// The master's pool: the known one, unless it is suspected; then the one that the Sentinels name, which may be the
  /// same. One caller asks, the others wait for its answer.
  [[nodiscard]] Result<Pool> master(Deadline deadline);
  /// A call to it has failed.
  void suspect(const Pool& failed);
  [[nodiscard]] Result<Endpoint> ask_sentinels(Deadline deadline);
  [[nodiscard]] Result<Endpoint> ask_sentinel(const Endpoint& sentinel, Deadline deadline) const;

  const Url url_;
  mutable std::mutex mutex_;  ///< guards the rest
  std::condition_variable answered_;
  std::vector<Endpoint> sentinels_;  ///< the one that answered last first
  Pool pool_;
  PoolCounters retired_;
  Deadline::clock::time_point asked_at_{};
  bool asking_ = false;
  bool suspect_ = false;
};

}  // namespace seenby::redis
