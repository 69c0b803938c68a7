// SPDX-License-Identifier: MIT
#include "connection.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace seenby::postgres {

namespace {

std::string_view text_or(const char* text, std::string_view fallback) { return text == nullptr ? fallback : text; }

/// An error by its SQLSTATE.
Error error_of(const PGresult* result) {
  const std::string_view state = text_or(PQresultErrorField(result, PG_DIAG_SQLSTATE), "none");
  ErrorCode code = ErrorCode::refused;
  if (state == "57014") code = ErrorCode::timed_out;                      // statement_timeout
  if (state == "40001" || state == "40P01") code = ErrorCode::conflict;   // serialization, deadlock
  if (state == "53100" || state.starts_with("58")) code = ErrorCode::io;  // disk full; the server's system
  if (state.starts_with("57P") || state.starts_with("08")) code = ErrorCode::unreachable;  // shutting down
  std::string message = "seenby::postgres: ";
  message.append(text_or(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), "no message"));
  return {code, message.append(" (SQLSTATE ").append(state).append(")")};
}

}  // namespace

std::int64_t Rows::number(int row, int column) const noexcept {
  const char* data = PQgetvalue(result_.get(), row, column);
  std::uint64_t value = 0;
  for (int i = 0; i < PQgetlength(result_.get(), row, column); ++i) {
    value = value << 8 | static_cast<unsigned char>(data[i]);
  }
  return static_cast<std::int64_t>(value);
}

KeyView Rows::key(int row, int column, ItemKind kind) const noexcept {
  if (kind == ItemKind::integer) return {kind, number(row, column), {}};
  const auto size = static_cast<std::size_t>(PQgetlength(result_.get(), row, column));
  return {kind, 0, {PQgetvalue(result_.get(), row, column), size}};
}

std::size_t Rows::changed() const {
  return static_cast<std::size_t>(std::strtoull(PQcmdTuples(result_.get()), nullptr, 10));
}

Result<Connection> Connection::open(const std::string& address, std::chrono::milliseconds statement_timeout,
                                    Deadline deadline) {
  Connection connection(PQconnectStart(address.c_str()));
  if (connection.handle_ == nullptr) return Error{ErrorCode::io, "seenby::postgres: out of memory"};
  if (auto connected = connection.finish_connecting(deadline); !connected) return std::move(connected).error();
  PQsetnonblocking(connection.handle_.get(), 1);
  constexpr std::chrono::milliseconds longest{std::numeric_limits<int>::max()};  // that the server takes
  const std::string settings = std::string("SET statement_timeout = ")
                                   .append(std::to_string(std::min(statement_timeout, longest).count()))
                                   .append("; SET client_min_messages = warning");
  if (auto set = connection.run(settings, deadline); !set) return std::move(set).error();
  return connection;
}

Result<void> Connection::finish_connecting(Deadline deadline) {
  if (PQstatus(handle_.get()) == CONNECTION_BAD) return lost();
  // Begun, it is as if the last poll had said "writing" (libpq: PQconnectStartParams).
  for (PostgresPollingStatusType status = PGRES_POLLING_WRITING; status != PGRES_POLLING_OK;) {
    if (auto ready = wait(status == PGRES_POLLING_WRITING, deadline); !ready) return ready;
    status = PQconnectPoll(handle_.get());
    if (status == PGRES_POLLING_FAILED) return lost();
  }
  return {};
}

Error Connection::lost() {
  broken_ = true;
  std::string message = "seenby::postgres: ";
  message.append(PQerrorMessage(handle_.get()));
  while (message.ends_with('\n')) message.pop_back();
  return {ErrorCode::unreachable, std::move(message)};
}

Result<void> Connection::wait(bool for_writing, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd file{PQsocket(handle_.get()), static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN), 0};
    const int ready = file.fd < 0 ? -1 : ::poll(&file, 1, static_cast<int>(std::clamp<long long>(left, 0, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno == EINTR && file.fd >= 0) continue;
    if (ready < 0) return lost();
    if (left > 0) continue;
    broken_ = true;  // a late answer must not be taken for the next one's
    return Error{ErrorCode::timed_out, "seenby::postgres: the server did not answer within the deadline"};
  }
}

Result<Rows> Connection::receive(Deadline deadline) {
  for (int unsent = PQflush(handle_.get()); unsent != 0; unsent = PQflush(handle_.get())) {
    if (unsent < 0) return lost();
    if (auto ready = wait(true, deadline); !ready) return std::move(ready).error();
    if (PQconsumeInput(handle_.get()) == 0) return lost();
  }
  std::unique_ptr<PGresult, void (*)(PGresult*)> last(nullptr, PQclear);
  for (;;) {
    while (PQisBusy(handle_.get()) != 0) {
      if (auto ready = wait(false, deadline); !ready) return std::move(ready).error();
      if (PQconsumeInput(handle_.get()) == 0) return lost();
    }
    PGresult* next = PQgetResult(handle_.get());
    if (next == nullptr) break;
    const bool failed = last && PQresultStatus(last.get()) == PGRES_FATAL_ERROR;
    failed ? PQclear(next) : last.reset(next);
    if (PQstatus(handle_.get()) != CONNECTION_OK) break;
  }
  if (!last || (PQresultStatus(last.get()) == PGRES_FATAL_ERROR && PQstatus(handle_.get()) != CONNECTION_OK)) {
    return lost();
  }
  if (PQresultStatus(last.get()) == PGRES_FATAL_ERROR) return error_of(last.get());
  return Rows(last.release());
}

Result<Rows> Connection::run(const std::string& sql, const Parameters& parameters, Deadline deadline) {
  const std::vector<const char*> data = parameters.data();
  const std::vector<int> lengths = parameters.lengths();
  const std::vector<int> binary(data.size(), 1);
  if (PQsendQueryParams(handle_.get(), sql.c_str(), parameters.size(), parameters.types(), data.data(), lengths.data(),
                        binary.data(), 1) == 0) {
    return lost();
  }
  return receive(deadline);
}

Result<void> Connection::run(const std::string& sql, Deadline deadline) {
  if (PQsendQuery(handle_.get(), sql.c_str()) == 0) return lost();
  auto done = receive(deadline);
  if (!done) return std::move(done).error();
  return {};
}

}  // namespace seenby::postgres
