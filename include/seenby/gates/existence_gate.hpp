#pragma once
// SPDX-License-Identifier: MIT
// ExistenceGate: answers "not found" for ids that do not exist, before the cache and the database are asked.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/gates/gate_note.hpp"
#include "seenby/gates/gate_tally.hpp"
#include "seenby/gates/gate_types.hpp"
#include "seenby/gates/negative_cache.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sets/recent_set.hpp"

namespace seenby {

/// A filter of every id that the database holds (not of the cached keys) before the cache and the database, in this
/// process: an id that another process adds must reach this gate's add() too, from a change feed, or it is "absent"
/// here. A gate that processes share is redis::SharedGate.
///
/// A trusted negative is "not found" without a read; a positive goes the normal way and never makes a record exist, nor
/// grants access to one; without a trusted filter everything goes the normal way. Where tenants share ids, the id is
/// the tenant and the id (Namespace); each type of resource has a gate of its own, whose file has its name.
///
/// Writers call add(id) before the record becomes visible; a roll-back leaves a harmless bit. Deleted ids stay positive
/// until the next rebuild (ErasableGate takes them out). Nothing is trusted before the first rebuild is committed, or
/// before a gate that was opened from a file has caught up:
///
///     if (gate.open("products.gate")) {                       // mapped: milliseconds
///       for (const Change& change : outbox.after(gate.position())) gate.add(change.id), gate.advance(change.position);
///       gate.caught_up();                                     // from here on its "absent" is believed
///     } else {
///       auto rebuild = gate.begin_rebuild(count);              // read every id out of the database
///       ...
///     }
///
/// Thread safety: any thread may call any member; one rebuild at a time.
template <HashableItem Item, Hasher Hash = Xxh3Hash, class Filter = PartitionedFilter<Item, Hash>>
class ExistenceGate {
 public:
  using item_type = Item;      ///< what it holds
  using filter_type = Filter;  ///< the filter that answers
  /// Whether the gate can be saved and opened.
  static constexpr bool saveable = requires(const Filter& filter, const std::string& path) { filter.save(path); };

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
      if (const auto filter = current()) {
        filter->insert(digest);
        if (filter->size() > filter->expected_items()) tally_.add(detail::GateTally::over_capacity);
      }
      changed_at_ = now();
    }
    absent_.erase(digest);
    tally_.add(detail::GateTally::adds);
  }

  /// Takes an id out that was added once and whose record is gone: for filters that can (ErasableGate). An id that was
  /// never added, or was erased already, must not be erased: it may take others' counts along, and one of them would be
  /// "absent". While a rebuild is under way the new filter keeps what is erased until the rebuild after.
  void erase(const Item& id) requires requires(Filter& filter, Digest digest) { filter.erase(digest); }
  {
    const Digest digest = digest_of(id);
    const std::lock_guard lock(writing_);
    added_.erase(digest.value);
    if (const auto filter = current()) (void)filter->erase(digest);
    changed_at_ = now();
  }

  /// Every change of the feed up to this position has been added here. Never goes back.
  void advance(std::uint64_t position) {
    const std::lock_guard lock(writing_);
    position_ = std::max(position_, position);
    changed_at_ = now();
  }

  /// A new filter in the making, beside the one that serves. Read every id out of the database and add it, then
  /// commit(); ids that are added to the gate meanwhile, or were within write_lag before, go into it as well. Destroyed
  /// without commit() it leaves the gate as it was.
  class Rebuild {
   public:
    /// The moved-from rebuild commits and drops nothing.
    Rebuild(Rebuild&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), filter_(std::move(other.filter_)) {}
    Rebuild& operator=(Rebuild&&) = delete;
    ~Rebuild() {
      if (gate_ == nullptr) return;
      const std::lock_guard lock(gate_->writing_);
      gate_->next_.reset();
    }
    /// Adds an id of the database. Not thread-safe between threads of one rebuild.
    void add(const Item& id) { filter_->insert(gate_->digest_of(id)); }
    /// The same for many ids.
    void add(std::span<const Item> ids) {
      for (const Item& id : ids) add(id);
    }
    /// Ids added so far that were certainly new.
    [[nodiscard]] std::uint64_t size() const noexcept { return filter_->size(); }
    /// Switches: from now on this filter answers, and is trusted. Throws std::logic_error when called twice.
    void commit() {
      if (gate_ == nullptr) {
        throw std::logic_error("seenby: expected a rebuild to be committed once, got a second time");
      }
      std::exchange(gate_, nullptr)->switch_in();
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
    trust_ = filter_ == nullptr ? GateState::empty : GateState::distrusted;
  }

  // Restart

  /// Saves the filter, its version and the position of the change feed that it has seen, replacing the file at
  /// the path. Every change up to that position is in it. Errors: io; unavailable while nothing is trusted.
  Result<void> save(const std::string& path) const requires saveable {
    detail::GateNote note{.resource = options_.resource, .normaliser = options_.normaliser_name};
    std::shared_ptr<filter_type> filter;
    {
      const std::lock_guard lock(writing_);
      if (!trusted()) {
        return Error{ErrorCode::unavailable, "seenby: expected a trusted gate to save, got one that is not"};
      }
      note.version = version_;
      note.position = position_;
      filter = current();
    }
    return filter->save(path, note.encode());
  }
  /// Maps a saved gate: milliseconds, whatever its size. It answers `unknown` until caught_up() says that every change
  /// after position() has been added. Errors: as PartitionedFilter::open; parameter_mismatch for a gate of another
  /// resource or normaliser; conflict while a filter serves or is in the making.
  Result<void> open(const std::string& path) requires saveable {
    auto filter = filter_type::open(path, {}, hash_);
    if (!filter) return std::move(filter).error();
    const auto note = detail::GateNote::decode(filter->note());
    if (!note) return Error{ErrorCode::wrong_type, std::string("seenby: expected a saved gate in ").append(path)};
    if (note->resource != options_.resource || note->normaliser != options_.normaliser_name) {
      const auto names = [](const std::string& resource, const std::string& normaliser) {
        return std::string("resource \"").append(resource).append("\", normaliser \"").append(normaliser).append("\"");
      };
      std::string message = "seenby: expected a gate of ";
      message.append(names(options_.resource, options_.normaliser_name)).append(" in ").append(path).append(", got ");
      return Error{ErrorCode::parameter_mismatch, message.append(names(note->resource, note->normaliser))};
    }
    const std::lock_guard lock(writing_);
    const std::unique_lock switching(serving_);
    if (filter_ != nullptr || next_ != nullptr) {
      return Error{ErrorCode::conflict, "seenby: expected an empty gate to open a file into, got one with a filter"};
    }
    filter_ = std::make_shared<filter_type>(*std::move(filter));
    // Ids added here before, of which the file may know nothing.
    for (const std::uint64_t digest : added_.items()) filter_->insert(Digest{digest});
    version_ = note->version;
    position_ = std::max(position_, note->position);
    since_ = changed_at_ = now();
    trust_ = GateState::loading;
    return {};
  }
  /// The gate that was opened has every change up to now: it is trusted from here on. False when there was none.
  bool caught_up() {
    const std::unique_lock lock(serving_);
    if (trust_ != GateState::loading) return false;
    trust_ = GateState::ready;
    return true;
  }
  /// How far in the change feed this gate is.
  [[nodiscard]] std::uint64_t position() const {
    const std::lock_guard lock(writing_);
    return position_;
  }

  // Query

  /// What the filter says of an id.
  [[nodiscard]] Existence check(const Item& id) const { return tally_.answered(ask(id, digest_of(id))); }

  /// The record of an id: nothing at once when the gate is sure, else what `load(id)` finds, which asks the cache and
  /// then the database and gives Result<std::optional<Record>>. What it does not find is remembered for negative_ttl,
  /// so that one id that passes by chance does not reach the database for ever.
  template <class Load>
  [[nodiscard]] std::invoke_result_t<Load&, const Item&> find(const Item& id, Load&& load) {
    const Digest digest = digest_of(id);
    const Existence answer = tally_.answered(ask(id, digest));
    if (answer == Existence::absent) return detail::absent_record<Item, Load>();
    const auto memory = absent_.ask(digest);
    if (memory.absent) return tally_.add(detail::GateTally::memory), detail::absent_record<Item, Load>();
    auto record = tally_.load(id, answer, load);
    if (record && !record->has_value() && !young(id) && !lagging(digest)) absent_.remember(digest, memory);
    return record;
  }

  /// Whether a name is free. `free` is certain for every name added before the call began; a name that two callers
  /// find free at once is decided by the database's unique constraint, which stays.
  [[nodiscard]] Availability available(const Item& name) const {
    return check(name) == Existence::absent ? Availability::free : Availability::ask_database;
  }

  /// Whether a filter is there and believed.
  [[nodiscard]] bool trusted() const {
    const std::shared_lock lock(serving_);
    return trust_ == GateState::ready;
  }
  /// Whether an id was added here within write_lag, or is itself younger: its record may become visible any moment.
  [[nodiscard]] bool recently_added(const Item& id) const { return young(id) || lagging(digest_of(id)); }

  /// State, position, age and size, of one moment.
  [[nodiscard]] GateStatus status() const {
    const std::lock_guard lock(writing_);
    const std::shared_lock switching(serving_);
    const Time time = now();
    GateStatus status{.state = trust_ == GateState::ready && next_ != nullptr ? GateState::rebuilding : trust_,
                      .version = version_,
                      .position = position_};
    if (filter_ == nullptr) return status;
    status.age = time - since_;
    status.lag = time - changed_at_;
    status.items = filter_->size();
    status.capacity = filter_->expected_items();
    status.expected_fpr = status.items == 0 ? 0 : filter_->expected_fpr(status.items);
    return status;
  }
  /// Size and rate of the filter that serves; null before the first rebuild.
  [[nodiscard]] std::shared_ptr<const filter_type> filter() const { return current(); }

  /// A snapshot of the counters.
  [[nodiscard]] GateCounters counters() const noexcept { return tally_.counters(); }

 private:
  /// Ids added within write_lag that are carried over: past so many, the oldest of them are not.
  static constexpr std::size_t max_lagging = std::size_t{1} << 24;

  [[nodiscard]] static ExistenceGateOptions<Item> checked(ExistenceGateOptions<Item> options) {
    detail::require_rate(options.target_fpr, "target_fpr");
    // A RecentSet without a window would keep ids for ever.
    if (options.write_lag.count() >= 1 && options.negative_ttl.count() >= 0) return options;
    throw std::invalid_argument("seenby: expected a write_lag of at least 1 s and a negative_ttl of at least 0 s");
  }

  void switch_in() {
    const std::lock_guard lock(writing_);
    {
      const std::unique_lock switching(serving_);
      filter_ = std::move(next_);
      trust_ = GateState::ready;
      ++version_;
      since_ = changed_at_ = now();
    }
    tally_.add(detail::GateTally::rebuilds);
  }

  [[nodiscard]] Time now() const { return options_.clock ? options_.clock() : system_time(); }
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
    return made && now() - *made < options_.write_lag;
  }
  [[nodiscard]] bool lagging(Digest digest) const {
    const std::lock_guard lock(writing_);
    return added_.contains(digest.value);
  }
  [[nodiscard]] Existence ask(const Item& id, Digest digest) const {
    if (young(id)) return Existence::unknown;
    const std::shared_lock lock(serving_);
    if (trust_ != GateState::ready) return Existence::unknown;
    return filter_->may_contain(digest) ? Existence::maybe : Existence::absent;
  }

  ExistenceGateOptions<Item> options_;
  Hash hash_;
  // A shared lock costs some 20 ns a check; what the gate saves costs a thousand times as much.
  mutable std::shared_mutex serving_;  // filter_ and trust_
  std::shared_ptr<filter_type> filter_;
  GateState trust_ = GateState::empty;  // never `rebuilding`, which next_ says
  mutable std::mutex writing_;          // all below; taken before serving_
  std::shared_ptr<filter_type> next_;
  std::uint64_t version_ = 0;
  std::uint64_t position_ = 0;
  Time since_{};
  Time changed_at_{};
  RecentSet<std::uint64_t, Mix64Hash> added_;
  NegativeCache absent_;
  detail::GateTally tally_;
};

}  // namespace seenby
