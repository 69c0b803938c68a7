#pragma once
// SPDX-License-Identifier: MIT
// Bounds on how often something of a given probability happens: what a test of a false-positive rate compares with.

#include <cmath>
#include <cstdint>

namespace seenby::test {

/// ln of the Chernoff bound on either tail of a binomial: exp(-n KL(h/n || p)).
[[nodiscard]] inline double chernoff_log_tail(double hits, double trials, double rate) {
  const double share = hits / trials;
  const auto term = [](double a, double b) { return a <= 0 ? 0.0 : a * std::log(a / b); };
  return -trials * (term(share, rate) + term(1 - share, 1 - rate));
}

inline constexpr double log_one_in_a_billion = -20.7232658369;

/// The most hits that `trials` of probability `rate` may have: more come by chance at most once in 10^9 runs.
[[nodiscard]] inline std::uint64_t most_hits(std::uint64_t trials, double rate) {
  const double n = static_cast<double>(trials);
  auto hits = static_cast<std::uint64_t>(std::ceil(n * rate));
  while (hits < trials && chernoff_log_tail(static_cast<double>(hits), n, rate) > log_one_in_a_billion) ++hits;
  return hits;
}

/// The fewest hits: fewer come by chance at most once in 10^9 runs.
[[nodiscard]] inline std::uint64_t fewest_hits(std::uint64_t trials, double rate) {
  const double n = static_cast<double>(trials);
  auto hits = static_cast<std::uint64_t>(std::floor(n * rate));
  while (hits > 0 && chernoff_log_tail(static_cast<double>(hits), n, rate) > log_one_in_a_billion) --hits;
  return hits;
}

}  // namespace seenby::test
