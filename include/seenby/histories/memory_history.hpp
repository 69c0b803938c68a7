#pragma once
// SPDX-License-Identifier: MIT
// MemoryHistory: a history in memory.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/both_locked.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// A history in memory, an EventHistory and a HidingHistory: for tests, for examples, and for processes that keep the
/// truth themselves. Exact sets cost a hundred bytes an item and more; that is why filters exist. `event_count` looks
/// at every user.
///
/// Thread safety: any thread may call anything. A batch of events of many users is all or nothing for each user, in
/// order, not for the batch: only running out of memory ends one half-way.
template <HashableItem User, HashableItem Item>
class MemoryHistory {
 public:
  using user_type = User;               ///< who sees
  using item_type = Item;               ///< what it holds
  using Event = SeenEvent<User, Item>;  ///< one sight of an item

  /// Adds a sight of each item at one time.
  Result<void> append(const User& user, std::span<const Item> items, Time when) {
    if (items.empty()) return {};
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    Record& record = record_of(shard, key, user);
    for (const Item& item : items) record.items[item].add(detail::event_number({}, when), when);
    return {};
  }
  /// Adds events; returns how many were not there yet.
  Result<std::size_t> append(std::span<const Event> events) {
    std::size_t fresh = 0;
    for (const Event& event : events) {
      const auto key = detail::user_key(event.user);
      Shard& shard = shard_of(key);
      const std::lock_guard lock(shard.mutex);
      Sights& sights = record_of(shard, key, event.user).items[event.item];
      fresh += sights.add(detail::event_number(event.id, event.seen_at), event.seen_at) ? 1U : 0U;
    }
    return fresh;
  }

  /// out[i] = 1 where the user saw item i at `since` or later, else 0; out is as long as items.
  Result<void> contains(const User& user, std::span<const Item> items, std::span<std::uint8_t> out,
                        Time since = all_time) const {
    return contains(user, items, out, {}, since);
  }
  /// The same, and hides[i] = 1 where the user hid item i, else 0; hides is as long as items.
  Result<void> contains(const User& user, std::span<const Item> items, std::span<std::uint8_t> out,
                        std::span<std::uint8_t> hides, Time since = all_time) const {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    std::fill(hides.begin(), hides.end(), std::uint8_t{0});
    read(user, [&](const Record* record) {
      for (std::size_t i = 0; record != nullptr && i < items.size(); ++i) {
        const auto found = record->items.find(items[i]);
        out[i] = found != record->items.end() && found->second.latest >= since ? 1 : 0;
        if (!hides.empty()) hides[i] = record->hides_item(items[i]) ? 1 : 0;
      }
    });
    return {};
  }
  /// The items that the user saw at `since` or later, each once with the last time.
  [[nodiscard]] Result<std::vector<SeenItem<Item>>> seen_since(const User& user, Time since = all_time) const {
    std::vector<SeenItem<Item>> list;
    read(user, [&](const Record* record) {
      if (record == nullptr) return;
      list.reserve(record->items.size());
      for (const auto& [item, sights] : record->items) {
        if (sights.latest >= since) list.push_back({item, sights.latest});
      }
    });
    return list;
  }

  /// Hides items for good; returns how many were not hidden.
  Result<std::size_t> hide(const User& user, std::span<const Hide<Item>> hides) {
    std::size_t fresh = 0;
    if (hides.empty()) return fresh;
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    Record& record = record_of(shard, key, user);
    for (const Hide<Item>& hide : hides) fresh += record.hide(hide) ? 1U : 0U;
    return fresh;
  }
  /// Takes hides back; returns how many there were.
  Result<std::size_t> unhide(const User& user, std::span<const Item> items) {
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.users.find(key);
    if (found == shard.users.end()) return std::size_t{0};
    const std::size_t taken = std::erase_if(found->second.hides, [&](const Hide<Item>& hide) {
      return std::find(items.begin(), items.end(), hide.item) != items.end();
    });
    if (found->second.empty()) shard.users.erase(found);
    return taken;
  }
  /// What the user hid, in the order it was hidden.
  [[nodiscard]] Result<std::vector<Hide<Item>>> hidden(const User& user) const {
    std::vector<Hide<Item>> list;
    read(user, [&](const Record* record) {
      if (record != nullptr) list = record->hides;
    });
    return list;
  }

  /// Deletes the user's events and hides; true when there were any.
  Result<bool> forget(const User& user) {
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    return shard.users.erase(key) != 0;
  }
  /// Deletes the user's events of these items; returns how many items had any.
  Result<std::size_t> erase(const User& user, std::span<const Item> items) {
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.users.find(key);
    std::size_t erased = 0;
    if (found == shard.users.end()) return erased;
    for (const Item& item : items) erased += found->second.items.erase(item);
    if (found->second.empty()) shard.users.erase(found);
    return erased;
  }
  /// Gives the events and hides of `from` to `into`; true when there were any.
  Result<bool> merge(const User& from, const User& into) {
    const auto source_key = detail::user_key(from);
    const auto target_key = detail::user_key(into);
    if (source_key == target_key) return false;
    Shard& source = shard_of(source_key);
    Shard& target = shard_of(target_key);
    const detail::BothLocked both(source.mutex, target.mutex);
    const auto found = source.users.find(source_key);
    if (found == source.users.end()) return false;
    Record& kept = record_of(target, target_key, into);
    for (const auto& [item, sights] : found->second.items) kept.items[item].add(sights);
    for (const Hide<Item>& hide : found->second.hides) kept.hide(hide);
    source.users.erase(source_key);
    return true;
  }

  /// A page of at most `limit` users, in a fixed order, behind `after`.
  [[nodiscard]] Result<std::vector<User>> users(const std::optional<User>& after, std::size_t limit) const {
    std::vector<User> page;
    const detail::UserKey last = after ? detail::user_key(*after) : detail::UserKey{};
    for (std::size_t i = after ? index_of(last) : 0; i < shards_.size() && page.size() < limit; ++i) {
      const Shard& shard = shards_[i];
      const std::shared_lock lock(shard.mutex);
      auto at = after && i == index_of(last) ? shard.users.upper_bound(last) : shard.users.begin();
      for (; at != shard.users.end() && page.size() < limit; ++at) {
        if (!at->second.items.empty()) page.push_back(at->second.user);
      }
    }
    return page;
  }
  /// Different items that the user saw at `since` or later.
  [[nodiscard]] Result<std::uint64_t> item_count(const User& user, Time since = all_time) const {
    std::uint64_t count = 0;
    read(user, [&](const Record* record) {
      if (record == nullptr) return;
      for (const auto& [item, sights] : record->items) count += sights.latest >= since ? 1U : 0U;
    });
    return count;
  }
  /// Events of an item, over all users.
  [[nodiscard]] Result<std::uint64_t> event_count(const Item& item) const {
    std::uint64_t count = 0;
    for (const Shard& shard : shards_) {
      const std::shared_lock lock(shard.mutex);
      for (const auto& [key, record] : shard.users) {
        if (const auto found = record.items.find(item); found != record.items.end()) {
          count += found->second.events.size();
        }
      }
    }
    return count;
  }

 private:
  /// What a user saw of one item.
  struct Sights {
    Time latest = all_time;
    std::vector<std::uint64_t> events;  // a handful at most: a search is a scan

    /// False when the event is there already.
    bool add(std::uint64_t event, Time when) {
      if (std::find(events.begin(), events.end(), event) != events.end()) return false;
      events.push_back(event);
      latest = std::max(latest, when);
      return true;
    }
    void add(const Sights& other) {
      for (const std::uint64_t event : other.events) add(event, other.latest);
      latest = std::max(latest, other.latest);
    }
  };
  struct ItemHash {
    std::size_t operator()(const Item& item) const noexcept {
      return static_cast<std::size_t>(Mix64Hash{}(item).value);
    }
  };
  struct Record {
    User user;
    std::unordered_map<Item, Sights, ItemHash> items;
    std::vector<Hide<Item>> hides;  // in the order they were hidden

    [[nodiscard]] bool empty() const noexcept { return items.empty() && hides.empty(); }
    [[nodiscard]] bool hides_item(const Item& item) const {
      return std::any_of(hides.begin(), hides.end(), [&](const Hide<Item>& hide) { return hide.item == item; });
    }
    /// False when it is hidden already.
    bool hide(const Hide<Item>& hide) {
      if (hides_item(hide.item)) return false;
      hides.push_back(hide);
      return true;
    }
  };
  struct KeyOrder {
    bool operator()(const detail::UserKey& a, const detail::UserKey& b) const noexcept {
      return a.low != b.low ? a.low < b.low : a.high < b.high;
    }
  };
  struct Shard {
    mutable std::shared_mutex mutex;
    std::map<detail::UserKey, Record, KeyOrder> users;  // in order, for `users` to go on where it stopped
  };

  static Record& record_of(Shard& shard, const detail::UserKey& key, const User& user) {
    return shard.users.try_emplace(key, Record{user, {}, {}}).first->second;
  }
  template <class Use>
  void read(const User& user, const Use& use) const {
    const auto key = detail::user_key(user);
    const Shard& shard = shards_[index_of(key)];
    const std::shared_lock lock(shard.mutex);
    const auto found = shard.users.find(key);
    use(found == shard.users.end() ? nullptr : &found->second);
  }
  [[nodiscard]] static std::size_t index_of(const detail::UserKey& key) noexcept {
    return detail::UserKeyHash{}(key) % shard_count;
  }
  [[nodiscard]] Shard& shard_of(const detail::UserKey& key) { return shards_[index_of(key)]; }

  static constexpr std::size_t shard_count = 64;
  std::array<Shard, shard_count> shards_;
};

}  // namespace seenby
