#pragma once
// SPDX-License-Identifier: MIT
// Time and Clock: the seconds that windows, tokens and histories count in, and where they come from.

#include <algorithm>
#include <chrono>
#include <functional>
#include <ratio>

namespace seenby {

/// Seconds since the Unix epoch. Windows, tokens and histories use it; nothing in seenby needs finer time.
using Time = std::chrono::sys_seconds;
/// Where a store takes the time from. Called from any thread.
using Clock = std::function<Time()>;

/// The system's clock.
[[nodiscard]] inline Time system_time() {
  return std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
}

/// time + by, or the earliest or latest time there is where the sum would lie beyond it: `seconds::max()` is "for
/// ever", whatever the clock counts in. A part of `by` finer than the clock's unit is cut off.
template <class AnyClock, class Unit, class Rep, class Period>
[[nodiscard]] constexpr std::chrono::time_point<AnyClock, Unit> saturating_add(
    std::chrono::time_point<AnyClock, Unit> time, std::chrono::duration<Rep, Period> by) noexcept {
  using By = std::chrono::duration<Rep, Period>;
  using Point = std::chrono::time_point<AnyClock, Unit>;
  const Unit since = time.time_since_epoch();
  // How far there is to go; neither difference can overflow.
  const Unit up = Unit::max() - std::max(since, Unit::zero());
  const Unit down = Unit::min() - std::min(since, Unit::zero());
  // Compared in the coarser unit, which holds both sides.
  if constexpr (std::ratio_less_equal_v<typename Unit::period, Period>) {
    if (by > std::chrono::duration_cast<By>(up)) return Point::max();
    if (by < std::chrono::duration_cast<By>(down)) return Point::min();
    return time + std::chrono::duration_cast<Unit>(by);
  } else {
    const Unit whole = std::chrono::duration_cast<Unit>(by);
    if (whole > up) return Point::max();
    if (whole < down) return Point::min();
    return time + whole;
  }
}

/// Whether what was seen `at` still counts as seen `now`: for less than the window; for ever where it is zero.
[[nodiscard]] constexpr bool within_window(Time at, Time now, std::chrono::seconds window) noexcept {
  return window.count() == 0 || saturating_add(at, window) > now;
}

}  // namespace seenby
