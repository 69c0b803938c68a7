#pragma once
// SPDX-License-Identifier: MIT
// over_fetch: how many candidates to ask a ranker for, so that enough are left after filtering.

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "seenby/detail/sizing_math.hpp"

namespace seenby {

/// The page one wants to be able to fill.
struct OverFetch {
  std::size_t page = 20;           ///< picks wanted
  double hide_rate = 0;            ///< the share of candidates taken off this user's pages: Selection::hide_rate()
  double fill_probability = 0.95;  ///< how often the page must fill
};

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// P(at least `wanted` of n candidates survive), each surviving with `keep`: the upper tail of a binomial, summed from
/// its mode's side in logarithms.
[[nodiscard]] inline double fill_probability(std::size_t n, std::size_t wanted, double keep) {
  const double trials = static_cast<double>(n);
  double below = 0;
  for (std::size_t k = 0; k < wanted; ++k) {
    const double hits = static_cast<double>(k);
    below += std::exp(log_gamma(trials + 1) - log_gamma(hits + 1) - log_gamma(trials - hits + 1) +
                      hits * std::log(keep) + (trials - hits) * std::log1p(-keep));
  }
  return 1 - below;
}

SEENBY_DETAIL_END

namespace seenby {

/// The fewest candidates of which `page` survive with the wanted probability, each being hidden independently at
/// hide_rate. 20 wanted at a hide rate of 0.6 take 65 for 95%. Throws std::invalid_argument for a hide rate outside
/// [0, 1), a probability outside (0, 1) or more than a million picks. O(page log n).
[[nodiscard]] inline std::size_t over_fetch(const OverFetch& wish) {
  if (!(wish.hide_rate >= 0 && wish.hide_rate < 1)) {
    throw std::invalid_argument(
        std::string("seenby: expected 0 <= hide_rate < 1, got ").append(detail::text_of(wish.hide_rate)));
  }
  detail::require_rate(wish.fill_probability, "fill_probability");
  if (wish.page > 1'000'000) {
    throw std::invalid_argument(
        std::string("seenby: expected a page of at most 1000000 picks, got ").append(std::to_string(wish.page)));
  }
  if (wish.page == 0 || wish.hide_rate == 0) return wish.page;
  const double keep = 1 - wish.hide_rate;
  std::size_t low = wish.page - 1;
  std::size_t high = wish.page;
  while (detail::fill_probability(high, wish.page, keep) < wish.fill_probability) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (detail::fill_probability(middle, wish.page, keep) < wish.fill_probability ? low : high) = middle;
  }
  return high;
}

}  // namespace seenby
