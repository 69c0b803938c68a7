#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter knows for certain beside its store: items in flight, and what the store does not keep.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/detail/user_lists.hpp"
#include "seenby/hash.hpp"
#include "seenby/stores/exact_items.hpp"

SEENBY_DETAIL_BEGIN

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
  UserLists<Key, std::vector<Entry>, UserKeyHash> lists_;
};

/// What is known of users for certain beside their store: items in flight, and what a store that is no HidingStore does
/// not keep. Any thread may call anything.
template <class Key>
struct Overlays {
  InFlight<Key> in_flight;
  ExactUsers<Key, UserKeyHash> exact;

  [[nodiscard]] bool empty() const noexcept { return in_flight.empty() && exact.empty(); }
  /// Calls visit(digest) for everything that no page of this user may show.
  template <class Visit>
  void visit(const Key& user, Time now, std::chrono::seconds window, const Visit& visit) const {
    if (!exact.empty()) visit_exact(exact.of(user).get(), now, window, visit);
    if (!in_flight.empty()) in_flight.visit(user, now, visit);
  }
  bool forget(const Key& user) {
    const bool flew = in_flight.forget(user);
    return exact.forget(user) || flew;
  }
  void merge(const Key& from, const Key& into) {
    exact.merge(from, into);
    in_flight.merge(from, into);
  }
};

/// An item as a HiddenItem's text: a letter for its kind, then an integer's 8 bytes, the text or the bytes.
template <HashableItem Item>
[[nodiscard]] std::string text_of_item(const Item& item) {
  if constexpr (StringItem<Item>) {
    return std::string("t").append(std::string_view(item));
  } else {
    const auto bytes_of = [&] {
      if constexpr (IntegerItem<Item>) {
        return little_endian_bytes(as_uint64(item));
      } else {
        return std::span<const std::byte>(item);
      }
    };
    const auto bytes = bytes_of();
    return std::string(IntegerItem<Item> ? "i" : "b").append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}
/// The item again; nothing where it is of another kind, or an integer type is too narrow for it.
template <class Item>
requires IntegerItem<Item> || std::constructible_from<Item, std::string>
[[nodiscard]] std::optional<Item> item_of_text(std::string_view text) {
  const char kind = IntegerItem<Item> ? 'i' : StringItem<Item> ? 't' : 'b';
  if (text.empty() || text[0] != kind) return std::nullopt;
  text.remove_prefix(1);
  if constexpr (IntegerItem<Item>) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8 && i < text.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    const Item item = static_cast<Item>(value);
    return as_uint64(item) == value ? std::optional<Item>(item) : std::nullopt;
  } else {
    return Item(std::string(text));
  }
}

SEENBY_DETAIL_END
