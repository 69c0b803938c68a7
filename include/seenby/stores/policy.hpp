#pragma once
// SPDX-License-Identifier: MIT
// StorePolicy: what the user of the library sets once for a store, whatever the store.

#include <chrono>
#include <cstdint>

#include "seenby/clock.hpp"

namespace seenby {

/// What the user of the library sets once for a store. Every filter's own false-positive rate follows from it
/// (`per_filter_fpr`).
struct StorePolicy {
  /// The rate at which a fresh candidate may be hidden, end to end: over all users of a request and all slices.
  double wrong_hide_rate = 0.01;
  /// How many users' filters one request asks, at most, for the rate to hold.
  std::uint32_t users_per_request = 1;
  /// How long something stays seen. Zero: for ever.
  std::chrono::seconds window{0};
  /// Into how many slices the window is cut, 1 to 254; a record lives between window and window + window / slices.
  /// More than 1 without a window is refused.
  std::uint32_t slices = 1;
  /// The items a new user's first filter is sized for.
  std::uint64_t initial_items = 16;
  /// By how much a full filter's capacity is multiplied when it is succeeded or re-inserted. At least 1.1.
  double growth_factor = 2.0;
  /// The seed of every digest in this store; secret where outsiders choose the items.
  std::uint64_t seed = 0;
  /// Time for windows; the system's clock when empty.
  Clock clock{};
};

}  // namespace seenby
