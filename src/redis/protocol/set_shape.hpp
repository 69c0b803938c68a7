#pragma once
// SPDX-License-Identifier: MIT
// SetShape: how large a version of a shared set is, and where in it a digest's bits are.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "seenby/detail/bits.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/hash.hpp"

namespace seenby::redis {

/// A version's bits: `partitions` strings of `blocks` blocks each.
struct SetShape {
  std::uint32_t partitions = 1;
  std::uint32_t blocks = 1;
  std::uint64_t expected_items = 0;
  double target_fpr = 0;
  std::uint32_t hash = 0;
  std::uint32_t seed_check = 0;

  [[nodiscard]] std::uint64_t partition_bytes() const noexcept { return std::uint64_t{blocks} * 32; }
  [[nodiscard]] std::uint32_t partition_of(Digest digest) const noexcept {
    return static_cast<std::uint32_t>(detail::multiply_high(detail::mix64(digest.value), partitions));
  }
  [[nodiscard]] std::uint32_t block_of(Digest digest) const noexcept {
    return static_cast<std::uint32_t>(detail::split_block_offset(digest, blocks) / 32);
  }

  /// Room for so many items at this rate.
  [[nodiscard]] static SetShape make(std::uint64_t items, double fpr, HashKind hash, std::uint16_t seed_check);
  /// As the set's hash holds it: five numbers and the rate.
  [[nodiscard]] std::string encode() const;
  /// Nothing for text that is no shape.
  [[nodiscard]] static std::optional<SetShape> decode(std::string_view text);
  /// Digest positions, as the scripts take them: u32 partition, u32 block, eight u32 words of mask.
  [[nodiscard]] std::string positions(std::span<const Digest> digests) const;
};

/// Whether a block of 32 bytes may hold a digest.
[[nodiscard]] bool block_holds(std::string_view block, Digest digest);
/// A digest as the scripts take and keep it: 8 bytes.
[[nodiscard]] std::string bytes_of(Digest digest);

}  // namespace seenby::redis
