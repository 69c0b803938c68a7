#pragma once
// SPDX-License-Identifier: MIT
// The random number that tells one filter of a key from the next.

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/random.h>
#else
#include <random>
#endif

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// 64 random bits from the operating system. Straight from Linux where that serves: <random> is long to compile.
[[nodiscard]] inline std::uint64_t random_generation() {
#if defined(__linux__)
  std::uint64_t bits = 0;
  // Eight bytes are given whole or not at all: a signal early in the boot may interrupt the wait for entropy.
  while (static_cast<std::size_t>(::getrandom(&bits, sizeof bits, 0)) != sizeof bits) {}
  return bits;
#else
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
#endif
}

SEENBY_DETAIL_END
