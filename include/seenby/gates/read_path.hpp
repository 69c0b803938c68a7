#pragma once
// SPDX-License-Identifier: MIT
// ReadPath: a record by its id through gate, negative cache, cache and database, with one read for concurrent misses.

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "seenby/detail/thread_counters.hpp"
#include "seenby/gates/existence_gate.hpp"
#include "seenby/gates/single_flight.hpp"
#include "seenby/hash.hpp"
#include "seenby/latency_histogram.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// Where records are, in the order they are asked. Called from any thread.
template <class Item, class Record>
struct ReadStages {
  /// The record, nothing where there is none, or why it could not be asked.
  using Lookup = std::function<Result<std::optional<Record>>(const Item&)>;
  Lookup cache{};                                                ///< none: the database at once
  Lookup database{};                                             ///< the truth
  std::function<void(const Item&, const Record&)> fill_cache{};  ///< after a database read that found the record
};

/// What a ReadPath counts, beside its gate's counters.
struct ReadCounters {
  std::uint64_t cache_hits = 0;      ///< records that the cache had
  std::uint64_t cache_failures = 0;  ///< the cache could not be asked; the database was
  /// Lookups that reached the database.
  std::uint64_t database_reads = 0;
  std::uint64_t database_failures = 0;  ///< of those, how many returned an error
  std::uint64_t shared = 0;             ///< calls that got the answer of another call's read
};

/// The normal way of a read, written once: a trusted negative of the gate is "not found" without cache or database; a
/// remembered absence too; then the cache, then the database, concurrent misses of one id sharing one read. A positive
/// of the gate never makes a record exist and grants no access: who may see the record is the caller's to ask.
///
///     seenby::ReadPath<std::uint64_t, Product> products{gate, {.cache = ..., .database = ..., .fill_cache = ...}};
///     auto product = products.find(id);           // Result<std::optional<Product>>
///
/// Thread-safe. The gate must outlive it.
template <HashableItem Item, class Record, class Gate = ExistenceGate<Item>>
class ReadPath {
 public:
  /// What `find` gives: the record, nothing where there is none, an error where the database could not be asked.
  using result_type = Result<std::optional<Record>>;

  /// Throws std::invalid_argument without a database.
  ReadPath(Gate& gate, ReadStages<Item, Record> stages) : gate_(&gate), stages_(std::move(stages)) {
    if (!stages_.database) throw std::invalid_argument("seenby: expected a ReadPath with a database stage, got none");
  }

  /// The record, or nothing where there is none. Errors: the database's.
  [[nodiscard]] result_type find(const Item& id) {
    return gate_->find(id, [this](const Item& wanted) -> result_type {
      auto answer = flights_.run(wanted, [&] { return load(wanted); });
      if (!answer.shared) return std::move(answer.value);
      // The read that is shared began before this call: a record that became visible in between is not in it.
      if (answer.value && !answer.value->has_value() && gate_->recently_added(wanted)) return load(wanted);
      counters_.row().add(at_shared, 1);
      return std::move(answer.value);
    });
  }

  /// A snapshot of the counters.
  [[nodiscard]] ReadCounters counters() const noexcept {
    return {.cache_hits = counters_.sum(at_cache_hits),
            .cache_failures = counters_.sum(at_cache_failures),
            .database_reads = counters_.sum(at_database_reads),
            .database_failures = counters_.sum(at_database_failures),
            .shared = counters_.sum(at_shared)};
  }
  /// Calls that wait for another call's read at this moment.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return flights_.waiting(); }
  /// How long cache lookups took.
  [[nodiscard]] const LatencyHistogram& cache_latency() const noexcept { return cache_latency_; }
  /// How long database reads took.
  [[nodiscard]] const LatencyHistogram& database_latency() const noexcept { return database_latency_; }

 private:
  enum Counter : std::size_t {
    at_cache_hits,
    at_cache_failures,
    at_database_reads,
    at_database_failures,
    at_shared,
    counter_count
  };

  result_type load(const Item& id) {
    auto counts = counters_.row();
    if (stages_.cache) {
      auto cached = cache_latency_.time([&] { return stages_.cache(id); });
      if (!cached) counts.add(at_cache_failures, 1);
      if (cached && cached->has_value()) return counts.add(at_cache_hits, 1), cached;
    }
    counts.add(at_database_reads, 1);
    auto record = database_latency_.time([&] { return stages_.database(id); });
    if (!record) counts.add(at_database_failures, 1);
    if (record && record->has_value() && stages_.fill_cache) stages_.fill_cache(id, **record);
    return record;
  }

  Gate* gate_;
  ReadStages<Item, Record> stages_;
  SingleFlight<Item, result_type> flights_;
  LatencyHistogram cache_latency_;
  LatencyHistogram database_latency_;
  mutable detail::ThreadCounters<counter_count> counters_;
};

}  // namespace seenby
