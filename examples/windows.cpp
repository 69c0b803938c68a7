// SPDX-License-Identifier: MIT
// One log of 90 days through the designs that the lesson chooses from, and its table with what each measured: exact
// sets, a Bloom filter a user, rotating windows, and one partitioned filter of everything.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/filters/partitioned_filter.hpp>
#include <seenby/filters/rotating_filter.hpp>
#include <seenby/sets/exact_set.hpp>
#include <unordered_map>
#include <vector>

namespace {

using Item = std::uint64_t;
using Set = seenby::ExactSet<Item>;
using Bloom = seenby::BloomFilter<Item>;
using Window = seenby::RotatingFilter<Item>;

constexpr std::uint64_t users = 300;
constexpr int days = 90;
constexpr int window_days = 30;
constexpr std::uint64_t a_day = 20;  // what a user sees
constexpr double rate = 0.01;

constexpr seenby::Time time_of(int day) {
  return seenby::Time{std::chrono::seconds{1'700'000'000}} + std::chrono::hours{24} * day;
}
/// The log: what a user sees on a day, new to them each time.
constexpr Item seen_on(std::uint64_t user, int day, std::uint64_t n) {
  return (user << 32U) + static_cast<std::uint64_t>(day) * a_day + n;
}
constexpr Item fresh(std::uint64_t user, std::uint64_t n) { return (user << 32U) + 1'000'000 + n; }

/// What a design says of one user's log, when it has ended.
struct Measured {
  double bytes = 0;
  std::uint64_t wrong = 0;         ///< of the fresh ones asked about, hidden
  std::uint64_t forgotten = 0;     ///< of those seen within the window, shown again
  std::uint64_t still_hidden = 0;  ///< of those seen before the window and its last slice, hidden

  template <class Contains>
  void ask(std::uint64_t user, const Contains& contains) {
    for (std::uint64_t n = 0; n < 1'000; ++n) wrong += contains(fresh(user, n)) ? 1U : 0U;
    for (int day = 0; day < days; ++day) {
      for (std::uint64_t n = 0; n < a_day; ++n) {
        const bool hidden = contains(seen_on(user, day, n));
        if (day >= days - window_days) forgotten += hidden ? 0U : 1U;
        if (day < days - window_days - window_days / 6 - 1) still_hidden += hidden ? 1U : 0U;
      }
    }
  }
  void print(const char* need, const char* choice, const char* removal) const {
    constexpr double before = static_cast<double>(users * a_day) * (days - window_days - window_days / 6 - 1);
    std::printf("%-34s %-26s %7.0f %8.2f%% %9llu %10.1f%%  %s\n", need, choice, bytes / users,
                100 * static_cast<double>(wrong) / static_cast<double>(users * 1'000),
                static_cast<unsigned long long>(forgotten), 100 * static_cast<double>(still_hidden) / before, removal);
  }
};

}  // namespace

int main() {
  int today = 0;
  const auto clock = seenby::Clock::simulated([&today] { return time_of(today); });
  constexpr std::uint64_t all = a_day * days;
  std::vector<Set> sets(users);
  std::vector<Bloom> blooms(users, Bloom({.expected_items = all, .target_fpr = rate}));
  std::vector<Window> windows(users, Window({.window = std::chrono::hours{24 * window_days},
                                             .slices = 6,
                                             .target_fpr = rate,
                                             .expected_items = a_day * window_days,
                                             .clock = clock}));
  seenby::PartitionedFilter<Item> everything({.expected_items = users * all, .target_fpr = rate});
  for (; today < days; ++today) {
    for (std::uint64_t user = 0; user < users; ++user) {
      for (std::uint64_t n = 0; n < a_day; ++n) {
        const Item item = seen_on(user, today, n);
        sets[user].insert(item);
        blooms[user].insert(item);
        windows[user].insert(item);
        everything.insert(item);
      }
    }
  }
  today = days - 1;

  Measured exact;
  Measured bloom;
  Measured rotating;
  Measured partitioned;
  for (std::uint64_t user = 0; user < users; ++user) {
    exact.ask(user, [&](Item item) { return sets[user].contains(item); });
    bloom.ask(user, [&](Item item) { return blooms[user].may_contain(item); });
    rotating.ask(user, [&](Item item) { return windows[user].may_contain(item); });
    partitioned.ask(user, [&](Item item) { return everything.may_contain(item); });
    exact.bytes += 8.0 * static_cast<double>(sets[user].size());
    bloom.bytes += static_cast<double>(blooms[user].shape().bytes());
    rotating.bytes += static_cast<double>(windows[user].capacity_bits()) / 8;
  }
  partitioned.bytes = static_cast<double>(everything.capacity_bits()) / 8;

  std::printf("%llu users, %d days of %llu items a day, a window of %d days, filters at 1%%\n",
              static_cast<unsigned long long>(users), days, static_cast<unsigned long long>(a_day), window_days);
  std::printf("%-34s %-26s %7s %9s %9s %11s  %s\n", "need", "choice", "B/user", "wrong", "forgotten", "hidden then",
              "items taken out");
  exact.print("exactness, small sets, hides", "exact sets (bare ids)", "any");
  bloom.print("huge user base, memory matters", "a Bloom filter", "none");
  rotating.print("a long window", "rotating Bloom filters", "the oldest slice");
  partitioned.print("everything, globally", "one partitioned filter", "none");
  return exact.wrong == 0 && exact.forgotten + bloom.forgotten + rotating.forgotten + partitioned.forgotten == 0 ? 0
                                                                                                                 : 1;
}
