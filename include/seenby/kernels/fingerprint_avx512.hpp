#pragma once
// SPDX-License-Identifier: MIT
// The AVX-512 kernel of fingerprint tables: sixteen candidates find their windows at once, then each looks into its
// own.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "seenby/kernels/avx512_base.hpp"
#include "seenby/kernels/fingerprint_avx2.hpp"
#include "seenby/kernels/fingerprint_avx512_small.hpp"
#include "seenby/kernels/fingerprint_window.hpp"

#if defined(SEENBY_X86_KERNELS)

#define SEENBY_AVX512_LAMBDA __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2")))

SEENBY_AVX512_BEGIN

/// Sixteen candidates on the way: where each looks, at which lanes, and for what.
struct alignas(64) Windows {
  std::uint32_t first[16];
  std::uint16_t bits[16];
  std::uint16_t rest[16];
  std::uint16_t hits[16];
};

/// The windows of sixteen candidates, from an index made ready. Says which are too long.
struct ReadyWindows {
  const WindowIndex<1>& index;
  std::uint32_t bucket_bits;

  SEENBY_AVX512_INLINE unsigned operator()(__m512i bucket, Windows& windows) const noexcept {
    const auto pick = [&](const std::array<std::uint32_t, 64>& from, std::size_t at) SEENBY_AVX512_LAMBDA {
      return _mm512_permutex2var_epi32(_mm512_load_si512(from.data() + at), bucket,
                                       _mm512_load_si512(from.data() + at + 16));
    };
    __m512i first = pick(index.first, 0);
    __m512i bits = pick(index.bits, 0);
    if (bucket_bits == 6) {
      const __mmask16 upper = _mm512_test_epi32_mask(bucket, _mm512_set1_epi32(32));
      first = _mm512_mask_mov_epi32(first, upper, pick(index.first, 32));
      bits = _mm512_mask_mov_epi32(bits, upper, pick(index.bits, 32));
    }
    const __mmask16 too_long = _mm512_movepi32_mask(first);
    _mm512_store_si512(windows.first, _mm512_maskz_mov_epi32(static_cast<__mmask16>(~too_long), first));
    _mm256_store_si256(reinterpret_cast<__m256i*>(windows.bits), _mm512_cvtepi32_epi16(bits));
    return too_long;
  }
};

/// The windows of sixteen buckets, of which these are the ends and those of the buckets before; lanes count from `base`
/// on, and `last` is where the last vector load begins. Says which are too long.
struct SixteenWindows {
  __m512i first;
  __m512i bits;
  __mmask16 too_long;

  SEENBY_AVX512_INLINE static SixteenWindows of(__m512i from, __m512i ends, __m512i base, std::uint32_t last) noexcept {
    const __m512i byte = _mm512_set1_epi32(0xFF);
    const __m512i most = _mm512_set1_epi32(window_lanes);
    const __m512i count = _mm512_and_si512(_mm512_sub_epi32(ends, from), byte);
    const __m512i wanted = _mm512_add_epi32(base, _mm512_and_si512(from, byte));
    const __m512i first = _mm512_min_epu32(wanted, _mm512_set1_epi32(static_cast<int>(last)));
    const __m512i offset = _mm512_sub_epi32(wanted, first);
    const __m512i ones = _mm512_sllv_epi32(_mm512_set1_epi32(1), count);
    return {first, _mm512_sllv_epi32(_mm512_sub_epi32(ones, _mm512_set1_epi32(1)), offset),
            static_cast<__mmask16>(_mm512_cmpgt_epu32_mask(count, most) | _mm512_cmpgt_epu32_mask(offset, most))};
  }
};

/// As WindowIndex::prepare, sixteen buckets at once. `index_end` is where the bytes end that may be read.
SEENBY_AVX512_INLINE void prepare_windows(const FingerprintRef& table, const std::byte* index_end,
                                          WindowIndex<1>& index) noexcept {
  const std::size_t groups = (std::size_t{1} << table.bucket_bits) / fingerprint_group;
  if (table.bucket_bits == 0 || index_end - table.index < 1 + std::ptrdiff_t{fingerprint_group})
    return index.prepare(table);
  const std::uint32_t capacity = std::min(table.capacity, window_lanes);
  const __m512i within = _mm512_set1_epi32(static_cast<int>((1U << capacity) - 1));
  const __m512i no_window = _mm512_set1_epi32(static_cast<int>(LaneWindow::too_long));
  for (std::size_t g = 0; g < std::max<std::size_t>(groups, 1); ++g) {
    const std::byte* const ends = table.index + g * (1 + fingerprint_group);
    const std::uint32_t base =
        groups <= 1 ? 0 : load_shared<std::uint32_t>(table.index + groups * (1 + fingerprint_group) + 4 * g);
    const auto windows = SixteenWindows::of(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(ends))),
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(ends + 1))),
        _mm512_set1_epi32(static_cast<int>(base)), std::max(table.capacity, window_lanes) - window_lanes);
    _mm512_store_si512(index.first.data() + 16 * g, _mm512_mask_mov_epi32(windows.first, windows.too_long, no_window));
    _mm512_store_si512(index.bits.data() + 16 * g,
                       _mm512_maskz_and_epi32(static_cast<__mmask16>(~windows.too_long), windows.bits, within));
  }
}

/// The same from the table's index, of several groups.
struct GatheredWindows {
  const std::byte* index;
  std::uint32_t groups;
  std::uint32_t last;

  SEENBY_AVX512_INLINE unsigned operator()(__m512i bucket, Windows& windows) const noexcept {
    const __m512i group = _mm512_srli_epi32(bucket, 4);
    const __m512i ends = _mm512_i32gather_epi32(_mm512_add_epi32(bucket, group), index, 1);
    const __m512i base = _mm512_i32gather_epi32(group, index + std::size_t{groups} * (1 + fingerprint_group), 4);
    const auto found = SixteenWindows::of(ends, _mm512_srli_epi32(ends, 8), base, last);
    _mm512_store_si512(windows.first, found.first);
    _mm256_store_si256(reinterpret_cast<__m256i*>(windows.bits), _mm512_cvtepi32_epi16(found.bits));
    return found.too_long;
  }
};

/// Where each of sixteen candidates looks, and for what: the bits behind the bucket's, of which the digest's high half
/// has sixteen.
template <class Find>
SEENBY_AVX512_INLINE unsigned find_windows(const Find& find, std::uint32_t bucket_bits, const Digest* digests,
                                           Windows& windows) noexcept {
  const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  const __m512i high = _mm512_permutex2var_epi32(_mm512_loadu_si512(digests), odd, _mm512_loadu_si512(digests + 8));
  const __m512i rest = _mm512_sll_epi32(high, _mm_cvtsi32_si128(static_cast<int>(bucket_bits)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(windows.rest), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rest, 16)));
  return find(_mm512_srl_epi32(high, _mm_cvtsi32_si128(static_cast<int>(32 - bucket_bits))), windows);
}

/// Which lanes of each candidate's window match. (lane ^ rest) <= (lane ^ (lane - 1)).
template <bool Sliced>
SEENBY_AVX512_INLINE void match_windows(const FingerprintRef& table, Windows& windows) noexcept {
  const __m256i minus_one = _mm256_set1_epi16(-1);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint32_t at = windows.first[i];
    const __m256i lane = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table.lanes + 2 * std::size_t{at}));
    const __m256i ending = _mm256_xor_si256(lane, _mm256_add_epi16(lane, minus_one));
    const __m256i rest = _mm256_set1_epi16(static_cast<short>(windows.rest[i]));
    __mmask16 mask = windows.bits[i];
    if constexpr (Sliced) {
      const __m128i slices = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table.slices + at));
      const __m128i ages = _mm_sub_epi8(_mm_set1_epi8(static_cast<char>(table.newest)), slices);
      mask = _mm_mask_cmple_epu8_mask(mask, ages, _mm_set1_epi8(static_cast<char>(table.max_age)));
    }
    windows.hits[i] = _mm256_mask_cmple_epu16_mask(mask, _mm256_xor_si256(lane, rest), ending);
  }
}

/// The answers of up to sixteen candidates. Long buckets, and lanes whose tails have more to say: the scalar kernel
/// knows.
SEENBY_AVX512_INLINE void answer_windows(const FingerprintRef& original, const Windows& windows, unsigned ask,
                                         const Digest* digests, std::size_t count, std::uint8_t* seen,
                                         Answers answers) noexcept {
  const __m256i found = _mm256_load_si256(reinterpret_cast<const __m256i*>(windows.hits));
  unsigned hits = _mm256_test_epi16_mask(found, found);
  if (original.tail_bytes > 0) ask |= hits;
  for (; ask != 0; ask &= ask - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(ask));
    const unsigned hit = i < count && fingerprint_test(original, digests[i]) ? 1U : 0U;
    hits = (hits & ~(1U << i)) | hit << i;
  }
  const auto which = static_cast<__mmask16>((1U << count) - 1);
  const __m128i before = _mm_and_si128(_mm_maskz_loadu_epi8(which, seen), _mm_set1_epi8(static_cast<char>(answers)));
  const __m128i ones = _mm_maskz_set1_epi8(static_cast<__mmask16>(hits), 1);
  _mm_mask_storeu_epi8(seen, which, _mm_add_epi8(before, ones));
}

/// Rounds of sixty-four: a vector load of the hits has to wait for their stores, less the longer they are past.
template <bool Sliced, class Find>
SEENBY_AVX512 inline void check_fingerprints_as(const FingerprintRef& original, const FingerprintRef& table,
                                                const Find& find, const Digest* digests, std::size_t count,
                                                std::uint8_t* seen, Answers answers) noexcept {
  constexpr std::size_t groups = 4;
  Windows windows[groups];
  unsigned too_long[groups];
  Digest padded[16];
  for (std::size_t at = 0; at < count; at += 16 * groups) {
    const std::size_t left = std::min(count - at, 16 * groups);
    for (std::size_t g = 0; g * 16 < left; ++g) {
      const Digest* from = digests + at + g * 16;
      if (left - g * 16 < 16) {
        for (std::size_t j = 0; j < 16; ++j) padded[j] = from[std::min(j, left - g * 16 - 1)];
        from = padded;
      }
      too_long[g] = find_windows(find, table.bucket_bits, from, windows[g]);
    }
    for (std::size_t g = 0; g * 16 < left; ++g) match_windows<Sliced>(table, windows[g]);
    for (std::size_t g = 0; g * 16 < left; ++g) {
      answer_windows(original, windows[g], too_long[g], digests + at + g * 16, std::min<std::size_t>(left - g * 16, 16),
                     seen + at + g * 16, answers);
    }
  }
}

SEENBY_AVX512 inline void check_fingerprints(const FingerprintRef& original, DigestsRef digests, std::size_t count,
                                             std::uint8_t* seen, Answers answers) noexcept {
  if (check_small_table(original, digests.first, count, seen, answers)) return;
  const bool few_lanes = original.bucket_bits > 4 && original.capacity < window_lanes;
  if (few_lanes || original.bucket_bits > 16) return avx2::check_fingerprints(original, digests, count, seen, answers);
  const PaddedTable padded(original);
  const FingerprintRef& table = padded.table;
  const auto check = [&](const auto& find) SEENBY_AVX512_LAMBDA {
    if (table.slices == nullptr) {
      check_fingerprints_as<false>(original, table, find, digests.first, count, seen, answers);
    } else {
      check_fingerprints_as<true>(original, table, find, digests.first, count, seen, answers);
    }
  };
  if (table.bucket_bits > 4 && !WindowIndex<1>::serves(table, count)) {
    return check(
        GatheredWindows{table.index, (1U << table.bucket_bits) / fingerprint_group, table.capacity - window_lanes});
  }
  WindowIndex<1> index;
  prepare_windows(table, original.lanes + 2 * std::size_t{original.capacity}, index);
  check(ReadyWindows{index, table.bucket_bits});
}

SEENBY_AVX512_END
#endif
