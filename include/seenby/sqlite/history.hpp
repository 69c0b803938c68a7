#pragma once
// SPDX-License-Identifier: MIT
// SqliteHistory: who saw what, exactly, in one SQLite file.

#include <cstdint>
#include <string>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/keyed_history.hpp"
#include "seenby/result.hpp"
#include "seenby/sqlite/log.hpp"

namespace seenby {

/// An EventHistory and a HidingHistory in a SQLite file, the embedded default:
///
///     auto history = seenby::SqliteHistory<std::uint64_t, std::string>::open("seen.sqlite").or_throw();
///     seenby::SeenFilter filter{seenby::MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.01}}, history};
///
/// An append is a transaction, one sync of the disk however many events: append batches where many come at once. See
/// sqlite::Log for crashes, errors, threads and processes. Copies share the file.
template <HashableItem User, HashableItem Item>
class SqliteHistory : public KeyedHistory<sqlite::Log, User, Item> {
  using Base = KeyedHistory<sqlite::Log, User, Item>;

 public:
  /// Opens the file, or creates it. The kinds of users and items are written into it once: another kind later is a
  /// parameter_mismatch. Errors: sqlite::Log's.
  [[nodiscard]] static Result<SqliteHistory> open(const std::string& path, const sqlite::Options& options = {}) {
    auto log = sqlite::Log::open(path, item_kind<User>, item_kind<Item>, options);
    if (!log) return std::move(log).error();
    return SqliteHistory(*std::move(log));
  }

  /// Deletes what was seen before a time, in one transaction; returns how many events.
  Result<std::uint64_t> drop_before(Time time) { return this->log().drop_before(time); }

 private:
  explicit SqliteHistory(sqlite::Log log) : Base(std::move(log)) {}
};

}  // namespace seenby
