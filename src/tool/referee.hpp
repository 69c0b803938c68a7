#pragma once
// SPDX-License-Identifier: MIT
// The exact side of a replay: who really saw what, and when.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "event_log.hpp"

namespace seenby::tool {

/// What must happen to a candidate.
enum class Verdict : std::uint8_t {
  fresh,    ///< no user of the request saw it, or the last who did left the window, slice and all: must be shown
  leaving,  ///< out of the window, but its slice has not been dropped yet: either answer is right
  seen,     ///< one of them saw it within the window: must be hidden
};

/// Exact sets of everything every user saw: 16 bytes for each user's different item in the log, all of them laid out
/// at once. Users and items are numbers from 0.
class Referee {
 public:
  /// Something is `seen` for `window` seconds and `leaving` for `slice` more; a window of 0 lasts for ever.
  Referee(const EventLog& log, std::int64_t window, std::int64_t slice);

  /// Records an event of the log; O(log items of the user).
  void record(const Event& event);

  [[nodiscard]] Verdict judge(std::span<const std::uint64_t> users, std::uint32_t item, std::int64_t now) const;
  /// Whether any of the users ever saw the item.
  [[nodiscard]] bool ever_seen(std::span<const std::uint64_t> users, std::uint32_t item) const;

  /// A user's different items, in the order they were first seen.
  [[nodiscard]] std::span<const std::uint32_t> items_of(std::uint64_t user) const;
  /// When a user last saw an item; nothing when never.
  [[nodiscard]] std::optional<std::int64_t> last_seen(std::uint64_t user, std::uint32_t item) const;
  /// How many items of a user are not older than the window.
  [[nodiscard]] std::uint64_t live_items(std::uint64_t user, std::int64_t now) const;

 private:
  static constexpr std::int64_t never = -1;

  [[nodiscard]] bool kept(std::int64_t time, std::int64_t now) const { return window_ == 0 || now - time < window_; }
  /// The place of a user's item, or items_.size().
  [[nodiscard]] std::size_t find(std::uint64_t user, std::uint32_t item) const;

  std::vector<std::size_t> begin_;       // by user, and one behind the last: where their items are
  std::vector<std::uint32_t> items_;     // each user's, sorted
  std::vector<std::int64_t> times_;      // beside items_: when they were last seen
  std::vector<std::uint32_t> in_order_;  // each user's, as first seen
  std::vector<std::uint32_t> seen_;      // by user: how many of in_order_ there are so far
  std::int64_t window_;
  std::int64_t slice_;
};

/// What an exact set of so many items takes, counted in a real one with its buckets and nodes: a std::unordered_set of
/// 8-byte ids, or with a window a std::unordered_map of ids to times. Not thread-safe.
class ExactSetBytes {
 public:
  explicit ExactSetBytes(bool with_times);
  ~ExactSetBytes();
  ExactSetBytes(const ExactSetBytes&) = delete;
  ExactSetBytes& operator=(const ExactSetBytes&) = delete;

  [[nodiscard]] std::uint64_t of(std::uint64_t items);
  /// The same as bare ids (with their times): less than any container that can be asked.
  [[nodiscard]] std::uint64_t bare(std::uint64_t items) const noexcept { return items * (with_times_ ? 16 : 8); }

 private:
  struct Sets;
  bool with_times_;
  std::unique_ptr<Sets> sets_;
  std::vector<std::uint64_t> bytes_;  // by number of items, as far as anything asked
};

}  // namespace seenby::tool
