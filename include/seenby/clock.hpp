#pragma once
// SPDX-License-Identifier: MIT
// Time and Clock: the seconds that windows, tokens and histories count in, and where they come from.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <functional>
#include <ratio>
#include <type_traits>
#include <utility>

#include "seenby/config.hpp"

namespace seenby {

/// Seconds since the Unix epoch. Windows, tokens and histories use it; nothing in seenby needs finer time.
using Time = std::chrono::sys_seconds;
/// A `since` that leaves nothing out.
inline constexpr Time all_time = Time::min();

/// The system's clock.
[[nodiscard]] inline Time system_time() {
  return std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
}

/// Where a window takes the time from: a wall clock, and beside it a steady one that cannot be set. A window does
/// not follow a wall clock that jumps ahead of the steady one until it has stayed there for a minute: one reading of a
/// wrong clock would otherwise empty the window. Both functions are called from any thread.
///
///     options.clock = [&] { return service_time(); };                      // a wall clock; the machine's steady one
///     options.clock = seenby::Clock::simulated([&] { return day_of_test; });  // a test's or a replay's: may jump
class Clock {
 public:
  /// The system's clocks.
  Clock() noexcept = default;
  /// A wall clock, beside the machine's steady clock.
  template <class Wall>
  requires(!std::same_as<std::remove_cvref_t<Wall>, Clock> && std::is_invocable_r_v<Time, const Wall&>)
      Clock(Wall wall)  // NOLINT(google-explicit-constructor): a lambda is a clock
      : wall_(std::move(wall)) {}
  /// A wall clock and a steady one: seconds from any start, never set, never back.
  Clock(std::function<Time()> wall, std::function<std::chrono::seconds()> steady)
      : wall_(std::move(wall)), steady_(std::move(steady)) {}
  /// A clock of its own time, which jumps when its owner says so: every jump is believed at once.
  [[nodiscard]] static Clock simulated(const std::function<Time()>& time) {
    return {time, [time] { return time().time_since_epoch(); }};
  }

  /// Whether it was given, rather than the system's.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(wall_); }
  [[nodiscard]] Time operator()() const { return wall_ ? wall_() : system_time(); }  ///< the wall clock's time now
  /// The steady clock's reading, in whole seconds.
  [[nodiscard]] std::chrono::seconds steady() const {
    if (steady_) return steady_();
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch());
  }

 private:
  std::function<Time()> wall_;                    // the system's when empty
  std::function<std::chrono::seconds()> steady_;  // the machine's when empty
};

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

/// Whether what was seen `at` still counts as seen `now`: for less than the window; without limit where it is zero.
[[nodiscard]] constexpr bool within_window(Time at, Time now, std::chrono::seconds window) noexcept {
  return window.count() == 0 || saturating_add(at, window) > now;
}
/// The earliest time that is within the window now; the earliest there is where the window is zero. Not for negative
/// windows.
[[nodiscard]] constexpr Time window_start(Time now, std::chrono::seconds window) noexcept {
  return window.count() == 0 ? all_time : saturating_add(saturating_add(now, -window), std::chrono::seconds{1});
}

}  // namespace seenby
