#pragma once
// SPDX-License-Identifier: MIT
// The AVX2 kernel: one candidate's eight bits are one 256-bit mask, tested against its block by one instruction.

#include "seenby/kernels/avx2_small.hpp"

#if defined(SEENBY_X86_KERNELS)

SEENBY_DETAIL_BEGIN

namespace avx2 {

/// The constants of a loop: read once, held in registers.
struct Constants {
  __m256i salts;
  __m256i one;
};

SEENBY_AVX2_INLINE Constants constants() noexcept {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(split_block_salts.data())), _mm256_set1_epi32(1)};
}

/// The mask comes from the digest in memory, as its block does from a 32-bit load of the high half: a broadcast load
/// costs no shuffle, while a digest that passes through a general register costs two more instructions.
SEENBY_AVX2_INLINE __m256i mask_of(const Digest& digest, const Constants& with) noexcept {
  const __m256i low = _mm256_broadcastd_epi32(_mm_loadu_si32(&digest));
  return _mm256_sllv_epi32(with.one, _mm256_srli_epi32(_mm256_mullo_epi32(low, with.salts), 27));
}

SEENBY_AVX2_INLINE const std::byte* block_of(SplitBlockRef filter, const Digest& digest) noexcept {
  std::uint32_t high;
  std::memcpy(&high, reinterpret_cast<const std::byte*>(&digest) + 4, sizeof high);
  return filter.blocks + static_cast<std::size_t>((std::uint64_t{high} * filter.block_count) >> 32) * split_block_bytes;
}

SEENBY_AVX2_INLINE __m256i load_block(SplitBlockRef filter, const Digest& digest) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block_of(filter, digest)));
}

/// 1 when the block holds every bit of the mask.
SEENBY_AVX2_INLINE std::uint8_t covers(__m256i block, __m256i mask) noexcept {
  return static_cast<std::uint8_t>(_mm256_testc_si256(block, mask));
}

SEENBY_AVX2_INLINE bool test(SplitBlockRef filter, const Digest& digest) noexcept {
  return covers(load_block(filter, digest), mask_of(digest, constants())) != 0;
}

/// As `test`, for callers that are not built for AVX2 themselves. Pure, so that around the call a filter that is known
/// elsewhere keeps its address and size in registers: 61 instructions a lookup instead of 66 (bench/guard/check.sh).
[[gnu::target("avx2"), gnu::noinline, gnu::pure]] inline bool test_called(SplitBlockRef filter,
                                                                          Digest digest) noexcept {
  return avx2::test(filter, digest);
}

template <class... Filters>
SEENBY_AVX2_INLINE void check_one(const Digest& digest, const Constants& with, std::uint8_t& seen,
                                  Filters... filters) noexcept {
  const __m256i mask = mask_of(digest, with);
  const auto hits = static_cast<std::uint8_t>((covers(load_block(filters, digest), mask) + ...));
  seen = answer(seen, hits, Answers::replace);
}

/// One filter or a pair, whose blocks the processor fetches in time on its own.
/// Filters come first: the second one of a pair at the end of the arguments would go through memory, in two stores that
/// one load cannot take up (40 cycles a call).
template <class... Filters>
SEENBY_AVX2 void check_each(Filters... filters, const Digest* digests, std::size_t count, std::uint8_t* seen) noexcept {
  const Constants with = constants();
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j) check_one(digests[i + j], with, seen[i + j], filters...);
  }
  for (; i < count; ++i) check_one(digests[i], with, seen[i], filters...);
}

/// For a filter that outgrows the cache: prefetches blocks well before they are tested.
SEENBY_AVX2 inline void check_large(SplitBlockRef filter, const Digest* digests, std::size_t count,
                                    std::uint8_t* seen) noexcept {
  const Constants with = constants();
  for (std::size_t i = 0; i < count && i < prefetch_distance; ++i) __builtin_prefetch(block_of(filter, digests[i]));
  std::size_t i = 0;
  for (; i + prefetch_distance < count; ++i) {
    __builtin_prefetch(block_of(filter, digests[i + prefetch_distance]));
    check_one(digests[i], with, seen[i], filter);
  }
  for (; i < count; ++i) check_one(digests[i], with, seen[i], filter);
}

inline void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen,
                  Answers answers) noexcept {
  if (lanes_serve(filter, digests, count)) return check_small(filter, digests.lanes, count, seen, answers);
  check_as(answers, digests.first, count, seen, [=](const Digest* from, std::size_t size, std::uint8_t* to) {
    if (filter.block_count >= large_filter_blocks) return check_large(filter, from, size, to);
    check_each<SplitBlockRef>(filter, from, size, to);
  });
}

/// Small filters one after the other, two others at once: one mask serves both.
inline void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen, Answers answers) noexcept {
  if (lanes_serve(first, digests, count) || lanes_serve(second, digests, count)) {
    check(first, digests, count, seen, answers);
    return check(second, digests, count, seen, Answers::add);
  }
  check_as(answers, digests.first, count, seen, [=](const Digest* from, std::size_t size, std::uint8_t* to) {
    check_each<SplitBlockRef, SplitBlockRef>(first, second, from, size, to);
  });
}

/// Digests that share a block follow each other through it, so the answer equals one insert after the other.
SEENBY_AVX2 inline std::size_t insert(std::byte* blocks, std::uint32_t block_count, const Digest* digests,
                                      std::size_t count) noexcept {
  const Constants with = constants();
  const SplitBlockRef filter{blocks, block_count};
  std::size_t present = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto* block = reinterpret_cast<__m256i*>(blocks + (block_of(filter, digests[i]) - blocks));
    const __m256i mask = mask_of(digests[i], with);
    const __m256i before = _mm256_loadu_si256(block);
    present += covers(before, mask);
    _mm256_storeu_si256(block, _mm256_or_si256(before, mask));
  }
  return count - present;
}

/// Four candidates' digests against one of the run after the other.
SEENBY_AVX2 inline void match_add(const std::uint64_t* run, std::size_t run_size, const Digest* digests,
                                  std::size_t count, std::uint8_t* seen) noexcept {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i candidates = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(digests + i));
    __m256i hits = _mm256_setzero_si256();
    for (std::size_t j = 0; j < run_size; ++j) {
      const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(load_digest(run + j)));
      hits = _mm256_or_si256(hits, _mm256_cmpeq_epi64(candidates, wanted));
    }
    if (_mm256_testz_si256(hits, hits) != 0) continue;
    const auto found = static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(hits)));
    for (std::size_t j = 0; j < 4; ++j) seen[i + j] = static_cast<std::uint8_t>(seen[i + j] + (found >> j & 1U));
  }
  scalar::match_add(run, run_size, digests + i, count - i, seen + i);
}

/// For each set of eight answers to keep, the positions that move to the front: 2 KiB.
struct CompressionTable {
  std::array<std::array<std::uint8_t, 8>, 256> order{};
  constexpr CompressionTable() noexcept {
    for (std::size_t keep = 0; keep < 256; ++keep) {
      std::size_t kept = 0;
      for (std::uint8_t i = 0; i < 8; ++i) {
        if ((keep >> i & 1U) != 0) order[keep][kept++] = i;
      }
    }
  }
};
inline constexpr CompressionTable compression_table;

/// Eight answers a step. A whole store ends within the words already examined.
SEENBY_AVX2 inline std::size_t compress(const std::uint8_t* seen, std::size_t count, std::uint8_t most,
                                        std::uint64_t first, void* out) noexcept {
  const __m128i limit = _mm_set1_epi8(static_cast<char>(most));
  auto* const words = static_cast<std::byte*>(out);
  std::size_t kept = 0;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i answers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(seen + i));
    const __m128i stay = _mm_cmpeq_epi8(_mm_min_epu8(answers, limit), answers);
    const auto keep = static_cast<unsigned>(_mm_movemask_epi8(stay)) & 0xFFU;
    const __m128i order = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(compression_table.order[keep].data()));
    const __m256i base = _mm256_set1_epi64x(static_cast<long long>(first + i));
    auto* const to = reinterpret_cast<__m256i*>(words + kept * 8);
    _mm256_storeu_si256(to, _mm256_add_epi64(base, _mm256_cvtepu8_epi64(order)));
    _mm256_storeu_si256(to + 1, _mm256_add_epi64(base, _mm256_cvtepu8_epi64(_mm_srli_si128(order, 4))));
    kept += static_cast<std::size_t>(__builtin_popcount(keep));
  }
  return kept + scalar::compress(seen + i, count - i, most, first + i, words + kept * 8);
}

}  // namespace avx2

SEENBY_DETAIL_END
#endif
