#pragma once
// SPDX-License-Identifier: MIT
// ConnectionPool and PooledExecutor: one server, many threads, a bounded number of connections.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "redis/transport/breaker.hpp"
#include "redis/transport/connection.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/url.hpp"

namespace seenby::redis {

/// How many connections a server gets, and when it is given up for a while.
struct PoolOptions {
  std::size_t size = 8;       ///< at most; they are made when needed
  bool masters_only = false;  ///< a new connection asks for its server's ROLE; a replica's is `unreachable`
  BreakerOptions breaker{};
};

/// A server's connections behind its circuit breaker. Thread-safe. In a forked child it starts over, with connections
/// of the child's own: two processes on one connection would read each other's answers.
class ConnectionPool {
  struct State;

 public:
  ConnectionPool(Endpoint endpoint, ConnectionOptions connection, PoolOptions options);
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;
  ~ConnectionPool();

  /// A connection borrowed until `Lease` is destroyed; it returns to the pool if it is still usable.
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    [[nodiscard]] Connection& operator*() noexcept { return *connection_; }
    [[nodiscard]] Connection* operator->() noexcept { return &*connection_; }
    /// Whether it served before: then it may have died in the pool, and its batch may be sent again.
    [[nodiscard]] bool reused() const noexcept { return reused_; }

   private:
    friend class ConnectionPool;
    Lease(State& state, Connection connection, bool reused);
    State* state_;
    std::optional<Connection> connection_;
    bool reused_;
  };

  /// Borrows a connection: an idle one that is alive, else a new one; waits for one while all are borrowed. Errors:
  /// `unreachable` (also at once, while the breaker is open), `timed_out`, `refused`, `unavailable`.
  [[nodiscard]] Result<Lease> borrow(Deadline deadline);
  /// Runs a batch on a borrowed connection, and once more on a new one if a reused one is dead.
  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline);
  /// Tells the breaker the outcome on a borrowed connection; `execute` does so by itself.
  void report(const Result<std::vector<Reply>>& outcome);

  [[nodiscard]] const Endpoint& endpoint() const noexcept { return endpoint_; }
  /// Whether the breaker is open: requests are refused at once, but for a probe now and then.
  [[nodiscard]] bool is_failing() const;
  [[nodiscard]] const ConnectionOptions& connection_options() const noexcept { return connection_; }
  [[nodiscard]] PoolCounters counters() const;

 private:
  /// This process's.
  [[nodiscard]] State& state() const;
  [[nodiscard]] Result<Lease> connect(State& state, Deadline deadline);
  [[nodiscard]] Error breaker_error(State& state) const;

  const Endpoint endpoint_;
  const ConnectionOptions connection_;
  const PoolOptions options_;
  mutable std::atomic<State*> state_;
};

/// The executor for one server: `redis://`, `rediss://` and `unix://`.
class PooledExecutor final : public Executor {
 public:
  PooledExecutor(Endpoint endpoint, ConnectionOptions connection, PoolOptions options = {});
  explicit PooledExecutor(const Url& url);

  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override;
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] bool is_local() const override { return pool_.endpoint().is_local(); }
  [[nodiscard]] std::chrono::milliseconds default_timeout() const override {
    return pool_.connection_options().command_timeout;
  }
  [[nodiscard]] PoolCounters connections() const override { return pool_.counters(); }

 private:
  ConnectionPool pool_;
};

}  // namespace seenby::redis
