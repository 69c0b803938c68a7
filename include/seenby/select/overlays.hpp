#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter knows for certain beside its store: explicit hides, the last items, items in flight.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
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
  /// As change, for a user that has a list; does nothing for others.
  template <class Edit>
  bool edit(const Key& user, Edit&& edit) {
    Shard& shard = shard_of(user);
    const std::unique_lock lock(shard.mutex);
    const auto found = shard.lists.find(user);
    if (found == shard.lists.end()) return false;
    const bool result = edit(found->second);
    if (found->second.empty()) drop(shard, found);
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
  /// Calls join(list of from, list of into) and forgets `from`, in one step: at no moment are the entries nowhere, and
  /// they stay with `from` where join throws.
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
    if (!source.lists.contains(from)) return;
    const auto [at, is_new] = target.lists.try_emplace(into);
    if (is_new) users_.fetch_add(1, std::memory_order_relaxed);
    const auto found = source.lists.find(from);  // looked up now: the new list may have moved the table
    join(found->second, at->second);
    drop(source, found);
  }
  /// Takes stale entries out of one shard, the next in line and at most once in `every`, so that what is not asked
  /// about again does not stay. Called by every write; 64 of them see to everybody.
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
  using Lists = std::unordered_map<Key, List, UserKeyHash>;
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    Lists lists;
    Time purged_at = Time::min();
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
  std::atomic<std::size_t> next_purged_{0};
};

/// Items reported seen by a user but not yet recorded; each expires by itself.
template <class Key>
class InFlight {
 public:
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  void add(const Key& user, std::span<const Digest> items, Time now, Time until) {
    purge(now);
    lists_.change(user, [&](auto& list) {
      std::erase_if(list, [now](const Entry& entry) { return entry.until <= now; });
      for (const Digest item : items) list.push_back({item, until});
      return true;
    });
  }
  /// Takes out items that are recorded by now.
  void settle(const Key& user, std::span<const Digest> items, Time now) {
    if (empty()) return;
    purge(now);
    lists_.edit(user, [&](auto& list) {
      std::erase_if(list, [&](const Entry& e) { return std::find(items.begin(), items.end(), e.item) != items.end(); });
      return true;
    });
  }
  /// Calls visit(digest) for each item that has not expired.
  template <class Visit>
  void visit(const Key& user, Time now, Visit&& visit) const {
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) {
        if (entry.until > now) visit(entry.item);
      }
    });
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    lists_.merge(from, into, [](auto& old, auto& list) { list.insert(list.end(), old.begin(), old.end()); });
  }

 private:
  struct Entry {
    Digest item;
    Time until;
  };
  void purge(Time now) {
    lists_.purge_next(now, std::chrono::minutes(1), [now](const Entry& entry) { return entry.until <= now; });
  }
  UserLists<Key, Entry> lists_;
};

/// The last items a user saw, exact: 16 bytes each. What has left the window is no longer one of them.
template <class Key>
class LastItems {
 public:
  /// How many to keep a user; 0 keeps none. For set-up.
  void keep(std::size_t items) noexcept { most_ = items; }
  [[nodiscard]] bool keeps() const noexcept { return most_ != 0; }
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  void add(const Key& user, std::span<const Digest> items, Time at) {
    if (most_ == 0 || items.empty()) return;
    items = items.last(std::min(items.size(), most_));
    lists_.change(user, [&](auto& list) {
      for (const Digest item : items) list.push_back({item, at});
      if (list.size() > most_) list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(most_));
      return true;
    });
  }
  /// Calls visit(digest) for each item within the window.
  template <class Visit>
  void visit(const Key& user, Time now, std::chrono::seconds window, Visit&& visit) const {
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) {
        if (within_window(entry.at, now, window)) visit(entry.item);
      }
    });
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    // All of both are kept, in the order of their times, until new ones push them out.
    lists_.merge(from, into, [](auto& old, auto& list) {
      list.insert(list.begin(), old.begin(), old.end());
      std::stable_sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) { return a.at < b.at; });
    });
  }

 private:
  struct Entry {
    Digest item;
    Time at;
  };
  std::size_t most_ = 0;
  UserLists<Key, Entry> lists_;
};

/// Items a user never wants to see again, exact and listable.
template <class Key>
class Hides {
 public:
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  /// True when it was not hidden before. `text` is the item in text_of_item's form, for listing.
  bool add(const Key& user, Digest item, ItemKind kind, std::string text) {
    return lists_.change(user, [&](auto& list) { return add_once(list, {item, kind, std::move(text)}); });
  }
  bool remove(const Key& user, Digest item) {
    return lists_.edit(user, [&](auto& list) {
      return std::erase_if(list, [item](const Entry& entry) { return entry.item == item; }) != 0;
    });
  }
  /// The texts of the items of one kind, in the order they were hidden.
  [[nodiscard]] std::vector<std::string> list(const Key& user, ItemKind kind) const {
    std::vector<std::string> texts;
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) {
        if (entry.kind == kind) texts.push_back(entry.text);
      }
    });
    return texts;
  }
  template <class Visit>
  void visit(const Key& user, Visit&& visit) const {
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) visit(entry.item);
    });
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    lists_.merge(from, into, [](const auto& old, auto& list) {
      for (const Entry& entry : old) add_once(list, entry);
    });
  }

 private:
  struct Entry {
    Digest item;
    ItemKind kind;
    std::string text;
  };
  static bool add_once(std::vector<Entry>& list, Entry entry) {
    const auto same = [&](const Entry& other) { return other.item == entry.item; };
    if (std::any_of(list.begin(), list.end(), same)) return false;
    list.push_back(std::move(entry));
    return true;
  }
  UserLists<Key, Entry> lists_;
};

/// What is known of users for certain. Any thread may call anything.
template <class Key>
struct Overlays {
  InFlight<Key> in_flight;
  Hides<Key> hides;
  LastItems<Key> last;

  [[nodiscard]] bool empty() const noexcept { return in_flight.empty() && hides.empty() && last.empty(); }
  /// Calls visit(digest) for everything that no page of this user may show.
  template <class Visit>
  void visit(const Key& user, Time now, std::chrono::seconds window, const Visit& visit) const {
    if (!hides.empty()) hides.visit(user, visit);
    if (!last.empty()) last.visit(user, now, window, visit);
    if (!in_flight.empty()) in_flight.visit(user, now, visit);
  }
  bool forget(const Key& user) {
    const bool hid = hides.forget(user);
    const bool flew = in_flight.forget(user);
    return last.forget(user) || hid || flew;
  }
  void merge(const Key& from, const Key& into) {
    hides.merge(from, into);
    in_flight.merge(from, into);
    last.merge(from, into);
  }
};

/// An item as bytes that item_of_text reads: what a list of hides keeps.
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
/// The item again; nothing where an integer type is too narrow for it.
template <class Item>
requires IntegerItem<Item> || std::constructible_from<Item, std::string>
[[nodiscard]] std::optional<Item> item_of_text(std::string text) {
  if constexpr (IntegerItem<Item>) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8 && i < text.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    const Item item = static_cast<Item>(value);
    return as_uint64(item) == value ? std::optional<Item>(item) : std::nullopt;
  } else {
    return Item(std::move(text));
  }
}

SEENBY_DETAIL_END
