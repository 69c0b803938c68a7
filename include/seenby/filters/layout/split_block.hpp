#pragma once
// SPDX-License-Identifier: MIT
// SplitBlockLayout: one cache line a test; Apache Parquet's split-block Bloom filter, byte for byte.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/table.hpp"
#include "seenby/sizing.hpp"

SEENBY_DETAIL_BEGIN

inline constexpr std::size_t block_bytes = split_block_bytes;
inline constexpr std::size_t block_words = 8;

/// Which block: the high half of the digest, scaled to the number of blocks.
[[nodiscard]] constexpr std::uint64_t block_index(Digest digest, std::uint64_t block_count) noexcept {
  return split_block_offset(digest, static_cast<std::uint32_t>(block_count)) / block_bytes;
}

/// The bit of one word of the block: the low half of the digest times the word's salt, its top five bits.
[[nodiscard]] constexpr std::uint32_t block_mask_word(Digest digest, std::size_t word) noexcept {
  return split_block_bit(digest, word);
}

[[nodiscard]] inline SplitBlockRef blocks_of(const std::byte* bits, const FilterShape& shape) noexcept {
  return {bits, static_cast<std::uint32_t>(shape.bits / split_block_bits)};
}

SEENBY_DETAIL_END

namespace seenby {

/// 256-bit blocks of eight 32-bit words, one bit in each. A test reads one cache line whatever the size, and a vector
/// unit does it in a handful of instructions; the price is about 10% more bits than ClassicLayout at 1%. Any number of
/// blocks. With Xxh64Hash and seed 0 the bytes are Parquet's. The default of the stores.
struct SplitBlockLayout {
  static constexpr LayoutKind kind = LayoutKind::split_block;  ///< what a header names it by
  /// Whether it reads bits that this layout wrote.
  [[nodiscard]] static constexpr bool reads(LayoutKind other) noexcept { return other == kind; }

  /// The smallest shape for this many items at a rate of at most `fpr`. Throws std::invalid_argument.
  [[nodiscard]] static FilterShape shape_for(std::uint64_t items, double fpr) {
    return sizing::shape_for(kind, items, fpr);
  }
  /// A shape of your own choice; bits are rounded up to a multiple of 256. hash_count must be 8. Throws
  /// std::invalid_argument.
  [[nodiscard]] static FilterShape shape_of(std::uint64_t bits, std::uint32_t hash_count = 8) {
    detail::require_bits(bits);
    if (hash_count != 8) {
      std::string message = "seenby: expected hash_count 8 in a split-block filter, got ";
      throw std::invalid_argument(message.append(std::to_string(hash_count)));
    }
    const std::uint64_t blocks = (bits + split_block_bits - 1) / split_block_bits;
    return {.layout = kind, .hash_count = 8, .bits = blocks * split_block_bits};
  }

  /// Sets the item's eight bits; true when one of them was clear. O(1), one cache line.
  static bool insert(std::byte* bits, const FilterShape& shape, Digest digest) noexcept {
    return detail::insert(bits, detail::blocks_of(bits, shape).block_count, digest);
  }
  /// Sets the bits of many; returns how many items set a bit that was clear.
  static std::size_t insert_batch(std::byte* bits, const FilterShape& shape, std::span<const Digest> digests) noexcept {
    return detail::insert(bits, detail::blocks_of(bits, shape).block_count, digests.data(), digests.size());
  }

  /// Whether all the item's bits are set. Reads the whole block, without a branch.
  [[nodiscard]] static bool test(const std::byte* bits, const FilterShape& shape, Digest digest) noexcept {
    return detail::test(detail::blocks_of(bits, shape), digest);
  }

  /// out[i] = 1 when digest i may be contained, else 0, by the kernel chosen for this machine. `out` has room for
  /// digests.size().
  static void test_batch(const std::byte* bits, const FilterShape& shape, std::span<const Digest> digests,
                         std::uint8_t* out) noexcept {
    detail::check(detail::blocks_of(bits, shape), digests.data(), digests.size(), out);
  }

  /// How many distinct items the bits hold: the sum over the blocks of ln(zeros / 256) / ln(31 / 32). A formula over
  /// the whole filter's fill would be biased, since blocks fill unevenly. Infinite when a block is full.
  [[nodiscard]] static double estimate_items(const std::byte* bits, const FilterShape& shape) noexcept {
    double log_zeros = 0;
    for (std::uint64_t at = 0; at < shape.bytes(); at += detail::block_bytes) {
      const auto ones = detail::count_ones({bits + at, detail::block_bytes});
      log_zeros += std::log(static_cast<double>(split_block_bits - ones) / split_block_bits);
    }
    return log_zeros / std::log(31.0 / 32.0);
  }
  /// The rate of these very bits: the mean over the blocks of the product of the words' fills.
  [[nodiscard]] static double estimate_fpr(const std::byte* bits, const FilterShape& shape) noexcept {
    double sum = 0;
    for (std::uint64_t at = 0; at < shape.bytes(); at += detail::block_bytes) {
      double product = 1;
      for (std::size_t word = 0; word < detail::block_words; ++word) {
        product *= std::popcount(detail::load_le<std::uint32_t>(bits + at + 4 * word)) / 32.0;
      }
      sum += product;
    }
    const std::uint64_t blocks = shape.bits / split_block_bits;
    return sum / static_cast<double>(blocks);
  }
};

}  // namespace seenby
