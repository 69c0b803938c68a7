#pragma once
// SPDX-License-Identifier: MIT
// The AVX-512 kernel for small filters: the whole filter is in registers, and sixty-four candidates at once look a byte
// of every word up by one permutation.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/kernels/avx512_base.hpp"

#if defined(SEENBY_X86_KERNELS)

SEENBY_AVX512_BEGIN

/// Sixty-four candidates are one step: a byte each.
inline constexpr std::size_t small_step = DigestLanes::candidates;
/// In a shorter batch transposing the filter costs more than it saves, and in one whose lanes are yet to be precomputed
/// even that costs more.
inline constexpr std::size_t least_for_lanes = 24;
inline constexpr std::size_t least_without_lanes = 56;

[[nodiscard]] inline bool is_small(SplitBlockRef filter) noexcept { return filter.block_count <= small_filter_blocks; }
[[nodiscard]] inline bool lanes_pay(DigestsRef digests, std::size_t count) noexcept {
  return count >= (digests.lanes != nullptr ? least_for_lanes : least_without_lanes);
}

/// The order of a register's double words.
using WordOrder = std::array<std::uint32_t, 16>;

/// From two registers of two words of eight blocks each, as `transpose` leaves them, to one of the words: block b's at
/// b.
[[nodiscard]] constexpr WordOrder word_order(std::uint32_t word) noexcept {
  WordOrder order{};
  for (std::uint32_t block = 0; block < small_filter_blocks; ++block) {
    order[block] = (block >> 3) * 16 + (block & 3U) * 4 + (block >> 2 & 1U) * 2 + word;
  }
  return order;
}
inline constexpr std::array<WordOrder, 2> word_orders{word_order(0), word_order(1)};

/// Where `precompute_step` leaves each candidate's byte: byte 4 * i + j belongs to double word i of registers j.
[[nodiscard]] constexpr std::array<std::uint8_t, small_step> candidates_order() noexcept {
  std::array<std::uint8_t, small_step> order{};
  for (std::size_t byte = 0; byte < small_step; ++byte) {
    order[byte % 4 * 16 + byte / 4 % 2 * 8 + byte / 8] = static_cast<std::uint8_t>(byte);
  }
  return order;
}
inline constexpr std::array<std::uint8_t, small_step> in_candidates_order = candidates_order();

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

/// A filter whose blocks are columns: word[w] holds word w of every block, in order.
struct TransposedFilter {
  __m512i word[8];
  std::size_t row;  ///< of the lanes' blocks

  [[nodiscard]] SEENBY_AVX512_INLINE __m512i place(const DigestLanes& lanes) const noexcept {
    return _mm512_load_si512(lanes.block[row].data());
  }
  /// The part of an index that is the same in every filter; the byte is in the low two bits.
  [[nodiscard]] SEENBY_AVX512_INLINE __m512i offset(std::size_t, __m512i byte) const noexcept { return byte; }
  [[nodiscard]] SEENBY_AVX512_INLINE __m512i held(std::size_t w, __m512i place, __m512i byte) const noexcept {
    const __m512i at = _mm512_ternarylogic_epi32(place, byte, _mm512_set1_epi8(3), 0xF8);  // a | (b & c)
    return _mm512_permutexvar_epi8(at, word[w]);
  }
};

/// Transposes a filter of at most sixteen blocks. Past the last block it reads zeros, which no candidate asks for.
SEENBY_AVX512_INLINE TransposedFilter load_filter(SplitBlockRef filter, TransposedFilter*) noexcept {
  // Four quadwords a block. A handle that a reader will find stale may speak of none; then any will do.
  const std::uint64_t present = ~std::uint64_t{0} >> ((64 - 4 * filter.block_count) & 63U);
  const __mmask64 masks = _cvtu64_mask64(present);
  __m512i row[8];
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < 8; ++i) {  // two blocks each
    // Where there is none, the first is read and masked: another line would be one more to wait for. By arithmetic: no
    // branch predictor predicts the size of a user's filter.
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
  const __m512i even = _mm512_loadu_si512(word_orders[0].data());
  const __m512i odd = _mm512_loadu_si512(word_orders[1].data());
  TransposedFilter out;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512i(&words)[4] = half == 0 ? low : high;
    const __m512i first[2] = {_mm512_unpacklo_epi64(words[0], words[1]), _mm512_unpacklo_epi64(words[2], words[3])};
    const __m512i second[2] = {_mm512_unpackhi_epi64(words[0], words[1]), _mm512_unpackhi_epi64(words[2], words[3])};
    out.word[4 * half] = _mm512_permutex2var_epi32(first[0], even, first[1]);
    out.word[4 * half + 1] = _mm512_permutex2var_epi32(first[0], odd, first[1]);
    out.word[4 * half + 2] = _mm512_permutex2var_epi32(second[0], even, second[1]);
    out.word[4 * half + 3] = _mm512_permutex2var_epi32(second[0], odd, second[1]);
  }
  out.row = (filter.block_count - 1U) % small_filter_blocks;
  return out;
}

/// A filter of at most four blocks as it is: a permutation of two registers reaches every byte, and nothing is
/// transposed.
struct TinyFilter {
  __m512i low;
  __m512i high;
  std::size_t row;

  [[nodiscard]] SEENBY_AVX512_INLINE __m512i place(const DigestLanes& lanes) const noexcept {
    return _mm512_slli_epi32(_mm512_load_si512(lanes.block[row].data()), 3);  // 32 bytes a block
  }
  [[nodiscard]] SEENBY_AVX512_INLINE __m512i offset(std::size_t w, __m512i byte) const noexcept {
    const __m512i word = _mm512_set1_epi8(static_cast<char>(4 * w));
    return _mm512_ternarylogic_epi32(byte, _mm512_set1_epi8(3), word, 0xEA);  // (a & b) | c
  }
  [[nodiscard]] SEENBY_AVX512_INLINE __m512i held(std::size_t, __m512i place, __m512i offset) const noexcept {
    return _mm512_permutex2var_epi8(low, _mm512_or_si512(place, offset), high);
  }
};
inline constexpr std::uint32_t tiny_filter_blocks = 4;

SEENBY_AVX512_INLINE TinyFilter load_filter(SplitBlockRef filter, TinyFilter*) noexcept {
  const std::uint32_t present = (1U << (4 * filter.block_count)) - 1U;
  const bool has_high = filter.block_count > 2;
  return {_mm512_maskz_loadu_epi64(static_cast<__mmask8>(present), filter.blocks),
          _mm512_maskz_loadu_epi64(static_cast<__mmask8>(present >> 8), filter.blocks + (has_high ? 64 : 0)),
          (filter.block_count - 1U) % small_filter_blocks};
}

/// The rows of each candidate's block in filters of so many, from the high halves: byte 4 * i + j of a row belongs to
/// double word i of high[j] until it is put in order.
SEENBY_AVX512_INLINE __m512i blocks_of(const __m512i (&high)[4], std::uint32_t block_count) noexcept {
  const __m512i factor = _mm512_set1_epi64(block_count);
  __m512i block[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_mul_epu32(high[j], factor);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(high[j], 32), factor);
    block[j] = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
  }
  const __m512i front = _mm512_or_si512(_mm512_slli_epi32(block[0], 2), _mm512_slli_epi32(block[1], 10));
  return _mm512_ternarylogic_epi32(front, _mm512_slli_epi32(block[2], 18), _mm512_slli_epi32(block[3], 26),
                                   0xFE);  // a | b | c
}

/// The lanes of up to sixty-four candidates, with rows for filters of these numbers of blocks.
SEENBY_AVX512_INLINE void precompute_step(const Digest* digests, std::uint64_t present,
                                          std::span<const std::uint32_t> block_counts, DigestLanes& lanes) noexcept {
  const __m512i in_order = _mm512_loadu_si512(in_candidates_order.data());
  const __mmask64 there = _cvtu64_mask64(present);
  __m512i low[4];
  __m512i high[4];
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    const __m512i front = _mm512_maskz_loadu_epi64(eighth(there, 2 * j), digests + 16 * j);
    const __m512i back = _mm512_maskz_loadu_epi64(eighth(there, 2 * j + 1), digests + 16 * j + 8);
    low[j] = _mm512_mask_shuffle_epi32(front, 0xAAAA, back, _MM_PERM_CCAA);
    high[j] = _mm512_mask_shuffle_epi32(back, 0x5555, front, _MM_PERM_DDBB);
  }
  for (const std::uint32_t n : block_counts) {
    _mm512_store_si512(lanes.block[n - 1].data(), _mm512_permutexvar_epi8(in_order, blocks_of(high, n)));
  }
  const __m512i bit_of_number = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201U));
  __m512i byte[8];
#pragma GCC unroll 8
  for (std::size_t w = 0; w < 8; ++w) {
    const __m512i salt = _mm512_set1_epi32(static_cast<int>(split_block_salts[w]));
    __m512i merged = _mm512_srli_epi32(_mm512_mullo_epi32(low[0], salt), 27);
#pragma GCC unroll 3
    for (unsigned j = 1; j < 4; ++j) {
      const __m512i product = _mm512_srli_epi32(_mm512_mullo_epi32(low[j], salt), 27 - 8 * j);
      merged = _mm512_ternarylogic_epi32(merged, product, _mm512_set1_epi32(0x1F << (8 * j)), 0xF8);  // a | (b & c)
    }
    const __m512i number = _mm512_permutexvar_epi8(in_order, merged);
    byte[w] = _mm512_and_si512(_mm512_srli_epi32(number, 3), _mm512_set1_epi8(3));
    _mm512_store_si512(lanes.bit[w].data(), _mm512_shuffle_epi8(bit_of_number, number));
  }
#pragma GCC unroll 4
  for (std::size_t w = 0; w < 4; ++w) {
    _mm512_store_si512(lanes.bytes[w].data(), _mm512_or_si512(byte[w], _mm512_slli_epi32(byte[w + 4], 4)));
  }
}

SEENBY_AVX512 inline void precompute(const Digest* digests, std::size_t count, DigestLanes* lanes) noexcept {
  static constexpr std::uint32_t all[small_filter_blocks] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (std::size_t i = 0; i < count; i += small_step) {
    precompute_step(digests + i, present_of(count - i), all, *lanes++);
  }
}

/// How many of the filters have seen each of sixty-four candidates, a byte each.
template <class Filter, std::size_t Filters>
SEENBY_AVX512_INLINE __m512i count_step(const Filter (&filters)[Filters], const DigestLanes& lanes) noexcept {
  __m512i place[Filters];
  __m512i missing[Filters];  // not zero where a bit is not set
#pragma GCC unroll 2
  for (std::size_t f = 0; f < Filters; ++f) {
    place[f] = filters[f].place(lanes);
    missing[f] = _mm512_setzero_si512();
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t w = i / 2 + i % 2 * 4;  // words that share a row of bytes follow each other
    const __m512i bytes = _mm512_load_si512(lanes.bytes[w % 4].data());
    __m512i byte = filters[0].offset(w, w < 4 ? bytes : _mm512_srli_epi32(bytes, 4));
    __m512i bit = _mm512_load_si512(lanes.bit[w].data());
    // Kept in registers: read again as operands for the second filter, a step took 37 cycles on Zen 4 instead of 25
    // (seenby_bench_micro --benchmark_filter=kernel/avx512/pair_lanes).
    asm("" : "+v"(byte), "+v"(bit));
#pragma GCC unroll 2
    for (std::size_t f = 0; f < Filters; ++f) {
      missing[f] =
          _mm512_ternarylogic_epi32(missing[f], filters[f].held(w, place[f], byte), bit, 0xF2);  // a | (~b & c)
    }
  }
  __m512i count = _mm512_set1_epi8(static_cast<char>(Filters));
#pragma GCC unroll 2
  for (std::size_t f = 0; f < Filters; ++f) {
    count = _mm512_sub_epi8(count, _mm512_min_epu8(missing[f], _mm512_set1_epi8(1)));
  }
  return count;
}

/// Answers all candidates, whose lanes are there.
template <class Filter, class... Filters>
[[gnu::noinline]] SEENBY_AVX512 void check_lanes_as(Filters... filters, const DigestLanes* lanes, std::size_t count,
                                                    std::uint8_t* seen, Answers answers) noexcept {
  const Filter loaded[sizeof...(Filters)] = {load_filter(filters, static_cast<Filter*>(nullptr))...};
  const __mmask64 kept = _cvtu64_mask64(answers == Answers::add ? ~std::uint64_t{0} : 0);
  for (;;) {
    const __m512i hits = count_step(loaded, *lanes);
    if (count < small_step) {
      const __mmask64 present = present_of(count);
      const __m512i before = _mm512_maskz_loadu_epi8(_kand_mask64(present, kept), seen);
      return _mm512_mask_storeu_epi8(seen, present, _mm512_add_epi8(before, hits));
    }
    // A whole store, which what reads the answers next need not wait for.
    _mm512_storeu_si512(seen, _mm512_add_epi8(_mm512_maskz_loadu_epi8(kept, seen), hits));
    if (count == small_step) return;
    count -= small_step;
    seen += small_step;
    ++lanes;
  }
}

template <class... Filters>
[[gnu::always_inline]] inline void check_lanes(const DigestLanes* lanes, std::size_t count, std::uint8_t* seen,
                                               Answers answers, Filters... filters) noexcept {
  if (((filters.block_count <= tiny_filter_blocks) & ...)) {
    return check_lanes_as<TinyFilter, Filters...>(filters..., lanes, count, seen, answers);
  }
  check_lanes_as<TransposedFilter, Filters...>(filters..., lanes, count, seen, answers);
}

/// Answers all candidates for one filter or two, precomputing their lanes on the way.
[[gnu::noinline]] SEENBY_AVX512 inline void check_without_lanes(const Digest* digests, std::size_t count,
                                                                std::uint8_t* seen, Answers answers,
                                                                const SplitBlockRef* filters,
                                                                std::size_t filter_count) noexcept {
  constexpr std::size_t at_once = 4;
  const SplitBlockRef& last = filters[filter_count - 1];
  const std::uint32_t block_counts[] = {(filters[0].block_count - 1U) % small_filter_blocks + 1,
                                        (last.block_count - 1U) % small_filter_blocks + 1};
  DigestLanes own[at_once];
  for (std::size_t i = 0; i < count; i += at_once * small_step) {
    const std::size_t next = std::min(count - i, at_once * small_step);
    for (std::size_t j = 0; j < next; j += small_step) {
      precompute_step(digests + i + j, present_of(next - j), {block_counts, filter_count}, own[j / small_step]);
    }
    if (filter_count == 1) {
      check_lanes(own, next, seen + i, answers, last);
    } else {
      check_lanes(own, next, seen + i, answers, filters[0], last);
    }
  }
}

template <class... Filters>
[[gnu::always_inline]] inline void check_small(DigestsRef digests, std::size_t count, std::uint8_t* seen,
                                               Answers answers, Filters... filters) noexcept {
  if (digests.lanes != nullptr) return check_lanes(digests.lanes, count, seen, answers, filters...);
  const SplitBlockRef all[] = {filters...};
  check_without_lanes(digests.first, count, seen, answers, all, sizeof...(filters));
}

SEENBY_AVX512_END

#endif
