// SPDX-License-Identifier: MIT
// The connection pool, its breaker, and the executor for one server.

#include "redis/transport/pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace seenby::redis {
namespace {

/// Whether an outcome means that the server is failing, not that it refused a command.
bool is_failure(ErrorCode code) noexcept {
  return is_down(code) || code == ErrorCode::corrupt || code == ErrorCode::io;
}

/// A new connection, unless its server says that it is a replica.
Result<Connection> if_master(Result<Connection> connection, Deadline deadline) {
  if (!connection) return connection;
  const auto question = Command::with_key(Command::no_key, "ROLE");
  auto replies = connection->execute({&question, 1}, deadline);
  if (!replies) return std::move(replies).error();
  if (const Error* error = replies->front().error()) return *error;
  const Reply::Array* role = replies->front().array();
  if (role != nullptr && !role->empty() && role->front().is_status("master")) return connection;
  std::string message = "seenby::redis: expected ";
  return Error{ErrorCode::unreachable, message.append(connection->endpoint().text()).append(" to be a master")};
}

}  // namespace

/// The connections of one process.
struct ConnectionPool::State {
  explicit State(const PoolOptions& options) : breaker(options.breaker) { idle.reserve(options.size); }

  const pid_t process = getpid();
  CircuitBreaker breaker;
  std::mutex mutex;  ///< guards the next four
  std::condition_variable returned;
  std::vector<Connection> idle;
  std::size_t lent_or_idle = 0;
  std::string last_failure;
  PoolCounters counters;

  void give_back(Connection connection) {
    {
      const std::lock_guard lock(mutex);
      if (connection.usable()) {
        idle.push_back(std::move(connection));
      } else {
        --lent_or_idle;
        ++counters.connections_dropped;
      }
    }
    returned.notify_one();
  }
};

ConnectionPool::Lease::Lease(State& state, Connection connection, bool reused)
    : state_(&state), connection_(std::move(connection)), reused_(reused) {}

ConnectionPool::Lease::Lease(Lease&& other) noexcept
    : state_(other.state_), connection_(std::move(other.connection_)), reused_(other.reused_) {
  other.connection_.reset();
}

ConnectionPool::Lease::~Lease() {
  if (connection_) state_->give_back(std::move(*connection_));
}

ConnectionPool::ConnectionPool(Endpoint endpoint, ConnectionOptions connection, PoolOptions options)
    : endpoint_(std::move(endpoint)),
      connection_(std::move(connection)),
      options_({.size = std::max<std::size_t>(1, options.size),
                .masters_only = options.masters_only,
                .breaker = options.breaker}),
      state_(new State(options_)) {}

ConnectionPool::~ConnectionPool() { delete state_.load(); }

ConnectionPool::State& ConnectionPool::state() const {
  State* known = state_.load(std::memory_order_acquire);
  if (known->process == getpid()) return *known;
  auto own = std::make_unique<State>(options_);
  if (!state_.compare_exchange_strong(known, own.get(), std::memory_order_acq_rel)) return *known;
  // Closes the child's copies of the parent's sockets, and sends nothing. A mutex that another thread held when the
  // parent forked stays locked for ever: then they stay open.
  if (known->mutex.try_lock()) {
    known->mutex.unlock();
    delete known;
  }
  return *own.release();
}

bool ConnectionPool::is_failing() const { return state().breaker.is_open(); }

Error ConnectionPool::breaker_error(State& state) const {
  const std::lock_guard lock(state.mutex);
  std::string message = "seenby::redis: ";
  message.append(endpoint_.text()).append(": not asked, it failed lately: ").append(state.last_failure);
  return {ErrorCode::unreachable, std::move(message)};
}

Result<ConnectionPool::Lease> ConnectionPool::borrow(Deadline deadline) {
  State& own = state();
  const auto now = CircuitBreaker::clock::now();
  if (own.breaker.is_open() && !own.breaker.allow(now, deadline.left())) return breaker_error(own);
  std::unique_lock lock(own.mutex);
  while (true) {
    while (!own.idle.empty()) {
      Connection connection = std::move(own.idle.back());
      own.idle.pop_back();
      // A system call, which other callers need not wait for.
      lock.unlock();
      if (connection.idle_and_alive()) return Lease(own, std::move(connection), true);
      lock.lock();
      --own.lent_or_idle;
      ++own.counters.connections_dropped;
    }
    if (own.lent_or_idle < options_.size) {
      ++own.lent_or_idle;
      lock.unlock();
      return connect(own, deadline);
    }
    if (own.returned.wait_until(lock, deadline.at) == std::cv_status::timeout && own.idle.empty() &&
        own.lent_or_idle >= options_.size) {
      std::string message = "seenby::redis: ";
      message.append(endpoint_.text()).append(": timed out waiting for one of ");
      return Error{ErrorCode::timed_out, message.append(std::to_string(options_.size)).append(" connections")};
    }
  }
}

Result<ConnectionPool::Lease> ConnectionPool::connect(State& state, Deadline deadline) {
  const Deadline soon = deadline.earlier(Deadline::after(connection_.connect_timeout));
  auto connection = Connection::open(endpoint_, connection_, soon);
  if (options_.masters_only) connection = if_master(std::move(connection), soon);
  const std::lock_guard lock(state.mutex);
  if (connection) {
    ++state.counters.connects;
    return Lease(state, std::move(*connection), false);
  }
  ++state.counters.connect_failures;
  --state.lent_or_idle;
  state.returned.notify_one();
  state.last_failure = connection.error().message;
  if (is_failure(connection.error().code)) state.breaker.failed(CircuitBreaker::clock::now());
  return std::move(connection).error();
}

void ConnectionPool::report(const Result<std::vector<Reply>>& outcome) {
  State& own = state();
  if (outcome || !is_failure(outcome.error().code)) {
    own.breaker.succeeded();
    return;
  }
  {
    const std::lock_guard lock(own.mutex);
    own.last_failure = outcome.error().message;
  }
  own.breaker.failed(CircuitBreaker::clock::now());
}

Result<std::vector<Reply>> ConnectionPool::execute(std::span<const Command> batch, Deadline deadline) {
  if (batch.empty()) return std::vector<Reply>{};
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
    State& own = state();
    const std::lock_guard lock(own.mutex);
    ++own.counters.resent_batches;
  }
}

PoolCounters ConnectionPool::counters() const {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  PoolCounters counters = own.counters;
  counters.refused_by_breaker = own.breaker.refused();
  counters.breaker_openings = own.breaker.times_opened();
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
