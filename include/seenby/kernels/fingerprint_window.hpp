#pragma once
// SPDX-License-Identifier: MIT
// What the vector kernels of fingerprint tables share: sixteen lanes at once, and an index made ready for them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "seenby/kernels/fingerprint.hpp"

SEENBY_DETAIL_BEGIN

/// What a vector compare covers. A longer bucket is left to the scalar kernel.
inline constexpr std::uint32_t window_lanes = 16;

/// A table whose vector loads stay inside: one of few lanes is copied.
struct PaddedTable {
  FingerprintRef table;
  alignas(32) std::array<std::byte, 2 * window_lanes> lanes;
  alignas(16) std::array<std::byte, window_lanes> slices;

  explicit PaddedTable(const FingerprintRef& of) noexcept : table(of) {
    if (table.capacity >= window_lanes) return;
    lanes.fill(std::byte{0});
    slices.fill(std::byte{0});
    for (std::size_t i = 0; i < 2 * std::size_t{table.capacity}; ++i) lanes[i] = of.lanes[i];
    for (std::size_t i = 0; of.slices != nullptr && i < table.capacity; ++i) slices[i] = of.slices[i];
    table.lanes = lanes.data();
    if (of.slices != nullptr) table.slices = slices.data();
  }
  PaddedTable(const PaddedTable&) = delete;
  PaddedTable& operator=(const PaddedTable&) = delete;
};

/// Where a vector load begins, and which of its lanes are the bucket's: `bits_a_lane` bits each.
struct LaneWindow {
  static constexpr std::uint32_t too_long = std::uint32_t{1} << 31;
  std::uint32_t first = 0;  ///< too_long where the bucket has more lanes than fit
  std::uint32_t bits = 0;
};
/// Finds windows by a table's index.
template <std::uint32_t bits_a_lane>
class WindowFinder {
 public:
  explicit WindowFinder(const FingerprintRef& table) noexcept
      : index_(table.index),
        bases_(table.index + (std::size_t{1} << table.bucket_bits) / fingerprint_group * (1 + fingerprint_group)),
        grouped_(table.bucket_bits > 4),
        last_(std::max(table.capacity, window_lanes) - window_lanes),
        within_(static_cast<std::uint32_t>(bits_of(std::min(table.capacity, window_lanes)))) {}

  /// A bucket's window. The table has more than one bucket.
  [[nodiscard, gnu::always_inline]] LaneWindow operator()(std::uint64_t bucket) const noexcept {
    const std::uint64_t group = bucket / fingerprint_group;
    const std::uint32_t ends = load_shared<std::uint16_t>(index_ + bucket + group);
    const std::uint32_t from = ends & 0xFFU;
    return window(grouped_ ? load_shared<std::uint32_t>(bases_ + 4 * group) + from : from,
                  ((ends >> 8) - from) & 0xFFU);
  }
  [[nodiscard, gnu::always_inline]] LaneWindow window(std::uint32_t first, std::uint32_t count) const noexcept {
    const std::uint32_t at = std::min(first, last_);
    if (count > window_lanes || first - at > window_lanes) [[unlikely]]
      return {LaneWindow::too_long, 0};
    return {at, static_cast<std::uint32_t>(bits_of(count) << (bits_a_lane * (first - at))) & within_};
  }

 private:
  [[nodiscard]] static constexpr std::uint64_t bits_of(std::uint32_t lanes) noexcept {
    return (std::uint64_t{1} << (bits_a_lane * lanes)) - 1;
  }

  const std::byte* index_;
  const std::byte* bases_;
  bool grouped_;
  std::uint32_t last_;
  std::uint32_t within_;  // the lanes of a padded table that are its own
};

/// The windows of a small table's buckets, ready for a batch.
template <std::uint32_t bits_a_lane>
struct WindowIndex {
  static constexpr std::uint32_t max_bucket_bits = 6;
  static constexpr std::size_t max_buckets = std::size_t{1} << max_bucket_bits;
  alignas(64) std::array<std::uint32_t, max_buckets> first;
  alignas(64) std::array<std::uint32_t, max_buckets> bits;

  /// Whether a batch of this many candidates is worth it.
  [[nodiscard]] static bool serves(const FingerprintRef& table, std::size_t candidates) noexcept {
    return table.bucket_bits <= max_bucket_bits && candidates >= (std::size_t{1} << table.bucket_bits) / 2;
  }
  void prepare(const FingerprintRef& table) noexcept {
    const WindowFinder<bits_a_lane> find(table);
    for (std::size_t bucket = 0; bucket < std::size_t{1} << table.bucket_bits; ++bucket) {
      const LaneWindow window =
          table.bucket_bits == 0 ? find.window(0, std::min(table.count, table.capacity)) : find(bucket);
      first[bucket] = window.first;
      bits[bucket] = window.bits;
    }
  }
  [[nodiscard, gnu::always_inline]] LaneWindow operator()(std::uint64_t bucket) const noexcept {
    return {first[bucket], bits[bucket]};
  }
};

SEENBY_DETAIL_END
