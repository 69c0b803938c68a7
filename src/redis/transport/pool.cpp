// SPDX-License-Identifier: MIT
// The connection pool, its breaker, and the executor for one server.

#include "redis/transport/pool.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace seenby::redis {
namespace {

/// Whether an outcome says that the server is in trouble, not that it refused something.
bool is_failure(ErrorCode code) noexcept {
  return code == ErrorCode::unreachable || code == ErrorCode::timed_out || code == ErrorCode::corrupt ||
         code == ErrorCode::io;
}

}  // namespace

ConnectionPool::Lease::Lease(ConnectionPool& pool, Connection connection, bool reused)
    : pool_(&pool), connection_(std::move(connection)), reused_(reused) {}

ConnectionPool::Lease::Lease(Lease&& other) noexcept
    : pool_(other.pool_), connection_(std::move(other.connection_)), reused_(other.reused_) {
  other.connection_.reset();
}

ConnectionPool::Lease::~Lease() {
  if (!connection_) return;
  const bool usable = connection_->usable();
  pool_->give_back(std::move(*connection_), usable);
}

ConnectionPool::ConnectionPool(Endpoint endpoint, ConnectionOptions connection, PoolOptions options)
    : endpoint_(std::move(endpoint)),
      connection_(std::move(connection)),
      options_({.size = std::max<std::size_t>(1, options.size), .breaker = options.breaker}),
      breaker_(options.breaker) {
  idle_.reserve(options_.size);
}

Error ConnectionPool::breaker_error() const {
  const std::lock_guard lock(mutex_);
  std::string message = "seenby::redis: ";
  message.append(endpoint_.text()).append(": not asked, it failed lately: ").append(last_failure_);
  return {ErrorCode::unreachable, std::move(message)};
}

Result<ConnectionPool::Lease> ConnectionPool::borrow(Deadline deadline) {
  const auto lease = connection_.connect_timeout + connection_.command_timeout;
  if (breaker_.is_open() && !breaker_.allow(CircuitBreaker::clock::now(), lease)) return breaker_error();
  std::unique_lock lock(mutex_);
  while (true) {
    while (!idle_.empty()) {
      Connection connection = std::move(idle_.back());
      idle_.pop_back();
      // A system call, which other callers need not wait for.
      lock.unlock();
      if (connection.idle_and_alive()) return Lease(*this, std::move(connection), true);
      lock.lock();
      --lent_or_idle_;
      ++counters_.connections_dropped;
    }
    if (lent_or_idle_ < options_.size) {
      ++lent_or_idle_;
      lock.unlock();
      return connect(deadline);
    }
    if (returned_.wait_until(lock, deadline.at) == std::cv_status::timeout && idle_.empty() &&
        lent_or_idle_ >= options_.size) {
      std::string message = "seenby::redis: ";
      message.append(endpoint_.text()).append(": timed out waiting for one of ");
      return Error{ErrorCode::timed_out, message.append(std::to_string(options_.size)).append(" connections")};
    }
  }
}

Result<ConnectionPool::Lease> ConnectionPool::connect(Deadline deadline) {
  auto connection =
      Connection::open(endpoint_, connection_, deadline.earlier(Deadline::after(connection_.connect_timeout)));
  const std::lock_guard lock(mutex_);
  if (connection) {
    ++counters_.connects;
    return Lease(*this, std::move(*connection), false);
  }
  ++counters_.connect_failures;
  --lent_or_idle_;
  returned_.notify_one();
  last_failure_ = connection.error().message;
  if (is_failure(connection.error().code)) breaker_.failed(CircuitBreaker::clock::now());
  return std::move(connection).error();
}

void ConnectionPool::give_back(Connection connection, bool usable) {
  {
    const std::lock_guard lock(mutex_);
    if (usable) {
      idle_.push_back(std::move(connection));
    } else {
      --lent_or_idle_;
      ++counters_.connections_dropped;
    }
  }
  returned_.notify_one();
}

void ConnectionPool::report(const Result<std::vector<Reply>>& outcome) {
  if (outcome || !is_failure(outcome.error().code)) {
    breaker_.succeeded();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    last_failure_ = outcome.error().message;
  }
  breaker_.failed(CircuitBreaker::clock::now());
}

Result<std::vector<Reply>> ConnectionPool::execute(std::span<const Command> batch, Deadline deadline) {
  if (batch.empty()) return std::vector<Reply>{};
  deadline = deadline.earlier(Deadline::after(connection_.command_timeout));
  while (true) {
    auto lease = borrow(deadline);
    if (!lease) return std::move(lease).error();
    Connection& connection = **lease;
    auto outcome = connection.execute(batch, deadline);
    const bool resend = !outcome && lease->reused() && outcome.error().code == ErrorCode::unreachable &&
                        connection.failed_before_answer();
    if (!resend) {
      report(outcome);
      return outcome;
    }
    // The server closed it while it lay in the pool (a restart, CLIENT KILL, its idle time-out). A fresh connection
    // is not `reused`, so this ends.
    const std::lock_guard lock(mutex_);
    ++counters_.resent_batches;
  }
}

PoolCounters ConnectionPool::counters() const {
  const std::lock_guard lock(mutex_);
  PoolCounters counters = counters_;
  counters.refused_by_breaker = breaker_.refused();
  counters.breaker_openings = breaker_.times_opened();
  return counters;
}

PooledExecutor::PooledExecutor(Endpoint endpoint, ConnectionOptions connection, PoolOptions options)
    : pool_(std::move(endpoint), std::move(connection), options) {}

PooledExecutor::PooledExecutor(const Url& url)
    : PooledExecutor(url.endpoints.at(0), url.connection, {.size = url.pool_size, .breaker = {}}) {}

Result<std::vector<Reply>> PooledExecutor::execute(std::span<const Command> batch, Deadline deadline) {
  return pool_.execute(batch, deadline);
}

std::string PooledExecutor::name() const { return pool_.endpoint().text(); }

}  // namespace seenby::redis
