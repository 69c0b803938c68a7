#pragma once
// SPDX-License-Identifier: MIT
// ExistenceGate: answers "not found" for ids that do not exist, before the cache and the database are asked.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/detail/thread_counters.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/gates/negative_cache.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sets/recent_set.hpp"

namespace seenby {

/// How a gate is kept. One gate a resource type: what a filter of posts says of a product means nothing.
template <class Item>
struct ExistenceGateOptions {
  double target_fpr = 0.01;       ///< of the ids that do not exist, the share that passes; in (0, 1)
  std::uint32_t partitions = 64;  ///< of the filter
  /// The longest time from add() to the record's being visible to every reader: transaction, replica lag. Ids added
  /// within it are carried into a rebuild and are not remembered as absent.
  std::chrono::seconds write_lag{60};
  std::chrono::seconds negative_ttl{5};    ///< how long "not found" is remembered; zero: not at all
  std::size_t negative_entries = 100'000;  ///< and of how many ids at most
  /// When an id was made, for ids that tell (time-ordered ones). Ids younger than write_lag bypass the gate, so that a
  /// late or lost add() cannot hide a new record.
  std::function<std::optional<Time>(const Item&)> made_at{};
  /// What makes two spellings of an id one (case, Unicode form): used on add and on check alike.
  std::function<Item(const Item&)> normalise{};
  Clock clock{};  ///< the system's when empty
};

/// What a gate says of an id.
enum class Existence : std::uint8_t {
  absent,   ///< certain: answer "not found"
  maybe,    ///< ask the cache and the database; grants nothing
  unknown,  ///< no trusted filter, or too young an id: ask them as if there were no gate
};

[[nodiscard]] constexpr std::string_view to_string(Existence existence) noexcept {
  switch (existence) {
    case Existence::absent: return "absent";
    case Existence::maybe: return "maybe";
    case Existence::unknown: return "unknown";
  }
  return "unnamed";
}

/// What a gate counts. A record that was positive but absent is a false positive, or was deleted since the last
/// rebuild, or is not visible yet: the counter cannot tell which.
struct GateCounters {
  std::uint64_t checks = 0;
  std::uint64_t negatives = 0;            ///< answered "not found" by the filter
  std::uint64_t bypassed = 0;             ///< no trusted filter, or too young an id
  std::uint64_t negative_cache_hits = 0;  ///< answered "not found" by the memory of a look-up that found nothing
  std::uint64_t loads = 0;                ///< went on to the cache and the database
  std::uint64_t positive_but_absent = 0;  ///< of those behind a positive, found nothing
  std::uint64_t load_failures = 0;
  std::uint64_t adds = 0;
  std::uint64_t rebuilds = 0;  ///< filters switched in
  std::uint64_t load_ns = 0;   ///< time spent in loads
};

/// What a gate has saved, from its counters and the price of one check.
struct GateWorth {
  double negative_rate = 0;       ///< of all checks
  double mean_load_ns = 0;        ///< of those that went on
  double saved_ns_per_check = 0;  ///< look-ups spared less checks paid, a check; negative: the gate costs
  [[nodiscard]] bool pays() const noexcept { return saved_ns_per_check > 0; }
};

/// A filter of every id that the database holds (not of the cached keys) before the cache and the database. A trusted
/// negative is "not found" without a read; a positive goes the normal way and never makes a record exist, nor grants
/// access to one; without a trusted filter everything goes the normal way. Where tenants share ids, put the tenant into
/// the id.
///
/// Writers call add(id) before the record becomes visible; a roll-back leaves a harmless bit. Deleted ids stay positive
/// until the next rebuild. Until the first rebuild has been committed nothing is trusted.
///
/// Thread safety: any thread may call any member; one rebuild at a time.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class ExistenceGate {
 public:
  using item_type = Item;
  using filter_type = PartitionedFilter<Item, Hash>;

  /// Throws std::invalid_argument for a rate outside (0, 1) or a negative time.
  explicit ExistenceGate(ExistenceGateOptions<Item> options, Hash hash = {})
      : options_(checked(std::move(options))),
        hash_(hash),
        added_({.max_items = max_lagging, .window = options_.write_lag, .clock = options_.clock}, Mix64Hash{}),
        absent_({.entries = options_.negative_entries, .ttl = options_.negative_ttl, .clock = options_.clock}) {}

  // Modify

  /// Makes an id pass. Call it before the record becomes visible to readers.
  void add(const Item& id) {
    const Digest digest = digest_of(id);
    {
      const std::lock_guard lock(writing_);
      added_.insert(digest.value);
      if (next_ != nullptr) next_->insert(digest);
      if (const auto filter = current()) filter->insert(digest);
    }
    absent_.erase(digest);
    counters_.row().add(at_adds, 1);
  }

  /// A new filter in the making, beside the one that serves. Read every id out of the database and add it, then
  /// commit(); ids that are added to the gate meanwhile, or were within write_lag before, go into it as well. Destroyed
  /// without commit() it leaves the gate as it was.
  class Rebuild {
   public:
    Rebuild(Rebuild&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), filter_(std::move(other.filter_)) {}
    Rebuild& operator=(Rebuild&&) = delete;
    ~Rebuild() {
      if (gate_ == nullptr) return;
      const std::lock_guard lock(gate_->writing_);
      gate_->next_.reset();
    }
    void add(const Item& id) { filter_->insert(gate_->digest_of(id)); }
    void add(std::span<const Item> ids) {
      for (const Item& id : ids) add(id);
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return filter_->size(); }
    /// Switches: from now on this filter answers, and is trusted.
    void commit() {
      ExistenceGate& gate = *std::exchange(gate_, nullptr);
      const std::lock_guard lock(gate.writing_);
      {
        const std::unique_lock switching(gate.serving_);
        gate.filter_ = std::move(gate.next_);
        gate.trusted_ = true;
      }
      gate.next_.reset();
      gate.counters_.row().add(at_rebuilds, 1);
    }

   private:
    friend class ExistenceGate;
    Rebuild(ExistenceGate& gate, std::shared_ptr<filter_type> filter) : gate_(&gate), filter_(std::move(filter)) {}
    ExistenceGate* gate_;
    std::shared_ptr<filter_type> filter_;
  };

  /// Throws std::invalid_argument for 0 items; std::logic_error while another rebuild is under way; std::bad_alloc.
  [[nodiscard]] Rebuild begin_rebuild(std::uint64_t expected_items) {
    auto filter = std::make_shared<filter_type>(
        PartitionedFilterOptions{
            .expected_items = expected_items, .target_fpr = options_.target_fpr, .partitions = options_.partitions},
        hash_);
    const std::lock_guard lock(writing_);
    if (next_ != nullptr) throw std::logic_error("seenby: expected no rebuild under way, got a second one");
    // What was added a moment ago may not be visible to the scan of the database that now begins.
    for (const std::uint64_t digest : added_.items()) filter->insert(Digest{digest});
    next_ = filter;
    return Rebuild(*this, std::move(filter));
  }

  /// Believes the filter no longer (a lost change feed, a restored database): everything goes the normal way until the
  /// next rebuild is committed.
  void distrust() {
    const std::unique_lock lock(serving_);
    trusted_ = false;
  }

  // Query

  /// What the filter says of an id.
  [[nodiscard]] Existence check(const Item& id) const {
    auto counts = counters_.row();
    counts.add(at_checks, 1);
    const Existence answer = ask(id);
    if (answer == Existence::absent) counts.add(at_negatives, 1);
    if (answer == Existence::unknown) counts.add(at_bypassed, 1);
    return answer;
  }

  /// The record of an id: nothing at once when the gate is sure, else what `load(id)` finds, which asks the cache and
  /// then the database and gives Result<std::optional<Record>>. What it does not find is remembered for negative_ttl,
  /// so that one id that passes by chance does not reach the database for ever.
  template <class Load>
  [[nodiscard]] std::invoke_result_t<Load&, const Item&> find(const Item& id, Load&& load) {
    const Existence answer = check(id);
    if (answer == Existence::absent) return absent_record<Load>();
    auto counts = counters_.row();
    const Digest digest = digest_of(id);
    const auto memory = absent_.ask(digest);
    if (memory.absent) return counts.add(at_memory, 1), absent_record<Load>();
    const auto start = std::chrono::steady_clock::now();
    auto record = load(id);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
    counts.add(at_loads, 1);
    counts.add(at_load_ns, static_cast<std::uint64_t>(took.count()));
    if (!record) return counts.add(at_failures, 1), record;
    if (record->has_value()) return record;
    if (answer == Existence::maybe) counts.add(at_positive_absent, 1);
    if (!young(id) && !lagging(digest)) absent_.remember(digest, memory);
    return record;
  }

  /// Whether a filter is there and believed.
  [[nodiscard]] bool trusted() const {
    const std::shared_lock lock(serving_);
    return trusted_;
  }
  /// Size and rate of the filter that serves; null before the first rebuild.
  [[nodiscard]] std::shared_ptr<const filter_type> filter() const { return current(); }

  [[nodiscard]] GateCounters counters() const noexcept {
    return {.checks = counters_.sum(at_checks),
            .negatives = counters_.sum(at_negatives),
            .bypassed = counters_.sum(at_bypassed),
            .negative_cache_hits = counters_.sum(at_memory),
            .loads = counters_.sum(at_loads),
            .positive_but_absent = counters_.sum(at_positive_absent),
            .load_failures = counters_.sum(at_failures),
            .adds = counters_.sum(at_adds),
            .rebuilds = counters_.sum(at_rebuilds),
            .load_ns = counters_.sum(at_load_ns)};
  }
  /// Whether the gate pays for this traffic: each negative spares a look-up of the mean length, each check costs
  /// `check_cost` (measure it, or take the round trip where the filter is remote).
  [[nodiscard]] GateWorth worth(std::chrono::nanoseconds check_cost) const noexcept {
    const GateCounters counted = counters();
    if (counted.checks == 0 || counted.loads == 0) return {};
    const auto ratio = [](std::uint64_t a, std::uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
    GateWorth worth;
    worth.negative_rate = ratio(counted.negatives, counted.checks);
    worth.mean_load_ns = ratio(counted.load_ns, counted.loads);
    worth.saved_ns_per_check = worth.negative_rate * worth.mean_load_ns - static_cast<double>(check_cost.count());
    return worth;
  }

 private:
  enum Counter : std::size_t {
    at_checks,
    at_negatives,
    at_bypassed,
    at_memory,
    at_loads,
    at_positive_absent,
    at_failures,
    at_adds,
    at_rebuilds,
    at_load_ns,
    counter_count
  };
  /// Ids added within write_lag that are carried over: past so many, the oldest of them are not.
  static constexpr std::size_t max_lagging = std::size_t{1} << 24;

  [[nodiscard]] static ExistenceGateOptions<Item> checked(ExistenceGateOptions<Item> options) {
    detail::require_rate(options.target_fpr, "target_fpr");
    // A RecentSet without a window would keep ids for ever.
    if (options.write_lag.count() >= 1 && options.negative_ttl.count() >= 0) return options;
    throw std::invalid_argument("seenby: expected a write_lag of at least 1 s and a negative_ttl of at least 0 s");
  }

  template <class Load>
  [[nodiscard]] static std::invoke_result_t<Load&, const Item&> absent_record() {
    return typename std::invoke_result_t<Load&, const Item&>::value_type{std::nullopt};
  }
  [[nodiscard]] Digest digest_of(const Item& id) const {
    return options_.normalise ? hash_(options_.normalise(id)) : hash_(id);
  }
  [[nodiscard]] std::shared_ptr<filter_type> current() const {
    const std::shared_lock lock(serving_);
    return filter_;
  }
  [[nodiscard]] bool young(const Item& id) const {
    if (!options_.made_at) return false;
    const std::optional<Time> made = options_.made_at(id);
    const Time now = options_.clock ? options_.clock() : system_time();
    return made && now - *made < options_.write_lag;
  }
  [[nodiscard]] bool lagging(Digest digest) const {
    const std::lock_guard lock(writing_);
    return added_.contains(digest.value);
  }
  [[nodiscard]] Existence ask(const Item& id) const {
    if (young(id)) return Existence::unknown;
    const Digest digest = digest_of(id);
    const std::shared_lock lock(serving_);
    if (!trusted_) return Existence::unknown;
    return filter_->may_contain(digest) ? Existence::maybe : Existence::absent;
  }

  ExistenceGateOptions<Item> options_;
  Hash hash_;
  // A shared lock costs some 20 ns a check; what the gate spares costs a thousand times as much.
  mutable std::shared_mutex serving_;  // filter_ and trusted_
  std::shared_ptr<filter_type> filter_;
  bool trusted_ = false;
  mutable std::mutex writing_;  // next_ and added_; taken before serving_
  std::shared_ptr<filter_type> next_;
  RecentSet<std::uint64_t, Mix64Hash> added_;
  NegativeCache absent_;
  mutable detail::ThreadCounters<counter_count> counters_;
};

}  // namespace seenby
