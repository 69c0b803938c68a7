#pragma once
// SPDX-License-Identifier: MIT
// SSE2, single operations: what every x86-64 processor runs, and what single operations inline to in a plain build.

#include "seenby/kernels/scalar.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <emmintrin.h>

SEENBY_DETAIL_BEGIN

namespace sse2 {

/// The mask of four words of a block. SSE2 has neither a 32-bit multiplication nor a shift by lane: two widening
/// multiplications and a shuffle replace the first, and 2^s is made as a float (s in the exponent) and converted.
/// 2^31 is out of an int's range, and what the conversion then gives is that very bit.
[[nodiscard]] inline __m128i half_mask(__m128i low, std::size_t first_word) noexcept {
  const std::uint32_t* salts = split_block_salts.data() + first_word;
  const auto salt = [](std::uint32_t a, std::uint32_t b) {
    return _mm_set_epi32(0, static_cast<int>(b), 0, static_cast<int>(a));
  };
  const __m128i front = _mm_mul_epu32(low, salt(salts[0], salts[1]));
  const __m128i back = _mm_mul_epu32(low, salt(salts[2], salts[3]));
  const __m128i products =
      _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(front), _mm_castsi128_ps(back), _MM_SHUFFLE(2, 0, 2, 0)));
  const __m128i exponents = _mm_slli_epi32(_mm_srli_epi32(products, 27), 23);
  return _mm_cvttps_epi32(_mm_castsi128_ps(_mm_add_epi32(exponents, _mm_set1_epi32(127 << 23))));
}

/// One digest's block in two halves, as it is and as its mask.
struct Block {
  __m128i bits[2];
  __m128i mask[2];

  Block(const std::byte* block, Digest digest) noexcept {
    const __m128i low = _mm_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(digest.value)));
    for (std::size_t half = 0; half < 2; ++half) {
      bits[half] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + half);
      mask[half] = half_mask(low, 4 * half);
    }
  }
  [[nodiscard]] bool covers_mask() const noexcept {
    const __m128i missing = _mm_or_si128(_mm_andnot_si128(bits[0], mask[0]), _mm_andnot_si128(bits[1], mask[1]));
    return _mm_movemask_epi8(_mm_cmpeq_epi32(missing, _mm_setzero_si128())) == 0xFFFF;
  }
};

[[nodiscard]] inline bool test(SplitBlockRef filter, Digest digest) noexcept {
  return Block(filter.blocks + split_block_offset(digest, filter.block_count), digest).covers_mask();
}
/// As `test`, out of line: where it may follow a call, its constants need no registers.
[[gnu::noinline, gnu::pure]] inline bool test_called(SplitBlockRef filter, Digest digest) noexcept {
  return sse2::test(filter, digest);
}

/// Sets the digest's bits; true when one of them was clear.
inline bool insert(std::byte* blocks, std::uint32_t block_count, Digest digest) noexcept {
  std::byte* to = blocks + split_block_offset(digest, block_count);
  const Block block(to, digest);
  for (std::size_t half = 0; half < 2; ++half) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + half, _mm_or_si128(block.bits[half], block.mask[half]));
  }
  return !block.covers_mask();
}

}  // namespace sse2

SEENBY_DETAIL_END
#endif
