#pragma once
// SPDX-License-Identifier: MIT
// RecentSet: an exact set in the order of time, trimmed to the last N items, the last days, or both.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/clock_guard.hpp"
#include "seenby/hash.hpp"
#include "seenby/sets/index_table.hpp"

namespace seenby {

/// What a RecentSet keeps.
struct RecentSetOptions {
  std::size_t max_items = 1'000;   ///< how many of the newest items it keeps; 1 to 2^31
  std::chrono::seconds window{0};  ///< and of those, only what was seen within this time; zero: no limit
  Clock clock{};                   ///< the system's when empty
};

/// What was seen last, exactly: an item seen again moves to the front, what exceeds max_items or the window leaves from
/// the back. 36 to 48 bytes an integer. Time never runs backwards: when the clock jumps back, nothing is lost, and what
/// has expired stays expired; a clock that jumps ahead by more than an eighth of the window is not followed until it
/// has stayed there for a minute (Clock). Item owns its bytes: std::string, not std::string_view.
///
/// Thread safety: as a standard container: any number of readers, or one writer. The clock is called by readers too.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class RecentSet {
 public:
  using item_type = Item;  ///< what it holds

  /// Throws std::invalid_argument for max_items outside 1 to 2^31 or a negative window.
  explicit RecentSet(RecentSetOptions options, Hash hash = {}) : options_(std::move(options)), hash_(std::move(hash)) {
    if (options_.max_items >= 1 && options_.max_items <= (std::size_t{1} << 31) && options_.window.count() >= 0) return;
    std::string message = "seenby: expected 1 to 2^31 items and a window of no less than 0 s, got ";
    message.append(std::to_string(options_.max_items)).append(" items and ");
    throw std::invalid_argument(message.append(std::to_string(options_.window.count())).append(" s"));
  }

  /// Marks an item as seen now. O(1). Throws std::bad_alloc.
  template <FilterKey<Item> Key>
  void insert(const Key& item) {
    insert(item, [](Item&&, Time) {});
  }
  /// As above; gives evicted(Item&&, Time) every item that max_items pushes out while it is still in the window.
  template <FilterKey<Item> Key, class Evicted>
  requires std::invocable<Evicted&, Item&&, Time>
  void insert(const Key& item, Evicted&& evicted) {
    const Time present = now();
    insert_as_of(present, item, present, std::forward<Evicted>(evicted));
  }

  /// Marks an item as seen at a time in the past, for filling the set from a history; a future time counts as now.
  /// O(1) when times come in order, else O(items seen later).
  template <FilterKey<Item> Key>
  void insert_at(const Key& item, Time seen_at) {
    insert_at(item, seen_at, [](Item&&, Time) {});
  }
  /// The same; calls evicted(item) for what it makes room by.
  template <FilterKey<Item> Key, class Evicted>
  requires std::invocable<Evicted&, Item&&, Time>
  void insert_at(const Key& item, Time seen_at, Evicted&& evicted) {
    const Time present = now();
    insert_as_of(present, item, std::min(present, seen_at), std::forward<Evicted>(evicted));
  }

  /// Removes an item; true when it was there.
  template <FilterKey<Item> Key>
  bool erase(const Key& item) {
    const Digest digest = hash_(item);
    const std::uint32_t at = find(item, digest);
    if (at == none) return false;
    const bool was_seen = !expired(entries_[at].seen_at, now());
    remove(at, digest);
    return was_seen;
  }

  /// Forgets every item. O(n).
  void clear() noexcept {
    entries_.clear();
    index_.clear();
    newest_ = oldest_ = none;
  }

  /// Whether the item is in it and within the window. Expected O(1).
  template <FilterKey<Item> Key>
  [[nodiscard]] bool contains(const Key& item) const {
    return seen_at(item).has_value();
  }
  /// When an item was last seen; nothing when it is not in the set.
  template <FilterKey<Item> Key>
  [[nodiscard]] std::optional<Time> seen_at(const Key& item) const {
    const std::uint32_t at = find(item, hash_(item));
    if (at == none || expired(entries_[at].seen_at, now())) return std::nullopt;
    return entries_[at].seen_at;
  }

  /// Every item in the set, the newest first.
  [[nodiscard]] std::vector<Item> items() const {
    const Time present = now();
    std::vector<Item> list;
    for (std::uint32_t at = newest_; at != none && !expired(entries_[at].seen_at, present); at = entries_[at].older) {
      list.push_back(entries_[at].item);
    }
    return list;
  }
  /// Items within the window.
  [[nodiscard]] std::size_t size() const {
    const Time present = now();
    std::size_t count = 0;
    for (std::uint32_t at = newest_; at != none && !expired(entries_[at].seen_at, present); at = entries_[at].older) {
      ++count;
    }
    return count;
  }
  /// How often the clock jumped ahead and was not followed at once.
  [[nodiscard]] std::uint64_t clock_jumps() const noexcept { return time_.jumps(); }
  [[nodiscard]] const RecentSetOptions& options() const noexcept { return options_; }  ///< as given at construction
  /// What the set allocates, without what the items themselves do.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return entries_.capacity() * sizeof(Entry) + index_.memory_bytes();
  }

 private:
  static constexpr std::uint32_t none = detail::IndexTable::none;
  /// A link of the chain from the newest to the oldest.
  struct Entry {
    Item item;
    Time seen_at;
    std::uint32_t newer;
    std::uint32_t older;
  };

  [[nodiscard]] Time now() const {
    // An eighth of the window, as a slice is to a window of slices; an hour where only the order counts.
    const auto slack = options_.window.count() > 0 ? options_.window / 8 : std::chrono::hours{1};
    return time_.now(options_.clock, std::max(slack, detail::ClockGuard::least_slack));
  }
  [[nodiscard]] bool expired(Time seen_at, Time present) const noexcept {
    return options_.window.count() > 0 && present - seen_at > options_.window;
  }
  template <class Key>
  [[nodiscard]] std::uint32_t find(const Key& item, Digest digest) const {
    return index_.find(digest, [&](std::uint32_t at) { return detail::same_item(entries_[at].item, item); });
  }

  template <class Key, class Evicted>
  void insert_as_of(Time present, const Key& item, Time seen_at, Evicted&& evicted) {
    while (oldest_ != none && expired(entries_[oldest_].seen_at, present)) {
      remove(oldest_, hash_(entries_[oldest_].item));
    }
    if (expired(seen_at, present)) return;
    const Digest digest = hash_(item);
    if (const std::uint32_t at = find(item, digest); at != none) {
      if (entries_[at].seen_at > seen_at) return;
      unlink(at);
      entries_[at].seen_at = seen_at;
      link(at);
      return;
    }
    append(item, digest, seen_at);
    if (entries_.size() <= options_.max_items) return;
    const std::uint32_t last = oldest_;
    Item out = entries_[last].item;
    const Time when = entries_[last].seen_at;
    remove(last, hash_(out));
    evicted(std::move(out), when);
  }

  template <class Key>
  void append(const Key& item, Digest digest, Time seen_at) {
    const auto at = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({static_cast<Item>(item), seen_at, none, none});
    try {
      index_.insert(digest, at);
    } catch (...) {
      entries_.pop_back();
      throw;
    }
    link(at);
  }

  /// Puts an entry into the chain before the first one that is not newer.
  void link(std::uint32_t at) noexcept {
    std::uint32_t older = newest_;
    std::uint32_t newer = none;
    while (older != none && entries_[older].seen_at > entries_[at].seen_at) {
      newer = older;
      older = entries_[older].older;
    }
    entries_[at].newer = newer;
    entries_[at].older = older;
    reconnect(at, at, at);
  }
  void unlink(std::uint32_t at) noexcept {
    const Entry& entry = entries_[at];
    reconnect(at, entry.older, entry.newer);
  }
  /// Makes the neighbours of an entry (or the ends of the chain) point at `as_older` and `as_newer` where they pointed
  /// at it.
  void reconnect(std::uint32_t at, std::uint32_t as_older, std::uint32_t as_newer) noexcept {
    const Entry& entry = entries_[at];
    (entry.newer == none ? newest_ : entries_[entry.newer].older) = as_older;
    (entry.older == none ? oldest_ : entries_[entry.older].newer) = as_newer;
  }

  /// Takes an entry out; the last one of the array moves to its place.
  void remove(std::uint32_t at, Digest digest) {
    unlink(at);
    index_.erase(digest, at);
    const auto last = static_cast<std::uint32_t>(entries_.size() - 1);
    if (at != last) {
      index_.move(hash_(entries_[last].item), last, at);
      entries_[at] = std::move(entries_[last]);
      reconnect(at, at, at);
    }
    entries_.pop_back();
  }

  RecentSetOptions options_;
  [[no_unique_address]] Hash hash_;
  std::vector<Entry> entries_;
  detail::IndexTable index_;
  std::uint32_t newest_ = none;
  std::uint32_t oldest_ = none;
  detail::ClockGuard time_;
};

}  // namespace seenby
