#pragma once
// SPDX-License-Identifier: MIT
// ClassicLayout: the literature's filter, k independent positions anywhere among m bits.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/sizing.hpp"

SEENBY_DETAIL_BEGIN

/// The two hashes of Kirsch and Mitzenmacher ("Less Hashing, Same Performance", 2006). They start from different bits
/// of the digest: h1 is decided by its high half, the high bits of h2 by its low half. The step is odd, so it never
/// degenerates.
struct DoubleHash {
  std::uint64_t h1;
  std::uint64_t h2;
};
[[nodiscard]] constexpr DoubleHash split_digest(Digest digest) noexcept {
  return {digest.value, std::rotl(digest.value, 32) | 1U};
}

/// Position i is the high half of (h1 + multiplier h2 + offset) m, by 64-bit arithmetic.
struct ClassicStep {
  std::uint64_t multiplier;
  std::uint64_t offset;
};
using ClassicSteps = std::array<ClassicStep, max_hash_count>;

/// Multipliers 0, then odd ones without a pattern. With 1, 2, 3, ... two items whose h1 and h2 are close share all
/// their positions, once in about k m^2 pairs, whatever k: at 10 items and k = 20 in 320 bits that alone is five times
/// the rate of independent positions (1.3e-6 where 2.7e-7 is due), and past 2^32 bits h1 + h2 has no more than 2^32
/// values. Positions by these multipliers err as independent ones do (measured_fpr_test.cpp, classic_layout_test.cpp).
[[nodiscard]] consteval ClassicSteps scattered_steps() noexcept {
  ClassicSteps steps{};
  for (std::size_t i = 1; i < steps.size(); ++i) steps[i].multiplier = mix64(0x9e3779b97f4a7c15U * (i + 1)) | 1U;
  return steps;
}
/// What layout 1 used: multipliers 0, 1, 2, ... and the cubic term of enhanced double hashing (Dillinger and Manolios
/// 2004), scaled by 2^64 over the golden ratio so that it counts in the high bits.
[[nodiscard]] consteval ClassicSteps cubic_steps() noexcept {
  ClassicSteps steps{};
  for (std::uint64_t i = 1; i < steps.size(); ++i) steps[i] = {i, (i * i * i - i) / 6 * 0x9e3779b97f4a7c15U};
  return steps;
}
inline constexpr ClassicSteps classic_steps = scattered_steps();
inline constexpr ClassicSteps classic_v1_steps = cubic_steps();

/// Walks an item's positions.
class ClassicPositions {
 public:
  ClassicPositions(Digest digest, const FilterShape& shape) noexcept
      : hash_(split_digest(digest)),
        bits_(shape.bits),
        step_(shape.layout == LayoutKind::classic ? classic_steps.data() : classic_v1_steps.data()) {}

  /// At most max_hash_count times.
  [[nodiscard]] std::uint64_t next() noexcept {
    const ClassicStep step = *step_++;
    return multiply_high(hash_.h1 + step.multiplier * hash_.h2 + step.offset, bits_);
  }

 private:
  DoubleHash hash_;
  std::uint64_t bits_;
  const ClassicStep* step_;
};

SEENBY_DETAIL_END

namespace seenby {

/// The textbook layout and BloomFilter's default: the fewest bits for a rate, k cache misses in a large filter. m may
/// be any multiple of 64. Doubling m nests: position p becomes 2p or 2p + 1. Change it for SplitBlockLayout where
/// lookups are the bottleneck and a tenth more bits do not matter.
struct ClassicLayout {
  static constexpr LayoutKind kind = LayoutKind::classic;  ///< what a header names it by
  /// Whether this layout answers from such bits: those of layout 1 too, where they were written so.
  [[nodiscard]] static constexpr bool reads(LayoutKind other) noexcept {
    return other == kind || other == LayoutKind::classic_v1;
  }

  /// The smallest shape for this many items at a rate of at most `fpr`. Throws std::invalid_argument.
  [[nodiscard]] static FilterShape shape_for(std::uint64_t items, double fpr) {
    return sizing::shape_for(kind, items, fpr);
  }
  /// A shape of your own choice; bits are rounded up to a multiple of 64. Throws std::invalid_argument.
  [[nodiscard]] static FilterShape shape_of(std::uint64_t bits, std::uint32_t hash_count) {
    detail::require_bits(bits);
    detail::require_hash_count(hash_count);
    return {.layout = kind, .hash_count = hash_count, .bits = (bits + 63) / 64 * 64};
  }

  /// Sets the item's bits; true when one of them was clear. O(k).
  static bool insert(std::byte* bits, const FilterShape& shape, Digest digest) noexcept {
    detail::ClassicPositions positions(digest, shape);
    bool changed = false;
    for (std::uint32_t i = 0; i < shape.hash_count; ++i) changed |= detail::set_bit(bits, positions.next());
    return changed;
  }

  /// Sets the bits of many; returns how many items set a bit that was clear.
  static std::size_t insert_batch(std::byte* bits, const FilterShape& shape, std::span<const Digest> digests) noexcept {
    std::size_t changed = 0;
    for (const Digest digest : digests) changed += insert(bits, shape, digest) ? 1U : 0U;
    return changed;
  }

  /// Whether all the item's bits are set; stops at the first that is not.
  [[nodiscard]] static bool test(const std::byte* bits, const FilterShape& shape, Digest digest) noexcept {
    detail::ClassicPositions positions(digest, shape);
    for (std::uint32_t i = 0; i < shape.hash_count; ++i) {
      if (!detail::test_bit(bits, positions.next())) return false;
    }
    return true;
  }

  /// out[i] = 1 when digest i may be contained, else 0. `out` has room for digests.size().
  static void test_batch(const std::byte* bits, const FilterShape& shape, std::span<const Digest> digests,
                         std::uint8_t* out) noexcept {
    for (std::size_t i = 0; i < digests.size(); ++i) out[i] = test(bits, shape, digests[i]) ? 1 : 0;
  }

  /// How many distinct items the bits hold: -m/k ln(1 - fill) (Swamidass and Baldi 2007). Infinite when all are set.
  [[nodiscard]] static double estimate_items(const std::byte* bits, const FilterShape& shape) noexcept {
    return -static_cast<double>(shape.bits) / shape.hash_count * std::log1p(-fill_ratio(bits, shape));
  }
  /// The rate of these very bits: fill^k.
  [[nodiscard]] static double estimate_fpr(const std::byte* bits, const FilterShape& shape) noexcept {
    return std::pow(fill_ratio(bits, shape), shape.hash_count);
  }

 private:
  [[nodiscard]] static double fill_ratio(const std::byte* bits, const FilterShape& shape) noexcept {
    return static_cast<double>(detail::count_ones({bits, shape.bytes()})) / static_cast<double>(shape.bits);
  }
};

}  // namespace seenby
