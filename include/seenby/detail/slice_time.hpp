#pragma once
// SPDX-License-Identifier: MIT
// SliceTime: which slice of a rotating window a time falls into, and which is the newest.

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "seenby/clock.hpp"
#include "seenby/detail/clock_guard.hpp"

SEENBY_DETAIL_BEGIN

/// Time in slices of one length: slice n covers [n, n + 1) * slice_seconds. The newest number never falls: after a
/// clock jumps back it stays, and no dropped slice returns. Nor does it follow a clock that jumps ahead by more than a
/// slice until it has stayed there (ClockGuard). Queries raise it too. Any thread may call any const member.
class SliceTime {
 public:
  /// A length of 0: no window, and every time is in slice 0.
  explicit SliceTime(std::int64_t seconds) noexcept : length_(seconds) {}

  [[nodiscard]] bool windowed() const noexcept { return length_ != 0; }
  [[nodiscard]] std::int64_t slice_seconds() const noexcept { return length_; }

  /// The slice of a time; 0 without a window.
  [[nodiscard]] std::int64_t number(Time time) const noexcept {
    if (!windowed()) return 0;
    const std::int64_t seconds = time.time_since_epoch().count();
    return seconds / length_ - (seconds % length_ < 0 ? 1 : 0);  // rounded down, at either end of time too
  }
  /// When a slice of a window begins; Time::min() for one before time.
  [[nodiscard]] Time start(std::int64_t slice) const noexcept {
    const std::int64_t most = Time::max().time_since_epoch().count() / length_;
    if (slice < -most) return Time::min();
    return Time{std::chrono::seconds{std::min(slice, most) * length_}};
  }
  /// The newest slice by this clock, or by any reading before. 0 without a window, and the clock is not read.
  [[nodiscard]] std::int64_t newest(const Clock& clock) const { return windowed() ? newest(clock, clock()) : 0; }
  /// The same with a reading of the wall clock at hand.
  [[nodiscard]] std::int64_t newest(const Clock& clock, Time reading) const {
    return windowed() ? number(guard_.now(clock, reading, slack())) : 0;
  }
  /// The newest slice without another reading.
  [[nodiscard]] std::int64_t latest() const noexcept { return number(guard_.latest()); }
  /// Whether the clock was ever read, or a slice resumed.
  [[nodiscard]] bool started() const noexcept { return guard_.latest() != Time::min(); }
  /// Goes on at the beginning of this slice, as a snapshot knew it, where that is later than ever.
  void resume(std::int64_t slice) noexcept {
    if (windowed() && start(slice) > guard_.latest()) guard_ = ClockGuard(start(slice));
  }
  /// How often the clock jumped ahead and was not followed at once.
  [[nodiscard]] std::uint64_t jumps() const noexcept { return guard_.jumps(); }

 private:
  [[nodiscard]] std::chrono::seconds slack() const noexcept {
    return std::max(std::chrono::seconds(length_), ClockGuard::least_slack);
  }

  std::int64_t length_;
  ClockGuard guard_;
};

SEENBY_DETAIL_END
