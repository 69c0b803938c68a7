#pragma once
// SPDX-License-Identifier: MIT
// Inserting into a split block that other threads insert into and read at the same time.

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "seenby/detail/atomic_ref.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/scalar.hpp"

SEENBY_DETAIL_BEGIN

/// A block as four 64-bit words: half the atomic operations of eight words of 32 bits, the same bytes.
inline constexpr std::size_t wide_words = 4;

[[nodiscard]] inline std::array<std::uint64_t, wide_words> wide_mask(Digest digest) noexcept {
  std::array<std::uint64_t, wide_words> mask;
  for (std::size_t i = 0; i < wide_words; ++i) {
    const std::uint64_t low = split_block_bit(digest, 2 * i);
    const std::uint64_t high = split_block_bit(digest, 2 * i + 1);
    mask[i] = swap_unless_little(low | (high << 32));
  }
  return mask;
}

[[nodiscard]] inline AtomicRef<std::uint64_t> wide_word(std::byte* block, std::size_t i) noexcept {
  return AtomicRef<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(block + 8 * i));
}

/// Sets a digest's bits in its block (aligned to 8); true when the digest was certainly new, and this call the one to
/// say so.
///
/// Every caller fills the words in order, and touches a word only when it has seen all words before it full (of this
/// digest's bits). A caller says "new" when its own fetch_or filled a word, and it had seen all words after that one
/// full before. That fetch_or is the point at which the digest becomes contained.
///
/// At most one caller says "new" of a digest. Suppose A says so by word i and B by word k. i = k cannot be: after the
/// first fetch_or the word is full. Let i < k. B touched word k after it had seen word i full, which it is from A's
/// fetch_or on; and A had read word k before that fetch_or. So A's read of word k comes before B's fetch_or on it
/// (the fetch_or releases, B's look at word i acquires), and could not have seen the word full that B then filled.
///
/// At least one caller does, when no other thread sets the digest's missing bits meanwhile. Let w be the last word that
/// lacks one. Some caller's fetch_or fills w; the words after w were full all along, so that caller saw them full, and
/// says "new".
///
/// There remains another digest whose insert, at this very time and in this very block, sets the last missing bit of
/// this one between a caller's two looks. Then none says "new", as none would had the other insert come first with the
/// rest of the bits: one more false positive. It takes two inserts into one block within some ten nanoseconds: with one
/// other thread and a million blocks about 3 in 10^8 inserts, against a rate of 1 in 10^2. Bits alone cannot tell that
/// digest from a second caller with the same one, so no order of fetch_ors does better.
inline bool insert_atomically(std::byte* block, Digest digest) noexcept {
  const auto mask = wide_mask(digest);
  const auto full = [&](std::size_t i) {
    return (wide_word(block, i).load(std::memory_order_acquire) & mask[i]) == mask[i];
  };
  bool fresh = false;
  for (std::size_t i = 0; i < wide_words; ++i) {
    if (full(i)) continue;
    bool rest_full = true;
    for (std::size_t after = i + 1; after < wide_words; ++after) rest_full = full(after) && rest_full;
    const std::uint64_t before = wide_word(block, i).fetch_or(mask[i], std::memory_order_acq_rel);
    fresh = fresh || (rest_full && (before & mask[i]) != mask[i]);
  }
  return fresh;
}

/// The rate at which a block errs while other threads may be adding to it: the product of its eight words' fills.
inline double block_rate_atomically(std::byte* block) noexcept {
  double rate = 1;
  for (std::size_t i = 0; i < wide_words; ++i) {
    const std::uint64_t word = wide_word(block, i).load(std::memory_order_relaxed);
    rate *= std::popcount(static_cast<std::uint32_t>(word)) / 32.0 * (std::popcount(word >> 32) / 32.0);
  }
  return rate;
}

SEENBY_DETAIL_END
