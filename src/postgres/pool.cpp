// SPDX-License-Identifier: MIT
#include "pool.hpp"

#include <optional>
#include <thread>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/detail/backoff.hpp"

namespace seenby::postgres {

template <class Use>
auto Pool::with_connection(Deadline deadline, bool& idle, const Use& use)
    -> decltype(use(std::declval<Connection&>())) {
  std::optional<Connection> connection;
  {
    std::unique_lock lock(mutex_);
    if (!returned_.wait_until(lock, deadline, [&] { return free_ != 0; })) {
      return Error{ErrorCode::timed_out, "seenby::postgres: no connection came free within the deadline"};
    }
    --free_;
    idle = !idle_.empty();
    if (idle) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  struct Return {
    Pool& pool;
    std::optional<Connection>& lent;
    ~Return() {
      {
        const std::lock_guard lock(pool.mutex_);
        ++pool.free_;
        if (lent && !lent->broken()) pool.idle_.push_back(*std::move(lent));
      }
      pool.returned_.notify_one();
    }
  } back{*this, connection};
  if (!connection) {
    auto opened = Connection::open(address_, timeout_, deadline);
    if (!opened) return std::move(opened).error();
    connection = *std::move(opened);
  }
  auto done = use(*connection);
  if (!done && connection->broken()) {
    // The others that were idle as long are as likely broken.
    const std::lock_guard lock(mutex_);
    idle_.clear();
  }
  return done;
}

Deadline Pool::deadline() const noexcept { return saturating_add(std::chrono::steady_clock::now(), timeout_); }

Result<Rows> Pool::run(const std::string& sql, const Parameters& parameters, Deadline deadline) {
  detail::Backoff backoff(std::chrono::milliseconds(1), timeout_);
  for (bool resent = false;;) {
    bool idle = false;
    auto rows = with_connection(deadline, idle,
                                [&](Connection& connection) { return connection.run(sql, parameters, deadline); });
    if (rows) return rows;
    if (rows.error().code == ErrorCode::unreachable && idle && !resent) {
      resent = true;
    } else if (const auto retry = saturating_add(std::chrono::steady_clock::now(), backoff.next());
               rows.error().code == ErrorCode::conflict && retry < deadline) {
      std::this_thread::sleep_until(retry);
    } else {
      return rows;
    }
  }
}

Result<void> Pool::run(const std::string& sql, Deadline deadline) {
  bool idle = false;
  return with_connection(deadline, idle, [&](Connection& connection) { return connection.run(sql, deadline); });
}

}  // namespace seenby::postgres
