#pragma once
// SPDX-License-Identifier: MIT
// Connection, Statement and Transaction: SQLite's handles with owners, and its errors as ours.

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "seenby/hash.hpp"
#include "seenby/histories/keyed_history.hpp"
#include "seenby/result.hpp"

namespace seenby::sqlite {

/// A connection for one thread at a time.
class Connection {
 public:
  [[nodiscard]] static Result<Connection> open(const std::string& path, int flags,
                                               std::chrono::milliseconds busy_timeout);

  /// Runs statements that give no rows.
  Result<void> run(const char* sql) const;
  /// The one integer that a statement gives.
  [[nodiscard]] Result<std::int64_t> integer(const char* sql) const;
  /// Rows that the last statement changed.
  [[nodiscard]] std::size_t changes() const noexcept { return static_cast<std::size_t>(sqlite3_changes(get())); }
  [[nodiscard]] sqlite3* get() const noexcept { return handle_.get(); }
  /// What the last call on this connection failed with.
  [[nodiscard]] Error error(int code) const;

 private:
  Connection(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  struct Close {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

/// A prepared statement; bound values must live until `reset`, which every use ends with.
class Statement {
 public:
  Statement() noexcept = default;
  [[nodiscard]] static Result<Statement> prepare(const Connection& connection, const char* sql);

  Statement& bind(int place, std::int64_t value) noexcept {
    return note(sqlite3_bind_int64(handle_.get(), place, value));
  }
  Statement& bind(int place, const KeyView& key) noexcept;

  /// SQLITE_ROW, SQLITE_DONE or what failed, a value that was not bound included: NULL is in its place.
  [[nodiscard]] int step() noexcept { return unbound_ == SQLITE_OK ? sqlite3_step(handle_.get()) : unbound_; }
  [[nodiscard]] std::int64_t integer(int column) const noexcept { return sqlite3_column_int64(handle_.get(), column); }
  [[nodiscard]] KeyView key(int column, ItemKind kind) const noexcept;
  void reset() noexcept {
    sqlite3_reset(handle_.get());
    unbound_ = SQLITE_OK;
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const noexcept { sqlite3_finalize(handle); }
  };
  Statement& note(int code) noexcept {
    if (code != SQLITE_OK) unbound_ = code;
    return *this;
  }
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int unbound_ = SQLITE_OK;
};

/// Rolls back unless it was committed.
class Transaction {
 public:
  explicit Transaction(const Connection& connection) noexcept : connection_(connection) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (open_) sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  /// `BEGIN IMMEDIATE` for one that writes: it takes its lock first, so that it never fails half-way without it.
  Result<void> begin(const char* sql);
  Result<void> commit();

 private:
  const Connection& connection_;
  bool open_ = false;
};

}  // namespace seenby::sqlite
