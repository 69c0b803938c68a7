#pragma once
// SPDX-License-Identifier: MIT
// Split-block filters in shared memory: what a shard does to the blocks of one part.

#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/detail/shared_words.hpp"
#include "seenby/layout/split_block.hpp"

SEENBY_DETAIL_BEGIN

/// Words 2 i and 2 i + 1 of a digest's mask, as one word of the arena.
[[nodiscard]] constexpr std::uint64_t block_mask_pair(Digest digest, std::size_t pair) noexcept {
  return block_mask_word(digest, 2 * pair) | (std::uint64_t{block_mask_word(digest, 2 * pair + 1)} << 32);
}

[[nodiscard]] inline bool blocks_test(const std::uint64_t* blocks, std::uint32_t block_count, Digest digest) noexcept {
  const std::uint64_t* const block = blocks + block_index(digest, block_count) * 4;
  std::uint64_t missing = 0;
  for (std::size_t pair = 0; pair < 4; ++pair) missing |= block_mask_pair(digest, pair) & ~load_word(block + pair);
  return missing == 0;
}

/// Sets a digest's bits; true when one was clear. One writer at a time, readers may look on.
inline bool blocks_insert(std::uint64_t* blocks, std::uint32_t block_count, Digest digest) noexcept {
  std::uint64_t* const block = blocks + block_index(digest, block_count) * 4;
  std::uint64_t missing = 0;
  for (std::size_t pair = 0; pair < 4; ++pair) {
    const std::uint64_t old = load_word(block + pair);
    const std::uint64_t mask = block_mask_pair(digest, pair);
    missing |= mask & ~old;
    store_word(block + pair, old | mask);
  }
  return missing != 0;
}

/// Inserts all; returns how many changed a bit.
inline std::uint32_t blocks_insert(std::uint64_t* blocks, std::uint32_t block_count,
                                   std::span<const Digest> digests) noexcept {
  std::uint32_t changed = 0;
  for (const Digest digest : digests) changed += blocks_insert(blocks, block_count, digest) ? 1U : 0U;
  return changed;
}

/// Sets seen[i] to 1 where digest i may be contained, else to 0.
inline void blocks_check(const std::uint64_t* blocks, std::uint32_t block_count, std::span<const Digest> digests,
                         std::uint8_t* seen) noexcept {
  for (std::size_t i = 0; i < digests.size(); ++i) seen[i] = blocks_test(blocks, block_count, digests[i]) ? 1 : 0;
}

/// The same for two filters: seen[i] becomes the number of them that may contain digest i.
inline void blocks_check_pair(const std::uint64_t* first, std::uint32_t first_count, const std::uint64_t* second,
                              std::uint32_t second_count, std::span<const Digest> digests,
                              std::uint8_t* seen) noexcept {
  for (std::size_t i = 0; i < digests.size(); ++i) {
    seen[i] = static_cast<std::uint8_t>(blocks_test(first, first_count, digests[i]) +
                                        blocks_test(second, second_count, digests[i]));
  }
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
inline void digests_check(const std::uint64_t* words, std::uint32_t count, std::span<const Digest> digests,
                          std::uint8_t* seen) noexcept {
  for (std::size_t i = 0; i < digests.size(); ++i) seen[i] = digests_contain(words, count, digests[i]) ? 1 : 0;
}

SEENBY_DETAIL_END
