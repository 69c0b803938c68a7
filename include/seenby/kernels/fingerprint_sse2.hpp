#pragma once
// SPDX-License-Identifier: MIT
// The SSE2 kernel of fingerprint tables: a bucket's lanes are compared at once, sixteen by two registers.

#include <cstddef>
#include <cstdint>

#include "seenby/kernels/fingerprint_window.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <emmintrin.h>

SEENBY_DETAIL_BEGIN

namespace sse2 {

/// Two bits a lane: (lane ^ rest) <= (lane ^ (lane - 1)).
[[nodiscard]] inline std::uint32_t match_eight(const std::byte* lanes, __m128i rest) noexcept {
  const __m128i lane = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes));
  const __m128i ending = _mm_xor_si128(lane, _mm_add_epi16(lane, _mm_set1_epi16(-1)));
  const __m128i past = _mm_subs_epu16(_mm_xor_si128(lane, rest), ending);
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi16(past, _mm_setzero_si128())));
}
[[nodiscard]] inline std::uint32_t match_sixteen(const std::byte* lanes, std::uint16_t rest) noexcept {
  const __m128i wanted = _mm_set1_epi16(static_cast<short>(rest));
  return match_eight(lanes, wanted) | match_eight(lanes + 16, wanted) << 16;
}
/// Two bits a lane whose slice is live.
[[nodiscard]] inline std::uint32_t live_sixteen(const FingerprintRef& table, std::uint32_t at) noexcept {
  const __m128i slices = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table.slices + at));
  const __m128i ages = _mm_sub_epi8(_mm_set1_epi8(static_cast<char>(table.newest)), slices);
  const __m128i most = _mm_set1_epi8(static_cast<char>(table.max_age));
  const __m128i live = _mm_cmpeq_epi8(_mm_max_epu8(ages, most), most);
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_unpacklo_epi8(live, live))) |
         static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_unpackhi_epi8(live, live))) << 16;
}

/// `find` says where a bucket's window is.
template <class Find>
inline void check_fingerprints_by(const FingerprintRef& original, const FingerprintRef& table, const Find& find,
                                  const Digest* digests, std::size_t count, std::uint8_t* seen,
                                  Answers answers) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const LaneWindow window = find((digests[i].value >> 32) >> (32 - table.bucket_bits));
    bool hit = false;
    if (window.first == LaneWindow::too_long) [[unlikely]] {
      hit = fingerprint_test(original, digests[i]);
    } else {
      const auto rest = static_cast<std::uint16_t>((digests[i].value << table.bucket_bits) >> 48);
      std::uint32_t matches = match_sixteen(table.lanes + 2 * std::size_t{window.first}, rest) & window.bits;
      if (table.slices != nullptr) matches &= live_sixteen(table, window.first);
      // A tail has more to say, but only where the lane has matched.
      hit = matches != 0 && (table.tail_bytes == 0 || fingerprint_test(original, digests[i]));
    }
    seen[i] = static_cast<std::uint8_t>((seen[i] & static_cast<std::uint8_t>(answers)) + std::uint8_t{hit});
  }
}

inline void check_fingerprints(const FingerprintRef& original, DigestsRef digests, std::size_t count,
                               std::uint8_t* seen, Answers answers) noexcept {
  const PaddedTable padded(original);
  const FingerprintRef& table = padded.table;
  if (!WindowIndex<2>::serves(table, count)) {
    return check_fingerprints_by(original, table, WindowFinder<2>(table), digests.first, count, seen, answers);
  }
  WindowIndex<2> index;
  index.prepare(table);
  check_fingerprints_by(original, table, index, digests.first, count, seen, answers);
}

}  // namespace sse2

SEENBY_DETAIL_END
#endif
