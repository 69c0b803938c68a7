#pragma once
// SPDX-License-Identifier: MIT
// The scalar kernel of fingerprint tables: it defines which lanes a digest matches, and every other kernel equals it.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/digest_lanes.hpp"

SEENBY_DETAIL_BEGIN

/// Buckets that share one base in the index. Their lanes are counted in a byte.
inline constexpr std::uint32_t fingerprint_group = 16;
inline constexpr std::uint32_t fingerprint_group_lanes = 255;

/// The index: for each group of 16 buckets (all of them when there are fewer) a zero byte and, for each bucket, where
/// its lanes end, counted from the group's first lane; then, when there are several groups, each one's first lane in
/// 32 bits. One bucket needs none. Rounded up to an even size.
[[nodiscard]] constexpr std::uint64_t fingerprint_index_bytes(std::uint32_t bucket_bits) noexcept {
  if (bucket_bits == 0) return 0;
  const std::uint64_t buckets = std::uint64_t{1} << bucket_bits;
  if (buckets <= fingerprint_group) return (1 + buckets + 1) / 2 * 2;
  return buckets / fingerprint_group * (1 + fingerprint_group + 4);
}

/// A byte, which a writer may be changing under ThreadSanitizer: see detail/shared_words.hpp.
[[nodiscard]] inline std::uint32_t load_byte(const std::byte* from) noexcept {
#if defined(SEENBY_THREAD_SANITIZER)
  return __atomic_load_n(reinterpret_cast<const unsigned char*>(from), __ATOMIC_RELAXED);
#else
  return std::to_integer<std::uint32_t>(*from);
#endif
}
/// Little-endian, at any alignment.
template <class Word>
[[nodiscard]] inline Word load_shared(const std::byte* from) noexcept {
#if defined(SEENBY_THREAD_SANITIZER)
  Word value = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    value = static_cast<Word>(value | static_cast<Word>(static_cast<Word>(load_byte(from + i)) << (8 * i)));
  }
  return value;
#else
  return load_le<Word>(from);
#endif
}

/// A run of lanes.
struct LaneRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The bucket of a digest: its top bits.
[[nodiscard]] constexpr std::uint64_t fingerprint_bucket(Digest digest, std::uint32_t bucket_bits) noexcept {
  return bucket_bits == 0 ? 0 : digest.value >> (64 - bucket_bits);
}

/// The lanes of a bucket, within capacity.
[[nodiscard]] inline LaneRun lanes_of(const FingerprintRef& table, std::uint64_t bucket) noexcept {
  if (table.bucket_bits == 0) return {0, std::min(table.count, table.capacity)};
  const std::uint64_t group = bucket / fingerprint_group;
  const std::byte* const ends = table.index + bucket + group;
  const std::uint32_t from = load_byte(ends);
  std::uint32_t base = 0;
  if (table.bucket_bits > 4) {
    const std::uint64_t groups = (std::uint64_t{1} << table.bucket_bits) / fingerprint_group;
    base = load_shared<std::uint32_t>(table.index + groups * (1 + fingerprint_group) + 4 * group);
  }
  const std::uint32_t first = base + from;
  const std::uint32_t count = (load_byte(ends + 1) - from) & 0xFFU;
  if (first >= table.capacity) return {table.capacity, 0};
  return {first, std::min(count, table.capacity - first)};
}

/// A lane as the top bits of 64: its fingerprint, a one, zeros.
[[nodiscard]] inline std::uint64_t load_lane(const FingerprintRef& table, std::uint32_t at) noexcept {
  std::uint64_t lane = std::uint64_t{load_shared<std::uint16_t>(table.lanes + 2 * std::uint64_t{at})} << 48;
  for (std::uint32_t i = 0; i < table.tail_bytes; ++i) {
    lane |= std::uint64_t{load_byte(table.tails + std::uint64_t{at} * table.tail_bytes + i)} << (40 - 8 * i);
  }
  return lane;
}

/// Whether a lane's fingerprint is how `rest`, the digest without its bucket's bits, begins. The one that ends the
/// fingerprint and what follows it are not compared.
[[nodiscard]] constexpr bool lane_matches(std::uint64_t lane, std::uint64_t rest) noexcept {
  return (lane ^ rest) <= (lane ^ (lane - 1));
}

[[nodiscard]] inline std::uint8_t lane_age(const FingerprintRef& table, std::uint32_t at) noexcept {
  return table.slices == nullptr ? std::uint8_t{0}
                                 : static_cast<std::uint8_t>(table.newest - load_byte(table.slices + at));
}

/// The age of the newest live lane that the digest matches, at most 254; 255 when there is none.
[[nodiscard]] inline std::uint8_t fingerprint_age(const FingerprintRef& table, Digest digest) noexcept {
  const LaneRun run = lanes_of(table, fingerprint_bucket(digest, table.bucket_bits));
  const std::uint64_t rest = digest.value << table.bucket_bits;
  std::uint8_t youngest = 255;
  for (std::uint32_t at = run.first; at < run.first + run.count; ++at) {
    const std::uint8_t age = lane_age(table, at);
    if (age <= table.max_age && age < youngest && lane_matches(load_lane(table, at), rest)) youngest = age;
  }
  return youngest;
}

/// Whether a live lane matches the digest.
[[nodiscard]] inline bool fingerprint_test(const FingerprintRef& table, Digest digest) noexcept {
  const LaneRun run = lanes_of(table, fingerprint_bucket(digest, table.bucket_bits));
  const std::uint64_t rest = digest.value << table.bucket_bits;
  unsigned hits = 0;
  for (std::uint32_t at = run.first; at < run.first + run.count; ++at) {
    hits |= unsigned{lane_matches(load_lane(table, at), rest)} &
            unsigned{table.slices == nullptr || lane_age(table, at) <= table.max_age};
  }
  return hits != 0;
}

namespace scalar {

inline void check_fingerprints(const FingerprintRef& table, DigestsRef digests, std::size_t count, std::uint8_t* seen,
                               Answers answers) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const auto hit = static_cast<std::uint8_t>(fingerprint_test(table, digests[i]));
    seen[i] = static_cast<std::uint8_t>((seen[i] & static_cast<std::uint8_t>(answers)) + hit);
  }
}

}  // namespace scalar

SEENBY_DETAIL_END
