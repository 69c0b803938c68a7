#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter knows for certain beside its store: items in flight and explicit hides.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "seenby/detail/user_key.hpp"
#include "seenby/filter_store.hpp"
#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// Items served or reported to a user but not yet recorded; each expires by itself. Any thread may call anything.
class InFlight {
 public:
  void add(const UserKey& user, std::span<const Digest> items, Time until) {
    const std::unique_lock lock(mutex_);
    auto& entries = users_[user];
    for (const Digest item : items) entries.push_back({item, until});
    total_.fetch_add(items.size(), std::memory_order_relaxed);
  }
  /// Takes out items that are recorded by now, and whatever has expired.
  void settle(const UserKey& user, std::span<const Digest> items, Time now) {
    if (empty()) return;
    const std::unique_lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end()) return;
    const std::size_t gone = std::erase_if(found->second, [&](const Entry& entry) {
      return entry.until <= now || std::ranges::find(items, entry.item) != items.end();
    });
    total_.fetch_sub(gone, std::memory_order_relaxed);
    if (found->second.empty()) users_.erase(found);
  }
  void collect(const UserKey& user, Time now, std::vector<Digest>& into) const {
    const std::shared_lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end()) return;
    for (const Entry& entry : found->second) {
      if (entry.until > now) into.push_back(entry.item);
    }
  }
  bool forget(const UserKey& user) {
    const std::unique_lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end()) return false;
    total_.fetch_sub(found->second.size(), std::memory_order_relaxed);
    users_.erase(found);
    return true;
  }
  void merge(const UserKey& from, const UserKey& into) {
    const std::unique_lock lock(mutex_);
    auto node = users_.extract(from);
    if (node.empty()) return;
    auto& target = users_[into];
    target.insert(target.end(), node.mapped().begin(), node.mapped().end());
  }
  [[nodiscard]] bool empty() const noexcept { return total_.load(std::memory_order_relaxed) == 0; }

 private:
  struct Entry {
    Digest item;
    Time until;
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<UserKey, std::vector<Entry>, UserKeyHash> users_;
  std::atomic<std::size_t> total_{0};
};

/// Items a user never wants to see again, exact and listable. Any thread may call anything.
class Hides {
 public:
  /// True when it was not hidden before. `text` is the item in as_text's form, for listing.
  bool add(const UserKey& user, Digest item, std::string text) {
    const std::unique_lock lock(mutex_);
    auto& entries = users_[user];
    if (std::ranges::any_of(entries, [&](const Entry& entry) { return entry.item == item; })) return false;
    entries.push_back({item, std::move(text)});
    total_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  bool remove(const UserKey& user, Digest item) {
    const std::unique_lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end()) return false;
    const std::size_t gone = std::erase_if(found->second, [&](const Entry& entry) { return entry.item == item; });
    total_.fetch_sub(gone, std::memory_order_relaxed);
    if (found->second.empty()) users_.erase(found);
    return gone != 0;
  }
  [[nodiscard]] std::vector<std::string> list(const UserKey& user) const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> texts;
    if (const auto found = users_.find(user); found != users_.end()) {
      for (const Entry& entry : found->second) texts.push_back(entry.text);
    }
    return texts;
  }
  void collect(const UserKey& user, std::vector<Digest>& into) const {
    const std::shared_lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end()) return;
    for (const Entry& entry : found->second) into.push_back(entry.item);
  }
  bool forget(const UserKey& user) {
    const std::unique_lock lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end()) return false;
    total_.fetch_sub(found->second.size(), std::memory_order_relaxed);
    users_.erase(found);
    return true;
  }
  void merge(const UserKey& from, const UserKey& into) {
    const std::unique_lock lock(mutex_);
    auto node = users_.extract(from);
    if (node.empty()) return;
    auto& target = users_[into];
    for (Entry& entry : node.mapped()) {
      const bool known = std::ranges::any_of(target, [&](const Entry& other) { return other.item == entry.item; });
      if (known) {
        total_.fetch_sub(1, std::memory_order_relaxed);
      } else {
        target.push_back(std::move(entry));
      }
    }
  }
  [[nodiscard]] bool empty() const noexcept { return total_.load(std::memory_order_relaxed) == 0; }

 private:
  struct Entry {
    Digest item;
    std::string text;
  };
  mutable std::shared_mutex mutex_;
  std::unordered_map<UserKey, std::vector<Entry>, UserKeyHash> users_;
  std::atomic<std::size_t> total_{0};
};

/// An item as bytes that item_from turns back: what a list of hides keeps.
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
