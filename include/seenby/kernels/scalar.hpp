#pragma once
// SPDX-License-Identifier: MIT
// The scalar kernel: it defines which bits a digest has in a split-block filter, and every other kernel equals it.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "seenby/detail/cpu.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/digest_lanes.hpp"

SEENBY_DETAIL_BEGIN

inline constexpr std::size_t split_block_bytes = 32;

/// From this size on (1 MiB, a core's second-level cache) a batch check prefetches blocks far enough ahead for a round
/// trip to memory: 16, 32 and 64 candidates ahead took 2.3, 1.9 and 1.6 ns a check in 13 MB, no prefetch 2.0.
inline constexpr std::uint32_t large_filter_blocks = 1U << 15;
inline constexpr std::size_t prefetch_distance = 64;

/// Multipliers of Apache Parquet's split-block Bloom filter (parquet-format, BloomFilter.md): one odd constant a word,
/// so that the five high bits of each product are close to independent.
inline constexpr std::array<std::uint32_t, 8> split_block_salts{0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                                                0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

/// How far a filter's first byte is from the digest's block. The multiply-shift of Lemire's "Fast random integer
/// generation in an interval" (2019) takes any block count, not only powers of two.
[[nodiscard]] constexpr std::size_t split_block_offset(Digest digest, std::uint32_t block_count) noexcept {
  return static_cast<std::size_t>(((digest.value >> 32) * block_count) >> 32) * split_block_bytes;
}

/// The number, 0 to 31, of the one bit that a digest has in word `word` of its block.
[[nodiscard]] constexpr std::uint32_t split_block_bit_number(Digest digest, std::size_t word) noexcept {
  return (static_cast<std::uint32_t>(digest.value) * split_block_salts[word]) >> 27;
}
[[nodiscard]] constexpr std::uint32_t split_block_bit(Digest digest, std::size_t word) noexcept {
  return std::uint32_t{1} << split_block_bit_number(digest, word);
}

/// Words of a block are little-endian whatever the machine. Under ThreadSanitizer the load is a relaxed atomic, since
/// optimistic readers look at blocks that a writer may be changing and discard the answer.
[[nodiscard]] inline std::uint32_t load_word(const std::byte* from) noexcept {
#if defined(SEENBY_THREAD_SANITIZER)
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto* byte = reinterpret_cast<const unsigned char*>(from + i);
    value |= std::uint32_t{__atomic_load_n(byte, __ATOMIC_RELAXED)} << (8 * i);
  }
  return value;
#else
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
#endif
}

/// As load_word, for a digest of a run of exact ones.
[[nodiscard]] inline std::uint64_t load_digest(const std::uint64_t* from) noexcept {
  return __atomic_load_n(from, __ATOMIC_RELAXED);
}

/// Sets bits in one word; the counterpart of load_word.
inline void or_word(std::byte* to, std::uint32_t bits) noexcept {
#if defined(SEENBY_THREAD_SANITIZER)
  for (std::size_t i = 0; i < 4; ++i) {
    auto* byte = reinterpret_cast<unsigned char*>(to + i);
    const auto old = __atomic_load_n(byte, __ATOMIC_RELAXED);
    __atomic_store_n(byte, static_cast<unsigned char>(old | (bits >> (8 * i))), __ATOMIC_RELAXED);
  }
#else
  std::uint32_t value = load_word(to) | bits;
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  std::memcpy(to, &value, sizeof value);
#endif
}

/// Whether all eight bits of a digest are set. Reads the whole block: a branch on the first clear word costs more in
/// mispredictions than the seven loads it saves.
[[nodiscard]] inline bool split_block_test(SplitBlockRef filter, Digest digest) noexcept {
  const std::byte* block = filter.blocks + split_block_offset(digest, filter.block_count);
  std::uint32_t missing = 0;
  for (std::size_t word = 0; word < 8; ++word) {
    missing |= ~load_word(block + 4 * word) & split_block_bit(digest, word);
  }
  return missing == 0;
}

/// Sets the eight bits of a digest; true when one of them was clear.
inline bool split_block_insert(std::byte* blocks, std::uint32_t block_count, Digest digest) noexcept {
  std::byte* block = blocks + split_block_offset(digest, block_count);
  std::uint32_t missing = 0;
  for (std::size_t word = 0; word < 8; ++word) {
    const std::uint32_t bit = split_block_bit(digest, word);
    missing |= ~load_word(block + 4 * word) & bit;
    or_word(block + 4 * word, bit);
  }
  return missing != 0;
}

/// An answer after a check: what it keeps of the one before it, and the hits.
[[nodiscard]] constexpr std::uint8_t answer(std::uint8_t before, std::size_t hits, Answers answers) noexcept {
  return static_cast<std::uint8_t>((before & static_cast<std::uint8_t>(answers)) + hits);
}

/// Answers of which `hits` has how many to keep or add. Eight and four at once: no sum of a byte carries into the next.
inline void store_answers(const std::uint8_t* hits, std::size_t count, std::uint8_t* seen, Answers answers) noexcept {
  const auto store = [&]<class Word>(Word added) {
    Word before;
    std::memcpy(&before, seen, sizeof(Word));
    std::memcpy(&added, hits, sizeof(Word));
    added += answers == Answers::add ? before : Word{0};
    std::memcpy(seen, &added, sizeof(Word));
    count -= sizeof(Word), hits += sizeof(Word), seen += sizeof(Word);
  };
  while (count >= 8) store(std::uint64_t{});
  if (count >= 4) store(std::uint32_t{});
  for (std::size_t i = 0; i < count; ++i) seen[i] = answer(seen[i], hits[i], answers);
}

/// Calls a check(digests, count, seen) that replaces answers so that it adds to them.
template <class Check>
void check_as(Answers answers, const Digest* digests, std::size_t count, std::uint8_t* seen,
              const Check& check) noexcept {
  if (answers == Answers::replace) return check(digests, count, seen);
  std::uint8_t hits[256];
  for (std::size_t i = 0; i < count; i += sizeof hits) {
    const std::size_t next = std::min(count - i, sizeof hits);
    check(digests + i, next, hits);
    store_answers(hits, next, seen + i, answers);
  }
}

/// Batches one digest after the other, for kernels that know how to do one: `Test` and `Insert` are functions.
namespace one_by_one {

template <auto Test>
void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen, Answers answers) noexcept {
  for (std::size_t i = 0; i < count; ++i) seen[i] = answer(seen[i], Test(filter, digests[i]) ? 1U : 0U, answers);
}

template <auto Test>
void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count, std::uint8_t* seen,
                Answers answers) noexcept {
  check<Test>(first, digests, count, seen, answers);
  check<Test>(second, digests, count, seen, Answers::add);
}

template <auto Insert>
std::size_t insert(std::byte* blocks, std::uint32_t block_count, const Digest* digests, std::size_t count) noexcept {
  std::size_t changed = 0;
  for (std::size_t i = 0; i < count; ++i) changed += Insert(blocks, block_count, digests[i]) ? 1U : 0U;
  return changed;
}

}  // namespace one_by_one

namespace scalar {

/// The run's digests differ from each other, so at most one of them equals a candidate's. A set of their top six bits
/// rules most candidates out, so that few are compared.
inline void match_add(const std::uint64_t* run, std::size_t run_size, const Digest* digests, std::size_t count,
                      std::uint8_t* seen) noexcept {
  std::uint64_t tops = 0;
  for (std::size_t j = 0; j < run_size; ++j) tops |= std::uint64_t{1} << (load_digest(run + j) >> 58);
  for (std::size_t i = 0; i < count; ++i) {
    if ((tops >> (digests[i].value >> 58) & 1U) == 0) continue;
    for (std::size_t j = 0; j < run_size; ++j) {
      seen[i] =
          static_cast<std::uint8_t>(seen[i] + static_cast<std::uint8_t>(load_digest(run + j) == digests[i].value));
    }
  }
}

/// Writes every word and advances only past those to keep, so that no branch depends on the answers.
inline std::size_t compress(const std::uint8_t* seen, std::size_t count, std::uint8_t most, std::uint64_t first,
                            void* out) noexcept {
  auto* const words = static_cast<std::byte*>(out);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = first + i;
    std::memcpy(words + kept * sizeof word, &word, sizeof word);
    kept += static_cast<std::size_t>(seen[i] <= most);
  }
  return kept;
}

}  // namespace scalar

SEENBY_DETAIL_END
