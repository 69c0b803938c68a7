#pragma once
// SPDX-License-Identifier: MIT
// SliceClock: the slices of a store's window, and what each filter may then err.

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "seenby/clock.hpp"
#include "seenby/detail/slice_time.hpp"
#include "seenby/sizing.hpp"
#include "seenby/stores/policy.hpp"

SEENBY_DETAIL_BEGIN

/// A store's slices: slice n covers [n, n + 1) * window / slices. A record goes to the newest; S + 1 slices are tested,
/// so that it lives between window and window + window / S.
class SliceClock : public SliceTime {
 public:
  /// Throws std::invalid_argument for a policy that cannot be kept.
  explicit SliceClock(const StorePolicy& policy)
      : SliceTime(checked_slice_seconds(policy)), slices_(windowed() ? policy.slices : 0) {}

  /// How many slices a lookup tests; 1 without a window.
  [[nodiscard]] std::int64_t tested() const noexcept { return slices_ + 1; }

  /// When the oldest slice begins that is tested beside this newest one; all_time without a window.
  [[nodiscard]] Time window_start(std::int64_t newest) const noexcept {
    return windowed() ? start(newest - slices_) : all_time;
  }

  /// What one filter may err for the policy's rate to hold over all users of a request and all slices tested.
  [[nodiscard]] double per_filter_fpr(const StorePolicy& policy) const {
    return sizing::split_budget(policy.wrong_hide_rate,
                                policy.users_per_request * static_cast<std::uint64_t>(tested()));
  }

 private:
  [[nodiscard]] static std::int64_t checked_slice_seconds(const StorePolicy& policy) {
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
    if (policy.window.count() == 0 && policy.slices != 1) {
      throw std::invalid_argument(std::string("seenby: expected a window for ")
                                      .append(std::to_string(policy.slices))
                                      .append(" slices, got none (0 s, which remembers for ever)"));
    }
    if (policy.window.count() == 0) return 0;
    if (policy.window.count() < 0 || policy.slices < 1 || policy.slices > 254 ||
        policy.window.count() < policy.slices) {
      throw std::invalid_argument(std::string("seenby: expected 1 to 254 slices of at least a second each, got ")
                                      .append(std::to_string(policy.slices))
                                      .append(" slices in ")
                                      .append(std::to_string(policy.window.count()))
                                      .append(" s"));
    }
    // Rounded up: a slice that is a little long keeps a record a little longer, never shorter.
    const std::int64_t length =
        policy.window.count() / policy.slices + (policy.window.count() % policy.slices == 0 ? 0 : 1);
    if (length <= std::numeric_limits<std::uint32_t>::max()) return length;
    throw std::invalid_argument(std::string("seenby: expected slices of at most 2^32 - 1 s (no window, 0 s, remembers "
                                            "for ever), got a window of ")
                                    .append(std::to_string(policy.window.count()))
                                    .append(" s"));
  }

  std::int64_t slices_;
};

SEENBY_DETAIL_END
