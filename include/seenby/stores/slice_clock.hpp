#pragma once
// SPDX-License-Identifier: MIT
// SliceClock: which slice of a rotating window a time falls into, and what each filter may then err.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "seenby/clock.hpp"
#include "seenby/detail/clock_guard.hpp"
#include "seenby/sizing.hpp"
#include "seenby/stores/policy.hpp"

SEENBY_DETAIL_BEGIN

/// Slices are numbered by time: slice n covers [n, n + 1) * window / slices. A record goes to the newest; S + 1 slices
/// are tested, so that it lives between window and window + window / S. The newest number never falls: after a clock
/// jumps back, records go to the newest slice so far, and no dropped slice returns. Nor does it follow a clock that
/// jumps ahead until it has stayed there.
class SliceClock {
 public:
  /// Throws std::invalid_argument for a policy that cannot be kept.
  explicit SliceClock(const StorePolicy& policy) {
    require_rate(policy.wrong_hide_rate, "wrong_hide_rate");
    if (policy.users_per_request < 1 || policy.users_per_request > 255) {
      throw std::invalid_argument(std::string("seenby: expected users_per_request from 1 to 255, got ")
                                      .append(std::to_string(policy.users_per_request)));
    }
    if (!(policy.growth_factor >= 1.1 && policy.growth_factor <= 16)) {
      throw std::invalid_argument(
          std::string("seenby: expected growth_factor from 1.1 to 16, got ").append(text_of(policy.growth_factor)));
    }
    require_items(policy.initial_items);
    if (policy.window.count() == 0) return;
    if (policy.window.count() < 0 || policy.slices < 1 || policy.slices > 254 ||
        policy.window.count() < policy.slices) {
      throw std::invalid_argument(std::string("seenby: expected 1 to 254 slices of at least a second each, got ")
                                      .append(std::to_string(policy.slices))
                                      .append(" slices in ")
                                      .append(std::to_string(policy.window.count()))
                                      .append(" s"));
    }
    slices_ = policy.slices;
    // Rounded up: a slice that is a little long keeps a record a little longer, never shorter.
    length_ = policy.window.count() / slices_ + (policy.window.count() % slices_ == 0 ? 0 : 1);
    if (length_ <= std::numeric_limits<std::uint32_t>::max()) return;
    throw std::invalid_argument(std::string("seenby: expected slices of at most 2^32 - 1 s (no window, 0 s, remembers "
                                            "for ever), got a window of ")
                                    .append(std::to_string(policy.window.count()))
                                    .append(" s"));
  }
  [[nodiscard]] bool windowed() const noexcept { return length_ != 0; }
  /// How many slices a lookup tests; 1 without a window.
  [[nodiscard]] std::int64_t tested() const noexcept { return windowed() ? slices_ + 1 : 1; }
  [[nodiscard]] std::int64_t slice_seconds() const noexcept { return length_; }

  /// The slice of a time; 0 without a window.
  [[nodiscard]] std::int64_t number(Time time) const noexcept {
    if (!windowed()) return 0;
    const std::int64_t seconds = time.time_since_epoch().count();
    return seconds / length_ - (seconds % length_ < 0 ? 1 : 0);  // rounded down, at either end of time too
  }
  /// The newest slice by this clock, or by any reading before; a jump of more than a slice is not followed at once (see
  /// ClockGuard). 0 without a window, and the clock is not read. Any thread may call it.
  [[nodiscard]] std::int64_t newest(const Clock& clock) const { return windowed() ? newest(clock, clock()) : 0; }
  /// The same with a reading of the wall clock at hand.
  [[nodiscard]] std::int64_t newest(const Clock& clock, Time reading) const {
    return windowed() ? number(guard_.now(clock, reading, slack())) : 0;
  }
  /// Goes on at the beginning of this slice, as a snapshot knew it, where that is later than ever.
  void resume(std::int64_t slice) noexcept {
    const Time start{std::chrono::seconds(slice * length_)};
    if (windowed() && start > guard_.latest()) guard_ = ClockGuard(start);
  }
  /// How often the clock jumped ahead and was not followed at once.
  [[nodiscard]] std::uint64_t jumps() const noexcept { return guard_.jumps(); }

  /// When the oldest slice begins that is tested beside this newest one; all_time without a window.
  [[nodiscard]] Time window_start(std::int64_t newest) const noexcept {
    return windowed() ? Time{std::chrono::seconds{(newest - slices_) * length_}} : all_time;
  }

  /// What one filter may err for the policy's rate to hold over all users of a request and all slices tested.
  [[nodiscard]] double per_filter_fpr(const StorePolicy& policy) const {
    return sizing::split_budget(policy.wrong_hide_rate,
                                policy.users_per_request * static_cast<std::uint64_t>(tested()));
  }

 private:
  [[nodiscard]] std::chrono::seconds slack() const noexcept {
    return std::max(std::chrono::seconds(length_), ClockGuard::least_slack);
  }

  std::int64_t slices_ = 0;
  std::int64_t length_ = 0;
  ClockGuard guard_;
};

SEENBY_DETAIL_END
