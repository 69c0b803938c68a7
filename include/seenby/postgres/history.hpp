#pragma once
// SPDX-License-Identifier: MIT
// PostgresHistory: who saw what, exactly, in PostgreSQL.

#include <cstddef>
#include <string>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/keyed_history.hpp"
#include "seenby/postgres/log.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// An EventHistory and a HidingHistory in PostgreSQL:
///
///     auto history = seenby::PostgresHistory<std::uint64_t, std::string>::open("postgres:///shop").or_throw();
///
/// One statement and one round trip a call. See postgres::Log for tables, errors, deadlines and threads. Copies share
/// the connections.
template <HashableItem User, HashableItem Item>
class PostgresHistory : public KeyedHistory<postgres::Log, User, Item> {
  using Base = KeyedHistory<postgres::Log, User, Item>;

 public:
  /// Connects, and creates the tables where there are none. The kinds of users and items are written there once:
  /// another kind later is a parameter_mismatch. Errors: postgres::Log's.
  [[nodiscard]] static Result<PostgresHistory> open(const std::string& address, const postgres::Options& options = {}) {
    auto log = postgres::Log::open(address, item_kind<User>, item_kind<Item>, options);
    if (!log) return std::move(log).error();
    return PostgresHistory(*std::move(log));
  }

  /// Drops the months that were over at a time, however many rows they hold; returns how many months.
  Result<std::size_t> drop_months_before(Time time) { return this->log().drop_months_before(time); }

 private:
  explicit PostgresHistory(postgres::Log log) : Base(std::move(log)) {}
};

}  // namespace seenby
