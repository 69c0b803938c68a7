#pragma once
// SPDX-License-Identifier: MIT
// Metrics: the counters, states and latencies of a process's filters, stores, gates and workers, as Prometheus reads
// them.

#include <chrono>
#include <concepts>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "seenby/gates/duplicate_screen.hpp"
#include "seenby/gates/gate_types.hpp"
#include "seenby/gates/read_path.hpp"
#include "seenby/metric_page.hpp"
#include "seenby/select/seen_counters.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/timed_store.hpp"

namespace seenby {

/// @name Parts
/// One sample of every family that a part has, under the labels given. Overloads for counters of a program's own are
/// found beside them.
/// @{

/// A store's counters.
inline void add_metrics(MetricPage& page, const StoreCounters& counters, const MetricLabels& labels) {
  page.gauge("seenby_store_users", "Users with a filter in the store.", counters.users, labels);
  page.counter("seenby_store_items_recorded_total", "Items recorded and acknowledged.", counters.records, labels);
  page.counter("seenby_store_items_failed_total", "Items whose write was refused, timed out or lost.",
               counters.write_failures, labels);
  page.counter("seenby_store_growths_total", "Filters made larger.", counters.growths, labels);
  page.counter("seenby_store_rebuilds_total", "Filters inserted again from a history.", counters.rebuilds, labels);
  page.counter("seenby_store_over_budget_total", "Growths that could not keep the false-positive budget.",
               counters.over_budget, labels);
  page.counter("seenby_store_slices_dropped_total", "Slices that left the window.", counters.slices_dropped, labels);
  page.counter("seenby_store_clock_jumps_total", "Jumps ahead of the clock that the window did not follow at once.",
               counters.clock_jumps, labels);
}
/// A TimedStore's latencies.
inline void add_metrics(MetricPage& page, const StoreLatencies& latencies, const MetricLabels& labels) {
  page.histogram("seenby_store_check_seconds", "Checks of a store: one request's, or a batch's.", latencies.check,
                 labels);
  page.histogram("seenby_store_record_seconds", "Records of a store, with what they rebuilt.", latencies.record,
                 labels);
}

/// A facade's counters, its store's included.
inline void add_metrics(MetricPage& page, const SeenCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_requests_total", "Requests for a page.", counters.requests, labels);
  page.counter("seenby_candidates_checked_total", "Candidates checked, those of fallback pools included.",
               counters.candidates_checked, labels);
  page.counter("seenby_candidates_removed_total", "Candidates that a page was not given.", counters.removed, labels);
  page.counter("seenby_candidates_repeated_total", "Repeats in a pool, or of what the page had.", counters.duplicates,
               labels);
  page.counter("seenby_pages_underfilled_total", "Pages shorter than their limit.", counters.underfilled_pages, labels);
  page.counter("seenby_users_unknown_total", "Users of requests whose filter could not be asked.",
               counters.unknown_users, labels);
  page.counter("seenby_history_lookups_total", "Lookups in the history that verified a filter's answer.",
               counters.lookups, labels);
  page.counter("seenby_candidates_recovered_total", "False positives that a lookup won back.", counters.verified,
               labels);
  page.counter("seenby_items_failed_total", "Items that the history or the store did not take.",
               counters.write_failures, labels);
  page.counter("seenby_requests_over_user_budget_total", "Requests of more users than the policy is made for.",
               counters.over_user_budget, labels);
  page.counter("seenby_shadow_requests_total", "Requests that the exact referee judged.", counters.shadow_requests,
               labels);
  page.counter("seenby_shadow_fresh_total", "Candidates in them that no user had seen.", counters.shadow_fresh, labels);
  page.counter("seenby_shadow_wrong_hides_total", "Of those, hidden by a filter.", counters.shadow_wrong_hides, labels);
  page.counter("seenby_shadow_false_negatives_total", "Seen candidates that a filter called unseen; stays 0.",
               counters.shadow_false_negatives, labels);
  page.counter("seenby_shadow_pages_underfilled_total", "Pages that exact sets would have filled.",
               counters.shadow_underfilled, labels);
  add_metrics(page, counters.store, labels);
}
/// An observed facade's latencies.
inline void add_metrics(MetricPage& page, const SeenLatencies& latencies, const MetricLabels& labels) {
  page.histogram("seenby_request_seconds", "Requests for a page.", latencies.request, labels);
  page.histogram("seenby_record_seconds", "Records of the facade, history and store together.", latencies.record,
                 labels);
}

/// A gate's counters.
inline void add_metrics(MetricPage& page, const GateCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_gate_checks_total", "Ids checked.", counters.checks, labels);
  page.counter("seenby_gate_negatives_total", "Ids that the filter knows to be absent.", counters.negatives, labels);
  page.counter("seenby_gate_bypassed_total", "Ids let past: no trusted filter, or too young an id.", counters.bypassed,
               labels);
  page.counter("seenby_gate_negative_cache_hits_total", "Ids that an earlier lookup did not find.",
               counters.negative_cache_hits, labels);
  page.counter("seenby_gate_loads_total", "Ids that went on to cache and database.", counters.loads, labels);
  page.counter("seenby_gate_positive_but_absent_total", "Of those behind a positive, not found.",
               counters.positive_but_absent, labels);
  page.counter("seenby_gate_load_failures_total", "Loads that failed.", counters.load_failures, labels);
  page.counter("seenby_gate_adds_total", "Ids added.", counters.adds, labels);
  page.counter("seenby_gate_rebuilds_total", "Filters switched in.", counters.rebuilds, labels);
  page.counter("seenby_gate_over_capacity_total", "Ids added past what the filter was sized for.",
               counters.over_capacity, labels);
  page.counter("seenby_gate_load_seconds_total", "Time spent in loads.", static_cast<double>(counters.load_ns) * 1e-9,
               labels);
}
/// A gate's state.
inline void add_metrics(MetricPage& page, const GateStatus& status, const MetricLabels& labels) {
  for (const GateState state :
       {GateState::empty, GateState::loading, GateState::ready, GateState::rebuilding, GateState::distrusted}) {
    MetricLabels with_state = labels;
    with_state.emplace_back("state", to_string(state));
    page.gauge("seenby_gate_state", "1 for the state that the gate is in.", status.state == state ? 1 : 0, with_state);
  }
  page.gauge("seenby_gate_version", "Larger after each rebuild, over restarts too.", status.version, labels);
  page.gauge("seenby_gate_position", "Of the change feed: every change up to it is in.", status.position, labels);
  page.gauge("seenby_gate_age_seconds", "Since the filter was switched in or opened.", status.age.count(), labels);
  page.gauge("seenby_gate_lag_seconds", "Since the last change came in.", status.lag.count(), labels);
  page.gauge("seenby_gate_items", "Ids in the filter.", status.items, labels);
  page.gauge("seenby_gate_capacity_items", "Ids that the filter was sized for.", status.capacity, labels);
  page.gauge("seenby_gate_expected_fpr_ratio", "False-positive rate with the ids it has.", status.expected_fpr, labels);
}

/// A ReadPath's counters.
inline void add_metrics(MetricPage& page, const ReadCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_read_cache_hits_total", "Records found in the cache.", counters.cache_hits, labels);
  page.counter("seenby_read_cache_failures_total", "Reads for which the cache could not be asked.",
               counters.cache_failures, labels);
  page.counter("seenby_read_database_reads_total", "Reads of the database.", counters.database_reads, labels);
  page.counter("seenby_read_database_failures_total", "Reads of the database that failed.", counters.database_failures,
               labels);
  page.counter("seenby_read_shared_total", "Calls that got another call's read.", counters.shared, labels);
}

/// A DuplicateScreen's counters.
inline void add_metrics(MetricPage& page, const DuplicateCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_duplicate_claims_total", "Items claimed.", counters.claims, labels);
  page.counter("seenby_duplicate_reads_skipped_total", "Certainly new: recorded without a read.",
               counters.reads_skipped, labels);
  page.counter("seenby_duplicate_repeats_total", "Items that were there already.", counters.duplicates, labels);
  page.counter("seenby_duplicate_false_positives_total", "Items read in vain: they were not there.",
               counters.false_positives, labels);
  page.counter("seenby_duplicate_races_lost_total", "Items that another caller recorded first.", counters.races_lost,
               labels);
  page.counter("seenby_duplicate_failures_total", "Reads and writes of the exact store that failed.", counters.failures,
               labels);
}

/// Everything that a part tells of itself: a SeenFilter with its store, a store, a gate, a ReadPath, a DuplicateScreen,
/// an Ingestor or AsyncRecorder (ingest/ingest_metrics.hpp).
template <class Part>
requires requires(const Part& part) { part.counters(); }
void add_metrics(MetricPage& page, const Part& part, const MetricLabels& labels) {
  add_metrics(page, part.counters(), labels);
  if constexpr (requires {
                  { part.latencies() } -> std::same_as<StoreLatencies>;
                }) {
    add_metrics(page, part.latencies(), labels);
  } else if constexpr (requires { part.latencies(); }) {
    if (const auto latencies = part.latencies()) add_metrics(page, *latencies, labels);
  }
  if constexpr (requires { part.store().counters(); }) {  // a SeenFilter's: its counters are among the filter's
    if constexpr (requires { part.store().latencies(); }) add_metrics(page, part.store().latencies(), labels);
    if constexpr (requires { part.store().connections(); }) add_metrics(page, part.store().connections(), labels);
    if constexpr (requires { part.store().bloom_counters(); }) add_metrics(page, part.store().bloom_counters(), labels);
  }
  if constexpr (requires { part.connections(); }) add_metrics(page, part.connections(), labels);
  if constexpr (requires { part.bloom_counters(); }) add_metrics(page, part.bloom_counters(), labels);
  if constexpr (requires { part.status(); }) add_metrics(page, part.status(), labels);
  if constexpr (requires { part.cache_latency(); }) {
    page.histogram("seenby_read_cache_seconds", "Lookups in the cache.", part.cache_latency().snapshot(), labels);
    page.histogram("seenby_read_database_seconds", "Reads of the database.", part.database_latency().snapshot(),
                   labels);
  }
  if constexpr (requires { part.staleness(); }) {
    page.gauge("seenby_ingest_staleness_seconds",
               "Age of what the filters do not know yet; +Inf before the first batch.",
               part.staleness() == std::chrono::seconds::max() ? std::numeric_limits<double>::infinity()
                                                               : static_cast<double>(part.staleness().count()),
               labels);
  }
}

/// @}

/// What a process exports: parts to read whenever it is asked.
///
///     seenby::Metrics metrics;
///     metrics.watch(filter, {{"filter", "feed"}});
///     server.Get("/metrics", [&](auto&, auto& response) {
///       response.set_content(metrics.text(), "text/plain; version=0.0.4");
///     });
///
/// Thread-safe. What is watched must outlive it; parts of one kind need labels that differ.
class Metrics {
 public:
  using Source = std::function<void(MetricPage&)>;  ///< adds its figures to a page

  /// Adds figures of the program's own; called for each page.
  void add(Source source) {
    const std::lock_guard lock(mutex_);
    sources_.push_back(std::move(source));
  }
  /// Adds a part that add_metrics() knows, such as a SeenFilter.
  template <class Part>
  void watch(const Part& part, MetricLabels labels = {}) {
    add([&part, labels = std::move(labels)](MetricPage& page) { add_metrics(page, part, labels); });
  }

  /// Reads all parts. Throws what a source throws, and std::invalid_argument where two parts share their labels.
  [[nodiscard]] MetricPage page() const {
    const std::lock_guard lock(mutex_);
    MetricPage page;
    for (const Source& source : sources_) source(page);
    return page;
  }
  /// page().text().
  [[nodiscard]] std::string text() const { return page().text(); }

 private:
  mutable std::mutex mutex_;
  std::vector<Source> sources_;
};

}  // namespace seenby
