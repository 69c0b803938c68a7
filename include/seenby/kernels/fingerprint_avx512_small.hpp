#pragma once
// SPDX-License-Identifier: MIT
// The AVX-512 kernel for small fingerprint tables: the table is transposed into registers, and thirty-two candidates at
// once look one lane of their buckets up by one permutation.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "seenby/kernels/avx512_base.hpp"
#include "seenby/kernels/avx512_small.hpp"
#include "seenby/kernels/fingerprint.hpp"

#if defined(SEENBY_X86_KERNELS)

SEENBY_AVX512_BEGIN

/// The most buckets of a table that is transposed, as bits.
inline constexpr std::uint32_t most_column_bits = 5;
/// In a shorter batch transposing the table costs more than it saves. Sixteen candidates of tables of up to 120 items
/// take as long either way, 36 ns on Zen 4, and twenty take 56 ns without; the columns of 32 buckets take 67 ns.
[[nodiscard]] constexpr std::size_t least_for_columns(std::uint32_t bucket_bits) noexcept {
  return bucket_bits < most_column_bits ? 17 : 33;
}

using WordOrder32 = std::array<std::uint16_t, 32>;
inline constexpr WordOrder32 words_in_order = [] {
  WordOrder32 order{};
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint16_t>(i);
  return order;
}();

/// A table's lanes by their place in the bucket: place p of bucket b is word p * 2^bucket_bits + b, 32 words a
/// register. A word of 0 stands for a lane that is not there or not live: no candidate matches it (see check_columns).
struct LaneColumns {
  static constexpr std::uint32_t most_places = 32;
  static constexpr std::size_t most_registers = (std::size_t{most_places} << most_column_bits) / 32;

  std::uint32_t places;  ///< the most lanes that a bucket has
  alignas(64) std::array<WordOrder32, most_registers> columns;
};

/// Where the lanes of up to 32 buckets begin and how many there are: a word a bucket, 0 for others.
struct BucketRuns {
  static constexpr std::uint32_t most_lanes = 2 * fingerprint_group_lanes;

  __m512i first;
  __m512i count;
  std::uint32_t end;  ///< no bucket's lanes are past it

  /// False where the index says what no sound one does, or a bucket is too long. What is checked is what is used: a
  /// writer may be changing the index.
  SEENBY_AVX512_INLINE static bool load(const FingerprintRef& table, BucketRuns& out) noexcept {
    out.end = std::min(table.count, table.capacity);
    if (table.bucket_bits == 0) {
      out.first = _mm512_setzero_si512();
      out.count = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(std::min(out.end, most_lanes))));
    } else if (!out.load_index(table)) {
      return false;
    }
    const __m512i ends = _mm512_add_epi16(out.first, out.count);
    const __mmask32 past = _mm512_cmpgt_epu16_mask(ends, _mm512_set1_epi16(static_cast<short>(out.end)));
    const __mmask32 too_long = _mm512_cmpgt_epu16_mask(out.count, _mm512_set1_epi16(LaneColumns::most_places));
    return out.end <= most_lanes && (past | too_long) == 0;
  }
  [[nodiscard]] SEENBY_AVX512_INLINE std::uint32_t most() const noexcept {
    const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(count), _mm512_extracti64x4_epi64(count, 1));
    const __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
    return ~static_cast<std::uint32_t>(_mm_cvtsi128_si32(least)) & 0xFFFFU;
  }

 private:
  SEENBY_AVX512_INLINE bool load_index(const FingerprintRef& table) noexcept {
    constexpr std::size_t group = 1 + fingerprint_group;
    const std::uint32_t in_group = 1U << std::min(table.bucket_bits, std::uint8_t{4});
    const auto buckets = static_cast<__mmask16>((std::uint32_t{1} << in_group) - 1U);
    __m512i from = _mm512_zextsi256_si512(load_bytes(buckets, table.index));
    __m512i to = _mm512_zextsi256_si512(load_bytes(buckets, table.index + 1));
    __m512i base = _mm512_setzero_si512();
    if (table.bucket_bits == 5) {
      from = _mm512_inserti64x4(from, load_bytes(buckets, table.index + group), 1);
      to = _mm512_inserti64x4(to, load_bytes(buckets, table.index + group + 1), 1);
      const auto first_base = load_shared<std::uint32_t>(table.index + 2 * group);
      const auto second_base = load_shared<std::uint32_t>(table.index + 2 * group + 4);
      if (first_base != 0 || second_base > fingerprint_group_lanes) return false;
      base = _mm512_maskz_set1_epi16(0xFFFF0000U, static_cast<short>(second_base));
    }
    first = _mm512_add_epi16(base, from);
    count = _mm512_and_si512(_mm512_sub_epi16(to, from), _mm512_set1_epi16(0xFF));
    return true;
  }
  SEENBY_AVX512_INLINE static __m256i load_bytes(__mmask16 which, const std::byte* at) noexcept {
    return _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8(which, at));
  }
};

/// A table's lanes in order, those that are not live as 0.
struct LiveLanes {
  static constexpr std::uint32_t chunk = 64;
  static constexpr std::size_t most_chunks = 8;
  alignas(64) std::array<std::array<WordOrder32, 2>, most_chunks> words;

  /// False where a lane is 0, which the definition takes for one that matches everything and only damaged bytes have.
  SEENBY_AVX512_INLINE bool load(const FingerprintRef& table, std::uint32_t end) noexcept {
    const __m512i newest = _mm512_set1_epi8(static_cast<char>(table.newest));
    const __m512i oldest = _mm512_set1_epi8(static_cast<char>(table.max_age));
    std::uint64_t zeros = 0;
    for (std::uint32_t at = 0; at < end; at += chunk) {
      const std::uint64_t there = end - at < chunk ? (std::uint64_t{1} << (end - at)) - 1 : ~std::uint64_t{0};
      std::uint64_t live = there;
      if (table.slices != nullptr) {
        const __m512i slices = _mm512_maskz_loadu_epi8(there, table.slices + at);
        live = _mm512_mask_cmple_epu8_mask(there, _mm512_sub_epi8(newest, slices), oldest);
      }
      const auto* const from = table.lanes + 2 * std::size_t{at};
      const auto low_live = static_cast<__mmask32>(live);
      const auto high_live = static_cast<__mmask32>(live >> 32);
      const __m512i low = _mm512_maskz_loadu_epi16(low_live, from);
      const __m512i high = _mm512_maskz_loadu_epi16(high_live, from + 64);
      zeros |= _mm512_mask_testn_epi16_mask(low_live, low, low) | _mm512_mask_testn_epi16_mask(high_live, high, high);
      _mm512_store_si512(words[at / chunk][0].data(), low);
      _mm512_store_si512(words[at / chunk][1].data(), high);
    }
    return zeros == 0;
  }
};

/// False where another kernel must answer.
SEENBY_AVX512_INLINE bool load_columns(const FingerprintRef& table, LaneColumns& out) noexcept {
  BucketRuns runs;
  LiveLanes lanes;
  if (!BucketRuns::load(table, runs) || !lanes.load(table, runs.end)) return false;
  out.places = runs.most();
  const __m512i word = _mm512_loadu_si512(words_in_order.data());
  const __m512i bucket = _mm512_and_si512(word, _mm512_set1_epi16(static_cast<short>((1U << table.bucket_bits) - 1)));
  __m512i place = _mm512_srl_epi16(word, _mm_cvtsi32_si128(table.bucket_bits));
  __m512i at = _mm512_add_epi16(_mm512_permutexvar_epi16(bucket, runs.first), place);
  const __m512i count = _mm512_permutexvar_epi16(bucket, runs.count);
  const std::uint32_t step = 32U >> table.bucket_bits;
  const __m512i next = _mm512_set1_epi16(static_cast<short>(step));
  auto* column = out.columns.data();
  for (std::uint32_t done = 0; done < out.places; done += step, ++column) {
    __m512i words = at;
    const __m512i chunk = _mm512_srli_epi16(at, 6);
    for (std::uint32_t i = 0; i * LiveLanes::chunk < runs.end; ++i) {
      words = _mm512_mask2_permutex2var_epi16(_mm512_load_si512(lanes.words[i][0].data()), words,
                                              _mm512_cmpeq_epi16_mask(chunk, _mm512_set1_epi16(static_cast<short>(i))),
                                              _mm512_load_si512(lanes.words[i][1].data()));
    }
    _mm512_store_si512(column->data(), _mm512_maskz_mov_epi16(_mm512_cmplt_epu16_mask(place, count), words));
    at = _mm512_add_epi16(at, next);
    place = _mm512_add_epi16(place, next);
  }
  return true;
}

/// The bucket of each of 32 candidates, and sixteen bits of the digest behind it, of which the last is set: a lane
/// never says what follows its fingerprint.
struct Wanted {
  __m512i bucket;
  __m512i rest;

  SEENBY_AVX512_INLINE static Wanted of(const Digest* digests, std::size_t left, std::uint32_t bucket_bits) noexcept {
    // The second highest words behind the highest.
    const __m512i order = _mm512_loadu_si512(words_order.data());
    const __mmask64 there = _cvtu64_mask64(present_of(left));
    __m512i words[2];
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      __m512i eight[2];
#pragma GCC unroll 2
      for (std::size_t j = 0; j < 2; ++j) {
        const std::size_t at = 16 * i + 8 * j;
        eight[j] = left >= 32
                       ? _mm512_loadu_si512(digests + at)
                       : _mm512_maskz_loadu_epi64(
                             eighth(there, 2 * static_cast<unsigned>(i) + static_cast<unsigned>(j)), digests + at);
      }
      words[i] = _mm512_permutex2var_epi16(eight[0], order, eight[1]);
    }
    const __m512i high = _mm512_shuffle_i64x2(words[0], words[1], 0x44);
    const __m512i low = _mm512_shuffle_i64x2(words[0], words[1], 0xEE);
    const __m512i shift = _mm512_set1_epi16(static_cast<short>(bucket_bits));
    return {_mm512_srl_epi16(high, _mm_cvtsi32_si128(static_cast<int>(16 - bucket_bits))),
            _mm512_or_si512(_mm512_shldv_epi16(high, low, shift), _mm512_set1_epi16(1))};
  }

 private:
  static constexpr std::array<std::uint16_t, 32> words_order = [] {
    std::array<std::uint16_t, 32> order{};
    for (std::size_t i = 0; i < 16; ++i) {
      order[i] = static_cast<std::uint16_t>(4 * i + 3);
      order[i + 16] = static_cast<std::uint16_t>(4 * i + 2);
    }
    return order;
  }();
};

/// The answers of up to 32 candidates a group. A lane matches where all bits of its fingerprint are the candidate's:
/// (lane ^ rest) & ~(lane ^ (lane - 1)) is 0. With 0 - 1 taken for 0, that is `rest` for a lane of 0, and never 0.
template <std::size_t Groups>
SEENBY_AVX512_INLINE void check_columns(const LaneColumns& table, std::uint32_t bucket_bits, const Digest* digests,
                                        std::size_t count, std::uint8_t* seen, Answers answers) noexcept {
  const __m512i one = _mm512_set1_epi16(1);
  Wanted wanted[Groups];
  __m512i differs[Groups];  // 0 where some lane matches
#pragma GCC unroll 4
  for (std::size_t g = 0; g < Groups; ++g) {
    wanted[g] = Wanted::of(digests + 32 * g, count - std::min(count, 32 * g), bucket_bits);
    differs[g] = _mm512_set1_epi16(-1);
  }
  const __m512i next = _mm512_add_epi16(_mm512_loadu_si512(words_in_order.data()),
                                        _mm512_set1_epi16(static_cast<short>(1U << bucket_bits)));
  const std::uint32_t in_register = 32U >> bucket_bits;
  const WordOrder32* column = table.columns.data();
  for (std::uint32_t place = 0; place < table.places; ++column) {
    __m512i lanes = _mm512_load_si512(column->data());
    const std::uint32_t end = std::min(table.places, place + in_register);
    do {
#pragma GCC unroll 4
      for (std::size_t g = 0; g < Groups; ++g) {
        const __m512i lane = _mm512_permutexvar_epi16(wanted[g].bucket, lanes);
        const __m512i below = _mm512_subs_epu16(lane, one);
        // (a ^ b) & ~(a ^ c)
        differs[g] = _mm512_min_epu16(differs[g], _mm512_ternarylogic_epi32(lane, wanted[g].rest, below, 0x24));
      }
      lanes = _mm512_permutexvar_epi16(next, lanes);
    } while (++place < end);
  }
#pragma GCC unroll 4
  for (std::size_t g = 0; g < Groups; ++g) {
    const std::size_t left = count - std::min(count, 32 * g);
    const __mmask32 hits = _mm512_testn_epi16_mask(differs[g], differs[g]);
    const auto there = static_cast<__mmask32>(left >= 32 ? ~0U : (1U << left) - 1);
    const __m256i kept = _mm256_set1_epi8(static_cast<char>(answers));
    const __m256i before = _mm256_and_si256(_mm256_maskz_loadu_epi8(there, seen + 32 * g), kept);
    const __m256i after = _mm256_sub_epi8(before, _mm256_movm_epi8(hits));
    if (left >= 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(seen + 32 * g), after);
    } else {
      _mm256_mask_storeu_epi8(seen + 32 * g, there, after);
    }
  }
}

/// Tables of up to 32 buckets with lanes of 16 bits; false where another kernel must answer. A batch of 128 asks a
/// table of 10 to 100 items in 0.35 to 0.44 of the time that looking into windows takes (`seenby_bench_micro
/// --benchmark_filter=batch_miss_warm/table`, Zen 4).
SEENBY_AVX512 inline bool check_small_table(const FingerprintRef& table, const Digest* digests, std::size_t count,
                                            std::uint8_t* seen, Answers answers) noexcept {
  if (table.bucket_bits > most_column_bits || table.tail_bytes != 0) return false;
  if (count < least_for_columns(table.bucket_bits)) return false;
  LaneColumns columns;
  if (!load_columns(table, columns)) return false;
  for (; count > 64; count -= std::min<std::size_t>(count, 128), digests += 128, seen += 128) {
    check_columns<4>(columns, table.bucket_bits, digests, count, seen, answers);
  }
  if (count > 0) check_columns<2>(columns, table.bucket_bits, digests, count, seen, answers);
  return true;
}

SEENBY_AVX512_END
#endif
