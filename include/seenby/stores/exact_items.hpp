#pragma once
// SPDX-License-Identifier: MIT
// What a store keeps exact beside a user's filter: the items the user hid, and those they saw last.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
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

/// An item that is seen whatever the filter says, while `at` is within the window: Time::max() where the user hid it.
struct ExactItem {
  Digest digest;          ///< the item's digest
  Time at = Time::max();  ///< Time::max(): hidden for good

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
    if (within_window(item.at, now, window)) visit(item.digest);
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

/// One user's exact items.
struct ExactItems {
  std::vector<HiddenItem> hides;  // in the order they were hidden, each once
  ExactList kept;                 // in the order they were recorded

  [[nodiscard]] bool empty() const noexcept { return hides.empty() && kept.empty(); }
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
  /// All that both kept stays, in the order of its times, until new records push it out.
  void merge(const ExactItems& from) {
    hide(from.hides);
    kept.insert(kept.begin(), from.kept.begin(), from.kept.end());
    std::stable_sort(kept.begin(), kept.end(), [](const ExactItem& a, const ExactItem& b) { return a.at < b.at; });
  }
  /// For a check: null when there are none.
  [[nodiscard]] std::shared_ptr<const ExactList> list() const {
    if (empty()) return nullptr;
    ExactList all = kept;
    for (const HiddenItem& item : hides) all.push_back({item.digest});
    return std::make_shared<const ExactList>(std::move(all));
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
