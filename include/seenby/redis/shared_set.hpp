#pragma once
// SPDX-License-Identifier: MIT
// SharedSet: one set of items under a fixed name that many processes add to and ask, and can rebuild while they do.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/gates/gate_types.hpp"
#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/set_counters.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// What a SharedSet is told.
struct SharedSetOptions {
  std::uint64_t expected_items = 0;  ///< what `create` makes room for; at least 1
  double target_fpr = 0.01;          ///< the rate at expected_items, in (0, 1)
  /// Before the set's name in its keys.
  std::string prefix = "seenby:set:";
  std::chrono::milliseconds timeout{1000};  ///< of each round trip; above zero
  /// How long an added item is carried into rebuilds that begin later: at least the time from add() until the
  /// record is visible to a scan of the database. Zero: nothing is carried, for sets that are never rebuilt.
  std::chrono::milliseconds write_lag{0};
  /// How long the old version stays after a switch, for readers that began before it.
  std::chrono::milliseconds grace{60'000};
  /// The lease of a rebuild: once its builder has been silent for so long, another may start over. Above zero.
  std::chrono::milliseconds build_lease{600'000};
};

/// What is known of a set.
struct SharedSetInfo {
  std::uint64_t version = 0;  ///< which is asked; later ones are larger
  std::uint64_t next = 0;     ///< the version in the making; 0: none
  std::uint64_t items = 0;    ///< that were certainly new to the version, by adds and its rebuild's scan together
  /// What the version was made for.
  std::uint64_t expected_items = 0;
  double target_fpr = 0;    ///< the rate at expected_items
  std::uint64_t bytes = 0;  ///< of bits
  /// Nothing is lost past it, and more passes that was never added: time for begin_rebuild() with more expected_items.
  [[nodiscard]] bool over_capacity() const noexcept { return items > expected_items; }
};

/// What a lookup behind a SharedGate begins with.
struct GateLookup {
  Existence existence = Existence::unknown;  ///< unknown: the set is not believed
  bool remembered = false;                   ///< an earlier lookup found nothing
  std::uint64_t version = 0;                 ///< that was asked
  std::uint64_t adds = 0;                    ///< of the id, and of those that share its counter, so far
};

/// The commands behind SharedSet and SharedGate. A set is a hash, "PREFIX{NAME}", which names the version that is
/// asked, the one in the making and their shapes, and for each version strings of at most a mebibyte of split blocks;
/// all under one hash tag, so on one node of a cluster. An add is one script that writes to both versions, so that a
/// switch loses nothing; a lookup is one pipelined round trip that reads the version and the items' blocks together,
/// and is sent again where the version has moved. Thread-safe.
class SharedSetProtocol {
 public:
  /// Throws std::invalid_argument for options that cannot be kept. Connects on first use.
  SharedSetProtocol(std::shared_ptr<Executor> executor, const std::string& name, SharedSetOptions options,
                    HashKind hash, std::uint16_t seed_check);
  SharedSetProtocol(const SharedSetProtocol&) = delete;
  SharedSetProtocol& operator=(const SharedSetProtocol&) = delete;
  ~SharedSetProtocol();

  Result<bool> create();  ///< makes an empty set; false when there is one
  /// Adds digests; fresh[i] = 1 where one was certainly new. A script for each few thousand of them. True when the set
  /// has more items than it was made for by now.
  Result<bool> add(std::span<const Digest> digests, std::span<std::uint8_t> fresh);
  /// out[i] = 1 where digest i may be contained, else 0.
  Result<void> check(std::span<const Digest> digests, std::span<std::uint8_t> out);
  Result<SharedSetInfo> info();  ///< version, size and rate
  Result<bool> drop();           ///< deletes the set; true when there was one

  /// Begins a version beside the one that serves; returns its number.
  Result<std::uint64_t> begin_rebuild(std::uint64_t expected_items);
  /// Adds digests to the version in the making only.
  Result<void> add_to(std::uint64_t version, std::span<const Digest> digests);
  Result<void> commit(std::uint64_t version);   ///< switches to the version
  Result<void> abandon(std::uint64_t version);  ///< drops the version in the making

  // For a gate: the set's write_lag is not zero

  /// What the set says of an id, with what is remembered of it: one pipelined round trip.
  Result<GateLookup> look_up(Digest digest);
  /// Remembers for all processes that a lookup which began with `before` found nothing; false where the id was added
  /// since, or within write_lag before. An add forgets it.
  Result<bool> remember_absent(Digest digest, const GateLookup& before, std::chrono::milliseconds ttl);
  Result<bool> recently_added(Digest digest);    ///< within write_lag, by any process
  Result<void> advance(std::uint64_t position);  ///< of the change feed; never goes back
  /// `loading` and `distrusted`: look_up says `unknown` until `ready`, which ends only `loading`, or a commit. False
  /// for `ready` when it was not loading.
  Result<bool> mark(GateState state);
  Result<GateStatus> status();  ///< `empty` where there is no set, `distrusted` where a part is lost

 private:
  class State;
  std::unique_ptr<State> state_;
};

template <HashableItem Item, Hasher Hash>
class SharedGate;

/// One Bloom filter under a fixed name on plain Redis or Valkey, for URLs crawled, events handled, codes taken: what
/// one process added, every other finds from then on.
///
///     seenby::redis::SharedSet<std::string> codes{executor, "short codes", {.expected_items = 10'000'000}};
///     codes.create().or_throw();
///     if (codes.add("x7Kp").or_throw()) ...       // certainly new: no look into the database is needed
///
/// - `add` tells new from present: true is certain, and of callers that race for one item exactly one gets it; false
///   means added before, or wrong at target_fpr.
/// - A set that is not there, or lost a part to an eviction, is an error (`unavailable`), never "absent".
/// - `begin_rebuild` fills a new version beside the old one, at another size if wanted; adds go to both; `commit`
///   switches for all processes at once.
///
/// Every member may be called from any thread. The seed and hash of all processes must be the same; another is refused
/// with `parameter_mismatch`.
template <HashableItem Item = std::string, Hasher Hash = Xxh3Hash>
class SharedSet {
 public:
  using item_type = Item;    ///< what it holds
  using hasher_type = Hash;  ///< makes digests of items

  /// Throws std::invalid_argument for options that cannot be kept. Connects on first use.
  SharedSet(std::shared_ptr<Executor> executor, const std::string& name, SharedSetOptions options, Hash hash = {})
      : hash_(hash),
        protocol_(std::make_unique<SharedSetProtocol>(std::move(executor), name, std::move(options), Hash::kind,
                                                      seed_check(hash))) {}

  /// Makes an empty set where there is none and none in the making; true when this call did. Errors: the transport's,
  /// parameter_mismatch.
  Result<bool> create() { return protocol_->create(); }
  /// Removes the set and all its versions; true when there was one.
  Result<bool> drop() { return protocol_->drop(); }

  /// Adds an item; true when it was certainly new. One round trip.
  Result<bool> add(const Item& item) {
    std::uint8_t fresh = 0;
    if (auto done = add(std::span<const Item>(&item, 1), {&fresh, 1}); !done) return std::move(done).error();
    return fresh != 0;
  }
  /// Adds many in one round trip; fresh[i] = 1 where item i was certainly new. `fresh` is as long as `items`, or empty.
  Result<void> add(std::span<const Item> items, std::span<std::uint8_t> fresh) {
    const auto over = protocol_->add(digests_of(items), fresh);
    if (!over) return tally_.failed(items.size()), over.error();
    tally_.added(items.size(), ones_in(fresh), *over);
    return {};
  }

  /// False: the item was never added. True: it was, or the filter errs at its rate. One round trip.
  [[nodiscard]] Result<bool> may_contain(const Item& item) const {
    std::uint8_t found = 0;
    if (auto done = may_contain(std::span<const Item>(&item, 1), {&found, 1}); !done) return std::move(done).error();
    return found != 0;
  }
  /// out[i] = 1 where item i may be contained, else 0; as long as `items`. One round trip.
  [[nodiscard]] Result<void> may_contain(std::span<const Item> items, std::span<std::uint8_t> out) const {
    auto done = protocol_->check(digests_of(items), out);
    if (!done) return tally_.failed(items.size()), done;
    tally_.checked(items.size(), ones_in(out.first(items.size())));
    return done;
  }

  /// Version, size and rate. One round trip.
  [[nodiscard]] Result<SharedSetInfo> info() const { return protocol_->info(); }
  /// What this process did through this set. Asks no server; Metrics::watch tells info() beside it.
  [[nodiscard]] SharedSetCounters counters() const noexcept { return tally_.counters(); }

  /// A new version in the making. Destroyed without commit() it is given up.
  class Rebuild {
   public:
    /// The moved-from rebuild commits and drops nothing.
    Rebuild(Rebuild&& other) noexcept : set_(std::exchange(other.set_, nullptr)), version_(other.version_) {}
    Rebuild& operator=(Rebuild&&) = delete;
    ~Rebuild() {
      if (set_ != nullptr) (void)set_->protocol_->abandon(version_);
    }
    /// Adds what the database holds, to the new version only. Batches of some thousand are a round trip each.
    Result<void> add(std::span<const Item> items) { return set_->protocol_->add_to(version_, set_->digests_of(items)); }
    /// Switches every process to this version. Errors: `conflict` when another builder took over, or when a part of
    /// the version was lost (evicted) and an add gave it up; unavailable when a part is found lost now.
    Result<void> commit() {
      auto done = set_->protocol_->commit(version_);
      if (done) std::exchange(set_, nullptr)->tally_.rebuilt();
      return done;
    }
    /// Its number, larger than any before.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

   private:
    friend class SharedSet;
    Rebuild(SharedSet& set, std::uint64_t version) : set_(&set), version_(version) {}
    SharedSet* set_;
    std::uint64_t version_;
  };
  /// Where there is no set, or the server lost it, this makes the first version: until its commit() both add and
  /// may_contain are `unavailable`. Errors: `conflict` while another builder holds the lease, the transport's. The set
  /// must outlive what it returns.
  [[nodiscard]] Result<Rebuild> begin_rebuild(std::uint64_t expected_items) {
    auto version = protocol_->begin_rebuild(expected_items);
    if (!version) return std::move(version).error();
    return Rebuild(*this, *version);
  }

 private:
  template <HashableItem, Hasher>
  friend class SharedGate;

  [[nodiscard]] std::vector<Digest> digests_of(std::span<const Item> items) const {
    std::vector<Digest> digests;
    digests.reserve(items.size());
    for (const Item& item : items) digests.push_back(hash_(item));
    return digests;
  }
  [[nodiscard]] static std::uint64_t ones_in(std::span<const std::uint8_t> flags) noexcept {
    return static_cast<std::uint64_t>(std::count(flags.begin(), flags.end(), std::uint8_t{1}));
  }

  Hash hash_;
  std::unique_ptr<SharedSetProtocol> protocol_;
  detail::SharedSetTally tally_;
};

/// A set as metrics: its counters, and where the server answers what info() says. One round trip.
template <HashableItem Item, Hasher Hash>
void add_metrics(MetricPage& page, const SharedSet<Item, Hash>& set, const MetricLabels& labels) {
  add_metrics(page, set.counters(), labels);
  const auto info = set.info();
  page.gauge("seenby_set_up", "1 where the server answered for the set.", info ? 1 : 0, labels);
  if (!info) return;
  page.gauge("seenby_set_version", "Larger after each rebuild.", info->version, labels);
  page.gauge("seenby_set_items", "Items that were certainly new to the version.", info->items, labels);
  page.gauge("seenby_set_capacity_items", "Items that the version was made for.", info->expected_items, labels);
  page.gauge("seenby_set_bytes", "Of bits.", info->bytes, labels);
}

}  // namespace seenby::redis
