#pragma once
// SPDX-License-Identifier: MIT
// What a shard does with the blocks of one part: split-block filters through the kernels, and runs of exact digests.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "seenby/detail/shared_words.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/table.hpp"

SEENBY_DETAIL_BEGIN

// Kernels see bytes, the arena has words: on a little-endian machine the words of a block are what the format says, and
// on any other one the kernels swap on both ways.

[[nodiscard]] inline SplitBlockRef blocks_ref(const std::uint64_t* words, std::uint32_t block_count) noexcept {
  return {reinterpret_cast<const std::byte*>(words), block_count};
}
[[nodiscard]] inline bool blocks_test(const std::uint64_t* words, std::uint32_t block_count, Digest digest) noexcept {
  return test(blocks_ref(words, block_count), digest);
}
/// Sets all digests' bits; returns how many changed one. One writer at a time, readers may look on.
inline std::uint32_t blocks_insert(std::uint64_t* words, std::uint32_t block_count,
                                   std::span<const Digest> digests) noexcept {
  auto* const bytes = reinterpret_cast<std::byte*>(words);
  if (digests.size() == 1) return insert(bytes, block_count, digests[0]) ? 1 : 0;
  return static_cast<std::uint32_t>(insert(bytes, block_count, digests.data(), digests.size()));
}

/// The rate of these very bits, as SplitBlockLayout::estimate_fpr: 75 instructions a block without a population count.
[[nodiscard]] inline double blocks_fpr(const std::uint64_t* words, std::uint32_t block_count) noexcept {
  constexpr std::size_t words_a_block = split_block_bytes / sizeof(std::uint64_t);
  double sum = 0;
  for (std::size_t at = 0; at < block_count * words_a_block; at += words_a_block) {
    std::uint64_t product = 1;  // of the ones in each half of a word: at most 2^40
    for (std::size_t i = at; i < at + words_a_block; ++i) {
      std::uint64_t ones = load_word(words + i);
      ones -= ones >> 1 & 0x5555555555555555U;
      ones = (ones & 0x3333333333333333U) + (ones >> 2 & 0x3333333333333333U);
      ones = (ones + (ones >> 4)) & 0x0f0f0f0f0f0f0f0fU;
      ones += ones >> 8;
      ones += ones >> 16;
      product *= (ones & 0x3fU) * (ones >> 32 & 0x3fU);
    }
    sum += static_cast<double>(product);
  }
  return std::ldexp(sum / block_count, -40);
}

/// Whether every bit of `bits` is set in `cover` too.
[[nodiscard]] inline bool words_covered(const std::uint64_t* bits, const std::uint64_t* cover,
                                        std::size_t count) noexcept {
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < count; ++i) missing |= load_word(bits + i) & ~load_word(cover + i);
  return missing == 0;
}

/// A run of exact digests: one word each.
[[nodiscard]] inline bool digests_contain(const std::uint64_t* words, std::uint32_t count, Digest digest) noexcept {
  bool found = false;
  for (std::uint32_t i = 0; i < count; ++i) found |= load_word(words + i) == digest.value;
  return found;
}

/// seen[i] += 1 where digest i is in the run.
inline void digests_check_add(const std::uint64_t* words, std::uint32_t count, std::span<const Digest> digests,
                              std::uint8_t* seen) noexcept {
  match_add(words, count, digests.data(), digests.size(), seen);
}

SEENBY_DETAIL_END
