#pragma once
// SPDX-License-Identifier: MIT
// Sizing: what false-positive rate a filter has, and how large it must be. Exact for each layout.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <stdexcept>
#include <string_view>

#include "seenby/config.hpp"
#include "seenby/detail/sizing_math.hpp"

namespace seenby {

/// How the bits of a filter are laid out, as serialized filters name it.
enum class LayoutKind : std::uint8_t {
  classic_v1 = 1,  ///< read where it was written, made no more: small and tight filters err more than they should
  split_block = 2,
  classic = 3,
};

/// The enumerator's name; "unnamed" for a value that is none.
[[nodiscard]] constexpr std::string_view to_string(LayoutKind kind) noexcept {
  switch (kind) {
    case LayoutKind::classic_v1: return "classic_v1";
    case LayoutKind::split_block: return "split_block";
    case LayoutKind::classic: return "classic";
  }
  return "unnamed";
}

/// Everything that decides where an item's bits are: layout, k and m.
struct FilterShape {
  LayoutKind layout = LayoutKind::classic;  ///< where a digest's bits are
  std::uint32_t hash_count = 0;             ///< k: bits an item sets (8 in a split block)
  std::uint64_t bits = 0;                   ///< m: a multiple of 64 (classic) or 256 (split block)

  [[nodiscard]] constexpr std::uint64_t bytes() const noexcept { return bits / 8; }  ///< bytes of bits
  /// Equal in every member.
  friend constexpr bool operator==(const FilterShape&, const FilterShape&) noexcept = default;
};

namespace sizing {

/// The textbook m = ceil(-n ln p / (ln 2)^2), not rounded to words. Throws std::invalid_argument.
[[nodiscard]] std::uint64_t textbook_bits(std::uint64_t items, double fpr);
/// The textbook k = max(1, round(m / n ln 2)). Throws std::invalid_argument.
[[nodiscard]] std::uint32_t textbook_hash_count(std::uint64_t bits, std::uint64_t items);
/// The textbook p = (1 - e^(-kn/m))^k. Throws std::invalid_argument.
[[nodiscard]] double textbook_fpr(std::uint64_t items, std::uint64_t bits, std::uint32_t hash_count);

/// The expected false-positive rate of a filter of this shape after `items` distinct inserts, digests that collide
/// included. O(k^2) at the rates that filters are made for, O(k m) far below them; O(sqrt(n / blocks)) in a split
/// block.
[[nodiscard]] double expected_fpr(const FilterShape& shape, std::uint64_t items);
/// The smallest shape of a layout whose expected rate at `items` is at most `fpr`. Throws std::invalid_argument for
/// items 0, fpr outside (0, 1), or a filter over max_filter_bits.
[[nodiscard]] FilterShape shape_for(LayoutKind layout, std::uint64_t items, double fpr);
/// How many items a filter of this shape holds with an expected rate of at most `fpr`; 0 when not one fits.
[[nodiscard]] std::uint64_t capacity_of(const FilterShape& shape, double fpr);

/// The rate each of `filters` may have so that testing them all hides at most `total`: 1 - (1 - total)^(1/filters).
[[nodiscard]] double split_budget(double total, std::uint64_t filters);
/// The other way: thirty filters at 1% hide 26%.
[[nodiscard]] double combined_rate(double each, std::uint64_t filters);

}  // namespace sizing
}  // namespace seenby

namespace seenby::sizing {

inline std::uint64_t textbook_bits(std::uint64_t items, double fpr) { return detail::textbook_bits(items, fpr); }

inline std::uint32_t textbook_hash_count(std::uint64_t bits, std::uint64_t items) {
  detail::require_items(items);
  const double best = std::round(static_cast<double>(bits) / static_cast<double>(items) * std::numbers::ln2);
  return static_cast<std::uint32_t>(std::clamp(best, 1.0, static_cast<double>(max_hash_count)));
}

inline double textbook_fpr(std::uint64_t items, std::uint64_t bits, std::uint32_t hash_count) {
  detail::require_bits(bits);
  detail::require_hash_count(hash_count);
  const double k = hash_count;
  return std::pow(-std::expm1(-k * static_cast<double>(items) / static_cast<double>(bits)), k);
}

inline double expected_fpr(const FilterShape& shape, std::uint64_t items) {
  detail::require_bits(shape.bits);
  if (shape.layout == LayoutKind::split_block) return detail::split_block_fpr(shape.bits / split_block_bits, items);
  detail::require_hash_count(shape.hash_count);
  // Two items of one digest are one to any filter.
  const double collision = static_cast<double>(items) * 0x1p-64;
  return std::min(1.0, detail::classic_fpr(shape.bits, shape.hash_count, items) + collision);
}

inline FilterShape shape_for(LayoutKind layout, std::uint64_t items, double fpr) {
  if (layout == LayoutKind::split_block) {
    return {.layout = layout, .hash_count = 8, .bits = detail::split_blocks_for(items, fpr) * split_block_bits};
  }
  const std::uint64_t ideal = textbook_bits(items, fpr);
  FilterShape shape{
      .layout = LayoutKind::classic, .hash_count = textbook_hash_count(ideal, items), .bits = std::uint64_t{64}};
  const auto rate_at = [&](std::uint64_t words) {
    return expected_fpr({.layout = shape.layout, .hash_count = shape.hash_count, .bits = words * 64}, items);
  };
  shape.bits *= detail::least_units(ideal / 64, max_filter_bits / 64, items, fpr, rate_at);
  return shape;
}

inline std::uint64_t capacity_of(const FilterShape& shape, double fpr) {
  detail::require_bits(shape.bits);
  if (shape.layout == LayoutKind::split_block) return detail::split_block_capacity(shape.bits / split_block_bits, fpr);
  return detail::most_items(shape.bits, fpr, [&](std::uint64_t items) { return expected_fpr(shape, items); });
}

inline double split_budget(double total, std::uint64_t filters) {
  detail::require_rate(total, "total rate");
  if (filters == 0) throw std::invalid_argument("seenby: expected at least one filter to split the budget over, got 0");
  return -std::expm1(std::log1p(-total) / static_cast<double>(filters));
}

inline double combined_rate(double each, std::uint64_t filters) {
  detail::require_rate(each, "rate");
  return -std::expm1(std::log1p(-each) * static_cast<double>(filters));
}

}  // namespace seenby::sizing
