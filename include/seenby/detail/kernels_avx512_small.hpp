#pragma once
// SPDX-License-Identifier: MIT
// The AVX-512 kernel for filters of at most sixteen blocks: the whole filter sits in registers, sixteen candidates at
// once look their words up by a permutation.

#include "seenby/detail/kernels_avx512_base.hpp"

#if defined(SEENBY_X86_KERNELS)

SEENBY_AVX512_BEGIN

/// Filters of so many blocks are small: sixteen 32-bit words, one of each block, fill a register. Nine in ten users'
/// are, where histories have a median of 40 items and a 90th percentile of 440.
inline constexpr std::uint32_t small_filter_blocks = 16;
/// Sixteen candidates are one step. In a shorter batch than two steps, turning the filter costs more than it saves.
inline constexpr std::size_t small_step = 16;
inline constexpr std::size_t small_least_count = 2 * small_step;

/// A filter turned: word[w] holds word w of every block, in the order of the blocks.
struct TurnedFilter {
  __m512i word[8];
  __m512i block_count;
};

/// Turns a filter: eight by eight words in each half, blocks 0 to 7 and 8 to 15. Past the last block the last one is
/// read again, which no candidate ever asks for.
SEENBY_AVX512_INLINE TurnedFilter turn(SplitBlockRef filter) noexcept {
  const std::uint32_t last = filter.block_count - 1;
  const auto block = [&](std::uint32_t i) { return filter.blocks + (i < last ? i : last) * split_block_bytes; };
  __m512i row[8];
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < 8; ++i) row[i] = join(load_half(block(i)), load_half(block(i + 8)));
  __m512i pair[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    pair[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  // quad[half + w]: four blocks' word w in lanes 0 and 2, word w + 4 in lanes 1 and 3.
  __m512i quad[8];
#pragma GCC unroll 2
  for (int half = 0; half < 8; half += 4) {
    quad[half] = _mm512_unpacklo_epi64(pair[half], pair[half + 2]);
    quad[half + 1] = _mm512_unpackhi_epi64(pair[half], pair[half + 2]);
    quad[half + 2] = _mm512_unpacklo_epi64(pair[half + 1], pair[half + 3]);
    quad[half + 3] = _mm512_unpackhi_epi64(pair[half + 1], pair[half + 3]);
  }
  const __m512i even_lanes = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
  const __m512i odd_lanes = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
  TurnedFilter turned;
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) {
    turned.word[w] = _mm512_permutex2var_epi64(quad[w], even_lanes, quad[4 + w]);
    turned.word[w + 4] = _mm512_permutex2var_epi64(quad[w], odd_lanes, quad[4 + w]);
  }
  turned.block_count = _mm512_set1_epi64(filter.block_count);
  return turned;
}

/// How many of the filters have seen each of sixteen candidates, a byte each.
template <std::size_t Filters>
SEENBY_AVX512_INLINE __m128i count_step(const TurnedFilter (&filters)[Filters], const Digest* step) noexcept {
  const __m512i evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odds = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  const __m512i front = _mm512_loadu_si512(step);
  const __m512i back = _mm512_loadu_si512(step + 8);
  const __m512i low = _mm512_permutex2var_epi32(front, evens, back);
  const __m512i front_high = _mm512_srli_epi64(front, 32);
  const __m512i back_high = _mm512_srli_epi64(back, 32);
  __m512i block[Filters];
  __m512i held[Filters];
#pragma GCC unroll 2
  for (std::size_t f = 0; f < Filters; ++f) {
    block[f] = _mm512_permutex2var_epi32(_mm512_mul_epu32(front_high, filters[f].block_count), odds,
                                         _mm512_mul_epu32(back_high, filters[f].block_count));
  }
#pragma GCC unroll 8
  for (std::size_t w = 0; w < 8; ++w) {
    const __m512i salt = _mm512_set1_epi32(static_cast<int>(split_block_salts[w]));
    const __m512i bit = _mm512_srli_epi32(_mm512_mullo_epi32(low, salt), 27);
#pragma GCC unroll 2
    for (std::size_t f = 0; f < Filters; ++f) {
      // The lowest bit is the word's answer; the others are carried along and dropped at the end.
      const __m512i word = _mm512_srlv_epi32(_mm512_permutexvar_epi32(block[f], filters[f].word[w]), bit);
      held[f] = w == 0 ? word : _mm512_and_si512(held[f], word);
    }
  }
  const __m512i one = _mm512_set1_epi32(1);
  __m512i count = _mm512_and_si512(held[0], one);
#pragma GCC unroll 2
  for (std::size_t f = 1; f < Filters; ++f) count = _mm512_add_epi32(count, _mm512_and_si512(held[f], one));
  return _mm512_cvtepi32_epi8(count);
}

/// Answers whole steps and, unless it adds, the rest by one overlapping step; returns how many candidates are done.
/// `count` is at least small_step.
template <bool Add, std::size_t Filters>
SEENBY_AVX512_INLINE std::size_t check_small(const SplitBlockRef (&filters)[Filters], const Digest* digests,
                                             std::size_t count, std::uint8_t* seen) noexcept {
  TurnedFilter turned[Filters];
#pragma GCC unroll 2
  for (std::size_t f = 0; f < Filters; ++f) turned[f] = turn(filters[f]);
  for (std::size_t i = 0; i < count; i += small_step) {
    if (count - i < small_step) {
      if (Add) return i;
      i = count - small_step;
    }
    const __m128i hits = count_step(turned, digests + i);
    auto* out = reinterpret_cast<__m128i*>(seen + i);
    _mm_storeu_si128(out, Add ? _mm_add_epi8(_mm_loadu_si128(out), hits) : hits);
  }
  return count;
}

SEENBY_AVX512_END

#endif
