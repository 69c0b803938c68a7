#pragma once
// SPDX-License-Identifier: MIT
// ClockGuard: the time that a window goes by. It never falls, and it does not follow a clock that jumps ahead.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

#include "seenby/clock.hpp"
#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// The latest time that was believed, shared by all callers. Queries raise it too: what one of them saw expire must not
/// come back.
///
/// A reading that is ahead of the latest by more than `slack`, with the steady clock's progress taken off, is a jump:
/// it is counted, and time goes on by the steady clock. Once the wall clock has stayed there for `held` it is believed:
/// a machine that started with a wrong clock or slept is right from then on. The first reading of all is believed.
///
/// Any thread may call anything. The fields are independent atomics: a race can count a jump twice, or let a thread
/// see the steady clock's progress since an earlier reading; it cannot lower the time.
class ClockGuard {
 public:
  static constexpr std::chrono::seconds held{60};  ///< how long a jump lasts before it is believed

  /// The least slack: both clocks are read in whole seconds, one after the other.
  static constexpr std::chrono::seconds least_slack{2};

  ClockGuard() noexcept = default;
  /// Continues at a time that was saved. The next reading is believed: the seconds in between were not measured.
  explicit ClockGuard(Time latest) noexcept : latest_(bounded(latest)) {}
  ClockGuard(const ClockGuard& other) noexcept { *this = other; }
  ClockGuard& operator=(const ClockGuard& other) noexcept {
    latest_.store(other.latest_.load(relaxed), relaxed);
    steady_at_.store(other.steady_at_.load(relaxed), relaxed);
    jump_since_.store(other.jump_since_.load(relaxed), relaxed);
    jump_offset_.store(other.jump_offset_.load(relaxed), relaxed);
    jumps_.store(other.jumps_.load(relaxed), relaxed);
    return *this;
  }

  /// The time to go by, raised to the clock's reading. Reads the steady clock only when that is later than ever.
  Time now(const Clock& clock, std::chrono::seconds slack) const { return now(clock, clock(), slack); }
  /// The same with a reading of the wall clock at hand.
  Time now(const Clock& clock, Time reading, std::chrono::seconds slack) const {
    const std::int64_t latest = latest_.load(relaxed);
    const std::int64_t wall = bounded(reading);
    if (wall <= latest) {
      end_jump();
      return time_of(latest);
    }
    const std::int64_t steady = clock.steady().count();
    const std::int64_t since = steady_at_.load(relaxed);
    if (since == none || wall - latest <= slack.count()) {
      end_jump();
      return raise(wall, steady);
    }
    const std::int64_t expected = latest + std::max<std::int64_t>(0, steady - since);
    if (wall - expected > slack.count() && !jump_held(wall - steady, steady, slack)) return raise(expected, steady);
    end_jump();
    return raise(wall, steady);
  }

  /// The latest time that was believed; Time::min() before the first reading.
  [[nodiscard]] Time latest() const noexcept {
    const std::int64_t latest = latest_.load(relaxed);
    return latest == -farthest ? Time::min() : time_of(latest);
  }
  /// How often the clock jumped and was not followed at once.
  [[nodiscard]] std::uint64_t jumps() const noexcept { return jumps_.load(relaxed); }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t farthest = std::int64_t{1} << 60;  // sums and differences of two stay in range

  [[nodiscard]] static std::int64_t bounded(Time time) noexcept {
    return std::clamp<std::int64_t>(time.time_since_epoch().count(), -farthest, farthest);
  }
  [[nodiscard]] static Time time_of(std::int64_t seconds) noexcept { return Time{std::chrono::seconds{seconds}}; }

  Time raise(std::int64_t to, std::int64_t steady) const noexcept {
    std::int64_t latest = latest_.load(relaxed);
    while (latest < to && !latest_.compare_exchange_weak(latest, to, relaxed)) {}
    if (latest >= to) return time_of(latest);
    steady_at_.store(steady, relaxed);
    return time_of(to);
  }

  /// Whether the clock jumped to where it is a while ago. `offset` is by how much wall and steady clock differ.
  [[nodiscard]] bool jump_held(std::int64_t offset, std::int64_t steady, std::chrono::seconds slack) const noexcept {
    const std::int64_t since = jump_since_.load(relaxed);
    const std::int64_t before = jump_offset_.load(relaxed);
    if (since != none && std::max(offset, before) - std::min(offset, before) <= slack.count()) {
      return steady - since >= held.count();
    }
    jump_offset_.store(offset, relaxed);
    jump_since_.store(steady, relaxed);
    jumps_.fetch_add(1, relaxed);
    return false;
  }
  void end_jump() const noexcept {
    if (jump_since_.load(relaxed) != none) jump_since_.store(none, relaxed);
  }

  mutable std::atomic<std::int64_t> latest_{-farthest};
  mutable std::atomic<std::int64_t> steady_at_{none};   // the steady clock when latest_ was raised
  mutable std::atomic<std::int64_t> jump_since_{none};  // the steady clock at the first reading of a jump
  mutable std::atomic<std::int64_t> jump_offset_{0};
  mutable std::atomic<std::uint64_t> jumps_{0};
};

SEENBY_DETAIL_END
