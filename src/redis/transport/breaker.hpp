#pragma once
// SPDX-License-Identifier: MIT
// CircuitBreaker: a dead server costs a request a clock reading, not a time-out.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "seenby/detail/backoff.hpp"

namespace seenby::redis {

/// When the breaker opens and how long it stays open.
struct BreakerOptions {
  std::uint32_t failures_to_open = 3;              ///< consecutive ones; 0 switches the breaker off
  std::chrono::milliseconds first_pause{50};       ///< doubles with each failed probe
  std::chrono::milliseconds longest_pause{5'000};  ///< and ends here
};

/// Closed, it lets every request through. After `failures_to_open` failures in a row it opens: requests are refused at
/// once until the pause is over. Then one request probes, the others are still refused; its success closes the breaker,
/// its failure doubles the pause. Pauses are drawn between half and the whole of their length, so that many clients do
/// not come back in step (exponential backoff with jitter).
///
/// Every member may be called from any thread; `allow` is one relaxed load while closed.
class CircuitBreaker {
 public:
  using clock = std::chrono::steady_clock;
  explicit CircuitBreaker(BreakerOptions options = {}) noexcept;

  /// Whether a request may go out now. While half open, true for one caller in `probe_lease`; that caller must report.
  [[nodiscard]] bool allow(clock::time_point now, std::chrono::milliseconds probe_lease) noexcept;
  void succeeded() noexcept;
  void failed(clock::time_point now) noexcept;

  [[nodiscard]] bool is_open() const noexcept { return open_until_.load(std::memory_order_relaxed) != 0; }
  /// How often it opened or stayed open after a probe.
  [[nodiscard]] std::uint64_t times_opened() const noexcept { return times_opened_.load(std::memory_order_relaxed); }
  /// How many requests were refused at once.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  const BreakerOptions options_;
  std::atomic<std::int64_t> open_until_{0};  ///< steady-clock nanoseconds; 0 while closed
  std::atomic<bool> probing_{false};
  std::atomic<std::uint32_t> failures_{0};
  std::atomic<std::uint64_t> times_opened_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::mutex mutex_;
  detail::Backoff backoff_;
  std::uint64_t random_state_;
};

}  // namespace seenby::redis
