#pragma once
// SPDX-License-Identifier: MIT
// The shards of a memory store: how a writer gets at one, how their number grows, and how a snapshot replaces them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "seenby/detail/both_locked.hpp"
#include "seenby/stores/memory/lookup.hpp"
#include "seenby/stores/memory/shard.hpp"

SEENBY_DETAIL_BEGIN

/// Shards, those in use and those between two uses. One that a reader may still be looking at is never freed before the
/// store goes: it is emptied, its sequence moves, and it serves again. Thread-safe.
template <std::size_t Words>
class ShardPool {
 public:
  ShardPool(ShardContext& context, std::uint32_t directory_bits) noexcept
      : context_(&context), directory_bits_(directory_bits) {}

  /// An empty shard for the directory's slots from `first_slot` on, as many as `depth` says. Throws std::bad_alloc.
  [[nodiscard]] Shard<Words>& take(std::uint32_t depth, std::size_t first_slot) {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      all_.reserve(all_.size() + 1);
      idle_.reserve(all_.size() + 1);  // so that `give_back` cannot fail
      idle_.push_back(all_.emplace_back(std::make_unique<Shard<Words>>(*context_, directory_bits_)).get());
    }
    Shard<Words>& shard = *idle_.back();
    idle_.pop_back();
    shard.depth = depth;
    shard.first_slot = first_slot;
    return shard;
  }
  /// Empties a shard. Readers that look at it see that it moved.
  void give_back(Shard<Words>& shard) noexcept {
    shard.retire();
    const std::lock_guard lock(mutex_);
    idle_.push_back(&shard);
  }
  [[nodiscard]] std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return all_.size() * (sizeof(Shard<Words>) + 2 * sizeof(void*));
  }

 private:
  ShardContext* context_;
  std::uint32_t directory_bits_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shard<Words>>> all_;
  std::vector<Shard<Words>*> idle_;
};

/// A directory and the shards in it: one at first, which splits in two when it has many users, and so on up to the
/// directory's size. Thread-safe.
template <std::size_t Words>
class ShardSet {
 public:
  using Key = IndexKey<Words>;
  using ShardOf = Shard<Words>;

  /// Throws std::bad_alloc.
  ShardSet(ShardPool<Words>& pool, std::uint32_t bits) : directory(bits), pool_(&pool) {
    ShardOf& first = pool.take(0, 0);
    for (std::size_t slot = 0; slot < directory.size(); ++slot) directory.set(slot, first);
  }
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;
  ~ShardSet() {
    for (std::size_t slot = 0; slot < directory.size();) {
      ShardOf& shard = at(slot);
      slot += width(shard);
      pool_->give_back(shard);
    }
  }

  /// Runs change(shard) with the key's shard locked.
  template <class Change>
  auto locked(const Key& key, Change&& change) const {
    for (;;) {
      ShardOf& shard = of(key);
      const std::lock_guard lock(shard.mutex);
      if (&shard == &of(key)) return change(shard);
    }
  }
  /// Between two locks of one write: others who wait for the key's shard go first.
  void give_way(const Key& key) const noexcept { of(key).mutex.give_way(); }
  /// Runs change(shard, i) for each key_of(i), with its shard locked: once for neighbours in one shard.
  template <class KeyOf, class Change>
  void locked_each(std::size_t count, const KeyOf& key_of, const Change& change) const {
    for (std::size_t i = 0; i < count;) {
      ShardOf& shard = of(key_of(i));
      const std::lock_guard lock(shard.mutex);
      for (; i < count && &shard == &of(key_of(i)); ++i) change(shard, i);
    }
  }
  /// Runs change(shard of a, shard of b) with both locked; they may be one.
  template <class Change>
  auto locked(const Key& a, const Key& b, Change&& change) const {
    for (;;) {
      ShardOf& shard_a = of(a);
      ShardOf& shard_b = of(b);
      const detail::BothLocked both(shard_a.mutex, shard_b.mutex);
      if (&shard_a == &of(a) && &shard_b == &of(b)) return change(shard_a, shard_b);
    }
  }
  /// Runs visit(shard) for one shard after the other, each locked meanwhile: every user that is there all along is in
  /// exactly one of them.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t slot = 0; slot < directory.size();) visit_at(slot, visit);
  }
  /// The same for the shard at a slot; leaves the slot behind it.
  template <class Visit>
  auto visit_at(std::size_t& slot, Visit&& visit) const {
    for (;;) {
      ShardOf& shard = at(slot);
      const std::lock_guard lock(shard.mutex);
      if (&shard != &at(slot)) continue;
      slot += width(shard);
      return visit(shard);
    }
  }

  /// Splits a locked shard that has many users, where the directory has a slot for each half.
  void split_if_crowded(ShardOf& shard) noexcept {
    if (shard.index.users() < crowded || shard.depth == directory.bits()) return;
    const std::unique_lock layout(layout_, std::try_to_lock);
    if (!layout) return;  // somewhere else this is done at the moment; the next record asks again
    try {
      split(shard);
    } catch (const std::bad_alloc&) {}  // it goes on as one
  }

  /// Lets the shards of `other`, which nobody else looks at, take the place of these, one after the other: for each
  /// user a check sees the record before or the one after. Counters go on. Throws std::bad_alloc, and then nothing
  /// changed.
  void replace_by(ShardSet& other) {
    const std::lock_guard layout(layout_);
    for (std::size_t slot = 0; slot < directory.size(); slot += width(at(slot))) {
      while (other.at(slot).depth < at(slot).depth) other.split(other.at(slot));
    }
    for (std::size_t slot = 0; slot < directory.size();) {
      ShardOf& before = at(slot);
      const std::size_t end = slot + width(before);
      {
        const std::lock_guard lock(before.mutex);
        other.at(slot).counters += before.counters;
        before.counters = {};
        for (; slot < end; ++slot) {
          ShardOf& after = other.at(slot);
          other.directory.set(slot, before);
          directory.set(slot, after);
        }
        before.retire();
      }
    }
    // The old shards go with `other`, which now has them at the depths they had here.
  }

  ShardDirectory<Words> directory;

 private:
  /// Users of a shard that is split: few enough for a split to take a tenth of a millisecond.
  static constexpr std::uint32_t crowded = 512;

  [[nodiscard]] ShardOf& at(std::size_t slot) const noexcept { return static_cast<ShardOf&>(directory.at(slot)); }
  [[nodiscard]] ShardOf& of(const Key& key) const noexcept { return static_cast<ShardOf&>(directory.of(key)); }
  [[nodiscard]] std::size_t width(const ShardOf& shard) const noexcept { return directory.size() >> shard.depth; }

  /// The users whose next bit of the hash is set move to a shard of their own. Readers find them in the old one until
  /// the directory says otherwise, and see by the sequence when they are gone from there.
  void split(ShardOf& shard) {
    const std::size_t half = width(shard) / 2;
    ShardOf& upper = pool_->take(shard.depth + 1, shard.first_slot + half);
    try {
      auto staying = shard.copy_half(0);
      shard.move_half_to(upper);
      for (std::size_t i = 0; i < half; ++i) directory.set(upper.first_slot + i, upper);
      ++shard.depth;
      shard.adopt(std::move(staying));
    } catch (...) {
      pool_->give_back(upper);
      throw;
    }
  }

  ShardPool<Words>* pool_;
  std::mutex layout_;  // taken with at most one shard's mutex held, and then only if it is free
};

/// What a memory store holds: what its shards share, the shards, and those that are idle.
template <std::size_t Words>
struct MemoryState {
  MemoryState(std::uint32_t directory_bits, std::uint64_t max_bytes, const RateTables& rates)
      : context(max_bytes, rates), pool(context, directory_bits), shards(pool, directory_bits) {}

  ShardContext context;
  ShardPool<Words> pool;
  ShardSet<Words> shards;
};

SEENBY_DETAIL_END
