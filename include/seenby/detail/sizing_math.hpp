#pragma once
// SPDX-License-Identifier: MIT
// The formulas behind sizing.hpp, and its refusals.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "seenby/detail/isa.hpp"

SEENBY_DETAIL_BEGIN

[[nodiscard]] inline std::string text_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

inline void require_rate(double rate, const char* name) {
  if (rate > 0.0 && rate < 1.0) return;
  std::string message = "seenby: expected 0 < ";
  message.append(name).append(" < 1, got ").append(text_of(rate));
  throw std::invalid_argument(message);
}

inline void require_items(std::uint64_t items) {
  if (items == 0) throw std::invalid_argument("seenby: expected at least 1 item, got 0");
}

inline void require_bits(std::uint64_t bits) {
  if (bits >= 1 && bits <= (std::uint64_t{1} << 37)) return;
  std::string message = "seenby: expected 1 to 2^37 bits, got ";
  throw std::invalid_argument(message.append(std::to_string(bits)));
}

inline void require_hash_count(std::uint32_t hash_count) {
  if (hash_count >= 1 && hash_count <= 64) return;
  std::string message = "seenby: expected 1 to 64 hashes, got ";
  throw std::invalid_argument(message.append(std::to_string(hash_count)));
}

[[noreturn]] inline void throw_too_large(std::uint64_t items, double fpr) {
  std::string message = "seenby: expected a filter of at most 2^37 bits (16 GiB), but ";
  message.append(std::to_string(items)).append(" items at fpr ").append(text_of(fpr)).append(" need more");
  throw std::invalid_argument(message);
}

[[nodiscard]] inline std::uint64_t checked_bits(double bits, std::uint64_t items, double fpr) {
  if (!(bits <= static_cast<double>(std::uint64_t{1} << 37))) throw_too_large(items, fpr);
  return static_cast<std::uint64_t>(bits);
}

/// The probability that k fresh positions all fall on set bits after kn positions were set at random among m. Exact
/// for small filters: condition on the number d of different bits the k positions hit (Stirling numbers of the second
/// kind), then inclusion-exclusion over those d being all set. Textbook (1 - e^(-kn/m))^k is the limit for large m; it
/// is 12% too low at m = 64, k = 7, n = 6 (Bose et al., "On the false-positive rate of Bloom filters", 2008).
[[nodiscard]] inline double classic_fpr_exact(double m, std::uint32_t k, double balls) {
  std::array<double, 18> stirling{};  // S(k, d), built row by row
  stirling[0] = 1;
  for (std::uint32_t row = 1; row <= k; ++row) {
    for (std::uint32_t d = row; d >= 1; --d) stirling[d] = d * stirling[d] + stirling[d - 1];
    stirling[0] = 0;
  }
  double rate = 0;
  double falling = 1;  // m (m-1) ... (m-d+1) / m^d
  for (std::uint32_t d = 1; d <= k; ++d) {
    falling *= (m - (d - 1)) / m;
    if (falling <= 0) break;
    double all_set = 0;
    double choose = 1;
    for (std::uint32_t j = 0; j <= d && j < m; ++j) {
      all_set += (j % 2 == 0 ? choose : -choose) * std::exp(balls * std::log1p(-static_cast<double>(j) / m));
      choose = choose * (d - j) / (j + 1);
    }
    rate +=
        stirling[d] * falling * std::pow(m, static_cast<double>(d) - static_cast<double>(k)) * std::max(0.0, all_set);
  }
  return std::min(1.0, rate);
}

/// As classic_fpr_exact for filters too large for it: E[f^k] to the second order around the mean fill f, with the
/// variance of the occupied bits (Feller I, IX.9).
[[nodiscard]] inline double classic_fpr_second_order(double m, std::uint32_t k, double balls) {
  const double empty = std::exp(balls * std::log1p(-1 / m));
  const double fill = -std::expm1(balls * std::log1p(-1 / m));
  if (fill <= 0) return 0;
  const double pair_empty = m > 2 ? std::exp(balls * std::log1p(-2 / m)) : 0;
  const double variance = std::max(0.0, empty / m + (1 - 1 / m) * pair_empty - empty * empty);
  return std::min(1.0, std::pow(fill, k) * (1 + k * (k - 1.0) / 2 * variance / (fill * fill)));
}

[[nodiscard]] inline double classic_fpr(std::uint64_t bits, std::uint32_t k, std::uint64_t items) {
  if (items == 0) return 0;
  const double m = static_cast<double>(bits);
  const double balls = static_cast<double>(k) * static_cast<double>(items);
  return bits <= 4096 && k <= 16 ? classic_fpr_exact(m, k, balls) : classic_fpr_second_order(m, k, balls);
}

/// The mean over the blocks' loads of (1 - (31/32)^load)^8, the load being binomial(n, 1/blocks). Exact: a test reads
/// one bit of each of the eight words, and the words fill independently. Sums outward from the mode until the terms
/// no longer count: O(sqrt(n / blocks)) of them.
[[nodiscard]] inline double split_block_fpr(std::uint64_t blocks, std::uint64_t items) {
  if (items == 0) return 0;
  const double ln_keep = std::log(31.0 / 32.0);
  const auto hit = [&](double load) {
    const double word = -std::expm1(load * ln_keep);
    const double square = word * word;
    return square * square * square * square;
  };
  const double n = static_cast<double>(items);
  if (blocks <= 1) return hit(n);
  const double p = 1 / static_cast<double>(blocks);
  const double odds = p / (1 - p);
  const double mode = std::floor((n + 1) * p);
  // The binomial probability at the mode, by log-gamma; the neighbours follow by ratios.
  const double at_mode = std::exp(std::lgamma(n + 1) - std::lgamma(mode + 1) - std::lgamma(n - mode + 1) +
                                  mode * std::log(p) + (n - mode) * std::log1p(-p));
  double rate = 0;
  double weight = 0;
  double term = at_mode;
  for (double load = mode; load <= n && term > at_mode * 1e-17; ++load) {
    rate += term * hit(load);
    weight += term;
    term *= (n - load) / (load + 1) * odds;
  }
  term = at_mode;
  for (double load = mode; load >= 1; --load) {
    term *= load / (n - load + 1) / odds;
    if (term <= at_mode * 1e-17) break;
    rate += term * hit(load - 1);
    weight += term;
  }
  // Dividing by the summed weight takes out log-gamma's rounding, which grows with n.
  return std::min(1.0, rate / weight);
}

SEENBY_DETAIL_END
