#pragma once
// SPDX-License-Identifier: MIT
// SharedGate: an existence gate that all servers share, so that an id which one added is never absent at another.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/gates/gate_tally.hpp"
#include "seenby/gates/gate_types.hpp"
#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/shared_set.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// What a SharedGate is told beside its set's options.
template <class Item>
struct SharedGateOptions {
  /// What makes two spellings of an id one: NameNormaliser{}, or your own; none: ids are as they are. Applied on add,
  /// on check and by rebuilds alike.
  std::function<Item(const Item&)> normalise{};
  /// Names `normalise` and its version ("nfkc_casefold/15.0"). It is part of the set's name: a server with another
  /// version finds no set and says `unknown`, instead of asking after other spellings.
  std::string normaliser_name{};
  std::chrono::seconds negative_ttl{5};  ///< how long all servers remember "not found"; zero: not at all
};

/// A SharedSet of every id that the database holds. `add` returns before the record becomes visible; where it fails,
/// the writer must fail too, or the id is absent. Whatever the set cannot say (unreachable, lost, not there) is
/// `unknown`, and goes the normal way. Rebuilds run under readers and writers of all servers; ids added within
/// `write_lag` before one begins are carried into it.
///
/// A Redis that evicts is noticed where it takes a part of the set, and not where it takes the list of late ids, which
/// expires by itself: run it under `noeviction`.
///
/// What a lookup did not find is remembered for all servers, and forgotten by the add of any of them. Concurrent misses
/// of one id share one read behind a ReadPath.
///
/// A check is a round trip: worth it where what it saves costs more (GateCounters::saved_ns_per_check). A server that
/// lost all of the set says `unknown` until the next rebuild is committed; begin that write_lag after the loss, since
/// the ids that were added just before are lost with it. A server that may have lost its last writes (a failover, an
/// older snapshot) cannot be told from one that did not, so say so:
///
///     gate.begin_loading().or_throw();                         // every server says `unknown`
///     const std::uint64_t position = gate.status().position;   // what the server has seen of the change feed
///     for (const Change& change : outbox.after(position)) gate.add(change.id).or_throw();
///     gate.advance(outbox.end()).or_throw();
///     gate.caught_up().or_throw();                             // and now it is believed again
///
/// Thread-safe.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class SharedGate {
 public:
  using item_type = Item;                  ///< what it holds
  using set_type = SharedSet<Item, Hash>;  ///< the set that it asks

  /// Without a write_lag it is 60 s. Connects on first use. Throws std::invalid_argument for options that cannot be
  /// kept, or a normaliser without a name.
  SharedGate(std::shared_ptr<Executor> executor, const std::string& name, SharedSetOptions set,
             SharedGateOptions<Item> options = {}, Hash hash = {})
      : options_(checked(std::move(options))),
        set_(std::move(executor), identity(name, options_), lagging(std::move(set)), std::move(hash)) {}

  // Modify

  /// Makes an empty gate, which says "absent" of everything: for databases that are empty too. For others begin with
  /// begin_rebuild(): all ids are `unknown` until its commit().
  Result<bool> create() { return set_.create(); }
  /// Makes an id pass at every server. Call it before the record becomes visible, and let the writer fail with it.
  Result<void> add(const Item& id) {
    const Digest digest = digest_of(id);
    const auto over = set_.protocol_->add({&digest, 1}, {});
    if (!over) return over.error();
    tally_.add(detail::GateTally::adds);
    if (*over) tally_.add(detail::GateTally::over_capacity);
    return {};
  }
  /// Every change of the feed up to this position has been added. Never goes back. Errors: `unavailable` without a set.
  Result<void> advance(std::uint64_t position) { return set_.protocol_->advance(position); }

  /// A new version in the making, as SharedSet's. Destroyed without commit() it is given up.
  class Rebuild {
   public:
    /// Adds what the database holds. Batches of some thousand are a round trip each.
    Result<void> add(std::span<const Item> ids) {
      if (!gate_->options_.normalise) return rebuild_.add(ids);
      std::vector<Item> normal;
      normal.reserve(ids.size());
      for (const Item& id : ids) normal.push_back(gate_->options_.normalise(id));
      return rebuild_.add(normal);
    }
    /// Switches every server to this version, which is believed. Errors: `conflict` when another builder took over.
    Result<void> commit() {
      auto done = rebuild_.commit();
      if (done) gate_->tally_.add(detail::GateTally::rebuilds);
      return done;
    }
    [[nodiscard]] std::uint64_t version() const noexcept { return rebuild_.version(); }  ///< larger than all before

   private:
    friend class SharedGate;
    Rebuild(typename set_type::Rebuild rebuild, const SharedGate& gate) : rebuild_(std::move(rebuild)), gate_(&gate) {}
    typename set_type::Rebuild rebuild_;
    const SharedGate* gate_;
  };
  /// As SharedSet::begin_rebuild. The gate must outlive what it returns.
  [[nodiscard]] Result<Rebuild> begin_rebuild(std::uint64_t expected_items) {
    auto begun = set_.begin_rebuild(expected_items);
    if (!begun) return std::move(begun).error();
    return Rebuild(*std::move(begun), *this);
  }

  // Trust

  /// No server believes the set any longer (a lost change feed, a restored database): everything goes the normal way
  /// until the next rebuild is committed.
  Result<void> distrust() { return marked(GateState::distrusted); }
  /// No server believes the set until caught_up(), which a distrusted set is not by that.
  Result<void> begin_loading() { return marked(GateState::loading); }
  /// Every change after status().position has been added: the set is believed again. False when it was not loading.
  Result<bool> caught_up() { return set_.protocol_->mark(GateState::ready); }

  // Query

  /// One round trip; `unknown` where the set cannot be asked.
  [[nodiscard]] Existence check(const Item& id) const { return look_up(digest_of(id)).existence; }
  /// Whether a name is free for certain. One round trip.
  [[nodiscard]] Availability available(const Item& name) const {
    return check(name) == Existence::absent ? Availability::free : Availability::ask_database;
  }
  /// As ExistenceGate::find: what `load` does not find is remembered, in a round trip, for negative_ttl.
  template <class Load>
  [[nodiscard]] std::invoke_result_t<Load&, const Item&> find(const Item& id, Load&& load) {
    const Digest digest = digest_of(id);
    const GateLookup found = look_up(digest);
    if (found.existence == Existence::absent) return detail::absent_record<Item, Load>();
    if (found.remembered) return tally_.add(detail::GateTally::memory), detail::absent_record<Item, Load>();
    auto record = tally_.load(id, found.existence, load);
    if (record && !record->has_value() && found.existence == Existence::maybe && options_.negative_ttl.count() > 0) {
      // Where it fails, the next lookup reads once more.
      (void)set_.protocol_->remember_absent(digest, found, options_.negative_ttl);
    }
    return record;
  }
  /// Whether an id was added within write_lag, at any server; true where that cannot be asked. One round trip.
  [[nodiscard]] bool recently_added(const Item& id) const {
    return set_.protocol_->recently_added(digest_of(id)).value_or(true);
  }

  [[nodiscard]] Result<SharedSetInfo> info() const { return set_.info(); }  ///< version, size and rate
  /// State, position, age and size, of one moment; `distrusted` where the set cannot be asked. One round trip.
  [[nodiscard]] GateStatus status() const {
    return set_.protocol_->status().value_or(GateStatus{.state = GateState::distrusted});
  }
  /// What this process did through this gate.
  [[nodiscard]] GateCounters counters() const noexcept { return tally_.counters(); }

 private:
  [[nodiscard]] static SharedGateOptions<Item> checked(SharedGateOptions<Item> options) {
    if (options.normalise && options.normaliser_name.empty()) {
      throw std::invalid_argument("seenby::redis: expected the name of a gate's normaliser, got none");
    }
    if (options.negative_ttl.count() >= 0) return options;
    throw std::invalid_argument("seenby::redis: expected a negative_ttl of at least 0 s");
  }
  [[nodiscard]] static SharedSetOptions lagging(SharedSetOptions options) {
    if (options.write_lag.count() <= 0) options.write_lag = std::chrono::seconds{60};
    return options;
  }
  [[nodiscard]] static std::string identity(const std::string& name, const SharedGateOptions<Item>& options) {
    return options.normalise ? std::string(name).append("/").append(options.normaliser_name) : name;
  }

  [[nodiscard]] Digest digest_of(const Item& id) const {
    return options_.normalise ? set_.hash_(options_.normalise(id)) : set_.hash_(id);
  }
  [[nodiscard]] GateLookup look_up(Digest digest) const {
    const auto found = set_.protocol_->look_up(digest).value_or(GateLookup{});
    tally_.answered(found.existence);
    return found;
  }
  Result<void> marked(GateState state) {
    if (auto done = set_.protocol_->mark(state); !done) return std::move(done).error();
    return {};
  }

  SharedGateOptions<Item> options_;
  set_type set_;
  detail::GateTally tally_;
};

}  // namespace seenby::redis
