#pragma once
// SPDX-License-Identifier: MIT
// Digest lanes by vector extensions, for the kernels whose tables are 16 bytes.

#include "seenby/kernels/portable.hpp"

#if defined(SEENBY_SIMD)

SEENBY_DETAIL_BEGIN

namespace portable {

/// The lanes of sixteen digests, from `at` on; `bit` holds the bits' numbers within their bytes. Byte j of word i
/// belongs to digest 4 * i + j, so that a vector's bytes are in the digests' order on a little-endian machine.
inline void precompute_sixteen(const Digest* digests, DigestLanes& lanes, std::size_t at) noexcept {
  alignas(16) std::uint32_t low[4][4];
  alignas(16) std::uint32_t high[4][4];
  for (std::size_t i = 0; i < 16; ++i) {
    low[i % 4][i / 4] = static_cast<std::uint32_t>(digests[i].value);
    high[i % 4][i / 4] = static_cast<std::uint32_t>(digests[i].value >> 32);
  }
  // floor(n * high / 2^32) is how often n additions of `high` wrap around.
  Words sum[4] = {};
  Words block = {};
  for (auto& row : lanes.block) {
#pragma GCC unroll 4
    for (unsigned j = 0; j < 4; ++j) {
      const Words addend = load_words(high[j]);
      sum[j] += addend;
      block += reinterpret_cast<Words>(sum[j] < addend) & (4U << 8 * j);
    }
    std::memcpy(row.data() + at, &block, sizeof block);
  }
  Words bytes[4] = {};
  for (std::size_t word = 0; word < 8; ++word) {
    Words numbers = {};
#pragma GCC unroll 4
    for (unsigned j = 0; j < 4; ++j) numbers |= ((load_words(low[j]) * split_block_salts[word]) >> 27) << 8 * j;
    const Words byte = numbers >> 3 & 0x03030303U;
    const Words bit = numbers & 0x07070707U;
    bytes[word % 4] |= byte << (word < 4 ? 0 : 4);
    std::memcpy(lanes.bit[word].data() + at, &bit, sizeof bit);
  }
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(lanes.bytes[i].data() + at, &bytes[i], sizeof bytes[i]);
}

inline void precompute(const Digest* digests, std::size_t count, DigestLanes& lanes) noexcept {
  for (std::size_t i = 0; i < count; i += 16) {
    Digest sixteen[16] = {};
    std::memcpy(sixteen, digests + i, (count - i < 16 ? count - i : 16) * sizeof(Digest));
    precompute_sixteen(sixteen, lanes, i);
  }
}

}  // namespace portable

SEENBY_DETAIL_END
#endif
