#pragma once
// SPDX-License-Identifier: MIT
// The AVX2 kernel for small filters: thirty-two candidates at once look a byte of every word up, four blocks a table.

#include <algorithm>

#include "seenby/kernels/scalar.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <immintrin.h>

#define SEENBY_AVX2 [[gnu::target("avx2")]]
#define SEENBY_AVX2_INLINE [[gnu::target("avx2"), gnu::always_inline]] inline

SEENBY_DETAIL_BEGIN

namespace avx2 {

SEENBY_AVX2_INLINE __m256i load(const void* from) noexcept {
  return _mm256_load_si256(static_cast<const __m256i*>(from));
}

SEENBY_AVX2_INLINE void store(void* to, __m256i bytes) noexcept {
  _mm256_store_si256(static_cast<__m256i*>(to), bytes);
}

/// The tables of four blocks, one of sixteen bytes for each word: words w and w + 4 are side by side.
struct alignas(32) Tables {
  __m128i table[4][2];

  [[nodiscard]] SEENBY_AVX2_INLINE __m256i of_word(std::size_t word) const noexcept {
    return _mm256_broadcastsi128_si256(_mm_load_si128(&table[word % 4][word / 4]));
  }
};

/// Transposes four blocks from `from` on. Past the filter's last one it reads the first, which no candidate asks for.
SEENBY_AVX2_INLINE void transpose(SplitBlockRef filter, std::uint32_t from, Tables& tables) noexcept {
  __m256i row[4];
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::size_t at = from + i < filter.block_count ? from + i : 0;
    row[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(filter.blocks + at * split_block_bytes));
  }
  const __m256i front[2] = {_mm256_unpacklo_epi32(row[0], row[1]), _mm256_unpackhi_epi32(row[0], row[1])};
  const __m256i back[2] = {_mm256_unpacklo_epi32(row[2], row[3]), _mm256_unpackhi_epi32(row[2], row[3])};
  auto* to = reinterpret_cast<__m256i*>(tables.table);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    _mm256_store_si256(to + 2 * i, _mm256_unpacklo_epi64(front[i], back[i]));
    _mm256_store_si256(to + 2 * i + 1, _mm256_unpackhi_epi64(front[i], back[i]));
  }
}

/// 0xFF for each of thirty-two candidates, from `at` on, that the filter may contain.
template <std::size_t Groups>
SEENBY_AVX2_INLINE __m256i hits(const Tables (&tables)[Groups], const DigestLanes::Row& block, const DigestLanes& lanes,
                                std::size_t at) noexcept {
  // An index whose high bit is set reads zero: every table but the one that holds the candidate's block gets such.
  __m256i place[Groups];
  place[0] = load(block.data() + at);
  if constexpr (Groups > 1) {
    const __m256i any = place[0];
#pragma GCC unroll 4
    for (std::size_t g = 0; g < Groups; ++g) {
      const __m256i own = _mm256_xor_si256(any, _mm256_set1_epi8(static_cast<char>(16 * g)));
      place[g] = _mm256_adds_epu8(own, _mm256_set1_epi8(0x70));
    }
  }
  __m256i missing = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (std::size_t word = 0; word < 8; ++word) {
    // A lookup reads the low four bits and the highest alone: what else is in a row of bytes does not matter.
    const __m256i bytes = load(lanes.bytes[word % 4].data() + at);
    const __m256i byte = word < 4 ? bytes : _mm256_srli_epi16(bytes, 4);
    __m256i held = _mm256_shuffle_epi8(tables[0].of_word(word), _mm256_or_si256(place[0], byte));
#pragma GCC unroll 3
    for (std::size_t g = 1; g < Groups; ++g) {
      const __m256i more = _mm256_shuffle_epi8(tables[g].of_word(word), _mm256_or_si256(place[g], byte));
      held = _mm256_or_si256(held, more);
    }
    missing = _mm256_or_si256(missing, _mm256_andnot_si256(held, load(lanes.bit[word].data() + at)));
  }
  return _mm256_cmpeq_epi8(missing, _mm256_setzero_si256());
}

/// `Groups` groups of four blocks.
template <std::size_t Groups>
SEENBY_AVX2 void check_groups(SplitBlockRef filter, const DigestLanes* lanes, std::size_t count, std::uint8_t* seen,
                              Answers answers) noexcept {
  Tables tables[Groups];
  for (std::uint32_t g = 0; g < Groups; ++g) transpose(filter, 4 * g, tables[g]);
  const std::size_t n = filter.block_count == 0 ? 1 : filter.block_count;
  const __m256i kept = _mm256_set1_epi8(static_cast<char>(answers));
  for (std::size_t i = 0; i < count; i += 32) {
    const DigestLanes& of = lanes[i / DigestLanes::candidates];
    const __m256i found = hits(tables, of.block[n - 1], of, i % DigestLanes::candidates);
    if (count - i >= 32) {
      auto* to = reinterpret_cast<__m256i*>(seen + i);
      _mm256_storeu_si256(to, _mm256_sub_epi8(_mm256_and_si256(_mm256_loadu_si256(to), kept), found));
    } else {
      alignas(32) std::uint8_t last[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(last), _mm256_abs_epi8(found));
      store_answers(last, count - i, seen + i, answers);
    }
  }
}

/// In a shorter batch, and in filters of more blocks, transposing costs more than it saves.
inline constexpr std::size_t least_for_lanes = 24;
inline constexpr std::uint32_t most_blocks_for_lanes = 12;

[[nodiscard]] inline bool lanes_serve(SplitBlockRef filter, DigestsRef digests, std::size_t count) noexcept {
  return filter.block_count <= most_blocks_for_lanes && digests.lanes != nullptr && count >= least_for_lanes;
}

inline void check_small(SplitBlockRef filter, const DigestLanes* lanes, std::size_t count, std::uint8_t* seen,
                        Answers answers) noexcept {
  if (filter.block_count <= 4) return check_groups<1>(filter, lanes, count, seen, answers);
  if (filter.block_count <= 8) return check_groups<2>(filter, lanes, count, seen, answers);
  check_groups<3>(filter, lanes, count, seen, answers);
}

/// The lanes of thirty-two digests, from `at` on. Byte j of word i belongs to digest 4 * i + j, so that a vector's
/// bytes are in the digests' order.
SEENBY_AVX2_INLINE void precompute_step(const Digest* digests, DigestLanes& lanes, std::size_t at) noexcept {
  alignas(32) std::uint32_t low[4][8];
  alignas(32) std::uint32_t high[4][8];
  for (std::size_t i = 0; i < 32; ++i) {
    low[i % 4][i / 4] = static_cast<std::uint32_t>(digests[i].value);
    high[i % 4][i / 4] = static_cast<std::uint32_t>(digests[i].value >> 32);
  }
  // floor(n * high / 2^32) is how often n additions of `high` wrap around.
  __m256i sum[4] = {load(high[0]), load(high[1]), load(high[2]), load(high[3])};
  __m256i block = _mm256_setzero_si256();
  store(lanes.block[0].data() + at, block);
  for (std::size_t row = 1; row < small_filter_blocks; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      sum[j] = _mm256_add_epi32(sum[j], load(high[j]));
      const __m256i whole = _mm256_cmpeq_epi32(_mm256_max_epu32(sum[j], load(high[j])), sum[j]);
      block = _mm256_add_epi32(block, _mm256_andnot_si256(whole, _mm256_set1_epi32(4 << (8 * j))));
    }
    store(lanes.block[row].data() + at, block);
  }
  const __m256i bit_of_number = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201U));
  __m256i byte[8];
  for (std::size_t word = 0; word < 8; ++word) {
    const __m256i salt = _mm256_set1_epi32(static_cast<int>(split_block_salts[word]));
    __m256i number = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256i bits = _mm256_srli_epi32(_mm256_mullo_epi32(load(low[j]), salt), 27);
      number = _mm256_or_si256(number, _mm256_slli_epi32(bits, 8 * j));
    }
    byte[word] = _mm256_and_si256(_mm256_srli_epi32(number, 3), _mm256_set1_epi8(3));
    store(lanes.bit[word].data() + at, _mm256_shuffle_epi8(bit_of_number, number));
  }
  for (std::size_t word = 0; word < 4; ++word) {
    store(lanes.bytes[word].data() + at, _mm256_or_si256(byte[word], _mm256_slli_epi32(byte[word + 4], 4)));
  }
}

SEENBY_AVX2 inline void precompute(const Digest* digests, std::size_t count, DigestLanes* lanes) noexcept {
  for (std::size_t i = 0; i < count; i += 32) {
    Digest step[32] = {};
    std::memcpy(step, digests + i, std::min(count - i, std::size_t{32}) * sizeof(Digest));
    precompute_step(step, lanes[i / DigestLanes::candidates], i % DigestLanes::candidates);
  }
}

}  // namespace avx2

SEENBY_DETAIL_END
#endif
