#pragma once
// SPDX-License-Identifier: MIT
// SeenCounters: what a SeenFilter counts.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "seenby/detail/thread_counters.hpp"
#include "seenby/latency_histogram.hpp"
#include "seenby/observer.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// Everything a person tunes by, since construction. A request of select_many counts as one of select_unseen; ask() and
/// an empty record count nothing.
struct SeenCounters {
  std::uint64_t requests = 0;            ///< pages asked for
  std::uint64_t candidates_checked = 0;  ///< of fallback pools too
  std::uint64_t removed = 0;             ///< candidates that the filters, or what a request knew, took off the page
  std::uint64_t duplicates = 0;          ///< repeats in a pool, and in a fallback pool of what the page has already
  /// Pages with fewer picks than their limit.
  std::uint64_t underfilled_pages = 0;
  std::uint64_t unknown_users = 0;           ///< users of requests whose filter could not be asked
  std::uint64_t lookups = 0;                 ///< history lookups by Verify
  std::uint64_t verified = 0;                ///< false positives won back by them
  std::uint64_t write_failures = 0;          ///< items that the history or the store refused, or threw at
  std::uint64_t over_user_budget = 0;        ///< requests of more users than the policy's users_per_request
  std::uint64_t shadow_requests = 0;         ///< requests that the exact referee judged (see SeenFilter::shadow)
  std::uint64_t shadow_fresh = 0;            ///< candidates in them that the judged users had not seen
  std::uint64_t shadow_wrong_hides = 0;      ///< of those, hidden by a filter: over shadow_fresh, the wrong-hide rate
  std::uint64_t shadow_false_negatives = 0;  ///< seen candidates that a filter called unseen; must stay 0
  std::uint64_t shadow_underfilled = 0;      ///< pages that exact sets would have filled and the filters did not
  /// The store's own.
  StoreCounters store;
};

/// How long an observed SeenFilter's calls took, the store's and the history's part in them included.
struct SeenLatencies {
  LatencyHistogram::Snapshot request;  ///< of select_unseen; of select_many, one a page: until the page was made
  LatencyHistogram::Snapshot record;   ///< of record, record_all and record_many: one a call
};

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// The facade's own counters, those of the store and of the shadow aside. Any thread may call anything.
class FacadeCounters {
 public:
  /// Counts the items of a write that ends, or is thrown out of, before it is done.
  struct Write {
    const FacadeCounters& counters;
    std::size_t items;
    bool done = false;
    ~Write() {
      if (!done) counters.rows_.row().add(write_failures, items);
    }
  };

  template <class Item>
  void count(const Selection<Item>& page, std::size_t users, std::size_t most_users) const noexcept {
    auto row = rows_.row();
    row.add(requests, 1);
    row.add(checked, page.checked());
    row.add(removed, page.removed());
    if (page.duplicates() != 0) row.add(duplicates, page.duplicates());
    if (page.underfilled()) row.add(underfilled, 1);
    if (!page.unknown_users().empty()) row.add(unknown, page.unknown_users().size());
    if (users > most_users) row.add(over_user_budget, 1);
    if (page.lookups() == 0) return;
    row.add(lookups, page.lookups());
    const auto won = [](const Pick& pick) { return pick.reason == PickReason::verified; };
    row.add(verified, static_cast<std::uint64_t>(std::count_if(page.picks().begin(), page.picks().end(), won)));
  }

  [[nodiscard]] SeenCounters read() const noexcept {
    return {.requests = rows_.sum(requests),
            .candidates_checked = rows_.sum(checked),
            .removed = rows_.sum(removed),
            .duplicates = rows_.sum(duplicates),
            .underfilled_pages = rows_.sum(underfilled),
            .unknown_users = rows_.sum(unknown),
            .lookups = rows_.sum(lookups),
            .verified = rows_.sum(verified),
            .write_failures = rows_.sum(write_failures),
            .over_user_budget = rows_.sum(over_user_budget),
            .store = {}};
  }

 private:
  enum Counter : std::size_t {
    requests,
    checked,
    removed,
    duplicates,
    underfilled,
    unknown,
    lookups,
    verified,
    write_failures,
    over_user_budget,
    counter_count
  };
  ThreadCounters<counter_count> rows_;
};

/// The latencies of an observed facade, and its observer.
struct SeenTiming {
  explicit SeenTiming(Observer functions) : observer(std::move(functions)) {}
  LatencyHistogram request;
  LatencyHistogram record;
  Observer observer;
};

/// When a call began, where there is a timing to tell.
[[nodiscard]] inline std::chrono::steady_clock::time_point begin_of(const SeenTiming* timing) noexcept {
  return timing == nullptr ? std::chrono::steady_clock::time_point{} : std::chrono::steady_clock::now();
}

SEENBY_DETAIL_END
