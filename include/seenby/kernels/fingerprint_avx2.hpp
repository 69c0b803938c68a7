#pragma once
// SPDX-License-Identifier: MIT
// The AVX2 kernel of fingerprint tables: a bucket's sixteen lanes are one register.

#include <cstddef>
#include <cstdint>

#include "seenby/kernels/fingerprint_avx2_small.hpp"
#include "seenby/kernels/fingerprint_window.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <immintrin.h>

#define SEENBY_FINGERPRINTS [[gnu::target("avx2,bmi2")]]
#define SEENBY_FINGERPRINTS_INLINE [[gnu::target("avx2,bmi2"), gnu::always_inline]] inline

SEENBY_DETAIL_BEGIN

namespace avx2 {

/// Two bits a lane: (lane ^ rest) <= (lane ^ (lane - 1)).
SEENBY_FINGERPRINTS_INLINE std::uint32_t match_sixteen(const std::byte* lanes, std::uint16_t rest) noexcept {
  const __m256i wanted = _mm256_set1_epi16(static_cast<short>(rest));
  const __m256i lane = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes));
  const __m256i ending = _mm256_xor_si256(lane, _mm256_add_epi16(lane, _mm256_set1_epi16(-1)));
  const __m256i past = _mm256_subs_epu16(_mm256_xor_si256(lane, wanted), ending);
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi16(past, _mm256_setzero_si256())));
}
/// Two bits a lane whose slice is live.
SEENBY_FINGERPRINTS_INLINE std::uint32_t live_sixteen(const FingerprintRef& table, std::uint32_t at) noexcept {
  const __m256i slices = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table.slices + at)));
  const __m256i ages =
      _mm256_and_si256(_mm256_sub_epi16(_mm256_set1_epi16(table.newest), slices), _mm256_set1_epi16(0xFF));
  return ~static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpgt_epi16(ages, _mm256_set1_epi16(table.max_age))));
}

/// `find` says where a bucket's window is.
template <bool Sliced, class Find>
SEENBY_FINGERPRINTS inline void check_fingerprints_as(const FingerprintRef& original, const FingerprintRef& table,
                                                      const Find& find, const Digest* digests, std::size_t count,
                                                      std::uint8_t* seen, Answers answers) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const LaneWindow window = find((digests[i].value >> 32) >> (32 - table.bucket_bits));
    bool hit = false;
    if (window.first == LaneWindow::too_long) [[unlikely]] {
      hit = fingerprint_test(original, digests[i]);
    } else {
      const auto rest = static_cast<std::uint16_t>((digests[i].value << table.bucket_bits) >> 48);
      std::uint32_t matches = match_sixteen(table.lanes + 2 * std::size_t{window.first}, rest) & window.bits;
      if constexpr (Sliced) matches &= live_sixteen(table, window.first);
      // A tail has more to say, but only where the lane has matched.
      hit = matches != 0 && (table.tail_bytes == 0 || fingerprint_test(original, digests[i]));
    }
    seen[i] = static_cast<std::uint8_t>((seen[i] & static_cast<std::uint8_t>(answers)) + std::uint8_t{hit});
  }
}

template <class Find>
SEENBY_FINGERPRINTS inline void check_fingerprints_by(const FingerprintRef& original, const FingerprintRef& table,
                                                      const Find& find, DigestsRef digests, std::size_t count,
                                                      std::uint8_t* seen, Answers answers) noexcept {
  if (table.slices == nullptr) {
    check_fingerprints_as<false>(original, table, find, digests.first, count, seen, answers);
  } else {
    check_fingerprints_as<true>(original, table, find, digests.first, count, seen, answers);
  }
}

SEENBY_FINGERPRINTS inline void check_fingerprints(const FingerprintRef& original, DigestsRef digests,
                                                   std::size_t count, std::uint8_t* seen, Answers answers) noexcept {
  if (check_small_table(original, digests.first, count, seen, answers)) return;
  const PaddedTable padded(original);
  const FingerprintRef& table = padded.table;
  if (!WindowIndex<2>::serves(table, count)) {
    return check_fingerprints_by(original, table, WindowFinder<2>(table), digests, count, seen, answers);
  }
  WindowIndex<2> index;
  index.prepare(table);
  check_fingerprints_by(original, table, index, digests, count, seen, answers);
}

}  // namespace avx2

SEENBY_DETAIL_END
#endif
