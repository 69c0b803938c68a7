#pragma once
// SPDX-License-Identifier: MIT
// What the kernels are given: a filter's blocks, digests, and what a pool precomputes of its digests for small filters.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "seenby/config.hpp"
#include "seenby/hash.hpp"

// No instruction set's tag: a compiled library of kernels and every unit that calls it share these types.
namespace seenby::detail {

/// The bits of a split-block filter, for reading: `block_count` blocks (at least one) of 32 bytes, at any alignment.
struct SplitBlockRef {
  const std::byte* blocks = nullptr;
  std::uint32_t block_count = 0;
};

/// Filters of at most this many blocks are small: one word of every block is a table of at most 64 bytes, which fits a
/// vector register or a few. Nine in ten users' filters are, where histories have a median of 40 items and a 90th
/// percentile of 440.
inline constexpr std::uint32_t small_filter_blocks = 16;

/// Of 64 candidates' digests what every check of a small filter needs, a byte a candidate. A filter's table of word w
/// is that word of block after block. The candidate's byte of it is at block[block_count - 1][i] plus the two bits
/// of bytes[w % 4][i] that are word w's, and its bit of that byte is bit[w][i]. Lanes of absent candidates hold
/// anything. Bytes of two words share a row since a check of a hundred candidates then reads less than 2 KiB, so that
/// pools of sixteen requests stay in a first-level cache.
struct alignas(64) DigestLanes {
  static constexpr std::size_t candidates = 64;
  using Row = std::array<std::uint8_t, candidates>;

  std::array<Row, small_filter_blocks> block;  ///< [n - 1]: in a filter of n blocks, 4 times the block's number
  std::array<Row, 4> bytes;                    ///< [w]: which byte of word w, 0 to 3, + 16 * which of word w + 4
  std::array<Row, 8> bit;                      ///< which bit of the byte: 1, 2, 4, ... 128
};

/// The lanes of the candidates from `offset` on; null where none begin there.
[[nodiscard, gnu::always_inline]] constexpr const DigestLanes* lanes_at(const DigestLanes* lanes,
                                                                        std::size_t offset) noexcept {
  const bool begins = lanes != nullptr && offset % DigestLanes::candidates == 0;
  return begins ? lanes + offset / DigestLanes::candidates : nullptr;
}

/// Lanes and the digests they were precomputed from. A batch with other digests does not use them, so that a wrapper
/// that replaces the digests need not reset the lanes.
struct LanesOf {
  const DigestLanes* lanes = nullptr;
  const Digest* digests = nullptr;

  [[nodiscard, gnu::always_inline]] constexpr const DigestLanes* serving(const Digest* asked) const noexcept {
    return asked == digests ? lanes : nullptr;
  }
  [[nodiscard, gnu::always_inline]] constexpr LanesOf from(std::size_t offset) const noexcept {
    const DigestLanes* const there = lanes_at(lanes, offset);
    return there == nullptr ? LanesOf{} : LanesOf{there, digests + offset};
  }
};

/// Digests for a batch check, and their lanes where they are precomputed. The answers are the same without them.
class DigestsRef {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): digests without lanes are a pointer
  [[gnu::always_inline]] constexpr DigestsRef(const Digest* digests, const DigestLanes* precomputed = nullptr) noexcept
      : first(digests), lanes(precomputed) {}
  [[nodiscard, gnu::always_inline]] constexpr const Digest& operator[](std::size_t i) const noexcept {
    return first[i];
  }

  const Digest* first;
  const DigestLanes* lanes;
};

/// As many digests as a span has, and their lanes.
struct DigestSpan {
  std::span<const Digest> digests;
  const DigestLanes* lanes = nullptr;

  [[nodiscard, gnu::always_inline]] constexpr std::size_t size() const noexcept { return digests.size(); }
  [[nodiscard, gnu::always_inline]] constexpr DigestsRef data() const noexcept { return {digests.data(), lanes}; }
  [[nodiscard, gnu::always_inline]] constexpr const Digest& operator[](std::size_t i) const noexcept {
    return digests[i];
  }
  [[nodiscard, gnu::always_inline]] constexpr DigestSpan subspan(std::size_t offset, std::size_t count) const noexcept {
    return {digests.subspan(offset, count), lanes_at(lanes, offset)};
  }
};

/// Whether a batch check replaces its answers or adds to them: the bits of an answer that are kept.
enum class Answers : std::uint8_t { replace = 0, add = 0xFF };

/// A fingerprint table's bytes, for reading; tests/golden/FORMAT-TABLE.md draws them. Whatever the bytes say, no kernel
/// reads outside the index and `capacity` lanes.
struct FingerprintRef {
  const std::byte* index = nullptr;
  const std::byte* lanes = nullptr;
  const std::byte* tails = nullptr;   ///< `tail_bytes` a lane
  const std::byte* slices = nullptr;  ///< a byte a lane; null where every lane is live
  std::uint32_t capacity = 0;
  std::uint32_t count = 0;
  std::uint8_t bucket_bits = 0;
  std::uint8_t tail_bytes = 0;
  std::uint8_t newest = 0;   ///< the slice whose age is 0, modulo 256
  std::uint8_t max_age = 0;  ///< older lanes are not live
};

/// One kernel: the same answers, bit for bit, whichever serves. `seen` may not overlap the digests. Any count, 0 too.
struct Kernel {
  /// seen[i] becomes 1 when the filter may contain digest i, else 0, or has that added.
  using Check = void (*)(SplitBlockRef, DigestsRef, std::size_t, std::uint8_t* seen, Answers) noexcept;
  /// As Check, of two filters: 0, 1 or 2.
  using CheckPair = void (*)(SplitBlockRef, SplitBlockRef, DigestsRef, std::size_t, std::uint8_t* seen,
                             Answers) noexcept;
  /// As Check, of a fingerprint table.
  using CheckTable = void (*)(const FingerprintRef&, DigestsRef, std::size_t, std::uint8_t* seen, Answers) noexcept;
  /// Returns how many digests set a bit that was clear when they were reached.
  using Insert = std::size_t (*)(std::byte* blocks, std::uint32_t block_count, const Digest*, std::size_t) noexcept;
  /// seen[i] += 1 when digest i is in a run of different digests.
  using Match = void (*)(const std::uint64_t* run, std::size_t run_size, const Digest*, std::size_t,
                         std::uint8_t* seen) noexcept;
  /// Writes first + i for every i with seen[i] <= most to `out`, in order, and returns how many.
  using Compress = std::size_t (*)(const std::uint8_t* seen, std::size_t, std::uint8_t most, std::uint64_t first,
                                   void* out) noexcept;
  /// Fills the lanes of all digests, 64 after 64.
  using Precompute = void (*)(const Digest*, std::size_t, DigestLanes*) noexcept;

  std::string_view name;
  bool (*runs_here)() noexcept;
  Check check;
  CheckPair check_pair;
  CheckTable check_table;
  Insert insert;
  Match match_add;
  Compress compress;
  Precompute precompute;        ///< null where the kernel has no use for lanes
  std::size_t least_for_lanes;  ///< the smallest batch in which it uses them
};

}  // namespace seenby::detail
