#pragma once
// SPDX-License-Identifier: MIT
// The NEON kernel: small filters by table lookup, sixteen candidates at once; in others four candidates' masks are
// reduced together.

#include "seenby/kernels/precompute.hpp"

#if defined(SEENBY_NEON_KERNELS)
#include <arm_neon.h>

SEENBY_DETAIL_BEGIN

namespace neon {

/// What stays of a digest's eight bits where its block lacks them.
[[nodiscard]] inline uint32x4_t missing_of(SplitBlockRef filter, const Digest& digest) noexcept {
  const auto* salts = split_block_salts.data();
  const auto* block =
      reinterpret_cast<const std::uint8_t*>(filter.blocks) + split_block_offset(digest, filter.block_count);
  const uint32x4_t low = vld1q_dup_u32(reinterpret_cast<const std::uint32_t*>(&digest));
  const uint32x4_t one = vdupq_n_u32(1);
  const auto mask = [&](std::size_t word) {
    const uint32x4_t numbers = vshrq_n_u32(vmulq_u32(low, vld1q_u32(salts + word)), 27);
    return vshlq_u32(one, vreinterpretq_s32_u32(numbers));
  };
  const auto bits = [&](std::size_t word) { return vreinterpretq_u32_u8(vld1q_u8(block + 4 * word)); };
  return vorrq_u32(vbicq_u32(mask(0), bits(0)), vbicq_u32(mask(4), bits(4)));
}

/// 1 in the byte of each of four candidates that the filter may contain, and 0 in the others.
[[nodiscard]] inline std::uint32_t test_four(SplitBlockRef filter, const Digest* four) noexcept {
  const uint32x4_t front = vpmaxq_u32(missing_of(filter, four[0]), missing_of(filter, four[1]));
  const uint32x4_t back = vpmaxq_u32(missing_of(filter, four[2]), missing_of(filter, four[3]));
  const uint16x4_t hits = vmovn_u32(vceqzq_u32(vpmaxq_u32(front, back)));
  const uint8x8_t bytes = vmovn_u16(vcombine_u16(hits, hits));
  return vget_lane_u32(vreinterpret_u32_u8(bytes), 0) & 0x01010101U;
}

/// Filters of any size; larger ones than a cache with their blocks prefetched.
inline void check_any(SplitBlockRef filter, const Digest* digests, std::size_t count, std::uint8_t* seen,
                      Answers answers) noexcept {
  const bool is_large = filter.block_count >= large_filter_blocks;
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    if (is_large && i + prefetch_distance + 4 <= count) {
      for (std::size_t j = i + prefetch_distance; j < i + prefetch_distance + 4; ++j) {
        __builtin_prefetch(filter.blocks + split_block_offset(digests[j], filter.block_count));
      }
    }
    const std::uint32_t hits = test_four(filter, digests + i);
    store_answers(reinterpret_cast<const std::uint8_t*>(&hits), 4, seen + i, answers);
  }
  one_by_one::check<portable::test>(filter, digests + i, count - i, seen + i, answers);
}

/// Transposes four blocks from `from` on. Past the filter's last one it reads the first, which no candidate asks for.
inline void transpose(SplitBlockRef filter, std::uint32_t from, uint8x16_t (&out)[8]) noexcept {
  const auto* blocks = reinterpret_cast<const std::uint8_t*>(filter.blocks);
  for (std::size_t half = 0; half < 2; ++half) {
    uint32x4_t row[4];
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::size_t at = from + i < filter.block_count ? from + i : 0;
      row[i] = vreinterpretq_u32_u8(vld1q_u8(blocks + at * split_block_bytes + 16 * half));
    }
    const uint32x4x2_t front = vtrnq_u32(row[0], row[1]);
    const uint32x4x2_t back = vtrnq_u32(row[2], row[3]);
    for (std::size_t i = 0; i < 2; ++i) {
      const uint64x2_t a = vreinterpretq_u64_u32(front.val[i]);
      const uint64x2_t b = vreinterpretq_u64_u32(back.val[i]);
      out[4 * half + i] = vreinterpretq_u8_u64(vtrn1q_u64(a, b));
      out[4 * half + i + 2] = vreinterpretq_u8_u64(vtrn2q_u64(a, b));
    }
  }
}

/// One byte of each table's 16, 32 or 64 that the indices name; zero past them.
[[nodiscard]] inline uint8x16_t lookup(const uint8x16_t (&table)[1], uint8x16_t at) noexcept {
  return vqtbl1q_u8(table[0], at);
}
[[nodiscard]] inline uint8x16_t lookup(const uint8x16_t (&table)[2], uint8x16_t at) noexcept {
  return vqtbl2q_u8({{table[0], table[1]}}, at);
}
[[nodiscard]] inline uint8x16_t lookup(const uint8x16_t (&table)[4], uint8x16_t at) noexcept {
  return vqtbl4q_u8({{table[0], table[1], table[2], table[3]}}, at);
}

/// 1 for each of sixteen candidates, from `at` on, that the filter may contain.
template <std::size_t Groups>
[[nodiscard]] inline uint8x16_t hits(const uint8x16_t (&tables)[8][Groups], const DigestLanes::Row& block,
                                     const DigestLanes& lanes, std::size_t at) noexcept {
  const uint8x16_t number = vshrq_n_u8(vld1q_u8(block.data() + at), 2);
  uint8x16_t missing = vdupq_n_u8(0);
#pragma GCC unroll 4
  for (std::size_t word = 0; word < 4; ++word) {
    const uint8x16_t bytes = vld1q_u8(lanes.bytes[word].data() + at);
    // The block's number goes above the two bits that are the byte's.
    const uint8x16_t front = lookup(tables[word], vsliq_n_u8(bytes, number, 2));
    const uint8x16_t back = lookup(tables[word + 4], vsliq_n_u8(vshrq_n_u8(bytes, 4), number, 2));
    missing = vorrq_u8(missing, vbicq_u8(vld1q_u8(lanes.bit[word].data() + at), front));
    missing = vorrq_u8(missing, vbicq_u8(vld1q_u8(lanes.bit[word + 4].data() + at), back));
  }
  return vandq_u8(vceqzq_u8(missing), vdupq_n_u8(1));
}

template <std::size_t Groups>
void check_groups(SplitBlockRef filter, const DigestLanes* lanes, std::size_t count, std::uint8_t* seen,
                  Answers answers) noexcept {
  uint8x16_t tables[8][Groups];
  for (std::uint32_t g = 0; g < Groups; ++g) {
    uint8x16_t four[8];
    transpose(filter, 4 * g, four);
    for (std::size_t word = 0; word < 8; ++word) tables[word][g] = four[word];
  }
  const std::size_t n = filter.block_count == 0 ? 1 : filter.block_count;
  const uint8x16_t kept = vdupq_n_u8(static_cast<std::uint8_t>(answers));
  for (std::size_t i = 0; i < count; i += 16) {
    const DigestLanes& of = lanes[i / DigestLanes::candidates];
    const uint8x16_t found = hits(tables, of.block[n - 1], of, i % DigestLanes::candidates);
    if (count - i >= 16) {
      vst1q_u8(seen + i, vaddq_u8(vandq_u8(vld1q_u8(seen + i), kept), found));
    } else {
      std::uint8_t last[16];
      vst1q_u8(last, found);
      store_answers(last, count - i, seen + i, answers);
    }
  }
}

/// In a shorter batch transposing the filter costs more than it saves.
inline constexpr std::size_t least_for_lanes = 16;

inline void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen,
                  Answers answers) noexcept {
  if (digests.lanes == nullptr || count < least_for_lanes || filter.block_count > small_filter_blocks) {
    return check_any(filter, digests.first, count, seen, answers);
  }
  if (filter.block_count <= 4) return check_groups<1>(filter, digests.lanes, count, seen, answers);
  if (filter.block_count <= 8) return check_groups<2>(filter, digests.lanes, count, seen, answers);
  check_groups<4>(filter, digests.lanes, count, seen, answers);
}

inline void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen, Answers answers) noexcept {
  check(first, digests, count, seen, answers);
  check(second, digests, count, seen, Answers::add);
}

inline void precompute(const Digest* digests, std::size_t count, DigestLanes* lanes) noexcept {
  const uint8x16_t bit_of_number = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201U));
  for (std::size_t i = 0; i < count; i += DigestLanes::candidates, ++lanes) {
    portable::precompute(digests + i, std::min(count - i, DigestLanes::candidates), *lanes);
    for (auto& row : lanes->bit) {
      for (std::size_t j = 0; j < row.size(); j += 16) {
        vst1q_u8(row.data() + j, vqtbl1q_u8(bit_of_number, vld1q_u8(row.data() + j)));
      }
    }
  }
}

}  // namespace neon

SEENBY_DETAIL_END
#endif
