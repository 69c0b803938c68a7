// SPDX-License-Identifier: MIT
#include "schema.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "seenby/clock.hpp"

namespace seenby::sqlite {

namespace {

constexpr std::int64_t application_id = 0x5365'656e;  // "Seen"

/// migrations[v] brings version v to v + 1. What was released once is never changed: append.
///
/// `item`, `name` and the `user` of a hide have no type, so that an integer stays one and everything else is the bytes
/// it is. A hide's `id` is its place in the order.
constexpr std::array migrations{
    R"(CREATE TABLE kinds(what TEXT PRIMARY KEY, kind INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE users(id INTEGER PRIMARY KEY, name NOT NULL UNIQUE);
CREATE TABLE events(user INTEGER NOT NULL, item NOT NULL, event INTEGER NOT NULL, at INTEGER NOT NULL,
                    PRIMARY KEY(user, item, event)) WITHOUT ROWID;
CREATE INDEX events_by_time ON events(user, at);
CREATE INDEX events_by_item ON events(item);
CREATE VIEW impressions AS
  SELECT CASE typeof(name) WHEN 'blob' THEN CAST(name AS TEXT) ELSE name END AS user,
         CASE typeof(item) WHEN 'blob' THEN CAST(item AS TEXT) ELSE item END AS item,
         datetime(at, 'unixepoch') AS seen_at
    FROM events JOIN users ON users.id = events.user;)",
    R"(CREATE TABLE hides(id INTEGER PRIMARY KEY, user NOT NULL, item NOT NULL, at INTEGER NOT NULL, UNIQUE(user, item));
)"};

Error not_ours(const std::string& found) {
  return {ErrorCode::wrong_type,
          std::string("seenby::sqlite: expected a history of ours or an empty file, got ").append(found)};
}

Result<void> require_ours(const Connection& connection) {
  auto tables = connection.integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return std::move(tables).error();
  auto id = connection.integer("PRAGMA application_id");
  if (!id) return std::move(id).error();
  if (*id == application_id || (*id == 0 && *tables == 0)) return {};
  return not_ours(std::string("a database with application_id ").append(std::to_string(*id)));
}

Result<void> migrate(const Connection& connection) {
  auto version = connection.integer("PRAGMA user_version");
  if (!version) return std::move(version).error();
  if (*version > static_cast<std::int64_t>(migrations.size())) {
    return Error{ErrorCode::unsupported_version, std::string("seenby::sqlite: expected a schema of version ")
                                                     .append(std::to_string(migrations.size()))
                                                     .append(" at most, got ")
                                                     .append(std::to_string(*version))};
  }
  for (auto at = static_cast<std::size_t>(*version); at < migrations.size(); ++at) {
    if (auto done = connection.run(migrations[at]); !done) return done;
  }
  const std::string stamp = std::string("PRAGMA application_id = ")
                                .append(std::to_string(application_id))
                                .append("; PRAGMA user_version = ")
                                .append(std::to_string(migrations.size()));
  return connection.run(stamp.c_str());
}

Result<void> require_kind(const Connection& connection, const char* what, ItemKind kind) {
  auto insert = Statement::prepare(connection, "INSERT INTO kinds VALUES(?1, ?2) ON CONFLICT(what) DO NOTHING");
  if (!insert) return std::move(insert).error();
  const KeyView name{ItemKind::text, 0, what};
  if (const int code = insert->bind(1, name).bind(2, static_cast<std::int64_t>(kind)).step(); code != SQLITE_DONE) {
    return connection.error(code);
  }
  auto select = Statement::prepare(connection, "SELECT kind FROM kinds WHERE what = ?1");
  if (!select) return std::move(select).error();
  if (const int code = select->bind(1, name).step(); code != SQLITE_ROW) return connection.error(code);
  const auto there = static_cast<ItemKind>(select->integer(0));
  if (there == kind) return {};
  return Error{ErrorCode::parameter_mismatch, std::string("seenby::sqlite: expected ")
                                                  .append(what)
                                                  .append(" of kind ")
                                                  .append(to_string(there))
                                                  .append(", which the file holds, got ")
                                                  .append(to_string(kind))};
}

/// SQLite does not wait for the lock that the change to WAL takes where another connection makes the same change: both
/// would wait for each other (sqlite.org/rescode.html#busy). So the wait is here.
Result<void> write_ahead(const Connection& connection, std::chrono::milliseconds busy_timeout) {
  const auto deadline = saturating_add(std::chrono::steady_clock::now(), busy_timeout);
  while (true) {
    auto changed = connection.run("PRAGMA journal_mode = WAL");
    if (changed || changed.error().code != ErrorCode::timed_out || std::chrono::steady_clock::now() >= deadline) {
      return changed;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Result<void> prepare_schema(const Connection& connection, ItemKind user_kind, ItemKind item_kind,
                            std::chrono::milliseconds busy_timeout) {
  if (auto ours = require_ours(connection); !ours) return ours;
  if (auto mode = write_ahead(connection, busy_timeout); !mode) return mode;
  Transaction transaction(connection);
  if (auto begun = transaction.begin("BEGIN IMMEDIATE"); !begun) return begun;
  if (auto done = migrate(connection); !done) return done;
  if (auto same = require_kind(connection, "users", user_kind); !same) return same;
  if (auto same = require_kind(connection, "items", item_kind); !same) return same;
  return transaction.commit();
}

}  // namespace seenby::sqlite
