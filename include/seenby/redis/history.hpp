#pragma once
// SPDX-License-Identifier: MIT
// RedisHistory: who saw what, exactly, in Redis: a sorted set a user, by time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/histories/keyed_history.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// How a RedisHistory names its keys, and how much it keeps.
struct HistoryOptions {
  std::string prefix = "seenby:history:";  ///< before "{user}"
  /// Items that a user last saw so long ago are trimmed, and not listed any more; an event that is older is not stored.
  std::chrono::seconds keep{0};  ///< 0: for ever
  /// A user's items, of which the newest are kept. 0: all.
  std::uint64_t most_items = 0;  ///< items a user
  /// The deadline of each round trip.
  std::optional<std::chrono::milliseconds> timeout{};  ///< unset: the URL's `timeout_ms`, 1 s without one
  /// What `keep` goes by.
  Clock clock{};
};

/// The log behind RedisHistory. `{prefix}{user}` is a sorted set of items by the time they were last seen, in seconds,
/// which any client may read; `{prefix}{user}:events` a hash of each item's events, 8 bytes an event;
/// `{prefix}{user}:hides` a hash of what the user hid: each item's place in the order, and its time. It never expires.
/// `{prefix}kinds` says what users and items are. Braces and '%' in a user's name are percent-encoded. A user's keys
/// change together, in one script. With `keep` they expire so long after the last append.
///
/// Errors: the transport's, wrong_type (a key that is no history's), parameter_mismatch (another kind of users or
/// items). In a cluster `merge` (of users on two nodes), `users` and `event_count` are `unavailable`.
///
/// Thread-safe. Copies share the connections.
class HistoryLog {
 public:
  static constexpr bool is_remote = true;  ///< a question is a round trip

  /// Connects, and writes the kinds of users and items where there are none yet. Throws std::invalid_argument for
  /// options that cannot be kept.
  [[nodiscard]] static Result<HistoryLog> open(std::shared_ptr<Executor> executor, ItemKind user_kind,
                                               ItemKind item_kind, HistoryOptions options = {});

  /// One round trip, a script a user: all or none of a user's events.
  Result<std::size_t> append(std::span<const KeyedEvent> events);
  /// As HistoryLike's. One round trip.
  Result<void> contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                        Time since) const {
    return contains(user, items, out, {}, since);
  }
  /// The same, and hides[i] = 1 where the user hid item i; `hides` may be empty. One round trip.
  Result<void> contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                        std::span<std::uint8_t> hides, Time since) const;
  /// Calls `row` for each item that was seen at `since` or later. One round trip.
  Result<void> seen_since(const KeyView& user, Time since, const std::function<void(const KeyView&, Time)>& row) const;
  /// Hides items for good; returns how many were not hidden. One round trip, as the next two.
  Result<std::size_t> hide(const KeyView& user, std::span<const Hide<KeyView>> hides);
  Result<std::size_t> unhide(const KeyView& user, std::span<const KeyView> items);  ///< returns how many were hidden
  /// Calls row(item, when) for each hidden item, in the order they were hidden.
  Result<void> hidden(const KeyView& user, const std::function<void(const KeyView&, Time)>& row) const;
  /// Removes a user; true when there was one.
  Result<bool> forget(const KeyView& user);
  /// Removes items of a user; how many there were.
  Result<std::size_t> erase(const KeyView& user, std::span<const KeyView> items);
  /// Moves the events and hides of `from` to `into`, in one script.
  Result<bool> merge(const KeyView& from, const KeyView& into);
  /// Calls `row` for users in the order of their names. The first page scans all keys of the server (SCAN) and keeps
  /// the names; pages that go on where the last one ended are taken from those.
  Result<void> users(const std::optional<KeyView>& after, std::size_t limit,
                     const std::function<void(const KeyView&)>& row) const;
  /// How many items a user saw at `since` or later. One round trip.
  [[nodiscard]] Result<std::uint64_t> item_count(const KeyView& user, Time since) const;
  /// How many events an item has. Asks about every user there is.
  [[nodiscard]] Result<std::uint64_t> event_count(const KeyView& item) const;

 private:
  struct State;
  explicit HistoryLog(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// An EventHistory and a HidingHistory in Redis 6.2 or later, or Valkey, for what a window needs and no more:
///
///     auto history = redis::RedisHistory<std::uint64_t, std::string>::open("redis://localhost", {.keep = 30 * day});
///
/// It is as durable as the server: with `appendfsync everysec` a crash may take a second along. Where the truth must
/// outlive that, keep it in PostgreSQL or SQLite. An item costs about 100 bytes and twice its name.
template <HashableItem User, HashableItem Item>
class RedisHistory : public KeyedHistory<HistoryLog, User, Item> {
  using Base = KeyedHistory<HistoryLog, User, Item>;

 public:
  /// Connects to a server by URL, see `parse_url`. Errors and exceptions: HistoryLog::open's.
  [[nodiscard]] static Result<RedisHistory> open(std::string_view url, const HistoryOptions& options = {}) {
    const auto executor = make_executor(url);
    if (!executor) return executor.error();
    return open(*executor, options);
  }
  /// The same over a client of the caller's.
  [[nodiscard]] static Result<RedisHistory> open(const std::shared_ptr<Executor>& executor,
                                                 const HistoryOptions& options = {}) {
    auto log = HistoryLog::open(executor, item_kind<User>, item_kind<Item>, options);
    if (!log) return std::move(log).error();
    return RedisHistory(*std::move(log));
  }

 private:
  explicit RedisHistory(HistoryLog log) : Base(std::move(log)) {}
};

}  // namespace seenby::redis
