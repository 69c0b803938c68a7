#pragma once
// SPDX-License-Identifier: MIT
// UserLists: a list for each user who has one, for many threads.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/config.hpp"
#include "seenby/detail/both_locked.hpp"

SEENBY_DETAIL_BEGIN

/// A list a user, in shards with a lock each; an empty one costs nothing. Any thread may call anything; the callbacks
/// run under the shard's lock. A List has empty().
template <class Key, class List, class Hash>
class UserLists {
 public:
  /// No user has an entry: one load, for hot paths.
  [[nodiscard]] bool empty() const noexcept { return users_.load(std::memory_order_relaxed) == 0; }

  /// Calls change(list) with the user's list, new if need be; an empty one is dropped afterwards, though change throws.
  template <class Change>
  auto change(const Key& user, Change&& change) {
    Shard& shard = shard_of(user);
    const std::unique_lock lock(shard.mutex);
    const auto [at, is_new] = shard.lists.try_emplace(user);
    if (is_new) users_.fetch_add(1, std::memory_order_relaxed);
    const DropIfEmpty tidy{*this, shard, at};
    return change(at->second);
  }
  /// As change, for a user that has a list; does nothing for others.
  template <class Edit>
  bool edit(const Key& user, Edit&& edit) {
    Shard& shard = shard_of(user);
    const std::unique_lock lock(shard.mutex);
    const auto found = shard.lists.find(user);
    if (found == shard.lists.end()) return false;
    const DropIfEmpty tidy{*this, shard, found};
    return edit(found->second);
  }
  /// Calls read(list) if the user has one.
  template <class Read>
  void read(const Key& user, Read&& read) const {
    const Shard& shard = shard_of(user);
    const std::shared_lock lock(shard.mutex);
    if (const auto found = shard.lists.find(user); found != shard.lists.end()) read(found->second);
  }
  bool forget(const Key& user) {
    Shard& shard = shard_of(user);
    const std::unique_lock lock(shard.mutex);
    const auto found = shard.lists.find(user);
    if (found == shard.lists.end()) return false;
    drop(shard, found);
    return true;
  }
  /// Calls join(list of from, list of into) and forgets `from`, in one step: at no moment are the entries nowhere, and
  /// they stay with `from` where join throws.
  template <class Join>
  void merge(const Key& from, const Key& into, Join&& join) {
    if (from == into) return;
    Shard& source = shard_of(from);
    Shard& target = shard_of(into);
    const detail::BothLocked both(source.mutex, target.mutex);
    if (!source.lists.contains(from)) return;
    const auto [at, is_new] = target.lists.try_emplace(into);
    if (is_new) users_.fetch_add(1, std::memory_order_relaxed);
    const DropIfEmpty tidy{*this, target, at};
    const auto found = source.lists.find(from);  // looked up now: the new list may have moved the table
    join(found->second, at->second);
    drop(source, found);
  }
  /// Calls visit(key, list) for every user that has one, one shard locked at a time.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Shard& shard : shards_) {
      const std::shared_lock lock(shard.mutex);
      for (const auto& [user, list] : shard.lists) visit(user, list);
    }
  }
  /// Takes the lists of `other`, which no other thread uses, in place of these: each user has the old one or the new.
  void replace_by(UserLists& other) {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      const std::unique_lock lock(shards_[i].mutex);
      users_.fetch_add(other.shards_[i].lists.size() - shards_[i].lists.size(), std::memory_order_relaxed);
      shards_[i].lists.swap(other.shards_[i].lists);
    }
  }
  /// Removes stale entries from one shard, the next in line and at most once in `every`, so that what is not asked
  /// about again does not stay. Called by every write; 64 of them check all users.
  template <class IsStale>
  void purge_next(Time now, std::chrono::seconds every, IsStale&& is_stale) {
    Shard& shard = shards_[next_purged_.fetch_add(1, std::memory_order_relaxed) % shards_.size()];
    const std::unique_lock lock(shard.mutex, std::try_to_lock);
    const bool clock_went_back = shard.purged_at > now;
    if (!lock || (saturating_add(shard.purged_at, every) > now && !clock_went_back)) return;
    shard.purged_at = now;
    for (auto at = shard.lists.begin(); at != shard.lists.end();) {
      const auto next = std::next(at);
      std::erase_if(at->second, is_stale);
      if (at->second.empty()) drop(shard, at);
      at = next;
    }
    if (shard.lists.size() < shard.lists.bucket_count() / 8) shard.lists.rehash(0);
  }

 private:
  using Lists = std::unordered_map<Key, List, Hash>;
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    Lists lists;
    Time purged_at = Time::min();
  };
  struct DropIfEmpty {
    UserLists& lists;
    Shard& shard;
    typename Lists::iterator at;
    ~DropIfEmpty() {
      if (at->second.empty()) lists.drop(shard, at);
    }
  };
  void drop(Shard& shard, typename Lists::iterator at) {
    shard.lists.erase(at);
    users_.fetch_sub(1, std::memory_order_relaxed);
  }
  [[nodiscard]] static std::size_t place_of(const Key& user) noexcept { return Hash{}(user) >> 58; }
  [[nodiscard]] Shard& shard_of(const Key& user) noexcept { return shards_[place_of(user)]; }
  [[nodiscard]] const Shard& shard_of(const Key& user) const noexcept { return shards_[place_of(user)]; }

  std::array<Shard, 64> shards_;
  std::atomic<std::size_t> users_{0};
  std::atomic<std::size_t> next_purged_{0};
};

SEENBY_DETAIL_END
