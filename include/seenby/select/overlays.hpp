#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter knows for certain beside its store: explicit hides, the last items, items in flight.

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// A list of entries a user, in shards with a lock each. A user without entries costs nothing. Any thread may call
/// anything; the callbacks run under the shard's lock. Key is UserKey, as a parameter: only programs that use a
/// SeenFilter then compile its tables.
template <class Key, class Entry>
class UserLists {
 public:
  using List = std::vector<Entry>;

  /// No user has an entry: one load, for hot paths.
  [[nodiscard]] bool empty() const noexcept { return users_.load(std::memory_order_relaxed) == 0; }

  /// Calls change(list) with the user's list, new if need be; an empty one is dropped afterwards.
  template <class Change>
  auto change(const Key& user, Change&& change) {
    Shard& shard = shard_of(user);
    const std::unique_lock lock(shard.mutex);
    const auto [at, is_new] = shard.lists.try_emplace(user);
    if (is_new) users_.fetch_add(1, std::memory_order_relaxed);
    auto result = change(at->second);
    if (at->second.empty()) drop(shard, at);
    return result;
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
  /// Calls join(entries of from, list of into) and forgets `from`, in one step: at no moment are the entries nowhere.
  template <class Join>
  void merge(const Key& from, const Key& into, Join&& join) {
    if (from == into) return;
    Shard& source = shard_of(from);
    Shard& target = shard_of(into);
    std::unique_lock first(source.mutex, std::defer_lock);
    std::unique_lock second(target.mutex, std::defer_lock);
    if (&source == &target) {
      first.lock();
    } else {
      std::lock(first, second);
    }
    const auto found = source.lists.find(from);
    if (found == source.lists.end()) return;
    List entries = std::move(found->second);
    source.lists.erase(found);
    const auto [at, is_new] = target.lists.try_emplace(into);
    if (!is_new) users_.fetch_sub(1, std::memory_order_relaxed);
    join(entries, at->second);
  }
  /// Takes entries out of the user's shard where a list outlived its use: keeps the table from growing for ever.
  template <class IsStale>
  void sweep(const Key& user, IsStale&& is_stale) {
    Shard& shard = shard_of(user);
    const std::unique_lock lock(shard.mutex);
    if (shard.lists.size() < shard.sweep_at) return;
    for (auto at = shard.lists.begin(); at != shard.lists.end();) {
      std::erase_if(at->second, is_stale);
      const auto next = std::next(at);
      if (at->second.empty()) drop(shard, at);
      at = next;
    }
    shard.sweep_at = std::max<std::size_t>(64, 2 * shard.lists.size());
  }

 private:
  using Lists = std::unordered_map<Key, List, UserKeyHash>;
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    Lists lists;
    std::size_t sweep_at = 64;
  };
  void drop(Shard& shard, typename Lists::iterator at) {
    shard.lists.erase(at);
    users_.fetch_sub(1, std::memory_order_relaxed);
  }
  [[nodiscard]] static std::size_t place_of(const Key& user) noexcept { return UserKeyHash{}(user) >> 58; }
  [[nodiscard]] Shard& shard_of(const Key& user) noexcept { return shards_[place_of(user)]; }
  [[nodiscard]] const Shard& shard_of(const Key& user) const noexcept { return shards_[place_of(user)]; }

  std::array<Shard, 64> shards_;
  std::atomic<std::size_t> users_{0};
};

/// Items served or reported to a user but not yet recorded; each expires by itself.
template <class Key>
class InFlight {
 public:
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  void add(const Key& user, std::span<const Digest> items, Time now, Time until) {
    lists_.change(user, [&](auto& list) {
      std::erase_if(list, [now](const Entry& entry) { return entry.until <= now; });
      for (const Digest item : items) list.push_back({item, until});
      return true;
    });
    lists_.sweep(user, [now](const Entry& entry) { return entry.until <= now; });
  }
  /// Takes out items that are recorded by now.
  void settle(const Key& user, std::span<const Digest> items) {
    if (empty()) return;
    lists_.change(user, [&](auto& list) {
      return std::erase_if(list, [&](const Entry& e) { return std::ranges::find(items, e.item) != items.end(); });
    });
  }
  void collect(const Key& user, Time now, std::vector<Digest>& into) const {
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) {
        if (entry.until > now) into.push_back(entry.item);
      }
    });
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    lists_.merge(from, into,
                 [](auto& entries, auto& list) { list.insert(list.end(), entries.begin(), entries.end()); });
  }

 private:
  struct Entry {
    Digest item;
    Time until;
  };
  UserLists<Key, Entry> lists_;
};

/// The last items a user saw, exact: 8 bytes each.
template <class Key>
class LastItems {
 public:
  /// How many to keep a user; 0 keeps none. For set-up.
  void keep(std::size_t items) noexcept { most_ = items; }
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  void add(const Key& user, std::span<const Digest> items) {
    if (most_ == 0 || items.empty()) return;
    lists_.change(user, [&](auto& list) {
      list.insert(list.end(), items.begin(), items.end());
      if (list.size() > most_) list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(most_));
      return true;
    });
  }
  void collect(const Key& user, std::vector<Digest>& into) const {
    lists_.read(user, [&](const auto& list) { into.insert(into.end(), list.begin(), list.end()); });
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    // Which were seen last nobody knows any more: all of both are kept until new ones push them out.
    lists_.merge(from, into,
                 [](auto& entries, auto& list) { list.insert(list.begin(), entries.begin(), entries.end()); });
  }

 private:
  std::size_t most_ = 0;
  UserLists<Key, Digest> lists_;
};

/// Items a user never wants to see again, exact and listable.
template <class Key>
class Hides {
 public:
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  /// True when it was not hidden before. `text` is the item in text_of_item's form, for listing.
  bool add(const Key& user, Digest item, std::string text) {
    return lists_.change(user, [&](auto& list) { return add_once(list, {item, std::move(text)}); });
  }
  bool remove(const Key& user, Digest item) {
    return lists_.change(user, [&](auto& list) {
      return std::erase_if(list, [item](const Entry& entry) { return entry.item == item; }) != 0;
    });
  }
  [[nodiscard]] std::vector<std::string> list(const Key& user) const {
    std::vector<std::string> texts;
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) texts.push_back(entry.text);
    });
    return texts;
  }
  void collect(const Key& user, std::vector<Digest>& into) const {
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) into.push_back(entry.item);
    });
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    lists_.merge(from, into, [](auto& entries, auto& list) {
      for (Entry& entry : entries) add_once(list, std::move(entry));
    });
  }

 private:
  struct Entry {
    Digest item;
    std::string text;
  };
  static bool add_once(std::vector<Entry>& list, Entry entry) {
    if (std::ranges::find(list, entry.item, &Entry::item) != list.end()) return false;
    list.push_back(std::move(entry));
    return true;
  }
  UserLists<Key, Entry> lists_;
};

/// An item as bytes that item_of_text turns back: what a list of hides keeps.
template <HashableItem Item>
[[nodiscard]] std::string text_of_item(const Item& item) {
  if constexpr (StringItem<Item>) {
    return std::string(std::string_view(item));
  } else if constexpr (IntegerItem<Item>) {
    const auto bytes = little_endian_bytes(as_uint64(item));
    return {bytes.begin(), bytes.end()};
  } else {
    const std::span<const std::byte> bytes = item;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
}
template <class Item>
requires IntegerItem<Item> || std::constructible_from<Item, std::string>
[[nodiscard]] Item item_of_text(std::string text) {
  if constexpr (IntegerItem<Item>) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8 && i < text.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    return static_cast<Item>(value);
  } else {
    return Item(std::move(text));
  }
}

SEENBY_DETAIL_END
