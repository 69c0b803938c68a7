// SPDX-License-Identifier: MIT
#include "connection.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace seenby::sqlite {

namespace {

ErrorCode code_of(int code) noexcept {
  switch (code & 0xff) {  // the primary code of an extended one
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ErrorCode::timed_out;
    case SQLITE_CORRUPT: return ErrorCode::corrupt;
    case SQLITE_NOTADB: return ErrorCode::wrong_type;
    case SQLITE_TOOBIG: return ErrorCode::too_large;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return ErrorCode::refused;
    default: return ErrorCode::io;
  }
}

}  // namespace

Result<Connection> Connection::open(const std::string& path, int flags, std::chrono::milliseconds busy_timeout) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Connection connection(handle, path);
  if (code != SQLITE_OK) return connection.error(code);
  constexpr std::chrono::milliseconds longest{std::numeric_limits<int>::max()};
  sqlite3_busy_timeout(handle, static_cast<int>(std::clamp(busy_timeout, {}, longest).count()));
  return connection;
}

Error Connection::error(int code) const {
  std::string message = "seenby::sqlite: ";
  message.append(path_).append(": ").append(sqlite3_errstr(code));
  if (handle_ != nullptr) message.append(" (").append(sqlite3_errmsg(get())).append(")");
  return {code_of(code), std::move(message)};
}

Result<void> Connection::run(const char* sql) const {
  const int code = sqlite3_exec(get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

Result<std::int64_t> Connection::integer(const char* sql) const {
  auto statement = Statement::prepare(*this, sql);
  if (!statement) return std::move(statement).error();
  const int code = statement->step();
  if (code != SQLITE_ROW) return error(code);
  return statement->integer(0);
}

Result<Statement> Statement::prepare(const Connection& connection, const char* sql) {
  Statement statement;
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v3(connection.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (code != SQLITE_OK) return connection.error(code);
  statement.handle_.reset(handle);
  return statement;
}

Statement& Statement::bind(int place, const KeyView& key) noexcept {
  if (key.kind == ItemKind::integer) return bind(place, key.number);
  // A null pointer would bind NULL and not an empty value.
  const char* data = key.bytes.empty() ? "" : key.bytes.data();
  return note(sqlite3_bind_blob64(handle_.get(), place, data, key.bytes.size(), SQLITE_STATIC));
}

KeyView Statement::key(int column, ItemKind kind) const noexcept {
  if (kind == ItemKind::integer) return {kind, integer(column), {}};
  const auto* data = static_cast<const char*>(sqlite3_column_blob(handle_.get(), column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return {kind, 0, size == 0 ? std::string_view() : std::string_view(data, size)};
}

Result<void> Transaction::begin(const char* sql) {
  auto begun = connection_.run(sql);
  open_ = begun.has_value();
  return begun;
}

Result<void> Transaction::commit() {
  auto committed = connection_.run("COMMIT");
  if (committed) open_ = false;
  return committed;
}

}  // namespace seenby::sqlite
