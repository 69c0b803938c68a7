#pragma once
// SPDX-License-Identifier: MIT
// The AVX-512 kernel for filters of at most sixteen blocks: the whole filter sits in registers, and sixty-four
// candidates at once look a byte of it up by one permutation.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "seenby/kernels/avx512_base.hpp"

#if defined(SEENBY_X86_KERNELS)

SEENBY_AVX512_BEGIN

/// Filters of so many blocks are small: one 32-bit word of each fills a register. Nine in ten users' are, where
/// histories have a median of 40 items and a 90th percentile of 440.
inline constexpr std::uint32_t small_filter_blocks = 16;
/// Sixty-four candidates are one step: a byte each.
inline constexpr std::size_t small_step = 64;
/// In a shorter batch turning the filter costs more than it saves, and in one whose planes are yet to be worked out
/// even that costs more.
inline constexpr std::size_t small_least_count = 24;
inline constexpr std::size_t small_least_count_without_planes = 56;

[[nodiscard]] inline bool is_small(SplitBlockRef filter) noexcept { return filter.block_count <= small_filter_blocks; }
[[nodiscard]] inline bool is_worth_turning(DigestsRef digests, std::size_t count) noexcept {
  return count >= (digests.planes != nullptr ? small_least_count : small_least_count_without_planes);
}

/// The order of a register's bytes.
using ByteOrder = std::array<std::uint8_t, 64>;

/// Where byte `byte` of block `block`'s word stands in a turned word's register. Bits 3 and 4 are the byte, so that a
/// bit's number within its word (0 to 31) shows the byte's place as it is: its bits 3 and 4 say the same.
[[nodiscard]] constexpr std::uint8_t turned_place(std::uint32_t block, std::uint32_t byte) noexcept {
  return static_cast<std::uint8_t>((block & 7U) | (byte << 3) | ((block & 8U) << 2));
}

/// From two registers of two words of eight blocks each (in the order that `turn` leaves them in) to one of the words.
[[nodiscard]] constexpr ByteOrder turning_order(std::uint32_t word) noexcept {
  ByteOrder order{};
  for (std::uint32_t block = 0; block < small_filter_blocks; ++block) {
    const std::uint32_t lane = block & 3U;
    const std::uint32_t half = block >> 2 & 1U;
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      order[turned_place(block, byte)] =
          static_cast<std::uint8_t>((block >> 3) * 64 + lane * 16 + half * 8 + word * 4 + byte);
    }
  }
  return order;
}
inline constexpr std::array<ByteOrder, 2> turning_orders{turning_order(0), turning_order(1)};

/// From the order of BitPlanes to the order of the candidates.
[[nodiscard]] constexpr ByteOrder candidates_order() noexcept {
  ByteOrder order{};
  for (std::uint32_t byte = 0; byte < small_step; ++byte) {
    order[BitPlanes::candidate_at(byte)] = static_cast<std::uint8_t>(byte);
  }
  return order;
}
inline constexpr ByteOrder in_candidates_order = candidates_order();

SEENBY_AVX512_INLINE __m512i load_order(const ByteOrder& order) noexcept { return _mm512_loadu_si512(order.data()); }

/// Which of sixty-four candidates are there, of those that are left.
SEENBY_AVX512_INLINE std::uint64_t present_of(std::size_t left) noexcept {
  return left < small_step ? (std::uint64_t{1} << left) - 1 : ~std::uint64_t{0};
}

/// Bits 8i to 8i + 7 of a mask. Shifted among the mask registers: every crossing from a general one costs a cycle.
SEENBY_AVX512_INLINE __mmask8 eighth(__mmask64 mask, unsigned i) noexcept {
  switch (i) {
    case 0: return static_cast<__mmask8>(mask);
    case 1: return static_cast<__mmask8>(_kshiftri_mask64(mask, 8));
    case 2: return static_cast<__mmask8>(_kshiftri_mask64(mask, 16));
    case 3: return static_cast<__mmask8>(_kshiftri_mask64(mask, 24));
    case 4: return static_cast<__mmask8>(_kshiftri_mask64(mask, 32));
    case 5: return static_cast<__mmask8>(_kshiftri_mask64(mask, 40));
    case 6: return static_cast<__mmask8>(_kshiftri_mask64(mask, 48));
    default: return static_cast<__mmask8>(_kshiftri_mask64(mask, 56));
  }
}

/// A filter turned: word[w] holds word w of every block, each byte at its turned_place.
struct TurnedFilter {
  __m512i word[8];
  __m512i block_count;
};

/// Turns a filter of at most sixteen blocks. Past the last block it reads zeros, which no candidate ever asks for.
SEENBY_AVX512_INLINE TurnedFilter turn(SplitBlockRef filter) noexcept {
  // Four quadwords a block. A handle that a reader will find stale may speak of none; then any will do.
  const std::uint64_t present = ~std::uint64_t{0} >> ((64 - 4 * filter.block_count) & 63U);
  const __mmask64 masks = _cvtu64_mask64(present);
  __m512i row[8];
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < 8; ++i) {  // two blocks each
    // Where there is none, the first is read and masked: another line would be one more to wait for. By arithmetic: a
    // branch on the size of somebody's filter nobody foresees.
    const std::uint64_t at = (0 - (present >> (8 * i) & 1U)) & (i * 64);
    row[i] = _mm512_maskz_loadu_epi64(eighth(masks, i), filter.blocks + at);
  }
  __m512i low[4];   // words 0 to 3 of four blocks each
  __m512i high[4];  // words 4 to 7
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm512_shuffle_i64x2(row[2 * i], row[2 * i + 1], 0x88);
    high[i] = _mm512_shuffle_i64x2(row[2 * i], row[2 * i + 1], 0xDD);
  }
  const __m512i even = load_order(turning_orders[0]);
  const __m512i odd = load_order(turning_orders[1]);
  TurnedFilter turned;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512i(&words)[4] = half == 0 ? low : high;
    const __m512i first[2] = {_mm512_unpacklo_epi64(words[0], words[1]), _mm512_unpacklo_epi64(words[2], words[3])};
    const __m512i second[2] = {_mm512_unpackhi_epi64(words[0], words[1]), _mm512_unpackhi_epi64(words[2], words[3])};
    turned.word[4 * half] = _mm512_permutex2var_epi8(first[0], even, first[1]);
    turned.word[4 * half + 1] = _mm512_permutex2var_epi8(first[0], odd, first[1]);
    turned.word[4 * half + 2] = _mm512_permutex2var_epi8(second[0], even, second[1]);
    turned.word[4 * half + 3] = _mm512_permutex2var_epi8(second[0], odd, second[1]);
  }
  turned.block_count = _mm512_set1_epi64(filter.block_count);
  return turned;
}

/// Works out the planes of up to sixty-four candidates.
SEENBY_AVX512_INLINE void work_out_step(const Digest* digests, std::uint64_t present, BitPlanes& planes) noexcept {
  const __mmask64 there = _cvtu64_mask64(present);
  __m512i low[4];
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    const __m512i front = _mm512_maskz_loadu_epi64(eighth(there, 2 * j), digests + 16 * j);
    const __m512i back = _mm512_maskz_loadu_epi64(eighth(there, 2 * j + 1), digests + 16 * j + 8);
    low[j] = _mm512_mask_shuffle_epi32(front, 0xAAAA, back, _MM_PERM_CCAA);
    _mm512_store_si512(planes.high[j].data(), _mm512_mask_shuffle_epi32(back, 0x5555, front, _MM_PERM_DDBB));
  }
#pragma GCC unroll 8
  for (std::size_t w = 0; w < 8; ++w) {
    const __m512i salt = _mm512_set1_epi32(static_cast<int>(split_block_salts[w]));
    __m512i merged = _mm512_srli_epi32(_mm512_mullo_epi32(low[0], salt), 27);
#pragma GCC unroll 3
    for (unsigned j = 1; j < 4; ++j) {
      const __m512i product = _mm512_srli_epi32(_mm512_mullo_epi32(low[j], salt), 27 - 8 * j);
      merged = _mm512_ternarylogic_epi32(merged, product, _mm512_set1_epi32(0x1F << (8 * j)), 0xF8);  // a | (b & c)
    }
    _mm512_store_si512(planes.bit_number[w].data(), merged);
  }
}

/// The planes of `count` candidates.
SEENBY_AVX512 inline void work_out(const Digest* digests, std::size_t count, BitPlanes* planes) noexcept {
  for (std::size_t i = 0; i < count; i += small_step) work_out_step(digests + i, present_of(count - i), *planes++);
}

/// Where each candidate's block stands in a turned word: turned_place(block, 0).
SEENBY_AVX512_INLINE __m512i block_places(const TurnedFilter& filter, const BitPlanes& planes) noexcept {
  const __m512i place_of_block =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 34, 35, 36, 37, 38, 39));
  __m512i block[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i high = _mm512_load_si512(planes.high[static_cast<std::size_t>(j)].data());
    const __m512i even = _mm512_mul_epu32(high, filter.block_count);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(high, 32), filter.block_count);
    block[j] = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
  }
  const __m512i front = _mm512_or_si512(block[0], _mm512_slli_epi32(block[1], 8));
  const __m512i merged = _mm512_ternarylogic_epi32(front, _mm512_slli_epi32(block[2], 16),
                                                   _mm512_slli_epi32(block[3], 24), 0xFE);  // a | b | c
  return _mm512_shuffle_epi8(place_of_block, merged);
}

/// How many of the filters have seen each of sixty-four candidates, a byte each.
template <std::size_t Filters>
SEENBY_AVX512_INLINE __m512i count_step(const TurnedFilter (&filters)[Filters], const BitPlanes& planes) noexcept {
  __m512i place[Filters];
  __m512i missed[Filters];  // not zero where a bit is not set
#pragma GCC unroll 2
  for (std::size_t f = 0; f < Filters; ++f) {
    place[f] = block_places(filters[f], planes);
    missed[f] = _mm512_setzero_si512();
  }
  const __m512i bit_of_number = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201U));
  const __m512i byte_bits = _mm512_set1_epi8(0x18);
#pragma GCC unroll 8
  for (std::size_t w = 0; w < 8; ++w) {
    const __m512i number = _mm512_load_si512(planes.bit_number[w].data());
    const __m512i bit = _mm512_shuffle_epi8(bit_of_number, number);
#pragma GCC unroll 2
    for (std::size_t f = 0; f < Filters; ++f) {
      const __m512i at = _mm512_ternarylogic_epi32(place[f], number, byte_bits, 0xF8);  // a | (b & c)
      const __m512i held = _mm512_permutexvar_epi8(at, filters[f].word[w]);
      missed[f] = _mm512_ternarylogic_epi32(missed[f], held, bit, 0xF2);  // a | (~b & c)
    }
  }
  const __m512i one = _mm512_set1_epi8(1);
  __m512i count = _mm512_set1_epi8(static_cast<char>(Filters));
#pragma GCC unroll 2
  for (std::size_t f = 0; f < Filters; ++f) count = _mm512_sub_epi8(count, _mm512_min_epu8(missed[f], one));
  return _mm512_permutexvar_epi8(load_order(in_candidates_order), count);
}

/// Answers all candidates, whose planes are there.
template <bool Add, class... Filters>
[[gnu::noinline]] SEENBY_AVX512 void check_planes(const BitPlanes* planes, std::size_t count, std::uint8_t* seen,
                                                  Filters... filters) noexcept {
  const TurnedFilter turned[sizeof...(Filters)] = {turn(filters)...};
  for (;;) {
    const __m512i hits = count_step(turned, *planes);
    if (count < small_step) {
      const __mmask64 present = present_of(count);
      const __m512i before = Add ? _mm512_maskz_loadu_epi8(present, seen) : _mm512_setzero_si512();
      return _mm512_mask_storeu_epi8(seen, present, _mm512_add_epi8(before, hits));
    }
    // A whole store, which what reads the answers next need not wait for.
    _mm512_storeu_si512(seen, Add ? _mm512_add_epi8(_mm512_loadu_si512(seen), hits) : hits);
    if (count == small_step) return;
    count -= small_step;
    seen += small_step;
    ++planes;
  }
}

/// Answers all candidates, working their planes out on the way.
template <bool Add, class... Filters>
[[gnu::noinline]] SEENBY_AVX512 void check_without_planes(const Digest* digests, std::size_t count, std::uint8_t* seen,
                                                          Filters... filters) noexcept {
  constexpr std::size_t at_once = 4;
  BitPlanes own[at_once];
  for (std::size_t i = 0; i < count; i += at_once * small_step) {
    const std::size_t next = std::min(count - i, at_once * small_step);
    work_out(digests + i, next, own);
    check_planes<Add>(own, next, seen + i, filters...);
  }
}

/// Answers all candidates.
template <bool Add, class... Filters>
SEENBY_AVX512_INLINE void check_small(DigestsRef digests, std::size_t count, std::uint8_t* seen,
                                      Filters... filters) noexcept {
  if (digests.planes != nullptr) return check_planes<Add>(digests.planes, count, seen, filters...);
  check_without_planes<Add>(digests.first, count, seen, filters...);
}

SEENBY_AVX512_END

#endif
