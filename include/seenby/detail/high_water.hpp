#pragma once
// SPDX-License-Identifier: MIT
// HighWater: the latest time that was ever asked about.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// A mark that rises and never falls, whoever raises it: a structure's time. Any thread may call anything.
class HighWater {
 public:
  HighWater() noexcept = default;
  explicit HighWater(std::int64_t value) noexcept : value_(value) {}
  HighWater(const HighWater& other) noexcept : value_(other.value()) {}
  HighWater& operator=(const HighWater& other) noexcept {
    value_.store(other.value(), std::memory_order_relaxed);
    return *this;
  }
  /// The mark, after raising it to `at_least`. Readers raise it too: what one of them saw expire must not come back.
  std::int64_t raise(std::int64_t at_least) const noexcept {
    std::int64_t mark = value_.load(std::memory_order_relaxed);
    while (mark < at_least && !value_.compare_exchange_weak(mark, at_least, std::memory_order_relaxed)) {}
    return std::max(mark, at_least);
  }
  [[nodiscard]] std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  mutable std::atomic<std::int64_t> value_{std::numeric_limits<std::int64_t>::min()};
};

SEENBY_DETAIL_END
