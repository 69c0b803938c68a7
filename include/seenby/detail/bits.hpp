#pragma once
// SPDX-License-Identifier: MIT
// Bits and little-endian words in byte arrays, the same bytes on every machine.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

template <class Word>
[[nodiscard]] constexpr Word swap_unless_little(Word word) noexcept {
  if constexpr (std::endian::native == std::endian::little || sizeof(Word) == 1) {
    return word;
  } else {
    Word swapped = 0;
    for (std::size_t i = 0; i < sizeof(Word); ++i) {
      swapped = static_cast<Word>((swapped << 8) | ((word >> (8 * i)) & 0xff));
    }
    return swapped;
  }
}

/// Reads a little-endian word at any alignment.
template <class Word>
[[nodiscard]] inline Word load_le(const std::byte* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return swap_unless_little(word);
}

/// Writes a little-endian word at any alignment.
template <class Word>
inline void store_le(std::byte* at, Word word) noexcept {
  word = swap_unless_little(word);
  std::memcpy(at, &word, sizeof word);
}

[[nodiscard]] inline bool test_bit(const std::byte* bits, std::uint64_t position) noexcept {
  return ((std::to_integer<unsigned>(bits[position >> 3]) >> (position & 7)) & 1U) != 0;
}

/// Sets a bit; true when it was clear.
inline bool set_bit(std::byte* bits, std::uint64_t position) noexcept {
  const auto mask = static_cast<std::byte>(1U << (position & 7));
  const bool clear = (bits[position >> 3] & mask) == std::byte{0};
  bits[position >> 3] |= mask;
  return clear;
}

[[nodiscard]] inline std::uint64_t count_ones(std::span<const std::byte> bits) noexcept {
  std::uint64_t ones = 0;
  std::size_t i = 0;
  for (; i + 8 <= bits.size(); i += 8) {
    ones += static_cast<std::uint64_t>(std::popcount(load_le<std::uint64_t>(bits.data() + i)));
  }
  for (; i < bits.size(); ++i) ones += static_cast<std::uint64_t>(std::popcount(std::to_integer<unsigned>(bits[i])));
  return ones;
}

/// The high half of a 64 by 64 bit product: scales a uniform 64-bit value to [0, range) without a division (Lemire,
/// "Fast Random Integer Generation in an Interval", 2019).
[[nodiscard]] inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
#else
  const std::uint64_t a_low = a & 0xffffffffU;
  const std::uint64_t a_high = a >> 32;
  const std::uint64_t b_low = b & 0xffffffffU;
  const std::uint64_t b_high = b >> 32;
  const std::uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
  const std::uint64_t carry = (middle & 0xffffffffU) + a_low * b_high;
  return a_high * b_high + (middle >> 32) + (carry >> 32);
#endif
}

SEENBY_DETAIL_END
