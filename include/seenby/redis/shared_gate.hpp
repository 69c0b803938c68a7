#pragma once
// SPDX-License-Identifier: MIT
// SharedGate: an existence gate that all servers share, so that an id which one added is never absent at another.

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "seenby/gates/gate_types.hpp"
#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/shared_set.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// A SharedSet of every id that the database holds. `add` returns before the record becomes visible; where it fails,
/// the writer must fail too, or the id is absent. Whatever the set cannot say (unreachable, lost, not there) is
/// `unknown`, and goes the normal way. Rebuilds run under readers and writers of all servers; ids added within
/// `write_lag` before one begins are carried into it.
///
/// A check is a round trip: worth it where what it saves costs more (`ExistenceGate::saved_ns_per_check` says how to
/// tell). A server that lost all of the set says `unknown` until the next rebuild is committed; begin that write_lag
/// after the loss, since the ids that were added just before are lost with it. A failover that loses only the last
/// acknowledged writes of Redis loses ids unseen: rebuild after one. Thread-safe.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class SharedGate {
 public:
  using item_type = Item;                  ///< what it holds
  using set_type = SharedSet<Item, Hash>;  ///< the set that it asks

  /// Throws std::invalid_argument for options that cannot be kept. Without a write_lag it is 60 s. Connects on first
  /// use.
  SharedGate(std::shared_ptr<Executor> executor, const std::string& name, SharedSetOptions options, Hash hash = {})
      : set_(std::move(executor), name, lagging(std::move(options)), std::move(hash)) {}

  /// Makes an empty gate, which says "absent" of everything: for databases that are empty too. For others begin with
  /// begin_rebuild(): all ids are `unknown` until its commit().
  Result<bool> create() { return set_.create(); }
  /// Makes an id pass at every server. Call it before the record becomes visible, and let the writer fail with it.
  Result<void> add(const Item& id) {
    auto added = set_.add(id);
    if (!added) return std::move(added).error();
    return {};
  }
  /// Begins a new version, which serves from its commit() on. Errors: as SharedSet::begin_rebuild.
  [[nodiscard]] Result<typename set_type::Rebuild> begin_rebuild(std::uint64_t expected_items) {
    return set_.begin_rebuild(expected_items);
  }

  /// One round trip; `unknown` where the set cannot be asked.
  [[nodiscard]] Existence check(const Item& id) const {
    const auto found = set_.may_contain(id);
    if (!found) return Existence::unknown;
    return *found ? Existence::maybe : Existence::absent;
  }
  /// Whether a name is free for certain. One round trip.
  [[nodiscard]] Availability available(const Item& name) const {
    return check(name) == Existence::absent ? Availability::free : Availability::ask_database;
  }
  /// As ExistenceGate::find, without a memory of absences: a ReadPath over a SharedGate has the same stages.
  template <class Load>
  [[nodiscard]] std::invoke_result_t<Load&, const Item&> find(const Item& id, Load&& load) {
    if (check(id) == Existence::absent) return typename std::invoke_result_t<Load&, const Item&>::value_type{};
    return load(id);
  }
  /// Another server may have added any id a moment ago.
  [[nodiscard]] bool recently_added(const Item&) const noexcept { return true; }

  [[nodiscard]] Result<SharedSetInfo> info() const { return set_.info(); }  ///< version, size and rate. One round trip.

 private:
  [[nodiscard]] static SharedSetOptions lagging(SharedSetOptions options) {
    if (options.write_lag.count() <= 0) options.write_lag = std::chrono::seconds{60};
    return options;
  }
  set_type set_;
};

}  // namespace seenby::redis
