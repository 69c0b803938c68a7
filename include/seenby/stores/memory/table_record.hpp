#pragma once
// SPDX-License-Identifier: MIT
// A fingerprint table as a memory store keeps it: one word that says what it is, then its bytes, in one block.

#include <cstddef>
#include <cstdint>

#include "seenby/filters/fingerprint_table.hpp"
#include "seenby/stores/memory/arena.hpp"

SEENBY_DETAIL_BEGIN

/// The first word of a table's block: lanes in use (bits 0 to 23), bucket bits (24 to 28), tail bytes (29 and 30),
/// whether it has slices (31), and the newest slice when it was last written (32 to 63). The room for lanes follows
/// from the block's size.
struct TableHead {
  FingerprintShape shape;
  std::uint32_t count = 0;
  std::uint32_t newest = 0;

  static constexpr std::size_t bytes = sizeof(std::uint64_t);
  static constexpr std::uint8_t largest_tail = 3;  // two bits

  [[nodiscard]] static TableHead of(std::uint64_t word, std::uint32_t granules) noexcept {
    TableHead head;
    head.count = static_cast<std::uint32_t>(word & 0xFFFFFFU);
    head.shape.bucket_bits = static_cast<std::uint8_t>(word >> 24 & 0x1FU);
    head.shape.tail_bytes = static_cast<std::uint8_t>(word >> 29 & 3U);
    head.shape.sliced = (word >> 31 & 1U) != 0;
    head.newest = static_cast<std::uint32_t>(word >> 32);
    head.shape.capacity = head.shape.capacity_in(std::uint64_t{granules} * granule_bytes - bytes);
    return head;
  }
  [[nodiscard]] std::uint64_t word() const noexcept {
    return count | (std::uint64_t{shape.bucket_bits} << 24) | (std::uint64_t{shape.tail_bytes} << 29) |
           (std::uint64_t{shape.sliced ? 1U : 0U} << 31) | (std::uint64_t{newest} << 32);
  }
  /// Whether a block of so many granules can hold such a table.
  [[nodiscard]] bool is_sound(std::uint32_t granules) const noexcept {
    return granules > 0 && shape.tail_bytes <= FingerprintShape::max_tail_bytes &&
           shape.bucket_bits <= FingerprintShape::max_bucket_bits &&
           shape.index_bytes() + bytes <= std::uint64_t{granules} * granule_bytes && count <= shape.capacity;
  }
  [[nodiscard]] FingerprintView view(const std::uint64_t* block) const noexcept {
    return {shape, count, reinterpret_cast<const std::byte*>(block + 1)};
  }
  [[nodiscard]] FingerprintTable table(std::uint64_t* block) const noexcept {
    return {shape, count, reinterpret_cast<std::byte*>(block + 1)};
  }
  [[nodiscard]] static std::uint64_t granules_for(const FingerprintShape& shape) noexcept {
    return (bytes + shape.bytes() + granule_bytes - 1) / granule_bytes;
  }
};

SEENBY_DETAIL_END
