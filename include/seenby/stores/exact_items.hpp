#pragma once
// SPDX-License-Identifier: MIT
// What a store keeps exact beside a user's filter: the items the user hid, and those they saw last.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_lists.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// An item that a user hid for good.
struct HiddenItem {
  Digest digest;       ///< the item's digest
  std::string text{};  ///< the item itself, for listing, as SeenFilter writes it; at most 65,535 bytes
  Time at{};           ///< when it was hidden

  friend bool operator==(const HiddenItem&, const HiddenItem&) = default;  ///< equal in every member
};

/// An item that is seen whatever the filter says, while `at` is within the window and until its deadline. Where the
/// user hid it, both are Time::max(); where it is in flight, `at` is.
struct ExactItem {
  Digest digest;             ///< the item's digest
  Time at = Time::max();     ///< when it was seen; Time::max(): hidden for good, or in flight
  Time until = Time::max();  ///< where it is in flight, its deadline

  friend bool operator==(const ExactItem&, const ExactItem&) = default;  ///< equal in every member
};
using ExactList = std::vector<ExactItem>;  ///< A user's exact items, in no order.

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// Calls visit(digest) for each that counts now; `list` may be null.
template <class Visit>
void visit_exact(const ExactList* list, Time now, std::chrono::seconds window, Visit&& visit) {
  if (list == nullptr) return;
  for (const ExactItem& item : *list) {
    if (item.until > now && within_window(item.at, now, window)) visit(item.digest);
  }
}

/// What a store that writes hides to bytes can keep.
[[nodiscard]] inline Result<void> check_hidden(std::span<const HiddenItem> items) {
  for (const HiddenItem& item : items) {
    if (item.text.size() <= 65'535) continue;
    std::string message = "seenby: expected a hidden item's text of at most 65,535 bytes, got ";
    return Error{ErrorCode::too_large, message.append(std::to_string(item.text.size()))};
  }
  return {};
}

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
/// What a text can be read back as.
template <class Item>
concept ItemOfText = IntegerItem<Item> || std::constructible_from<Item, std::string>;

/// The item again; nothing where it is of another kind, or an integer type is too narrow for it.
template <ItemOfText Item>
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
/// The digest of the item that a text names; of no item where it names none.
template <Hasher Hash>
[[nodiscard]] std::optional<Digest> digest_of_text(const Hash& hash, std::string_view text) {
  if (const auto number = text.size() == 9 ? item_of_text<std::uint64_t>(text) : std::nullopt) return hash(*number);
  if (text.starts_with('t') || text.starts_with('b')) return hash(text.substr(1));
  return std::nullopt;
}

/// One user's exact items.
struct ExactItems {
  std::vector<HiddenItem> hides;  // in the order they were hidden, each once
  ExactList kept;                 // in the order they were recorded
  ExactList in_flight;            // each once, until its deadline

  [[nodiscard]] bool empty() const noexcept { return hides.empty() && kept.empty() && in_flight.empty(); }
  /// Says how many were not hidden before.
  std::size_t hide(std::span<const HiddenItem> items) {
    const std::size_t before = hides.size();
    for (const HiddenItem& item : items) {
      const auto same = [&](const HiddenItem& hidden) { return hidden.digest == item.digest; };
      if (std::none_of(hides.begin(), hides.end(), same)) hides.push_back(item);
    }
    return hides.size() - before;
  }
  std::size_t unhide(std::span<const Digest> digests) {
    return std::erase_if(hides, [&](const HiddenItem& hidden) {
      return std::find(digests.begin(), digests.end(), hidden.digest) != digests.end();
    });
  }
  /// The last `most` records are kept.
  void keep(std::span<const Digest> digests, Time at, std::size_t most) {
    for (const Digest digest : digests.last(std::min(digests.size(), most))) kept.push_back({digest, at});
    if (kept.size() > most) kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(most));
  }
  /// Items that are seen until a deadline; the later one counts. What has expired goes.
  void mark(std::span<const Digest> digests, Time until, Time now) {
    std::erase_if(in_flight, [now](const ExactItem& mark) { return mark.until <= now; });
    for (const Digest digest : digests) mark({digest, Time::max(), until});
  }
  /// Takes out marks of what is recorded.
  void settle(std::span<const Digest> digests) {
    std::erase_if(in_flight, [&](const ExactItem& mark) {
      return std::find(digests.begin(), digests.end(), mark.digest) != digests.end();
    });
  }
  /// All that both kept stays, in the order of its times, until new records push it out. A second time changes nothing.
  void merge(const ExactItems& from) {
    hide(from.hides);
    for (const ExactItem& mark : from.in_flight) this->mark(mark);
    for (const ExactItem& item : from.kept) {
      if (std::find(kept.begin(), kept.end(), item) == kept.end()) kept.push_back(item);
    }
    std::stable_sort(kept.begin(), kept.end(), [](const ExactItem& a, const ExactItem& b) { return a.at < b.at; });
  }
  /// For a check: null when there are none.
  [[nodiscard]] std::shared_ptr<const ExactList> list() const {
    if (empty()) return nullptr;
    ExactList all = kept;
    all.insert(all.end(), in_flight.begin(), in_flight.end());
    for (const HiddenItem& item : hides) all.push_back({item.digest});
    return std::make_shared<const ExactList>(std::move(all));
  }

 private:
  void mark(const ExactItem& item) {
    const auto same = [&](const ExactItem& other) { return other.digest == item.digest; };
    const auto found = std::find_if(in_flight.begin(), in_flight.end(), same);
    if (found == in_flight.end()) {
      in_flight.push_back(item);
    } else {
      found->until = std::max(found->until, item.until);
    }
  }
};

/// The exact items of all users who have some. Any thread may call anything. Key is a parameter so that only programs
/// that use the table compile it.
template <class Key, class Hash>
class ExactUsers {
 public:
  [[nodiscard]] bool empty() const noexcept { return lists_.empty(); }
  /// How many records to keep a user; 0 keeps none. For set-up.
  void keep_last(std::size_t items) noexcept { most_ = items; }
  [[nodiscard]] bool keeps() const noexcept { return most_ != 0; }

  std::size_t hide(const Key& user, std::span<const HiddenItem> items) {
    return lists_.change(user, [&](Entry& entry) { return entry.change([&] { return entry.hide(items); }); });
  }
  std::size_t unhide(const Key& user, std::span<const Digest> digests) {
    return lists_.change(user, [&](Entry& entry) { return entry.change([&] { return entry.unhide(digests); }); });
  }
  void keep(const Key& user, std::span<const Digest> digests, Time at) {
    if (most_ == 0 || digests.empty()) return;
    lists_.change(user, [&](Entry& entry) {
      return entry.change([&] {
        entry.keep(digests, at, most_);
        return true;
      });
    });
  }
  void add(const Key& user, const ExactItems& items) {
    lists_.change(user, [&](Entry& entry) {
      return entry.change([&] {
        entry.merge(items);
        return true;
      });
    });
  }
  [[nodiscard]] std::vector<HiddenItem> hidden(const Key& user) const {
    std::vector<HiddenItem> items;
    lists_.read(user, [&](const Entry& entry) { items = entry.hides; });
    return items;
  }
  /// Null where the user has none. Allocates nothing.
  [[nodiscard]] std::shared_ptr<const ExactList> of(const Key& user) const {
    std::shared_ptr<const ExactList> list;
    lists_.read(user, [&](const Entry& entry) { list = entry.all; });
    return list;
  }
  bool forget(const Key& user) { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) {
    lists_.merge(from, into, [](const Entry& old, Entry& entry) {
      entry.change([&] {
        entry.merge(old);
        return true;
      });
    });
  }
  /// Calls visit(key, items) for every user.
  template <class Visit>
  void for_each(Visit&& visit) const {
    lists_.for_each(visit);
  }
  /// Takes the users of `other`, which no other thread looks at, in place of these.
  void replace_by(ExactUsers& other) { lists_.replace_by(other.lists_); }

 private:
  struct Entry : ExactItems {
    std::shared_ptr<const ExactList> all;

    template <class Change>
    auto change(Change&& change) {
      auto result = change();
      all = list();
      return result;
    }
  };
  std::size_t most_ = 0;
  UserLists<Key, Entry, Hash> lists_;
};

SEENBY_DETAIL_END
