#pragma once
// SPDX-License-Identifier: MIT
// ItemReplay: a user's history as items, for stores whose filters are not made of digests.

#include <functional>
#include <utility>
#include <vector>

#include "seenby/history.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// Reads a user's whole history as items. May do I/O; may be called from any thread.
template <class User, class Item>
using ItemReplay = std::function<Result<std::vector<Item>>(const User&)>;

/// A history as an ItemReplay. The history must outlive it.
template <HistoryLike History>
[[nodiscard]] ItemReplay<typename History::user_type, typename History::item_type> item_replay_of(History& history) {
  return [&history](const auto& user) -> Result<std::vector<typename History::item_type>> {
    auto seen = history.items(user);
    if (!seen) return std::move(seen).error();
    std::vector<typename History::item_type> items;
    items.reserve(seen->size());
    for (auto& entry : *seen) items.push_back(std::move(entry.item));
    return items;
  };
}

/// A store that is rebuilt from items: it sends them to a server, or places them by a hash of its own.
template <class Store, class History>
concept ItemReplayableStore = requires(Store& store, History& history) {
  store.set_item_replay(item_replay_of(history));
};

}  // namespace seenby
