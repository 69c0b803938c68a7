#pragma once
// SPDX-License-Identifier: MIT
// sqlite::Log: a log of events in one SQLite file, durable and crash-safe.

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

namespace seenby::sqlite {

/// How a Log is opened.
struct Options {
  /// What is acknowledged survives a loss of power (synchronous = FULL: a sync of the disk each append). Without, it
  /// survives the death of the process, and a loss of power may take the last appends along; the file stays consistent.
  bool durable = true;
  /// How long a write waits for another process's before it is `timed_out`.
  std::chrono::milliseconds busy_timeout{5'000};
  /// Connections for reading; more threads than these wait for one. At least 1.
  std::size_t readers = 4;
  std::size_t cache_bytes = std::size_t{32} << 20;  ///< of the writing connection
};

/// A SQLite file in WAL mode, with one connection that writes and a pool of those that read: readers wait for no
/// writer. Every value is bound, never put into a statement's text. An append is one transaction: after a kill -9 it is
/// there as a whole or not at all, and the next `open` needs no repair.
///
/// The table `events` (user, item, event, at) has an index for each question; the view `impressions` shows it to
/// people. `users` gives each user the number that `events` holds; `hides` (user, item, at) holds what users hid.
///
/// Errors: io (a full disk among them: nothing was written), timed_out (the file stayed locked), corrupt, wrong_type
/// (no file of ours), unsupported_version, parameter_mismatch (users or items of another kind).
///
/// Thread-safe, and safe between processes of one machine. Copies share the connections. Not across fork().
class Log {
 public:
  /// Opens the file, or creates it; brings the schema of an older version up to date.
  [[nodiscard]] static Result<Log> open(const std::string& path, ItemKind user_kind, ItemKind item_kind,
                                        const Options& options = {});

  /// Adds events in one transaction; returns how many were not there yet.
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
  /// Deletes the events before a time; returns how many. Users without events are gone.
  Result<std::uint64_t> drop_before(Time time);

 private:
  struct State;
  explicit Log(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace seenby::sqlite
