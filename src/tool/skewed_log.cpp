// SPDX-License-Identifier: MIT
// Draws a skewed event log.

#include "skewed_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>

#include "input_error.hpp"
#include "random.hpp"

namespace seenby::tool {
namespace {

/// How many items users have seen, by quantile, in the MovieTweetings log of 100,000 events: 45% have seen one, the
/// median is 2 and the tail reaches 320. Between the knots the logarithm is a straight line, rounded down.
struct Knot {
  double quantile;
  double items;
};
constexpr std::array<Knot, 14> activity{{{0.0, 1},
                                         {0.4504, 2},
                                         {0.5911, 3},
                                         {0.6681, 4},
                                         {0.7166, 5},
                                         {0.7856, 7},
                                         {0.8440, 10},
                                         {0.8991, 15},
                                         {0.9489, 25},
                                         {0.9775, 40},
                                         {0.9899, 58},
                                         {0.9967, 100},
                                         {0.9989, 163},
                                         {1.0, 321}}};

double items_at(double quantile) {
  std::size_t i = 1;
  while (i + 1 < activity.size() && quantile > activity[i].quantile) ++i;
  const Knot& low = activity[i - 1];
  const Knot& high = activity[i];
  const double share = (quantile - low.quantile) / (high.quantile - low.quantile);
  return low.items * std::pow(high.items / low.items, share);
}

/// How many events each user gets; they sum to options.events, and nobody gets more than there are items.
std::vector<std::uint32_t> event_counts(const SkewedLogOptions& options, Random& random) {
  const auto users = static_cast<std::size_t>(options.users);
  std::vector<double> wanted(users);
  for (std::size_t i = 0; i < users; ++i)
    wanted[i] = items_at((static_cast<double>(i) + 0.5) / static_cast<double>(users));
  const double total = std::accumulate(wanted.begin(), wanted.end(), 0.0);
  const double scale = static_cast<double>(options.events) / total;
  std::vector<std::uint32_t> counts(users);
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < users; ++i) {
    const double share = std::clamp(std::floor(wanted[i] * scale + 1e-9), 1.0, static_cast<double>(options.items));
    counts[i] = static_cast<std::uint32_t>(share);
    given += counts[i];
  }
  // Rounding left some events over, or gave too many: the busiest users take or return them, one each in turn.
  for (std::size_t i = users; given != options.events; i = i == 1 ? users : i - 1) {
    if (given < options.events && counts[i - 1] < options.items) {
      ++counts[i - 1];
      ++given;
    } else if (given > options.events && counts[i - 1] > 1) {
      --counts[i - 1];
      --given;
    }
  }
  for (std::size_t i = users; i > 1; --i) std::swap(counts[i - 1], counts[random.below(i)]);
  return counts;
}

/// An item by popularity: the item of rank r is drawn in proportion to 1 / (r + 7.2), which fits the real log from its
/// first rank (1,812 events) to its last.
std::uint32_t draw_item(std::uint64_t items, Random& random) {
  constexpr double flat_top = 7.2;
  const double rank = flat_top * std::pow((static_cast<double>(items) + flat_top) / flat_top, random.unit()) - flat_top;
  return static_cast<std::uint32_t>(std::min<double>(rank, static_cast<double>(items - 1)));
}

/// `count` different items. A user who has seen nearly everything gets the last ones by rank instead of by chance.
void draw_items(std::uint64_t items, std::uint32_t count, Random& random, std::vector<std::uint32_t>& drawn) {
  drawn.clear();
  std::unordered_set<std::uint32_t> taken;
  for (std::uint64_t tries = 0; drawn.size() < count && tries < std::uint64_t{20} * count; ++tries) {
    const std::uint32_t item = draw_item(items, random);
    if (taken.insert(item).second) drawn.push_back(item);
  }
  for (std::uint32_t item = 0; drawn.size() < count; ++item) {
    if (taken.insert(item).second) drawn.push_back(item);
  }
}

}  // namespace

void check(const SkewedLogOptions& options) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  const auto refuse = [](const char* option, const std::string& expected, std::uint64_t came) {
    throw InputError(
        std::string(option).append(": expected ").append(expected).append(", got ").append(std::to_string(came)));
  };
  if (options.users == 0 || options.users > most) refuse("--users", "1 to 2^32 - 1", options.users);
  if (options.items == 0 || options.items > most) refuse("--items", "1 to 2^32 - 1", options.items);
  if (options.events < options.users) refuse("--events", "at least one for each user", options.events);
  if (options.events / options.users > options.items ||
      (options.events / options.users == options.items && options.events % options.users != 0)) {
    refuse("--events", "at most users times items, since nobody sees an item twice", options.events);
  }
}

void make_skewed_log(const SkewedLogOptions& options, const std::function<void(const Event&)>& take) {
  check(options);
  Random random(options.seed);
  const std::vector<std::uint32_t> counts = event_counts(options, random);
  std::vector<std::uint32_t> items;
  std::vector<std::int64_t> times;
  for (std::uint32_t user = 0; user < counts.size(); ++user) {
    draw_items(options.items, counts[user], random, items);
    times.resize(items.size());
    for (std::int64_t& time : times) {
      time = options.start + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options.seconds)));
    }
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < items.size(); ++i) take({user, items[i], times[i]});
  }
}

}  // namespace seenby::tool
