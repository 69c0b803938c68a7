#pragma once
// SPDX-License-Identifier: MIT
// The SSSE3 kernel: small filters by table lookup, sixteen candidates at once; others as the SSE2 kernel does.

#include "seenby/kernels/precompute.hpp"
#include "seenby/kernels/sse2.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <tmmintrin.h>

#define SEENBY_SSSE3 [[gnu::target("ssse3")]]
#define SEENBY_SSSE3_INLINE [[gnu::target("ssse3"), gnu::always_inline]] inline

SEENBY_DETAIL_BEGIN

namespace ssse3 {

/// The tables of four blocks: one of sixteen bytes for each word.
using Tables = std::array<std::array<std::uint8_t, 16>, 8>;

/// Transposes four blocks from `from` on. Past the filter's last one it reads the first, which no candidate asks for.
inline void transpose(SplitBlockRef filter, std::uint32_t from, Tables& tables) noexcept {
  const auto* blocks = reinterpret_cast<const __m128i*>(filter.blocks);
  for (std::size_t half = 0; half < 2; ++half) {
    __m128i row[4];
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < 4; ++i) {
      row[i] = _mm_loadu_si128(blocks + 2 * (from + i < filter.block_count ? from + i : 0) + half);
    }
    const __m128i front[2] = {_mm_unpacklo_epi32(row[0], row[1]), _mm_unpackhi_epi32(row[0], row[1])};
    const __m128i back[2] = {_mm_unpacklo_epi32(row[2], row[3]), _mm_unpackhi_epi32(row[2], row[3])};
    auto* to = reinterpret_cast<__m128i*>(tables[4 * half].data());
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      _mm_store_si128(to + 2 * i, _mm_unpacklo_epi64(front[i], back[i]));
      _mm_store_si128(to + 2 * i + 1, _mm_unpackhi_epi64(front[i], back[i]));
    }
  }
}

SEENBY_SSSE3_INLINE __m128i load(const std::uint8_t* from) noexcept {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(from));
}

/// Adds the candidates whose block is among the four from `from` on and holds their bits.
SEENBY_SSSE3 inline void check_four_blocks(SplitBlockRef filter, std::uint32_t from, const DigestLanes* lanes,
                                           std::size_t count, std::uint8_t* seen, Answers answers) noexcept {
  alignas(16) Tables tables;
  transpose(filter, from, tables);
  const std::size_t row = (filter.block_count - 1U) % small_filter_blocks;
  const __m128i kept = _mm_set1_epi8(static_cast<char>(answers));
  const __m128i first = _mm_set1_epi8(static_cast<char>(4 * from));
  for (std::size_t i = 0; i < count; i += 16) {
    const DigestLanes& of = lanes[i / DigestLanes::candidates];
    const std::size_t at = i % DigestLanes::candidates;
    // An index whose high bit is set reads zero: those of candidates whose block is elsewhere get one.
    const __m128i own = _mm_xor_si128(load(of.block[row].data() + at), first);
    const __m128i place = _mm_adds_epu8(own, _mm_set1_epi8(0x70));
    __m128i missing = _mm_setzero_si128();
#pragma GCC unroll 8
    for (std::size_t word = 0; word < 8; ++word) {
      // A lookup reads the low four bits and the highest alone: what else is in a row of bytes does not matter.
      const __m128i bytes = load(of.bytes[word % 4].data() + at);
      const __m128i index = _mm_or_si128(place, word < 4 ? bytes : _mm_srli_epi16(bytes, 4));
      const __m128i held = _mm_shuffle_epi8(load(tables[word].data()), index);
      missing = _mm_or_si128(missing, _mm_andnot_si128(held, load(of.bit[word].data() + at)));
    }
    const __m128i found = _mm_cmpeq_epi8(missing, _mm_setzero_si128());
    if (count - i >= 16) {
      auto* to = reinterpret_cast<__m128i*>(seen + i);
      _mm_storeu_si128(to, _mm_sub_epi8(_mm_and_si128(_mm_loadu_si128(to), kept), found));
    } else {
      alignas(16) std::uint8_t last[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(last), _mm_abs_epi8(found));
      store_answers(last, count - i, seen + i, answers);
    }
  }
}

/// In a shorter batch transposing the filter costs more than it saves.
inline constexpr std::size_t least_for_lanes = 16;

inline void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen,
                  Answers answers) noexcept {
  if (digests.lanes == nullptr || count < least_for_lanes || filter.block_count > small_filter_blocks) {
    return one_by_one::check<sse2::test>(filter, digests, count, seen, answers);
  }
  for (std::uint32_t from = 0; from < filter.block_count; from += 4) {
    check_four_blocks(filter, from, digests.lanes, count, seen, from == 0 ? answers : Answers::add);
  }
}

inline void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen, Answers answers) noexcept {
  check(first, digests, count, seen, answers);
  check(second, digests, count, seen, Answers::add);
}

SEENBY_SSSE3 inline void precompute(const Digest* digests, std::size_t count, DigestLanes* lanes) noexcept {
  const __m128i bit_of_number = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201U));
  for (std::size_t i = 0; i < count; i += DigestLanes::candidates, ++lanes) {
    portable::precompute(digests + i, std::min(count - i, DigestLanes::candidates), *lanes);
    auto* bits = reinterpret_cast<__m128i*>(lanes->bit.data());
    for (std::size_t j = 0; j < sizeof lanes->bit / 16; ++j) bits[j] = _mm_shuffle_epi8(bit_of_number, bits[j]);
  }
}

}  // namespace ssse3

SEENBY_DETAIL_END
#endif
