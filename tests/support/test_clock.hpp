#pragma once
// SPDX-License-Identifier: MIT
// TestClock: a clock that a test sets.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "seenby/clock.hpp"

namespace seenby::test {

inline constexpr std::chrono::seconds day = std::chrono::hours{24};

/// Shared by the structures that were given it; may be set while other threads read it.
class TestClock {
 public:
  explicit TestClock(Time start = Time{20'000 * day}) : now_(std::make_shared<std::atomic<std::int64_t>>()) {
    set(start);
  }
  void set(Time time) { now_->store(time.time_since_epoch().count()); }
  void advance(std::chrono::seconds by) { set(now() + by); }
  [[nodiscard]] Time now() const { return Time{std::chrono::seconds{now_->load()}}; }
  /// A clock that jumps when the test says so, and is believed.
  [[nodiscard]] Clock clock() const { return Clock::simulated(wall()); }
  /// The wall clock of a server: a jump of more than a slice is an error until it has lasted. Its steady clock is the
  /// machine's.
  [[nodiscard]] std::function<Time()> wall() const {
    return [now = now_] { return Time{std::chrono::seconds{now->load()}}; };
  }

 private:
  std::shared_ptr<std::atomic<std::int64_t>> now_;
};

}  // namespace seenby::test
