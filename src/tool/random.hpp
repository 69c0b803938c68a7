#pragma once
// SPDX-License-Identifier: MIT
// Random numbers that are the same on every machine and with every standard library.

#include <cstdint>

namespace seenby::tool {

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and a mixing step a number. Not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// A number below `bound`, which is at least 1 (the bias of bound / 2^64 does not matter here).
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }
  /// From 0 to just below 1.
  [[nodiscard]] double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace seenby::tool
