#pragma once
// SPDX-License-Identifier: MIT
// What a pool works out of its candidates' digests once, so that no check of a split-block filter does it again.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/config.hpp"
#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// Of sixty-four candidates' digests what every check of a filter of few blocks needs, in the order that it needs it
/// in: the candidate that stands first in `high` stands first in `words`, and `candidate_at` says which one it is. All
/// of it is the candidate's alone, whatever the filter. What stands for candidates that are absent no answer shows.
struct alignas(64) BitPlanes {
  static constexpr std::size_t candidates = 64;

  std::array<std::array<std::uint32_t, 16>, 4> high;               ///< the digest's high half, which chooses the block
  std::array<std::array<std::uint8_t, candidates>, 8> bit_number;  ///< of each word of a block, 0 to 31

  /// Byte 4 * i + j of a plane belongs to the candidate that double word i of high[j] belongs to. Digests that stand
  /// side by side in a register of eight part into halves without moving when this is it.
  [[nodiscard]] static constexpr std::size_t candidate_at(std::size_t byte) noexcept {
    return byte % 4 * 16 + byte / 4 % 2 * 8 + byte / 8;
  }
};

/// The planes of the candidates from `offset` on; null where no plane begins there.
[[nodiscard]] constexpr const BitPlanes* planes_at(const BitPlanes* planes, std::size_t offset) noexcept {
  const bool begins = planes != nullptr && offset % BitPlanes::candidates == 0;
  return begins ? planes + offset / BitPlanes::candidates : nullptr;
}

/// Planes and the digests that they were worked out of. They serve no others: whoever hands a batch on with digests of
/// their own need not think of the planes.
struct PlanesOf {
  const BitPlanes* planes = nullptr;
  const Digest* digests = nullptr;

  [[nodiscard]] constexpr const BitPlanes* serving(const Digest* asked) const noexcept {
    return asked == digests ? planes : nullptr;
  }
  [[nodiscard]] constexpr PlanesOf from(std::size_t offset) const noexcept {
    const BitPlanes* const there = planes_at(planes, offset);
    return there == nullptr ? PlanesOf{} : PlanesOf{there, digests + offset};
  }
};

/// Digests for a batch check, and their planes where somebody worked them out. A kernel that has no use for planes
/// reads the digests; the answers are the same.
class DigestsRef {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): digests without planes are a pointer
  constexpr DigestsRef(const Digest* digests, const BitPlanes* worked_out = nullptr) noexcept
      : first(digests), planes(worked_out) {}
  [[nodiscard]] constexpr const Digest& operator[](std::size_t i) const noexcept { return first[i]; }

  const Digest* first;
  const BitPlanes* planes;
};

/// As many digests as a span has, and their planes.
struct DigestSpan {
  std::span<const Digest> digests;
  const BitPlanes* planes = nullptr;

  [[nodiscard]] constexpr std::size_t size() const noexcept { return digests.size(); }
  [[nodiscard]] constexpr DigestsRef data() const noexcept { return {digests.data(), planes}; }
  [[nodiscard]] constexpr const Digest& operator[](std::size_t i) const noexcept { return digests[i]; }
  [[nodiscard]] constexpr DigestSpan subspan(std::size_t offset, std::size_t count) const noexcept {
    return {digests.subspan(offset, count), planes_at(planes, offset)};
  }
};

SEENBY_DETAIL_END
