#pragma once
// SPDX-License-Identifier: MIT
// History: the exact source of truth that filters are rebuilt from and false positives are checked against.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// An item out of a history, and when it was last seen.
template <class Item>
struct SeenItem {
  Item item;       ///< what was seen
  Time seen_at{};  ///< when
};

/// One sight of one item by one user, as a log keeps it.
template <class User, class Item>
struct SeenEvent {
  User user;       ///< who saw it
  Item item;       ///< what was seen
  Time seen_at{};  ///< the event's own time, not the time it arrived
  /// What tells a repeated delivery from a second sight of the item. Empty: the event's time does.
  std::string id{};
};

/// An item that a user hid for good, and when.
template <class Item>
struct Hide {
  Item item;  ///< what was hidden
  Time at{};  ///< when
};

/// An exact record of who saw what: SQLite, PostgreSQL, your own. What a SeenFilter needs of it.
///
/// - `append` makes the items durable, all or none, before it returns a value. Seeing an item again keeps the later
///   time; the same call made twice is as one.
/// - `contains` sets out[i] to 1 when the user saw item i at `since` or later, else to 0: exact. One query, however
///   many items.
/// - `seen_since` lists each item that the user saw at `since` or later, once, with the latest time, in any order.
/// - `forget` removes every trace of a user; true when there was one. An append by another thread meanwhile is wholly
///   removed or wholly kept.
///
/// Every member may be called from any thread. A call that returns a value is seen whole by every call that begins
/// after it.
// clang-format 14 breaks concepts apart.
// clang-format off
template <class History>
concept HistoryLike =
    requires { typename History::user_type; typename History::item_type; } &&
    requires(History& history, const typename History::user_type& user,
             std::span<const typename History::item_type> items, std::span<std::uint8_t> out, Time time) {
      { history.append(user, items, time) } -> std::same_as<Result<void>>;
      { history.contains(user, items, out, time) } -> std::same_as<Result<void>>;
      { history.seen_since(user, time) } -> std::same_as<Result<std::vector<SeenItem<typename History::item_type>>>>;
      { history.forget(user) } -> std::same_as<Result<bool>>;
    };

/// A history that joins two users in one step.
///
/// - `merge` makes all events of `from` events of `into`; true when there were any. All or nothing, whenever the
///   process dies. An append to `from` by another thread meanwhile either moves along or stays with `from`: call it
///   again to move that too.
template <class History>
concept MergingHistory = HistoryLike<History> && requires(History& history, const typename History::user_type& user) {
  { history.merge(user, user) } -> std::same_as<Result<bool>>;
};

/// A history that is a log as well: it takes events, can be swept, and goes on serving counts.
///
/// - `append` of events makes them durable, all or none, and returns how many were new. An event is known by its user,
///   its item and its id (its time where the id is empty): one that is there already is not added again, so a batch
///   that may or may not have arrived is simply sent again. A history may count the time in: then the same id at another
///   time is another event.
/// - `erase` removes all events of a user and these items; returns how many of the items there were.
/// - `users` lists at most `limit` users that come after `after` in the history's own order, from the first where it
///   is empty. Fewer than `limit`: these were the last. Who is there all the time is listed once; who comes or goes
///   meanwhile may be listed or not. `after` need not exist any more.
/// - `item_count` tells how many items a user saw at `since` or later; `event_count` how many events of an item there
///   are, over all users.
template <class History>
concept EventHistory =
    MergingHistory<History> &&
    requires(History& history, const typename History::user_type& user, const typename History::item_type& item,
             std::span<const typename History::item_type> items, Time time, std::size_t limit,
             std::span<const SeenEvent<typename History::user_type, typename History::item_type>> events,
             const std::optional<typename History::user_type>& after) {
      { history.append(events) } -> std::same_as<Result<std::size_t>>;
      { history.erase(user, items) } -> std::same_as<Result<std::size_t>>;
      { history.users(after, limit) } -> std::same_as<Result<std::vector<typename History::user_type>>>;
      { history.item_count(user, time) } -> std::same_as<Result<std::uint64_t>>;
      { history.event_count(item) } -> std::same_as<Result<std::uint64_t>>;
    };

/// A history that keeps what users hid as well: exact, whatever the window, and no event.
///
/// - `hide` adds items to those the user hid, all or none, and returns how many were not there; one that is hidden
///   already keeps its place and time. `unhide` takes them away, and returns how many there were.
/// - `hidden` lists them in the order they were hidden.
/// - `contains` with two answers tells in the same query whether an item is hidden: `hides[i]` is 1 or 0.
/// - `forget` and `merge` take them along, in the same step, and count them as a trace; `into` keeps its own first.
///   `users` lists who has events.
template <class History>
concept HidingHistory =
    HistoryLike<History> &&
    requires(History& history, const typename History::user_type& user,
             std::span<const typename History::item_type> items,
             std::span<const Hide<typename History::item_type>> hides, std::span<std::uint8_t> out, Time time) {
      { history.hide(user, hides) } -> std::same_as<Result<std::size_t>>;
      { history.unhide(user, items) } -> std::same_as<Result<std::size_t>>;
      { history.hidden(user) } -> std::same_as<Result<std::vector<Hide<typename History::item_type>>>>;
      { history.contains(user, items, out, out, time) } -> std::same_as<Result<void>>;
    };
// clang-format on

/// No history: filters then grow by themselves, and nothing can be verified.
struct NoHistory {};

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// What a history keeps of an event's id: 64 bits are plenty where only the events of one user and one item must
/// differ. The time replaces an empty id. The databases and RedisHistory keep it for ever: it never changes.
[[nodiscard]] inline std::uint64_t event_number(std::string_view id, Time seen_at) noexcept {
  if (!id.empty()) return xxh3_bytes(id.data(), id.size(), 0);
  const auto bytes = little_endian_bytes(as_uint64(seen_at.time_since_epoch().count()));
  return xxh3_bytes(bytes.data(), bytes.size(), 1);
}

SEENBY_DETAIL_END
