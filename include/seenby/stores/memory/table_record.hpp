#pragma once
// SPDX-License-Identifier: MIT
// A fingerprint table as a memory store keeps it: one word that says what it is, then its bytes, in one block.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "seenby/filters/fingerprint_table.hpp"
#include "seenby/stores/memory/arena.hpp"
#include "seenby/stores/memory/user_record.hpp"

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

/// The block that an inlined record stands for: of one granule, as if the table had never been in the handle.
class InlinedTable {
 public:
  explicit InlinedTable(Handle handle) noexcept {
    const InlinedLanes few(handle);
    head_ = TableHead::of(few.count(), 1);
    words_[0] = head_.word();
    // In one store: what is asked next loads all of them at once.
    const auto [first, second, third] = few.lanes;
    store_le(reinterpret_cast<std::byte*>(words_.data() + 1),
             first | std::uint64_t{second} << 16 | std::uint64_t{third} << 32);
  }
  /// Whether a table fits a handle; then its lanes.
  [[nodiscard]] static std::optional<InlinedLanes> of(const TableHead& head, const std::uint64_t* block) noexcept {
    InlinedLanes few;
    const FingerprintShape& shape = head.shape;
    if (shape.bucket_bits != 0 || shape.tail_bytes != 0 || shape.sliced || head.count > few.lanes.size()) return {};
    for (std::uint32_t i = 0; i < head.count; ++i) {
      few.lanes[i] = static_cast<std::uint16_t>(load_lane(head.view(block).ref(), i) >> 48);
    }
    return few;
  }
  [[nodiscard]] const TableHead& head() const noexcept { return head_; }
  [[nodiscard]] const std::uint64_t* block() const noexcept { return words_.data(); }
  [[nodiscard]] FingerprintView view() const noexcept { return head_.view(words_.data()); }

 private:
  std::array<std::uint64_t, granule_words> words_{};
  TableHead head_;
};

SEENBY_DETAIL_END
