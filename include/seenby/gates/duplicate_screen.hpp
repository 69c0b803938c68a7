#pragma once
// SPDX-License-Identifier: MIT
// DuplicateScreen: crawled URLs and handled events, where most are new and a look into the history costs.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "seenby/detail/thread_counters.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// What a DuplicateScreen counts. Each figure is exact once the claiming threads are done.
struct DuplicateCounters {
  std::uint64_t claims = 0;           ///< calls of `claim`
  std::uint64_t reads_skipped = 0;    ///< certainly new: recorded without a look into the exact store
  std::uint64_t duplicates = 0;       ///< the filter said "maybe", and the exact store "yes"
  std::uint64_t false_positives = 0;  ///< the filter said "maybe", and the exact store "no": a false positive, or a
                                      ///< claim that is still under way or failed after the filter took the item
  std::uint64_t races_lost = 0;       ///< the exact store recorded another caller's claim first
  std::uint64_t failures = 0;         ///< the exact store could not be read or written
};

/// Says of each URL or event whether this is the first time, with an exact store as the truth and a filter before it
/// that saves the reads: a negative skips the lookup and goes straight to the write, a positive is confirmed exactly,
/// so that no event is dropped on a false positive. When most items are repeats, most lookups remain: counters() says.
///
/// Exactly one caller is told "first", whatever races, as long as the exact store's record() is atomic (a unique key, a
/// conditional put): the filter saves reads, the store decides.
///
/// Thread safety: any thread may call any member.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class DuplicateScreen {
 public:
  using filter_type = PartitionedFilter<Item, Hash>;  ///< the filter that answers

  /// `seen` holds everything that the exact store holds: load it from the store, or from the file that save() wrote,
  /// before the first claim.
  explicit DuplicateScreen(filter_type seen) : seen_(std::move(seen)) {}

  /// Whether this is the first time the item is claimed. `contains(item)` asks the exact store and gives Result<bool>;
  /// `record(item)` writes it there and gives Result<bool>, true when this very call did. An error of either is passed
  /// on; the item can then be claimed again, and nothing is lost.
  template <FilterKey<Item> Key, class Contains, class Record>
  requires std::same_as<std::invoke_result_t<Contains&, const Key&>, Result<bool>> &&
      std::same_as<std::invoke_result_t<Record&, const Key&>, Result<bool>>
          Result<bool> claim(const Key& item, Contains&& contains, Record&& record) {
    auto counts = counters_.row();
    counts.add(at_claims, 1);
    if (seen_.insert_if_absent(item)) {
      counts.add(at_skipped, 1);
    } else {
      Result<bool> known = contains(item);
      if (!known) return counts.add(at_failures, 1), known;
      counts.add(*known ? at_duplicates : at_false_positives, 1);
      if (*known) return false;
    }
    Result<bool> recorded = record(item);
    if (!recorded) return counts.add(at_failures, 1), recorded;
    if (!*recorded) counts.add(at_races, 1);
    return recorded;
  }

  /// A snapshot of the counters.
  [[nodiscard]] DuplicateCounters counters() const noexcept {
    return {.claims = counters_.sum(at_claims),
            .reads_skipped = counters_.sum(at_skipped),
            .duplicates = counters_.sum(at_duplicates),
            .false_positives = counters_.sum(at_false_positives),
            .races_lost = counters_.sum(at_races),
            .failures = counters_.sum(at_failures)};
  }
  /// The filter, to load it and to save it.
  [[nodiscard]] filter_type& filter() noexcept { return seen_; }
  [[nodiscard]] const filter_type& filter() const noexcept { return seen_; }  ///< the same, to read

 private:
  enum Counter : std::size_t { at_claims, at_skipped, at_duplicates, at_false_positives, at_races, at_failures, count };

  filter_type seen_;
  detail::ThreadCounters<count> counters_;
};

}  // namespace seenby
