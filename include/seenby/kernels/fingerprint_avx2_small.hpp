#pragma once
// SPDX-License-Identifier: MIT
// The AVX2 kernel for small fingerprint tables: sixteen candidates at once look one lane of their buckets up by a byte
// shuffle.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "seenby/kernels/fingerprint.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <immintrin.h>

#define SEENBY_COLUMNS_INLINE [[gnu::target("avx2"), gnu::always_inline]] inline

SEENBY_DETAIL_BEGIN

namespace avx2 {

/// A table's lanes by their place in the bucket: column p has the lanes at place p, bucket by bucket. A word of 0
/// stands for a lane that is not there or not live.
class LaneColumns {
 public:
  static constexpr std::uint32_t most_bucket_bits = 3;
  /// In a shorter batch, making the columns costs more than it saves.
  static constexpr std::size_t least_candidates = 24;

  /// False where another kernel must answer: of longer buckets, and of lanes of 0, which only damaged bytes have and
  /// the definition takes for ones that match everything.
  [[nodiscard]] SEENBY_COLUMNS_INLINE bool load(const FingerprintRef& table) noexcept {
    const std::uint32_t buckets = 1U << table.bucket_bits;
    std::array<LaneRun, 8> runs{};
    std::uint32_t end = 0;
    places_ = 0;
    for (std::uint32_t bucket = 0; bucket < buckets; ++bucket) {
      runs[bucket] = lanes_of(table, bucket);
      end = std::max(end, runs[bucket].first + runs[bucket].count);
      places_ = std::max(places_, runs[bucket].count);
    }
    if (places_ > most_places || end > most_lanes || (end > 0 && !load_live(table, end))) return false;
    for (std::uint32_t from = 0; from < places_; from += 8) transpose(runs, from);
    return true;
  }
  [[nodiscard]] std::uint32_t places() const noexcept { return places_; }
  /// The lanes at a place, twice.
  [[nodiscard]] SEENBY_COLUMNS_INLINE __m256i column(std::uint32_t place) const noexcept {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(columns_[place].data())));
  }

 private:
  static constexpr std::uint32_t most_places = 24;
  static constexpr std::uint32_t most_lanes = 256;

  /// The lanes in order, those that are not live as 0.
  SEENBY_COLUMNS_INLINE bool load_live(const FingerprintRef& table, std::uint32_t end) noexcept {
    std::memcpy(live_.data(), table.lanes, 2 * std::size_t{end});
    // Behind the last one something that is neither 0 nor taken for a lane, as far as vectors reach.
    std::memset(live_.data() + end, 0xFF, 2 * std::size_t{most_places + 8});
    __m256i zeros = _mm256_setzero_si256();
    for (std::uint32_t at = 0; at < end; at += 16) {
      auto* const words = reinterpret_cast<__m256i*>(live_.data() + at);
      __m256i lanes = _mm256_loadu_si256(words);
      __m256i live = _mm256_set1_epi16(-1);
      if (table.slices != nullptr) {
        live = _mm256_cvtepi8_epi16(live_slices(table, at, end));
        _mm256_storeu_si256(words, _mm256_and_si256(lanes, live));
      }
      zeros = _mm256_or_si256(zeros, _mm256_and_si256(live, _mm256_cmpeq_epi16(lanes, _mm256_setzero_si256())));
    }
    return _mm256_testz_si256(zeros, zeros) != 0;
  }
  /// All ones for each of sixteen lanes whose slice is live.
  SEENBY_COLUMNS_INLINE static __m128i live_slices(const FingerprintRef& table, std::uint32_t at,
                                                   std::uint32_t end) noexcept {
    alignas(16) std::array<std::byte, 16> last{};
    const std::byte* from = table.slices + at;
    if (end - at < 16) from = static_cast<const std::byte*>(std::memcpy(last.data(), from, end - at));
    const __m128i slices = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i ages = _mm_sub_epi8(_mm_set1_epi8(static_cast<char>(table.newest)), slices);
    return _mm_cmpeq_epi8(_mm_min_epu8(ages, _mm_set1_epi8(static_cast<char>(table.max_age))), ages);
  }
  /// Eight lanes of a bucket from a place on, 0 where it has no more.
  SEENBY_COLUMNS_INLINE __m128i row(const LaneRun& run, std::uint32_t from) const noexcept {
    const __m128i places = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7);
    const __m128i left = _mm_set1_epi16(static_cast<short>(static_cast<int>(run.count) - static_cast<int>(from)));
    const auto* const words = reinterpret_cast<const __m128i*>(live_.data() + std::min(run.first, most_lanes) + from);
    return _mm_and_si128(_mm_loadu_si128(words), _mm_cmpgt_epi16(left, places));
  }
  SEENBY_COLUMNS_INLINE void transpose(const std::array<LaneRun, 8>& runs, std::uint32_t from) noexcept {
    __m128i words[8];
    __m128i pairs[8];
    __m128i fours[8];
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < 8; ++i) words[i] = row(runs[i], from);
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm_unpacklo_epi16(words[2 * i], words[2 * i + 1]);
      pairs[2 * i + 1] = _mm_unpackhi_epi16(words[2 * i], words[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (std::uint32_t high = 0; high < 2; ++high) {
        const __m128i first = pairs[4 * i + high];
        const __m128i second = pairs[4 * i + 2 + high];
        fours[4 * i + 2 * high] = _mm_unpacklo_epi32(first, second);
        fours[4 * i + 2 * high + 1] = _mm_unpackhi_epi32(first, second);
      }
    }
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < 4; ++i) {
      store(from + 2 * i, _mm_unpacklo_epi64(fours[i], fours[4 + i]));
      store(from + 2 * i + 1, _mm_unpackhi_epi64(fours[i], fours[4 + i]));
    }
  }
  SEENBY_COLUMNS_INLINE void store(std::uint32_t place, __m128i column) noexcept {
    _mm_store_si128(reinterpret_cast<__m128i*>(columns_[place].data()), column);
  }

  std::uint32_t places_ = 0;
  alignas(16) std::array<std::array<std::uint16_t, 8>, most_places> columns_;
  alignas(32) std::array<std::uint16_t, most_lanes + most_places + 8> live_;
};

/// Sixteen candidates in the order that packing leaves: 0, 1, 4, 5, 8, 9, 12, 13, and then the others.
struct SixteenWanted {
  __m256i shuffle;  ///< where the bucket's two bytes are, of sixteen buckets
  __m256i rest;     ///< sixteen bits of the digest behind the bucket's, of which the last is set

  SEENBY_COLUMNS_INLINE static SixteenWanted of(const Digest* digests, std::uint32_t bucket_bits) noexcept {
    const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(bucket_bits));
    const __m128i others = _mm_cvtsi32_si128(static_cast<int>(32 - bucket_bits));
    __m256i bucket[2];
    __m256i rest[2];
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      const auto* const eight = reinterpret_cast<const __m256i*>(digests + 8 * i);
      const __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(
          _mm256_castsi256_ps(_mm256_loadu_si256(eight)), _mm256_castsi256_ps(_mm256_loadu_si256(eight + 1)), 0xDD));
      bucket[i] = _mm256_srl_epi32(high, others);
      rest[i] = _mm256_srli_epi32(_mm256_sll_epi32(high, bits), 16);
    }
    const __m256i bytes = _mm256_mullo_epi16(_mm256_packus_epi32(bucket[0], bucket[1]), _mm256_set1_epi16(0x0202));
    return {_mm256_add_epi16(bytes, _mm256_set1_epi16(0x0100)),
            _mm256_or_si256(_mm256_packus_epi32(rest[0], rest[1]), _mm256_set1_epi16(1))};
  }
};

/// Answers sixteen candidates a group. A lane matches where all bits of its fingerprint are the candidate's; one of 0
/// never does.
template <std::size_t Groups>
SEENBY_COLUMNS_INLINE void check_columns(const LaneColumns& table, std::uint32_t bucket_bits, const Digest* digests,
                                         std::uint8_t* seen, Answers answers) noexcept {
  SixteenWanted wanted[Groups];
  __m256i differs[Groups];  // 0 where some lane matches
#pragma GCC unroll 2
  for (std::size_t g = 0; g < Groups; ++g) {
    wanted[g] = SixteenWanted::of(digests + 16 * g, bucket_bits);
    differs[g] = _mm256_set1_epi16(-1);
  }
  for (std::uint32_t place = 0; place < table.places(); ++place) {
#pragma GCC unroll 2
    for (std::size_t g = 0; g < Groups; ++g) {
      const __m256i lane = _mm256_shuffle_epi8(table.column(place), wanted[g].shuffle);
      const __m256i ending = _mm256_xor_si256(lane, _mm256_subs_epu16(lane, _mm256_set1_epi16(1)));
      differs[g] = _mm256_min_epu16(differs[g], _mm256_subs_epu16(_mm256_xor_si256(lane, wanted[g].rest), ending));
    }
  }
#pragma GCC unroll 2
  for (std::size_t g = 0; g < Groups; ++g) {
    const __m256i words = _mm256_cmpeq_epi16(differs[g], _mm256_setzero_si256());
    const __m128i packed = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i hits = _mm_shuffle_epi8(packed, _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    auto* const out = reinterpret_cast<__m128i*>(seen + 16 * g);
    const __m128i before = _mm_and_si128(_mm_loadu_si128(out), _mm_set1_epi8(static_cast<char>(answers)));
    _mm_storeu_si128(out, _mm_sub_epi8(before, hits));
  }
}

/// Tables of up to 8 buckets with lanes of 16 bits; false where another kernel must answer. A batch of 128 asks a table
/// of 10 to 30 items in three quarters of the time that looking into windows takes, and one of 16 buckets in no less
/// (`SEENBY_KERNEL=avx2 seenby_bench_micro --benchmark_filter=batch_miss_warm/table`, Zen 4).
[[gnu::target("avx2")]] inline bool check_small_table(const FingerprintRef& table, const Digest* digests,
                                                      std::size_t count, std::uint8_t* seen, Answers answers) noexcept {
  const std::uint32_t bucket_bits = table.bucket_bits;
  LaneColumns columns;
  if (bucket_bits > LaneColumns::most_bucket_bits || table.tail_bytes != 0 || count < LaneColumns::least_candidates ||
      !columns.load(table)) {
    return false;
  }
  for (; count >= 32; count -= 32, digests += 32, seen += 32) {
    check_columns<2>(columns, bucket_bits, digests, seen, answers);
  }
  if (count >= 16) {
    check_columns<1>(columns, bucket_bits, digests, seen, answers);
    count -= 16, digests += 16, seen += 16;
  }
  if (count == 0) return true;
  std::array<Digest, 16> last{};
  std::array<std::uint8_t, 16> last_seen{};
  std::copy_n(digests, count, last.begin());
  std::copy_n(seen, count, last_seen.begin());
  check_columns<1>(columns, bucket_bits, last.data(), last_seen.data(), answers);
  std::copy_n(last_seen.begin(), count, seen);
  return true;
}

}  // namespace avx2

SEENBY_DETAIL_END
#endif
