// SPDX-License-Identifier: MIT
// The circuit breaker: when it opens, probes and closes.

#include "redis/transport/breaker.hpp"

#include <algorithm>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"

namespace seenby::redis {
namespace {

std::int64_t nanoseconds_of(CircuitBreaker::clock::time_point at) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

}  // namespace

CircuitBreaker::CircuitBreaker(BreakerOptions options) noexcept
    : options_(options),
      backoff_(options.first_pause, options.longest_pause),
      random_state_(static_cast<std::uint64_t>(nanoseconds_of(clock::now()))) {}

bool CircuitBreaker::allow(clock::time_point now, std::chrono::milliseconds probe_lease) noexcept {
  std::int64_t until = open_until_.load(std::memory_order_relaxed);
  if (until == 0) return true;
  const std::int64_t lease = nanoseconds_of(saturating_add(now, probe_lease));
  // The pause is over: the thread that moves the mark is the one that probes.
  if (nanoseconds_of(now) >= until && open_until_.compare_exchange_strong(until, lease)) {
    probing_.store(true, std::memory_order_relaxed);
    return true;
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void CircuitBreaker::succeeded() noexcept {
  if (failures_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  failures_.store(0, std::memory_order_relaxed);
  open_until_.store(0, std::memory_order_relaxed);
  probing_.store(false, std::memory_order_relaxed);
  backoff_.reset();
}

void CircuitBreaker::failed(clock::time_point now) noexcept {
  if (options_.failures_to_open == 0) return;
  const std::lock_guard lock(mutex_);
  if (failures_.fetch_add(1, std::memory_order_relaxed) + 1 < options_.failures_to_open) return;
  // Requests that were under way when it opened fail late; only the probe's failure lengthens the pause.
  const bool probed = probing_.exchange(false, std::memory_order_relaxed);
  if (is_open() && !probed) return;
  random_state_ = detail::mix64(random_state_ + 0x9e3779b97f4a7c15U);
  const auto whole = std::chrono::nanoseconds(backoff_.next()).count();
  const auto half = std::max<std::int64_t>(1, whole / 2);
  const auto jitter = static_cast<std::int64_t>(random_state_ % static_cast<std::uint64_t>(half));
  open_until_.store(nanoseconds_of(now) + half + jitter, std::memory_order_relaxed);
  times_opened_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace seenby::redis
