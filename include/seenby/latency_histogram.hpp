#pragma once
// SPDX-License-Identifier: MIT
// LatencyHistogram: how long calls took, in buckets that double from a microsecond to eight seconds.

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "seenby/config.hpp"

namespace seenby {

/// Counts durations. Any thread may call any member; `add` is two relaxed atomic additions.
class LatencyHistogram {
 public:
  /// Bucket i holds durations up to 2^i microseconds; the last one everything longer.
  static constexpr std::size_t bucket_count = 25;

  /// A copy of the counts; each is exact, the set of them is not atomic.
  struct Snapshot {
    std::array<std::uint64_t, bucket_count> buckets{};  ///< durations by bucket
    std::uint64_t count = 0;                            ///< all durations in the buckets
    std::chrono::nanoseconds sum{0};                    ///< of all durations

    /// The upper bound of the bucket that holds the given share of the calls, in [0, 1]; zero without calls.
    [[nodiscard]] std::chrono::microseconds quantile(double share) const noexcept {
      const double wanted = share * static_cast<double>(count);
      std::uint64_t passed = 0;
      for (std::size_t i = 0; i < bucket_count; ++i) {
        passed += buckets[i];
        if (passed != 0 && static_cast<double>(passed) >= wanted) return upper_bound(i);
      }
      return std::chrono::microseconds{0};
    }
  };

  /// 2^bucket microseconds.
  [[nodiscard]] static constexpr std::chrono::microseconds upper_bound(std::size_t bucket) noexcept {
    return std::chrono::microseconds{std::int64_t{1} << bucket};
  }

  /// Counts one duration; a negative one as zero.
  void add(std::chrono::nanoseconds took) noexcept {
    const auto nanoseconds = static_cast<std::uint64_t>(took.count() < 0 ? 0 : took.count());
    const std::uint64_t microseconds = (nanoseconds + 999) / 1'000;
    const auto bucket = static_cast<std::size_t>(microseconds <= 1 ? 0 : std::bit_width(microseconds - 1));
    buckets_[bucket < bucket_count ? bucket : bucket_count - 1].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  /// Runs a function and counts how long it took, whether it returns or throws.
  template <class Function>
  decltype(auto) time(Function&& function) {
    const Timer timer{*this};
    return std::forward<Function>(function)();
  }

  /// A copy of the counts.
  [[nodiscard]] Snapshot snapshot() const noexcept {
    Snapshot copy;
    for (std::size_t i = 0; i < bucket_count; ++i) {
      copy.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
      copy.count += copy.buckets[i];
    }
    copy.sum = std::chrono::nanoseconds(static_cast<std::int64_t>(sum_.load(std::memory_order_relaxed)));
    return copy;
  }

 private:
  struct Timer {
    LatencyHistogram& histogram;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    ~Timer() { histogram.add(std::chrono::steady_clock::now() - start); }
  };
  std::array<std::atomic<std::uint64_t>, bucket_count> buckets_{};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace seenby
