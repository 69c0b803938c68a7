#pragma once
// SPDX-License-Identifier: MIT
// SharedGate: an existence gate that all servers share, so that an id which one added is never absent at another.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/gates/gate_types.hpp"
#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/shared_set.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// What makes two spellings of an id one, for a SharedGate: applied on add, on check and by rebuilds alike.
template <class Item>
struct GateNormaliser {
  std::function<Item(const Item&)> normalise{};  ///< NameNormaliser{}, or your own; none: ids are as they are
  /// Names `normalise` and its version ("nfkc_casefold/15.0"). It is part of the set's name: a server with another
  /// version finds no set and says `unknown`, instead of asking after other spellings.
  std::string name{};
};

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
  /// Throws std::invalid_argument for options that cannot be kept, or a normaliser without a name.
  SharedGate(std::shared_ptr<Executor> executor, const std::string& name, SharedSetOptions options,
             GateNormaliser<Item> normaliser = {}, Hash hash = {})
      : normaliser_(std::move(normaliser)),
        set_(std::move(executor), identity(name, normaliser_), lagging(std::move(options)), std::move(hash)) {}

  /// Makes an empty gate, which says "absent" of everything: for databases that are empty too. For others begin with
  /// begin_rebuild(): all ids are `unknown` until its commit().
  Result<bool> create() { return set_.create(); }
  /// Makes an id pass at every server. Call it before the record becomes visible, and let the writer fail with it.
  Result<void> add(const Item& id) {
    auto added = normaliser_.normalise ? set_.add(normaliser_.normalise(id)) : set_.add(id);
    if (!added) return std::move(added).error();
    return {};
  }
  /// Begins a new version, which serves from its commit() on. Errors: as SharedSet::begin_rebuild.

  /// A new version in the making, as SharedSet's. Destroyed without commit() it is given up.
  class Rebuild {
   public:
    /// Adds what the database holds. Batches of some thousand are a round trip each.
    Result<void> add(std::span<const Item> ids) {
      if (!*normalise_) return rebuild_.add(ids);
      std::vector<Item> normal;
      normal.reserve(ids.size());
      for (const Item& id : ids) normal.push_back((*normalise_)(id));
      return rebuild_.add(normal);
    }
    /// Switches every server to this version. Errors: `conflict` when another builder took over.
    Result<void> commit() { return rebuild_.commit(); }
    [[nodiscard]] std::uint64_t version() const noexcept { return rebuild_.version(); }  ///< larger than all before

   private:
    friend class SharedGate;
    Rebuild(typename set_type::Rebuild rebuild, const std::function<Item(const Item&)>& normalise)
        : rebuild_(std::move(rebuild)), normalise_(&normalise) {}
    typename set_type::Rebuild rebuild_;
    const std::function<Item(const Item&)>* normalise_;
  };
  /// As SharedSet::begin_rebuild. The gate must outlive what it returns.
  [[nodiscard]] Result<Rebuild> begin_rebuild(std::uint64_t expected_items) {
    auto begun = set_.begin_rebuild(expected_items);
    if (!begun) return std::move(begun).error();
    return Rebuild(*std::move(begun), normaliser_.normalise);
  }

  /// One round trip; `unknown` where the set cannot be asked.
  [[nodiscard]] Existence check(const Item& id) const {
    const auto found = normaliser_.normalise ? set_.may_contain(normaliser_.normalise(id)) : set_.may_contain(id);
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
  [[nodiscard]] static std::string identity(const std::string& name, const GateNormaliser<Item>& normaliser) {
    if (!normaliser.normalise) return name;
    if (normaliser.name.empty()) {
      throw std::invalid_argument("seenby::redis: expected the name of a gate's normaliser, got none");
    }
    return std::string(name).append("/").append(normaliser.name);
  }
  GateNormaliser<Item> normaliser_;
  set_type set_;
};

}  // namespace seenby::redis
