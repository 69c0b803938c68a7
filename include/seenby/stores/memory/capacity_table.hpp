#pragma once
// SPDX-License-Identifier: MIT
// How a user's share of the wrong-hide rate is spent on filters, and how many items each size then holds.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "seenby/config.hpp"
#include "seenby/detail/sizing_math.hpp"

SEENBY_DETAIL_BEGIN

/// How many items a split-block filter of so many blocks holds at one rate, looked up instead of computed.
///
/// Exact up to 32 blocks; between the points above, which lie 1/16 apart, the capacity is interpolated (it is all but
/// proportional to the size: off by less than one item in 10,000). Immutable.
class CapacityTable {
 public:
  static constexpr std::uint32_t largest_block_count = 4095;

  explicit CapacityTable(double fpr) : fpr_(fpr) {
    for (std::uint32_t blocks = 1; blocks < largest_block_count; blocks += std::max(1U, blocks / 16)) {
      add_point(blocks);
    }
    add_point(largest_block_count);
  }

  [[nodiscard]] double fpr() const noexcept { return fpr_; }

  /// `blocks` from 1 to largest_block_count. O(log points).
  [[nodiscard]] std::uint32_t capacity(std::uint32_t blocks) const noexcept {
    if (blocks <= dense_points) return points_[blocks - 1].items;
    const auto after = std::lower_bound(begin() + dense_points - 1, end(), blocks,
                                        [](const Point& point, std::uint32_t wanted) { return point.blocks < wanted; });
    const Point& high = *after;
    const Point& low = *(after - 1);
    const std::uint64_t rise = std::uint64_t{high.items - low.items} * (blocks - low.blocks);
    return low.items + static_cast<std::uint32_t>(rise / (high.blocks - low.blocks));
  }

  /// The fewest blocks that hold so many items; 0 when that is more than the table's largest filter.
  [[nodiscard]] std::uint32_t blocks_for(std::uint64_t items) const noexcept {
    if (items > points_[count_ - 1].items) return 0;
    const auto high = std::lower_bound(begin(), end(), items,
                                       [](const Point& point, std::uint64_t wanted) { return point.items < wanted; });
    if (high == begin()) return high->blocks;
    std::uint32_t least = (high - 1)->blocks + 1;
    std::uint32_t most = high->blocks;
    while (least < most) {
      const std::uint32_t middle = least + (most - least) / 2;
      if (capacity(middle) >= items) {
        most = middle;
      } else {
        least = middle + 1;
      }
    }
    return most;
  }

 private:
  struct Point {
    std::uint32_t blocks;
    std::uint32_t items;
  };
  static constexpr std::uint32_t dense_points = 32;

  [[nodiscard]] const Point* begin() const noexcept { return points_.data(); }
  [[nodiscard]] const Point* end() const noexcept { return points_.data() + count_; }

  void add_point(std::uint32_t blocks) {
    points_[count_++] = {blocks, static_cast<std::uint32_t>(split_block_capacity(blocks, fpr_))};
  }

  double fpr_;
  std::size_t count_ = 0;
  std::array<Point, 116> points_;  // as many as the constructor adds
};

/// The part of a user's rate that a filter may use where no history is there to re-insert it, and a table beside it
/// takes what comes later. Less would cost every such user bits (14.1 an item, 13.1 with 0.75); more would leave the
/// table too little for lanes of 16 bits: behind a first thousand they last for 8 million items, with 0.75 for 64,000.
inline constexpr double first_filter_share = 0.5;
/// The least part for a table, where a filter has used up more than that leaves.
inline constexpr double least_table_share = 1.0 / 16;
/// The part at which a small first filter, whose bits may have fallen badly, counts as full.
inline constexpr double unlucky_filter_share = 0.75;
/// How much a full filter errs has a standard deviation of 0.9 / sqrt(blocks) of its mean (a thousand filters of each
/// size from 2 to 512 blocks), since a block's rate grows with the eighth power of its items. One of more blocks than
/// these errs what its items say, within a ninth.
inline constexpr std::uint32_t small_filter_granules = 64;
/// The part of the rate of a window's slices that a table may use.
inline constexpr double table_share = 0.75;

SEENBY_DETAIL_END
