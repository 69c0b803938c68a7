#pragma once
// SPDX-License-Identifier: MIT
// GateTally: counts what a gate does.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "seenby/detail/thread_counters.hpp"
#include "seenby/gates/gate_types.hpp"

SEENBY_DETAIL_BEGIN

/// The counters of one gate. Thread-safe.
class GateTally {
 public:
  enum Counter : std::size_t {
    checks,
    negatives,
    bypassed,
    memory,
    loads,
    positive_absent,
    failures,
    adds,
    rebuilds,
    over_capacity,
    load_ns,
    counter_count
  };

  void add(Counter counter, std::uint64_t amount = 1) const noexcept { counters_.row().add(counter, amount); }
  /// Counts an answer, and passes it on.
  Existence answered(Existence answer) const noexcept {
    auto counts = counters_.row();
    counts.add(checks, 1);
    if (answer == Existence::absent) counts.add(negatives, 1);
    if (answer == Existence::unknown) counts.add(bypassed, 1);
    return answer;
  }
  /// load(id), timed, of an id that the gate let pass with this answer.
  template <class Item, class Load>
  std::invoke_result_t<Load&, const Item&> load(const Item& id, Existence answer, Load& load) const {
    const auto start = std::chrono::steady_clock::now();
    auto record = load(id);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    auto counts = counters_.row();
    counts.add(loads, 1);
    counts.add(load_ns, static_cast<std::uint64_t>(took.count()));
    if (!record) counts.add(failures, 1);
    if (record && !record->has_value() && answer == Existence::maybe) counts.add(positive_absent, 1);
    return record;
  }
  [[nodiscard]] GateCounters counters() const noexcept {
    return {.checks = counters_.sum(checks),
            .negatives = counters_.sum(negatives),
            .bypassed = counters_.sum(bypassed),
            .negative_cache_hits = counters_.sum(memory),
            .loads = counters_.sum(loads),
            .positive_but_absent = counters_.sum(positive_absent),
            .load_failures = counters_.sum(failures),
            .adds = counters_.sum(adds),
            .rebuilds = counters_.sum(rebuilds),
            .over_capacity = counters_.sum(over_capacity),
            .load_ns = counters_.sum(load_ns)};
  }

 private:
  ThreadCounters<counter_count> counters_;
};

/// What `load` gives where there is no record.
template <class Item, class Load>
[[nodiscard]] std::invoke_result_t<Load&, const Item&> absent_record() {
  return typename std::invoke_result_t<Load&, const Item&>::value_type{std::nullopt};
}

SEENBY_DETAIL_END
