#pragma once
// SPDX-License-Identifier: MIT
// SharedSetCounters: what a process did with a set that it shares.

#include <cstddef>
#include <cstdint>

#include "seenby/detail/thread_counters.hpp"
#include "seenby/metric_page.hpp"

namespace seenby::redis {

/// What one process did through one SharedSet or SharedBloomSet. Sums since it was opened.
struct SharedSetCounters {
  std::uint64_t adds = 0;           ///< items whose add the server acknowledged
  std::uint64_t added_new = 0;      ///< of those told one by one, certainly new
  std::uint64_t checks = 0;         ///< items asked after and answered
  std::uint64_t negatives = 0;      ///< of those, never added
  std::uint64_t failures = 0;       ///< items of adds and checks that failed: neither yes nor no
  std::uint64_t over_capacity = 0;  ///< calls of add after which the set held more than it was made for
  std::uint64_t rebuilds = 0;       ///< versions switched in
};

/// A shared set's counters as metrics.
inline void add_metrics(MetricPage& page, const SharedSetCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_set_adds_total", "Items added and acknowledged.", counters.adds, labels);
  page.counter("seenby_set_added_new_total", "Items added of which the caller was told that they were new.",
               counters.added_new, labels);
  page.counter("seenby_set_checks_total", "Items checked and answered.", counters.checks, labels);
  page.counter("seenby_set_negatives_total", "Items that the set certainly does not hold.", counters.negatives, labels);
  page.counter("seenby_set_items_failed_total", "Items of adds and checks that failed.", counters.failures, labels);
  page.counter("seenby_set_over_capacity_total", "Adds that left the set with more than it was made for.",
               counters.over_capacity, labels);
  page.counter("seenby_set_rebuilds_total", "Versions switched in.", counters.rebuilds, labels);
}

}  // namespace seenby::redis

SEENBY_DETAIL_BEGIN

/// The counters of one shared set. Thread-safe.
class SharedSetTally {
 public:
  /// Counts an add of this many items; `fresh` of them were certainly new.
  void added(std::size_t items, std::uint64_t fresh, bool over_capacity) const noexcept {
    auto counts = counters_.row();
    counts.add(adds, items);
    counts.add(added_new, fresh);
    if (over_capacity) counts.add(over, 1);
  }
  /// Counts a check of this many items, of which so many may be there.
  void checked(std::size_t items, std::uint64_t found) const noexcept {
    auto counts = counters_.row();
    counts.add(checks, items);
    counts.add(negatives, items - found);
  }
  void failed(std::size_t items) const noexcept { counters_.row().add(failures, items); }
  void rebuilt() const noexcept { counters_.row().add(rebuilds, 1); }

  [[nodiscard]] redis::SharedSetCounters counters() const noexcept {
    return {.adds = counters_.sum(adds),
            .added_new = counters_.sum(added_new),
            .checks = counters_.sum(checks),
            .negatives = counters_.sum(negatives),
            .failures = counters_.sum(failures),
            .over_capacity = counters_.sum(over),
            .rebuilds = counters_.sum(rebuilds)};
  }

 private:
  enum Counter : std::size_t { adds, added_new, checks, negatives, failures, over, rebuilds, counter_count };
  ThreadCounters<counter_count> counters_;
};

SEENBY_DETAIL_END
