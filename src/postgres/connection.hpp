#pragma once
// SPDX-License-Identifier: MIT
// Connection and Rows: libpq's handles with owners, deadlines, and its errors as ours.

#include <libpq-fe.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "parameters.hpp"
#include "seenby/histories/keyed_history.hpp"
#include "seenby/result.hpp"

namespace seenby::postgres {

using Deadline = std::chrono::steady_clock::time_point;

/// What a statement returned, in binary format.
class Rows {
 public:
  explicit Rows(PGresult* result) noexcept : result_(result) {}

  [[nodiscard]] int size() const noexcept { return PQntuples(result_.get()); }
  [[nodiscard]] std::int64_t number(int row, int column = 0) const noexcept;
  [[nodiscard]] KeyView key(int row, int column, ItemKind kind) const noexcept;
  /// Rows that the statement changed.
  [[nodiscard]] std::size_t changed() const;

 private:
  struct Clear {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

/// A connection for one thread at a time. After an error that leaves an answer on its way it is `broken`: discard it.
class Connection {
 public:
  [[nodiscard]] static Result<Connection> open(const std::string& address, std::chrono::milliseconds statement_timeout,
                                               Deadline deadline);

  /// One statement with parameters; its answer in binary.
  [[nodiscard]] Result<Rows> run(const std::string& sql, const Parameters& parameters, Deadline deadline);
  /// Statements without parameters, in one transaction unless they say otherwise.
  Result<void> run(const std::string& sql, Deadline deadline);
  [[nodiscard]] bool broken() const noexcept { return broken_ || PQstatus(handle_.get()) != CONNECTION_OK; }

 private:
  explicit Connection(PGconn* handle) noexcept : handle_(handle) {}
  Result<void> finish_connecting(Deadline deadline);
  /// Waits until the socket can be read (or written, if asked for).
  Result<void> wait(bool for_writing, Deadline deadline);
  /// The last answer to what was sent; an error among the answers is the answer.
  [[nodiscard]] Result<Rows> receive(Deadline deadline);
  [[nodiscard]] Error lost();

  struct Close {
    void operator()(PGconn* handle) const noexcept { PQfinish(handle); }
  };
  std::unique_ptr<PGconn, Close> handle_;
  bool broken_ = false;
};

}  // namespace seenby::postgres
