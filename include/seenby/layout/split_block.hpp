#pragma once
// SPDX-License-Identifier: MIT
// SplitBlockLayout: one cache line a test; Apache Parquet's split-block Bloom filter, byte for byte.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/sizing.hpp"

SEENBY_DETAIL_BEGIN

inline constexpr std::size_t block_bytes = 32;
inline constexpr std::size_t block_words = 8;

/// The eight odd salts of the Parquet specification (BloomFilter.md).
inline constexpr std::array<std::uint32_t, block_words> block_salts{0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                                                    0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

/// Which block: the high half of the digest, scaled to the number of blocks.
[[nodiscard]] constexpr std::uint64_t block_index(Digest digest, std::uint64_t block_count) noexcept {
  return ((digest.value >> 32) * block_count) >> 32;
}

/// The bit of one word of the block: the low half of the digest times the word's salt, its top five bits.
[[nodiscard]] constexpr std::uint32_t block_mask_word(Digest digest, std::size_t word) noexcept {
  return 1U << ((static_cast<std::uint32_t>(digest.value) * block_salts[word]) >> 27);
}

SEENBY_DETAIL_END

namespace seenby {

/// 256-bit blocks of eight 32-bit words, one bit in each. A test reads one cache line whatever the size, and a vector
/// unit does it in a handful of instructions; the price is about 10% more bits than ClassicLayout at 1%. Any number of
/// blocks. With Xxh64Hash and seed 0 the bytes are Parquet's. The default of the stores.
struct SplitBlockLayout {
  static constexpr LayoutKind kind = LayoutKind::split_block;

  /// The smallest shape for so many items at a rate of at most `fpr`. Throws std::invalid_argument.
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
    std::byte* block = bits + detail::block_index(digest, shape.bits / split_block_bits) * detail::block_bytes;
    std::uint32_t missing = 0;
    for (std::size_t word = 0; word < detail::block_words; ++word) {
      const std::uint32_t mask = detail::block_mask_word(digest, word);
      const auto old = detail::load_le<std::uint32_t>(block + 4 * word);
      missing |= mask & ~old;
      detail::store_le(block + 4 * word, old | mask);
    }
    return missing != 0;
  }

  /// Whether all the item's bits are set. Reads the whole block, without a branch.
  [[nodiscard]] static bool test(const std::byte* bits, const FilterShape& shape, Digest digest) noexcept {
    const std::byte* block = bits + detail::block_index(digest, shape.bits / split_block_bits) * detail::block_bytes;
    std::uint32_t missing = 0;
    for (std::size_t word = 0; word < detail::block_words; ++word) {
      missing |= detail::block_mask_word(digest, word) & ~detail::load_le<std::uint32_t>(block + 4 * word);
    }
    return missing == 0;
  }

  /// out[i] = 1 when digest i may be contained, else 0. `out` has room for digests.size().
  static void test_batch(const std::byte* bits, const FilterShape& shape, std::span<const Digest> digests,
                         std::uint8_t* out) noexcept {
    for (std::size_t i = 0; i < digests.size(); ++i) out[i] = test(bits, shape, digests[i]) ? 1 : 0;
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
