#pragma once
// SPDX-License-Identifier: MIT
// Random numbers of a test that can be had again: a fresh seed each run, printed when an assertion fails.

#include <catch2/catch_message.hpp>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace seenby::test {

/// A seeded generator. SEENBY_TEST_SEED in the environment repeats a run.
class Random : public std::mt19937_64 {
 public:
  Random() : Random(fresh_seed()) {}
  explicit Random(std::uint64_t seed) : std::mt19937_64(seed), seed_(seed) {}

  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// Uniform in [0, end), but for a bias below end / 2^64.
  [[nodiscard]] std::uint64_t below(std::uint64_t end) { return (*this)() % end; }

 private:
  [[nodiscard]] static std::uint64_t fresh_seed() {
    const char* asked = std::getenv("SEENBY_TEST_SEED");
    return asked != nullptr ? std::strtoull(asked, nullptr, 10) : std::random_device{}();
  }
  std::uint64_t seed_;
};

}  // namespace seenby::test

/// Declares `name`, a Random, and has every failed assertion of the test print its seed.
#define SEENBY_RANDOM(name)      \
  ::seenby::test::Random name{}; \
  INFO("SEENBY_TEST_SEED=" << name.seed() << " repeats this run")
