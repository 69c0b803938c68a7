#pragma once
// SPDX-License-Identifier: MIT
// KeyedHistory: a history of typed users and items over a log that knows them as numbers or bytes.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// The longest user or item that a database takes, in bytes: two of them must fit into an index row of PostgreSQL.
inline constexpr std::size_t max_key_bytes = 1'024;

/// A user or an item as a database keeps it: a number (an unsigned one as its two's complement), or bytes.
struct KeyView {
  ItemKind kind = ItemKind::integer;  ///< which of the two members holds it
  std::int64_t number = 0;            ///< of an integer
  std::string_view bytes;             ///< of text and bytes
};

/// An event as a database keeps it.
struct KeyedEvent {
  KeyView user;            ///< who saw it; must outlive the event
  KeyView item;            ///< what was seen; must outlive the event
  std::int64_t event = 0;  ///< detail::event_number
  /// When.
  Time seen_at{};
};

/// Views `key`, which must outlive the view.
template <HashableItem Key>
[[nodiscard]] KeyView key_view(const Key& key) noexcept {
  if constexpr (IntegerItem<Key>) {
    return {ItemKind::integer, static_cast<std::int64_t>(detail::as_uint64(key)), {}};
  } else if constexpr (StringItem<Key>) {
    return {ItemKind::text, 0, std::string_view(key)};
  } else {
    const std::span<const std::byte> bytes = key;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as characters
    return {ItemKind::bytes, 0, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
}

/// The key that a view is of. Bytes go into a container that is made of a range, or into an array, whose end stays
/// zero.
template <HashableItem Key>
[[nodiscard]] Key key_of_view(const KeyView& view) {
  if constexpr (IntegerItem<Key>) {
    return static_cast<Key>(view.number);
  } else if constexpr (StringItem<Key>) {
    return Key(view.bytes);
  } else {
    const auto bytes = std::as_bytes(std::span(view.bytes));
    if constexpr (std::constructible_from<Key, const std::byte*, const std::byte*>) {
      return Key(bytes.data(), bytes.data() + bytes.size());
    } else {
      Key key{};
      std::copy_n(bytes.begin(), std::min(bytes.size(), key.size()), key.begin());
      return key;
    }
  }
}

/// What KeyedHistory is built on: an EventHistory's members, with users and items as views that live as long as the
/// call. Rows are handed to a callback, in its thread.
template <class Log>
concept EventLog = requires(Log& log, KeyView key, std::span<const KeyView> keys, std::span<const KeyedEvent> events,
                            Time time, std::span<std::uint8_t> out, std::size_t limit,
                            const std::optional<KeyView>& after, const std::function<void(const KeyView&)>& user_row,
                            const std::function<void(const KeyView&, Time)>& item_row) {
  { log.append(events) } -> std::same_as<Result<std::size_t>>;
  { log.contains(key, keys, out, time) } -> std::same_as<Result<void>>;
  { log.seen_since(key, time, item_row) } -> std::same_as<Result<void>>;
  { log.forget(key) } -> std::same_as<Result<bool>>;
  { log.erase(key, keys) } -> std::same_as<Result<std::size_t>>;
  { log.merge(key, key) } -> std::same_as<Result<bool>>;
  { log.users(after, limit, user_row) } -> std::same_as<Result<void>>;
  { log.item_count(key, time) } -> std::same_as<Result<std::uint64_t>>;
  { log.event_count(key) } -> std::same_as<Result<std::uint64_t>>;
};

/// A log that a HidingHistory is built on: its members, as EventLog's. `out` may be empty where it is not asked for.
template <class Log>
concept HidingLog = EventLog<Log> &&
    requires(Log& log, KeyView key, std::span<const KeyView> keys, std::span<std::uint8_t> out, Time time,
             std::span<const Hide<KeyView>> hides, const std::function<void(const KeyView&, Time)>& item_row) {
  { log.hide(key, hides) } -> std::same_as<Result<std::size_t>>;
  { log.unhide(key, keys) } -> std::same_as<Result<std::size_t>>;
  { log.hidden(key, item_row) } -> std::same_as<Result<void>>;
  { log.contains(key, keys, out, out, time) } -> std::same_as<Result<void>>;
};

/// An EventHistory over a log, and a HidingHistory over a HidingLog. A user or an item of more than max_key_bytes is
/// refused with `too_large`, and nothing of its batch is stored. Thread safety and errors: the log's.
template <EventLog Log, HashableItem User, HashableItem Item>
class KeyedHistory {
 public:
  using user_type = User;                                                   ///< who sees
  using item_type = Item;                                                   ///< what it holds
  using Event = SeenEvent<User, Item>;                                      ///< one sight of an item
  static constexpr bool is_remote = requires { requires Log::is_remote; };  ///< a question is a round trip

  explicit KeyedHistory(Log log) : log_(std::move(log)) {}  ///< over an open log

  /// Adds a sight of each item at one time, all of them or none.
  Result<void> append(const User& user, std::span<const Item> items, Time when) {
    std::vector<KeyedEvent> rows;
    rows.reserve(items.size());
    const auto number = static_cast<std::int64_t>(detail::event_number({}, when));
    for (const Item& item : items) rows.push_back({key_view(user), key_view(item), number, when});
    auto done = write(rows);
    if (!done) return std::move(done).error();
    return {};
  }
  /// Adds events, all of them or none; returns how many were not there yet.
  Result<std::size_t> append(std::span<const Event> events) {
    std::vector<KeyedEvent> rows;
    rows.reserve(events.size());
    for (const Event& event : events) {
      const auto number = static_cast<std::int64_t>(detail::event_number(event.id, event.seen_at));
      rows.push_back({key_view(event.user), key_view(event.item), number, event.seen_at});
    }
    return write(rows);
  }

  /// out[i] = 1 where the user saw item i at `since` or later, else 0; out is as long as items.
  Result<void> contains(const User& user, std::span<const Item> items, std::span<std::uint8_t> out,
                        Time since = all_time) const {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    if (items.empty()) return {};
    return log_.contains(key_view(user), views_of(items), out, since);
  }
  /// The same, and hides[i] = 1 where the user hid item i, else 0; hides is as long as items.
  Result<void> contains(const User& user, std::span<const Item> items, std::span<std::uint8_t> out,
                        std::span<std::uint8_t> hides, Time since = all_time) const requires HidingLog<Log> {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    std::fill(hides.begin(), hides.end(), std::uint8_t{0});
    if (items.empty()) return {};
    return log_.contains(key_view(user), views_of(items), out, hides, since);
  }
  /// The items that the user saw at `since` or later, each once with the last time.
  [[nodiscard]] Result<std::vector<SeenItem<Item>>> seen_since(const User& user, Time since = all_time) const {
    std::vector<SeenItem<Item>> list;
    auto done = log_.seen_since(key_view(user), since, [&](const KeyView& item, Time when) {
      list.push_back({key_of_view<Item>(item), when});
    });
    if (!done) return std::move(done).error();
    return list;
  }

  /// Hides items for good, all of them or none; returns how many were not hidden.
  Result<std::size_t> hide(const User& user, std::span<const Hide<Item>> hides) requires HidingLog<Log> {
    if (hides.empty()) return std::size_t{0};
    const KeyView key = key_view(user);
    if (auto fits = require_fits(key); !fits) return std::move(fits).error();
    std::vector<Hide<KeyView>> rows;
    rows.reserve(hides.size());
    for (const Hide<Item>& hide : hides) {
      rows.push_back({key_view(hide.item), hide.at});
      if (auto fits = require_fits(rows.back().item); !fits) return std::move(fits).error();
    }
    return log_.hide(key, rows);
  }
  /// Takes hides back, all of them or none; returns how many there were.
  Result<std::size_t> unhide(const User& user, std::span<const Item> items) requires HidingLog<Log> {
    if (items.empty()) return std::size_t{0};
    return log_.unhide(key_view(user), views_of(items));
  }
  /// What the user hid, in the order it was hidden.
  [[nodiscard]] Result<std::vector<Hide<Item>>> hidden(const User& user) const requires HidingLog<Log> {
    std::vector<Hide<Item>> list;
    auto done = log_.hidden(key_view(user), [&](const KeyView& item, Time at) {
      list.push_back({key_of_view<Item>(item), at});
    });
    if (!done) return std::move(done).error();
    return list;
  }

  /// Deletes the user's events and hides; true when there were any.
  Result<bool> forget(const User& user) { return log_.forget(key_view(user)); }
  /// Deletes the user's events of these items; returns how many items had any.
  Result<std::size_t> erase(const User& user, std::span<const Item> items) {
    return log_.erase(key_view(user), views_of(items));
  }
  /// Gives the events and hides of `from` to `into`; true when there were any.
  Result<bool> merge(const User& from, const User& into) {
    const KeyView source = key_view(from);
    const KeyView target = key_view(into);
    if (source.number == target.number && source.bytes == target.bytes) return false;
    if (auto fits = require_fits(target); !fits) return std::move(fits).error();
    return log_.merge(source, target);
  }

  /// A page of at most `limit` users, in a fixed order, behind `after`.
  [[nodiscard]] Result<std::vector<User>> users(const std::optional<User>& after, std::size_t limit) const {
    std::vector<User> page;
    const auto last = after ? std::optional(key_view(*after)) : std::nullopt;
    auto done = log_.users(last, limit, [&](const KeyView& user) { page.push_back(key_of_view<User>(user)); });
    if (!done) return std::move(done).error();
    return page;
  }
  /// Different items that the user saw at `since` or later.
  [[nodiscard]] Result<std::uint64_t> item_count(const User& user, Time since = all_time) const {
    return log_.item_count(key_view(user), since);
  }
  /// Events of an item, over all users.
  [[nodiscard]] Result<std::uint64_t> event_count(const Item& item) const { return log_.event_count(key_view(item)); }

 protected:
  [[nodiscard]] Log& log() noexcept { return log_; }              ///< for what a database offers beside an EventHistory
  [[nodiscard]] const Log& log() const noexcept { return log_; }  ///< the same, to read

 private:
  [[nodiscard]] static Result<void> require_fits(const KeyView& key) {
    if (key.bytes.size() <= max_key_bytes) return {};
    std::string message = "seenby: expected a user or an item of at most 1024 bytes, got one of ";
    message.append(std::to_string(key.bytes.size())).append(": ").append(key.bytes.substr(0, 40)).append("...");
    return Error{ErrorCode::too_large, std::move(message)};
  }
  Result<std::size_t> write(const std::vector<KeyedEvent>& rows) {
    for (const KeyedEvent& row : rows) {
      if (auto fits = require_fits(row.user); !fits) return std::move(fits).error();
      if (auto fits = require_fits(row.item); !fits) return std::move(fits).error();
    }
    if (rows.empty()) return std::size_t{0};
    return log_.append(rows);
  }
  [[nodiscard]] static std::vector<KeyView> views_of(std::span<const Item> items) {
    std::vector<KeyView> views;
    views.reserve(items.size());
    for (const Item& item : items) views.push_back(key_view(item));
    return views;
  }

  mutable Log log_;
};

}  // namespace seenby
