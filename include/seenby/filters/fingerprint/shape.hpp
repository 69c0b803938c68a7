#pragma once
// SPDX-License-Identifier: MIT
// FingerprintShape: what decides the bytes of a fingerprint table, how large one must be, and its false-positive rate.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "seenby/detail/sizing_math.hpp"
#include "seenby/kernels/fingerprint.hpp"

namespace seenby {

/// Everything that decides where the bytes of a fingerprint table are.
struct FingerprintShape {
  /// 2^28 buckets of ten items each: 2.7 billion.
  static constexpr std::uint32_t max_bucket_bits = 28;
  static constexpr std::uint32_t max_tail_bytes = 4;  ///< a lane has at most 48 bits
  /// A table grows when its buckets hold more than this on average. One vector compare covers 16 lanes, and at 10 on
  /// average 2.7% of the buckets are longer; the index costs 8 to 17 bits a bucket.
  static constexpr std::uint64_t items_per_bucket = 10;

  std::uint8_t bucket_bits = 0;  ///< the digest's top bits that choose the bucket
  std::uint8_t tail_bytes = 0;   ///< a lane has 16 bits and this many bytes more
  bool sliced = false;           ///< each lane has a slice
  std::uint32_t capacity = 0;    ///< lanes there is room for

  /// Bits of a digest that a new lane keeps.
  [[nodiscard]] constexpr std::uint32_t fingerprint_bits() const noexcept { return 15U + 8U * tail_bytes; }
  /// Bytes that one lane takes, its slice included.
  [[nodiscard]] constexpr std::uint64_t lane_bytes() const noexcept { return 2U + tail_bytes + (sliced ? 1U : 0U); }
  /// Bytes of the index before the lanes.
  [[nodiscard]] constexpr std::uint64_t index_bytes() const noexcept {
    return detail::fingerprint_index_bytes(bucket_bits);
  }
  /// Bytes of the whole table.
  [[nodiscard]] constexpr std::uint64_t bytes() const noexcept { return index_bytes() + capacity * lane_bytes(); }
  /// The lanes that fit in this many bytes.
  [[nodiscard]] constexpr std::uint32_t capacity_in(std::uint64_t size) const noexcept {
    const std::uint64_t lanes = size < index_bytes() ? 0 : (size - index_bytes()) / lane_bytes();
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(lanes, UINT32_MAX));
  }
  /// The items past which the table wants another bucket bit.
  [[nodiscard]] constexpr std::uint64_t most_items() const noexcept { return items_per_bucket << bucket_bits; }
  /// Equal in every member.
  friend constexpr bool operator==(const FingerprintShape&, const FingerprintShape&) noexcept = default;
};

namespace sizing {

/// The bucket bits that a table of this many items has.
[[nodiscard]] constexpr std::uint8_t bucket_bits_for(std::uint64_t items) noexcept {
  std::uint8_t bits = 0;
  while ((FingerprintShape::items_per_bucket << bits) < items && bits < FingerprintShape::max_bucket_bits) ++bits;
  return bits;
}

/// The rate that one item adds, at every later size too, inserted into a table of this shape: it matches a fresh digest
/// when bucket and fingerprint agree. Growth moves bits from the fingerprint to the bucket and keeps the sum.
[[nodiscard]] inline double fingerprint_rate(const FingerprintShape& shape) noexcept {
  return std::ldexp(1.0, -static_cast<int>(shape.bucket_bits + shape.fingerprint_bits()));
}

/// The expected false-positive rate of a table into which `items` different items went at once: exact.
[[nodiscard]] inline double expected_fpr(const FingerprintShape& shape, std::uint64_t items) noexcept {
  return -std::expm1(static_cast<double>(items) * std::log1p(-fingerprint_rate(shape)));
}

/// The smallest tail a table of this many bucket bits needs, for its rate to stay at most `share` until it grows next.
/// It errs `rate` already and takes `more` items meanwhile. max_tail_bytes where not even that is enough.
[[nodiscard]] inline std::uint8_t tail_bytes_for(std::uint8_t bucket_bits, double rate, std::uint64_t more,
                                                 double share) noexcept {
  FingerprintShape shape{.bucket_bits = bucket_bits};
  while (shape.tail_bytes < FingerprintShape::max_tail_bytes &&
         rate + static_cast<double>(more) * fingerprint_rate(shape) > share) {
    ++shape.tail_bytes;
  }
  return shape.tail_bytes;
}

/// A table that took its items one by one: its shape at last, room for all, and the rate to expect of it: exact.
struct GrownTable {
  FingerprintShape shape;   ///< after the last item
  double expected_fpr = 0;  ///< of one filter, with all items in it
};
/// The table that `items` leave behind, at most `share` wrong. Throws std::invalid_argument for a share outside (0, 1).
[[nodiscard]] inline GrownTable grown_table(std::uint64_t items, double share, bool sliced) {
  detail::require_rate(share, "share");
  GrownTable grown;
  double rate = 0;
  double log_miss = 0;
  std::uint64_t before = 0;
  FingerprintShape& shape = grown.shape;
  for (const std::uint8_t last = bucket_bits_for(items);; ++shape.bucket_bits) {
    const std::uint64_t most = shape.bucket_bits == last ? std::max(items, shape.most_items()) : shape.most_items();
    shape.tail_bytes = std::max(shape.tail_bytes, tail_bytes_for(shape.bucket_bits, rate, most - before, share));
    const double now = static_cast<double>(std::min(items, most) - before);
    rate += now * fingerprint_rate(shape);
    log_miss += now * std::log1p(-fingerprint_rate(shape));
    before = most;
    if (shape.bucket_bits == last) break;
  }
  shape.sliced = sliced;
  shape.capacity = static_cast<std::uint32_t>(std::min<std::uint64_t>(items, UINT32_MAX));
  grown.expected_fpr = -std::expm1(log_miss);
  return grown;
}

}  // namespace sizing
}  // namespace seenby
