#pragma once
// SPDX-License-Identifier: MIT
// The portable kernel: the vector extensions of GCC and Clang, for every processor that has no kernel of its own.

#include "seenby/kernels/scalar.hpp"

#if defined(SEENBY_SIMD)

SEENBY_DETAIL_BEGIN

namespace portable {

using Words = std::uint32_t __attribute__((vector_size(16)));
using Halves = std::uint64_t __attribute__((vector_size(16)));

[[nodiscard]] inline Words load_words(const void* from) noexcept {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return words;
}

/// The masks of half a block. Words are little-endian in memory: where the machine's are not, bit n of a word is found
/// at n with its byte's number inverted.
[[nodiscard]] inline Words half_mask(std::uint32_t low, std::size_t first_word) noexcept {
  constexpr std::uint32_t inverted = std::endian::native == std::endian::big ? 24 : 0;
  const Words digest = {low, low, low, low};
  const Words one = {1, 1, 1, 1};
  return one << ((digest * load_words(split_block_salts.data() + first_word)) >> 27 ^ inverted);
}

[[nodiscard]] inline bool is_zero(Words words) noexcept {
  const auto halves = reinterpret_cast<Halves>(words);
  return (halves[0] | halves[1]) == 0;
}

[[nodiscard]] inline bool test(SplitBlockRef filter, Digest digest) noexcept {
  const std::byte* block = filter.blocks + split_block_offset(digest, filter.block_count);
  const auto low = static_cast<std::uint32_t>(digest.value);
  return is_zero((half_mask(low, 0) & ~load_words(block)) | (half_mask(low, 4) & ~load_words(block + 16)));
}

inline bool insert(std::byte* blocks, std::uint32_t block_count, Digest digest) noexcept {
  std::byte* block = blocks + split_block_offset(digest, block_count);
  Words missing = {};
  for (std::size_t half = 0; half < 2; ++half) {
    const Words mask = half_mask(static_cast<std::uint32_t>(digest.value), 4 * half);
    const Words before = load_words(block + 16 * half);
    const Words after = before | mask;
    missing |= mask & ~before;
    std::memcpy(block + 16 * half, &after, sizeof after);
  }
  return !is_zero(missing);
}

}  // namespace portable

SEENBY_DETAIL_END
#endif
