#pragma once
// SPDX-License-Identifier: MIT
// Replay: a user's history as digests or as items, which is what a filter is rebuilt from.

#include <functional>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// A digest out of a history, and when it was seen.
struct SeenDigest {
  Digest digest;   ///< the item's digest
  Time seen_at{};  ///< when
};
/// Reads what one user saw at `since` or later, as digests under the store's hasher. Called without any lock of the
/// store held; may do I/O; may be called from any thread.
using ReadSeen = std::function<Result<std::vector<SeenDigest>>(Time since)>;
/// As ReadSeen, for any user: what a filter is rebuilt from. A store asks for no more than its window.
template <class User>
using Replay = std::function<Result<std::vector<SeenDigest>>(const User& user, Time since)>;

/// What a store rebuilds users from: a history read as digests under the store's hasher. The history must outlive it.
template <HistoryLike History, Hasher Hash>
[[nodiscard]] Replay<typename History::user_type> replay_of(History& history, Hash hash) {
  return [&history, hash](const typename History::user_type& user, Time since) -> Result<std::vector<SeenDigest>> {
    auto items = history.seen_since(user, since);
    if (!items) return std::move(items).error();
    std::vector<SeenDigest> digests;
    digests.reserve(items->size());
    for (const auto& [item, when] : *items) digests.push_back({hash(item), when});
    return digests;
  };
}

/// Reads what a user saw at `since` or later, as items. May do I/O; may be called from any thread.
template <class User, class Item>
using ItemReplay = std::function<Result<std::vector<Item>>(const User& user, Time since)>;

/// A history as an ItemReplay. The history must outlive it.
template <HistoryLike History>
[[nodiscard]] ItemReplay<typename History::user_type, typename History::item_type> item_replay_of(History& history) {
  return [&history](const auto& user, Time since) -> Result<std::vector<typename History::item_type>> {
    auto seen = history.seen_since(user, since);
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
