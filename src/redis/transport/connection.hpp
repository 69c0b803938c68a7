#pragma once
// SPDX-License-Identifier: MIT
// Connection: one authenticated Redis connection with pipelining and deadlines, on hiredis.

#include <memory>
#include <span>
#include <vector>

#include "seenby/redis/executor.hpp"
#include "seenby/redis/url.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// One connection to one server. Not thread-safe: one thread at a time.
///
/// Any time-out, lost connection or protocol error leaves it `usable() == false`; it is never repaired, a new one is
/// made. An error *reply* leaves it usable.
class Connection {
 public:
  /// Connects (TLS handshake included), authenticates and selects the database, all before `deadline`. Errors:
  /// `unreachable`, `timed_out`, `refused` (AUTH or SELECT was), `unavailable` (TLS asked for, not built in).
  [[nodiscard]] static Result<Connection> open(const Endpoint& endpoint, const ConnectionOptions& options,
                                               Deadline deadline);

  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  ~Connection();

  /// Sends the whole batch, then reads one reply a command. Errors: `unreachable`, `timed_out`, `corrupt` (what came is
  /// not the Redis protocol).
  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline);

  /// The two halves of `execute`, for one thread that keeps several nodes busy at once: first every `send`, then every
  /// `receive`, which takes what is there already even when the deadline has just passed.
  [[nodiscard]] Result<void> send(std::span<const Command> batch, Deadline deadline);
  [[nodiscard]] Result<std::vector<Reply>> receive(Deadline deadline);

  [[nodiscard]] bool usable() const noexcept;
  /// Whether the idle connection still looks alive: no end of stream, no stray bytes. One system call, no waiting.
  [[nodiscard]] bool idle_and_alive() const noexcept;
  /// True when the last `execute` failed before any byte of an answer came.
  [[nodiscard]] bool failed_before_answer() const noexcept;
  [[nodiscard]] const Endpoint& endpoint() const noexcept;

 private:
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace seenby::redis
