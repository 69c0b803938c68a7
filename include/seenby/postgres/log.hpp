#pragma once
// SPDX-License-Identifier: MIT
// postgres::Log: a log of events in PostgreSQL, a partition a month.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/histories/keyed_history.hpp"
#include "seenby/result.hpp"

namespace seenby::postgres {

/// How a Log is opened.
struct Options {
  /// How long a call may take, connecting, waiting for a connection and all its round trips included. Above zero. It is
  /// the server's statement_timeout too.
  std::chrono::milliseconds timeout{10'000};
  /// Connections at most; more threads than these wait for one. At least 1.
  std::size_t connections = 4;
  /// The tables' schema, created when it is not there: lower-case letters, digits and underscores, at most 40.
  std::string schema = "seenby";
};

/// Events in one table, `events`, partitioned by the month (UTC) of their time, with a primary key that answers every
/// question about a user and an index by item; the view `impressions` shows it to people. Numbers are bigint, text and
/// bytes are bytea: NUL bytes and invalid UTF-8 are kept. Every value is a bound parameter, sent in binary.
///
/// What users hid is in a table of its own, `hides`.
///
/// Every call is one statement and one round trip: whole or not at all, a merge as well. The first append into a month
/// takes one more, which makes the month's table. An append sends its events as
/// arrays, in the order of the key, so that two of them do not lock each other out. A connection that breaks is
/// replaced; a call on one that had been idle is sent once more, so the count that an append returns may then be too
/// low. A deadlock is tried again.
///
/// A primary key over partitions holds the time: an event's id counts together with its time. Events before the year
/// 2000 or more than a month ahead are kept in a partition of their own, `events_other`.
///
/// Errors: unreachable, timed_out (the write may still be there: send it again), refused (the server's message), io
/// (its disk is full), unsupported_version, parameter_mismatch (users or items of another kind), conflict.
///
/// Thread-safe. Copies share the connections. Not across fork().
class Log {
 public:
  static constexpr bool is_remote = true;  ///< a question is a round trip

  /// `address` is libpq's: `postgres://user@host/database`, `host=/var/run/postgresql dbname=seen`. Connects, then
  /// creates the tables or brings those of an older version up to date, under an advisory lock.
  [[nodiscard]] static Result<Log> open(const std::string& address, ItemKind user_kind, ItemKind item_kind,
                                        const Options& options = {});

  /// Adds events in one transaction; returns how many were not there yet, too few where a broken connection made it
  /// send them twice.
  Result<std::size_t> append(std::span<const KeyedEvent> events);
  /// out[i] = 1 where the user saw item i at `since` or later. One statement.
  Result<void> contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                        Time since) const {
    return contains(user, items, out, {}, since);
  }
  /// The same, and hides[i] = 1 where the user hid item i; `hides` may be empty.
  Result<void> contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                        std::span<std::uint8_t> hides, Time since) const;
  /// Calls row(item, last time) for each item that the user saw at `since` or later.
  Result<void> seen_since(const KeyView& user, Time since, const std::function<void(const KeyView&, Time)>& row) const;
  /// Hides items for good; returns how many were not hidden.
  Result<std::size_t> hide(const KeyView& user, std::span<const Hide<KeyView>> hides);
  Result<std::size_t> unhide(const KeyView& user, std::span<const KeyView> items);  ///< returns how many were hidden
  /// Calls row(item, when) for each hidden item, in the order they were hidden.
  Result<void> hidden(const KeyView& user, const std::function<void(const KeyView&, Time)>& row) const;
  Result<bool> forget(const KeyView& user);  ///< deletes the user's events and hides; true when there were any
  /// Deletes the user's events of these items; returns how many items had any.
  Result<std::size_t> erase(const KeyView& user, std::span<const KeyView> items);
  /// Gives the events and hides of `from` to `into`; true when there were any.
  Result<bool> merge(const KeyView& from, const KeyView& into);
  /// Calls row(user) for at most `limit` users, in a fixed order, behind `after`.
  Result<void> users(const std::optional<KeyView>& after, std::size_t limit,
                     const std::function<void(const KeyView&)>& row) const;
  /// Different items that the user saw at `since` or later.
  [[nodiscard]] Result<std::uint64_t> item_count(const KeyView& user, Time since) const;
  [[nodiscard]] Result<std::uint64_t> event_count(const KeyView& item) const;  ///< events of an item, over all users
  /// Drops the months that were over at a time, table by table, however many rows they hold; returns how many months.
  Result<std::size_t> drop_months_before(Time time);

 private:
  struct State;
  explicit Log(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace seenby::postgres
