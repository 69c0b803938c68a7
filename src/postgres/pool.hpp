#pragma once
// SPDX-License-Identifier: MIT
// Pool: connections, each borrowed by one call at a time, replaced when they break.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "connection.hpp"
#include "parameters.hpp"
#include "seenby/postgres/log.hpp"
#include "seenby/result.hpp"

namespace seenby::postgres {

/// Thread-safe.
class Pool {
 public:
  Pool(std::string address, const Options& options)
      : address_(std::move(address)), timeout_(options.timeout), free_(options.connections) {}

  /// When a call that begins now must end: the options' timeout from now.
  [[nodiscard]] Deadline deadline() const noexcept;
  /// One statement. It is sent again on a new connection when an idle one is broken, and after a deadlock: it must be
  /// one that may be sent twice.
  [[nodiscard]] Result<Rows> run(const std::string& sql, const Parameters& parameters, Deadline deadline);
  /// Statements in one transaction, sent once.
  Result<void> run(const std::string& sql, Deadline deadline);

 private:
  /// Runs `use` with a connection; `idle` says whether it had been used before.
  template <class Use>
  auto with_connection(Deadline deadline, bool& idle, const Use& use) -> decltype(use(std::declval<Connection&>()));

  const std::string address_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::size_t free_;  ///< how many more may be borrowed
  std::vector<Connection> idle_;
};

}  // namespace seenby::postgres
