#pragma once
// SPDX-License-Identifier: MIT
// The AVX-512 kernel: two candidates' masks in one register, eight candidates' answers in one mask register.

#include "seenby/kernels/avx512_base.hpp"
#include "seenby/kernels/avx512_small.hpp"

#if defined(SEENBY_X86_KERNELS)

SEENBY_AVX512_BEGIN

/// Eight candidates are one round: their digests fill one register.
inline constexpr std::size_t round_size = 8;

SEENBY_AVX512_INLINE __m512i salts() noexcept {
  const __m256i half = load_half(split_block_salts.data());
  return join(half, half);
}

/// The masks of candidates 2 * Pair and 2 * Pair + 1 of a round, side by side.
template <int Pair>
SEENBY_AVX512_INLINE __m512i masks_of(__m512i digests, __m512i salts) noexcept {
  const __m512i spread = join(_mm256_set1_epi32(4 * Pair), _mm256_set1_epi32(4 * Pair + 2));
  const __m512i low = _mm512_permutexvar_epi32(spread, digests);
  return _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32(_mm512_mullo_epi32(low, salts), 27));
}

SEENBY_AVX512_INLINE const std::byte* block_of(SplitBlockRef filter, const Digest& digest) noexcept {
  std::uint32_t high;
  std::memcpy(&high, reinterpret_cast<const std::byte*>(&digest) + 4, sizeof high);
  return filter.blocks + static_cast<std::size_t>((std::uint64_t{high} * filter.block_count) >> 32) * split_block_bytes;
}

/// One bit a word, set where the block holds the mask's bit: a candidate is seen when all eight of its bits are.
SEENBY_AVX512_INLINE __mmask16 test_two(SplitBlockRef filter, const Digest* two, __m512i masks) noexcept {
  const __m512i blocks = join(load_half(block_of(filter, two[0])), load_half(block_of(filter, two[1])));
  return _mm512_test_epi32_mask(blocks, masks);
}

/// 0xFF in the byte of each candidate of the round that the filter has seen, 0 in the others.
SEENBY_AVX512_INLINE __m128i test_round(SplitBlockRef filter, const Digest* round, const __m512i (&masks)[4]) noexcept {
  const __mmask32 low = _mm512_kunpackw(test_two(filter, round + 2, masks[1]), test_two(filter, round, masks[0]));
  const __mmask32 high = _mm512_kunpackw(test_two(filter, round + 6, masks[3]), test_two(filter, round + 4, masks[2]));
  const auto words = static_cast<long long>(_cvtmask64_u64(_mm512_kunpackd(high, low)));
  return _mm_cmpeq_epi8(_mm_cvtsi64_si128(words), _mm_set1_epi8(-1));
}

/// How many of the filters have seen each candidate of a round, a byte each.
template <std::size_t Filters>
SEENBY_AVX512_INLINE __m128i count_round(const SplitBlockRef (&filters)[Filters], const Digest* round, __m512i digests,
                                         __m512i salts) noexcept {
  const __m512i masks[4] = {masks_of<0>(digests, salts), masks_of<1>(digests, salts), masks_of<2>(digests, salts),
                            masks_of<3>(digests, salts)};
  __m128i count = _mm_setzero_si128();
#pragma GCC unroll 2
  for (std::size_t i = 0; i < Filters; ++i) count = _mm_sub_epi8(count, test_round(filters[i], round, masks));
  return count;
}

/// The last one to seven candidates. Absent digests read as zero, whose block every filter has.
template <std::size_t Filters>
SEENBY_AVX512_INLINE void check_tail(const SplitBlockRef (&filters)[Filters], const Digest* digests, std::size_t count,
                                     std::uint8_t* seen, __m512i salts) noexcept {
  const auto present = static_cast<__mmask8>((1U << count) - 1U);
  const __m512i padded = _mm512_maskz_loadu_epi64(present, digests);
  Digest round[round_size];
  _mm512_storeu_si512(round, padded);
  _mm_mask_storeu_epi8(seen, present, count_round(filters, round, padded, salts));
}

/// Answers one whole round.
template <std::size_t Filters>
SEENBY_AVX512_INLINE void check_round(const SplitBlockRef (&filters)[Filters], const Digest* round, std::uint8_t* seen,
                                      __m512i salts) noexcept {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(seen), count_round(filters, round, _mm512_loadu_si512(round), salts));
}

/// One filter or a pair, of any size.
template <class... Filters>
[[gnu::noinline]] SEENBY_AVX512 void check_each(Filters... of, const Digest* digests, std::size_t count,
                                                std::uint8_t* seen) noexcept {
  const SplitBlockRef filters[sizeof...(Filters)] = {of...};
  const __m512i salt = salts();
  std::size_t i = 0;
  for (; i + round_size <= count; i += round_size) check_round(filters, digests + i, seen + i, salt);
  if (i == count) return;
  if (count >= round_size) {
    // The last round once more over candidates that are answered already: cheaper than one with gaps.
    check_round(filters, digests + count - round_size, seen + count - round_size, salt);
  } else {
    check_tail(filters, digests + i, count - i, seen + i, salt);
  }
}

/// For a filter that outgrows the cache: prefetches blocks well before they are tested.
SEENBY_AVX512 inline void check_large(SplitBlockRef filter, const Digest* digests, std::size_t count,
                                      std::uint8_t* seen) noexcept {
  const SplitBlockRef filters[1] = {filter};
  const __m512i salt = salts();
  for (std::size_t i = 0; i < count && i < prefetch_distance; ++i) __builtin_prefetch(block_of(filter, digests[i]));
  std::size_t i = 0;
  for (; i + prefetch_distance + round_size <= count; i += round_size) {
#pragma GCC unroll 8
    for (std::size_t j = i + prefetch_distance; j < i + prefetch_distance + round_size; ++j) {
      __builtin_prefetch(block_of(filter, digests[j]));
    }
    check_round(filters, digests + i, seen + i, salt);
  }
  check_each<SplitBlockRef>(filter, digests + i, count - i, seen + i);
}

inline void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen,
                  Answers answers) noexcept {
  if (is_small(filter) && lanes_pay(digests, count)) return check_small(digests, count, seen, answers, filter);
  check_as(answers, digests.first, count, seen, [=](const Digest* from, std::size_t size, std::uint8_t* to) {
    if (filter.block_count >= large_filter_blocks) return check_large(filter, from, size, to);
    check_each<SplitBlockRef>(filter, from, size, to);
  });
}

/// A small filter beside a large one is checked on its own where lanes are there: three quarters of the time that both
/// take by their blocks.
inline void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen, Answers answers) noexcept {
  const bool both = is_small(first) && is_small(second);
  if (both && lanes_pay(digests, count)) return check_small(digests, count, seen, answers, first, second);
  if ((is_small(first) || is_small(second)) && digests.lanes != nullptr && lanes_pay(digests, count)) {
    check(is_small(first) ? second : first, digests, count, seen, answers);
    return check_lanes(digests.lanes, count, seen, Answers::add, is_small(first) ? first : second);
  }
  check_as(answers, digests.first, count, seen, [=](const Digest* from, std::size_t size, std::uint8_t* to) {
    check_each<SplitBlockRef, SplitBlockRef>(first, second, from, size, to);
  });
}

/// Eight candidates' digests against `Size` of the run: each comparison keeps the candidates that still differ.
template <std::size_t Size>
SEENBY_AVX512_INLINE void match_run(const std::uint64_t* run, const Digest* digests, std::size_t count,
                                    std::uint8_t* seen) noexcept {
  __m512i wanted[Size];
#pragma GCC unroll 8
  for (std::size_t j = 0; j < Size; ++j) wanted[j] = _mm512_set1_epi64(static_cast<long long>(load_digest(run + j)));
  for (std::size_t i = 0; i < count; i += round_size) {
    const auto present = static_cast<__mmask8>(count - i < round_size ? (1U << (count - i)) - 1U : 0xFFU);
    const __m512i candidates = _mm512_maskz_loadu_epi64(present, digests + i);
    __mmask8 others = present;
#pragma GCC unroll 8
    for (std::size_t j = 0; j < Size; ++j) others = _mm512_mask_cmpneq_epi64_mask(others, candidates, wanted[j]);
    // Few candidates are in a run of a few digests: the branch is all but free, the masked store is not.
    if (others == present) continue;
    const auto hits = static_cast<__mmask16>(others ^ present);
    const __m128i before = _mm_maskz_loadu_epi8(present, seen + i);
    _mm_mask_storeu_epi8(seen + i, present, _mm_sub_epi8(before, _mm_movm_epi8(hits)));
  }
}

SEENBY_AVX512 inline void match_add(const std::uint64_t* run, std::size_t run_size, const Digest* digests,
                                    std::size_t count, std::uint8_t* seen) noexcept {
  for (; run_size >= 4; run_size -= 4, run += 4) match_run<4>(run, digests, count, seen);
  switch (run_size) {
    case 3: return match_run<3>(run, digests, count, seen);
    case 2: return match_run<2>(run, digests, count, seen);
    case 1: return match_run<1>(run, digests, count, seen);
    default: return;
  }
}

/// Eight answers a step: the words that stay are compressed in a register and stored whole, since a compressing store
/// is microcoded on AMD's cores. A whole store ends within the words already examined.
SEENBY_AVX512 inline std::size_t compress(const std::uint8_t* seen, std::size_t count, std::uint8_t most,
                                          std::uint64_t first, void* out) noexcept {
  const __m128i limit = _mm_set1_epi8(static_cast<char>(most));
  const __m512i step = _mm512_set1_epi64(8);
  __m512i word =
      _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first)), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
  auto* to = static_cast<std::byte*>(out);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __mmask8 stay =
        static_cast<__mmask8>(_mm_cmple_epu8_mask(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(seen + i)), limit));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(stay, word));
    to += static_cast<unsigned>(__builtin_popcount(stay)) * sizeof(std::uint64_t);
    word = _mm512_add_epi64(word, step);
  }
  if (i < count) {
    const auto present = static_cast<__mmask16>((1U << (count - i)) - 1U);
    const auto stay =
        static_cast<__mmask8>(_mm_mask_cmple_epu8_mask(present, _mm_maskz_loadu_epi8(present, seen + i), limit));
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(present), _mm512_maskz_compress_epi64(stay, word));
    to += static_cast<unsigned>(__builtin_popcount(stay)) * sizeof(std::uint64_t);
  }
  return static_cast<std::size_t>(to - static_cast<std::byte*>(out)) / sizeof(std::uint64_t);
}

SEENBY_AVX512_END

#endif
