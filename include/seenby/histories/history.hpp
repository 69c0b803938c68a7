#pragma once
// SPDX-License-Identifier: MIT
// History: the exact source of truth that filters are rebuilt from and false positives are checked against.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// An item out of a history, and when it was last seen.
template <class Item>
struct SeenItem {
  Item item;
  Time seen_at{};
};

/// An exact record of who saw what: SQLite, PostgreSQL, your own.
///
/// - `append` makes the items durable before it returns a value; recording an item again keeps the later time.
/// - `contains` sets out[i] to 1 when the user saw item i, else 0: exact.
/// - `items` lists everything a user saw.
/// - `forget` removes every trace of a user; true when there was one.
///
/// Every member may be called from any thread.
template <class History>
concept HistoryLike = requires {
  typename History::user_type;
  typename History::item_type;
}
&&requires(History& history, const typename History::user_type& user,
           std::span<const typename History::item_type> items, std::span<std::uint8_t> out, Time when) {
  { history.append(user, items, when) } -> std::same_as<Result<void>>;
  { history.contains(user, items, out) } -> std::same_as<Result<void>>;
  { history.items(user) } -> std::same_as<Result<std::vector<SeenItem<typename History::item_type>>>>;
  { history.forget(user) } -> std::same_as<Result<bool>>;
};

/// No history: filters then grow by themselves, and nothing can be verified.
struct NoHistory {};

/// A history in memory: for tests, for examples, and for processes that keep the truth themselves. Exact sets cost
/// tens of bytes an item; that is why filters exist. Any thread may call anything.
template <HashableItem User, HashableItem Item>
class MemoryHistory {
 public:
  using user_type = User;
  using item_type = Item;

  Result<void> append(const User& user, std::span<const Item> items, Time when) {
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    auto& seen = shard.users[key];
    for (const Item& item : items) {
      Time& at = seen.try_emplace(item, when).first->second;
      at = std::max(at, when);
    }
    return {};
  }

  Result<void> contains(const User& user, std::span<const Item> items, std::span<std::uint8_t> out) const {
    const auto key = detail::user_key(user);
    const Shard& shard = shard_of(key);
    const std::shared_lock lock(shard.mutex);
    const auto found = shard.users.find(key);
    for (std::size_t i = 0; i < items.size(); ++i) {
      out[i] = found != shard.users.end() && found->second.contains(items[i]) ? 1 : 0;
    }
    return {};
  }

  [[nodiscard]] Result<std::vector<SeenItem<Item>>> items(const User& user) const {
    const auto key = detail::user_key(user);
    const Shard& shard = shard_of(key);
    const std::shared_lock lock(shard.mutex);
    std::vector<SeenItem<Item>> list;
    if (const auto found = shard.users.find(key); found != shard.users.end()) {
      list.reserve(found->second.size());
      for (const auto& [item, when] : found->second) list.push_back({item, when});
    }
    return list;
  }

  Result<bool> forget(const User& user) {
    const auto key = detail::user_key(user);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    return shard.users.erase(key) != 0;
  }

 private:
  struct Shard {
    mutable std::shared_mutex mutex;
    std::unordered_map<detail::UserKey, std::unordered_map<Item, Time>, detail::UserKeyHash> users;
  };
  [[nodiscard]] Shard& shard_of(const detail::UserKey& key) {
    return shards_[detail::UserKeyHash{}(key) % shards_.size()];
  }
  [[nodiscard]] const Shard& shard_of(const detail::UserKey& key) const {
    return shards_[detail::UserKeyHash{}(key) % shards_.size()];
  }
  std::array<Shard, 64> shards_;
};

}  // namespace seenby
