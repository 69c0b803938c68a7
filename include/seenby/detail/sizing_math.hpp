#pragma once
// SPDX-License-Identifier: MIT
// The formulas behind sizing.hpp, its limits and its refusals.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <stdexcept>
#include <string>

#include "seenby/config.hpp"

namespace seenby {

/// The largest filter: 2^37 bits, 16 GiB. The format's size field holds more; nothing larger was measured.
inline constexpr std::uint64_t max_filter_bits = std::uint64_t{1} << 37;
/// The largest k. Past -log2 of the smallest double-precision rate in use, more hashes only cost time.
inline constexpr std::uint32_t max_hash_count = 64;
inline constexpr std::uint32_t split_block_bits = 256;  ///< Bits of one block of a SplitBlockLayout.

}  // namespace seenby

SEENBY_DETAIL_BEGIN

[[nodiscard]] inline std::string text_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

/// Below it no filter of 64-bit digests keeps a rate, and shares of it may round to 0.
inline constexpr double least_fpr = 0x1p-64;

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
  if (bits >= 1 && bits <= max_filter_bits) return;
  std::string message = "seenby: expected 1 to 2^37 bits, got ";
  throw std::invalid_argument(message.append(std::to_string(bits)));
}

inline void require_hash_count(std::uint32_t hash_count) {
  if (hash_count >= 1 && hash_count <= max_hash_count) return;
  std::string message = "seenby: expected 1 to 64 hashes, got ";
  throw std::invalid_argument(message.append(std::to_string(hash_count)));
}

[[noreturn]] inline void throw_too_large(std::uint64_t items, double fpr) {
  std::string message = "seenby: expected a filter of at most 2^37 bits (16 GiB), but ";
  message.append(std::to_string(items)).append(" items at fpr ").append(text_of(fpr)).append(" need more");
  throw std::invalid_argument(message);
}

[[nodiscard]] inline std::uint64_t checked_bits(double bits, std::uint64_t items, double fpr) {
  if (!(bits <= static_cast<double>(max_filter_bits))) throw_too_large(items, fpr);
  return static_cast<std::uint64_t>(bits);
}

/// The probability that given d of m bits are all set once `balls` positions were drawn at random, by inclusion and
/// exclusion over the bits that stayed clear. Fast, but its terms cancel: all_set_table() is for where they do.
[[nodiscard]] inline double all_set_by_exclusion(double m, std::uint32_t d, double balls) {
  double all_set = 0;
  double choose = 1;
  for (std::uint32_t j = 0; j <= d && j < m; ++j) {
    all_set += (j % 2 == 0 ? choose : -choose) * std::exp(balls * std::log1p(-static_cast<double>(j) / m));
    choose = choose * (d - j) / (j + 1);
  }
  return std::max(0.0, all_set);
}

/// The same for every d up to k at once, by following how many of the d bits are still missing from ball to ball: each
/// term is positive, so nothing cancels, at the price of O(k * balls).
[[nodiscard]] inline std::array<double, 65> all_set_table(double m, std::uint32_t k, double balls) {
  std::array<double, 65> all_set{};  // by the number of bits that are missing
  all_set[0] = 1;
  for (double ball = 0; ball < balls; ++ball) {
    for (std::uint32_t d = k; d >= 1; --d) {
      const double found = std::min(1.0, d / m);
      all_set[d] += found * (all_set[d - 1] - all_set[d]);
    }
  }
  return all_set;
}

/// The probability that k fresh positions all fall on set bits after kn positions were set at random among m. Exact
/// for small filters: condition on the number d of different bits the k positions hit (Stirling numbers of the second
/// kind), then on those d being all set. Textbook (1 - e^(-kn/m))^k is the limit for large m; it is 12% too low at
/// m = 64, k = 7, n = 6 (Bose et al., "On the false-positive rate of Bloom filters", 2008).
[[nodiscard]] inline double classic_fpr_exact(double m, std::uint32_t k, double balls) {
  std::array<double, 65> stirling{};  // S(k, d), built row by row
  stirling[0] = 1;
  for (std::uint32_t row = 1; row <= k; ++row) {
    for (std::uint32_t d = row; d >= 1; --d) stirling[d] = d * stirling[d] + stirling[d - 1];
    stirling[0] = 0;
  }
  // The terms of the exclusion sum to (1 + clear)^d while their sum is about (1 - clear)^d: the ratio times 2^-53 is
  // the relative error, kept under 1e-8.
  const double clear = std::exp(balls * std::log1p(-1 / m));
  const bool cancels = k * (std::log1p(clear) - std::log1p(-clear)) > 18;
  std::array<double, 65> table{};
  if (cancels) table = all_set_table(m, k, balls);
  double rate = 0;
  double falling = 1;  // m (m-1) ... (m-d+1) / m^d
  for (std::uint32_t d = 1; d <= k; ++d) {
    falling *= (m - (d - 1)) / m;
    if (falling <= 0) break;
    const double all_set = cancels ? table[d] : all_set_by_exclusion(m, d, balls);
    rate += stirling[d] * falling * std::pow(m, static_cast<double>(d) - static_cast<double>(k)) * all_set;
  }
  return std::min(1.0, rate);
}

/// As classic_fpr_exact for filters too large for it: E[f^k] around the mean fill f from the variance of the occupied
/// bits (Feller I, IX.9), as if f were log-normal. Just past 4,096 bits off by less than 1e-6 of the rate at k = 7,
/// 2e-5 at k = 16 and 1e-3 at k = 64; by less in larger filters.
[[nodiscard]] inline double classic_fpr_large(double m, std::uint32_t k, double balls) {
  const double empty = std::exp(balls * std::log1p(-1 / m));
  const double fill = -std::expm1(balls * std::log1p(-1 / m));
  // empty / m + (1 - 1 / m) (1 - 2 / m)^balls - empty^2, written so that it keeps its digits in a nearly empty filter.
  const double next_also = -std::expm1(balls * std::log1p(-1 / (m - 1)));
  const double together = std::expm1(balls * std::log1p(-1 / ((m - 1) * (m - 1))));
  const double variance = empty * next_also / m + empty * empty * together;
  return std::min(1.0, std::pow(fill, k) * std::exp(k * (k - 1.0) / 2 * variance / (fill * fill)));
}

[[nodiscard]] inline double classic_fpr(std::uint64_t bits, std::uint32_t k, std::uint64_t items) {
  if (items == 0) return 0;
  const double m = static_cast<double>(bits);
  const double balls = static_cast<double>(k) * static_cast<double>(items);
  return bits <= 4096 ? classic_fpr_exact(m, k, balls) : classic_fpr_large(m, k, balls);
}

/// std::lgamma writes the sign to a global; this one may be called from any thread. Positive arguments only.
[[nodiscard]] inline double log_gamma(double x) noexcept {
#if defined(__GLIBC__) || defined(__APPLE__)
  int sign = 0;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

/// The mean of (1 - (31/32)^load)^8 over the loads of a block that each of n items falls into with probability p. A
/// test reads one bit of each of the eight words, and the words fill independently. Sums outward from the mode until
/// the terms no longer count: O(sqrt(n p)) of them.
[[nodiscard]] inline double mean_block_rate(double n, double p) {
  const double ln_keep = std::log(31.0 / 32.0);
  const auto hit = [&](double load) {
    const double word = -std::expm1(load * ln_keep);
    const double square = word * word;
    return square * square * square * square;
  };
  if (p >= 1) return hit(n);
  // From here on every bit is set but once in 10^54: a full filter costs no walk over its wide distribution.
  if (n * p > 4096) return 1;
  const double odds = p / (1 - p);
  const double mode = std::floor((n + 1) * p);
  // Probabilities relative to the mode's: the neighbours follow by ratios, and the summed weight divides them out.
  double rate = 0;
  double weight = 0;
  double term = 1;
  for (double load = mode; load <= n && term > 1e-17; ++load) {
    rate += term * hit(load);
    weight += term;
    term *= (n - load) / (load + 1) * odds;
  }
  term = 1;
  for (double load = mode; load >= 1; --load) {
    term *= load / (n - load + 1) / odds;
    if (term <= 1e-17) break;
    rate += term * hit(load - 1);
    weight += term;
  }
  return rate / weight;
}

/// The rate of `blocks` split blocks in each of `partitions` with so many items in all. A block is chosen by 32 bits of
/// the digest, so that of many blocks some get one more of their 2^32 values than others; its mask by the other 32, so
/// that an item errs as another in its block once in 2^32 however few bits are set.
[[nodiscard]] inline double split_block_fpr(std::uint64_t blocks, std::uint64_t items, std::uint64_t partitions = 1) {
  if (items == 0) return 0;
  constexpr std::uint64_t values = std::uint64_t{1} << 32;
  const double n = static_cast<double>(items) / static_cast<double>(partitions);
  const double same_mask = n / static_cast<double>(blocks) * 0x1p-32;
  const auto spread = static_cast<double>(partitions);
  if (blocks <= (values >> 16)) {
    const double share = 1 / static_cast<double>(blocks) / spread;
    return std::min(1.0, mean_block_rate(static_cast<double>(items), share) + same_mask);
  }
  const auto share_of = [](std::uint64_t of) { return static_cast<double>(of) * 0x1p-32; };
  const std::uint64_t fewer = values / blocks;
  const double in_larger = share_of(values % blocks * (fewer + 1));
  const double larger = mean_block_rate(static_cast<double>(items), share_of(fewer + 1) / spread);
  const double smaller = mean_block_rate(static_cast<double>(items), share_of(fewer) / spread);
  return std::min(1.0, in_larger * larger + (1 - in_larger) * smaller + same_mask);
}

/// -n ln p / (ln 2)^2.
[[nodiscard]] inline std::uint64_t textbook_bits(std::uint64_t items, double fpr) {
  require_items(items);
  require_rate(fpr, "fpr");
  constexpr double ln2 = std::numbers::ln2;
  return checked_bits(std::ceil(-static_cast<double>(items) * std::log(fpr) / (ln2 * ln2)), items, fpr);
}

/// The fewest units of a filter, at most `most`, at which rate_at(units) is at most `fpr`. The rate falls as units
/// grow: double a first guess until it is met, then halve the interval. Throws std::invalid_argument.
template <class RateAt>
[[nodiscard]] std::uint64_t least_units(std::uint64_t guess, std::uint64_t most, std::uint64_t items, double fpr,
                                        const RateAt& rate_at) {
  std::uint64_t high = std::clamp<std::uint64_t>(guess, 1, most);
  while (rate_at(high) > fpr) {
    if (high == most) throw_too_large(items, fpr);
    high = std::min(high * 2, most);
  }
  std::uint64_t low = 0;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (rate_at(middle) > fpr ? low : high) = middle;
  }
  return high;
}

/// The most items at which rate_of(items) is at most `fpr`; 0 when not one fits. Throws std::invalid_argument.
template <class RateOf>
[[nodiscard]] std::uint64_t most_items(std::uint64_t bits, double fpr, const RateOf& rate_of) {
  require_rate(fpr, "fpr");
  std::uint64_t low = 0;
  std::uint64_t high = 1;
  // 64 items a bit saturate any filter, so the doubling ends.
  while (rate_of(high) <= fpr && high < bits * 64) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (rate_of(middle) <= fpr ? low : high) = middle;
  }
  return low;
}

// As sizing::shape_for and capacity_of, for those who have no other layout and need not compile the formulas of one.

[[nodiscard]] inline std::uint64_t split_blocks_for(std::uint64_t items, double fpr) {
  return least_units(textbook_bits(items, fpr) / split_block_bits, max_filter_bits / split_block_bits, items, fpr,
                     [&](std::uint64_t blocks) { return split_block_fpr(blocks, items); });
}
[[nodiscard]] inline std::uint64_t split_block_capacity(std::uint64_t blocks, double fpr) {
  return most_items(blocks * split_block_bits, fpr,
                    [&](std::uint64_t items) { return split_block_fpr(blocks, items); });
}

SEENBY_DETAIL_END
