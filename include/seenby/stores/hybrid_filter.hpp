#pragma once
// SPDX-License-Identifier: MIT
// HybridFilter: the last items and the explicit hides exact, the long tail in a filter, one call for all three.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/high_water.hpp"
#include "seenby/filters/rotating_filter.hpp"
#include "seenby/filters/scalable_filter.hpp"
#include "seenby/hash.hpp"
#include "seenby/sets/exact_set.hpp"
#include "seenby/sets/recent_set.hpp"

namespace seenby {

/// What a HybridFilter keeps exact, and how it keeps the rest.
struct HybridFilterOptions {
  std::size_t recent_items = 100;        ///< the newest so many are exact; at least 1
  std::chrono::seconds window{0};        ///< how long something stays seen; zero: for ever. Hides have no end
  std::uint32_t slices = 6;              ///< of the tail's window
  double target_fpr = 0.01;              ///< of the tail; what is exact does not err
  std::uint64_t expected_items = 1'000;  ///< in the tail, at the start
  Clock clock{};                         ///< the system's when empty
};

/// What a HybridFilter knows of an item, and how surely.
enum class Knowledge : std::uint8_t {
  unseen,    ///< certain: neither hidden nor seen (within the window)
  hidden,    ///< certain: hidden by request, whatever the window
  recent,    ///< certain: among the last items
  probable,  ///< in the tail, or the tail errs
};

[[nodiscard]] constexpr std::string_view to_string(Knowledge knowledge) noexcept {
  switch (knowledge) {
    case Knowledge::unseen: return "unseen";
    case Knowledge::hidden: return "hidden";
    case Knowledge::recent: return "recent";
    case Knowledge::probable: return "probable";
  }
  return "unnamed";
}

/// One user's history in three parts: what they asked never to see again (exact, listable, taken back by unhide), the
/// last items (exact), and everything older in a filter. An item enters the filter only when newer ones push it out of
/// the exact part, so the filter never errs about what was just seen.
///
/// Thread safety: as a standard container: any number of readers, or one writer. The clock is called by readers too.
template <HashableItem Item, class Layout = ClassicLayout, Hasher Hash = Xxh3Hash>
class HybridFilter {
 public:
  using item_type = Item;

  /// Throws std::invalid_argument for options that RecentSet, RotatingFilter or ScalableFilter refuse.
  explicit HybridFilter(const HybridFilterOptions& options, Hash hash = {})
      : hash_(hash),
        clock_(in_one_time(options.clock)),
        hidden_(hash),
        recent_({.max_items = options.recent_items, .window = options.window, .clock = clock_}, hash),
        tail_(make_tail(options, clock_, hash)) {}

  // Modify

  /// Marks an item as seen now. Throws std::bad_alloc.
  template <FilterKey<Item> Key>
  void insert(const Key& item) {
    recent_.insert(item, [this](Item&& old, Time when) { push_out(old, when); });
  }
  /// Marks an item as seen at a time that may lie back: for filling it from a history. Past the window it changes
  /// nothing.
  template <FilterKey<Item> Key>
  void insert_at(const Key& item, Time seen_at) {
    recent_.insert_at(item, seen_at, [this](Item&& old, Time when) { push_out(old, when); });
  }

  /// Hides an item until unhide, whatever the window; true when it was not hidden. Does not mark it as seen.
  template <FilterKey<Item> Key>
  bool hide(const Key& item) {
    return hidden_.insert(item);
  }
  /// Takes a hide back; true when there was one. The item is then what it would be without: unseen, unless it was seen.
  template <FilterKey<Item> Key>
  bool unhide(const Key& item) {
    return hidden_.erase(item);
  }

  /// Forgets everything, hides as well.
  void clear() {
    hidden_.clear();
    recent_.clear();
    std::visit([](auto& tail) { tail.clear(); }, tail_);
  }

  // Query

  /// What is known of an item: of all that holds, the surest.
  template <FilterKey<Item> Key>
  [[nodiscard]] Knowledge ask(const Key& item) const {
    if (hidden_.contains(item)) return Knowledge::hidden;
    if (recent_.contains(item)) return Knowledge::recent;
    const Digest digest = hash_(item);
    const bool in_tail = std::visit([&](const auto& tail) { return tail.may_contain(digest); }, tail_);
    return in_tail ? Knowledge::probable : Knowledge::unseen;
  }
  /// What is known of each item. Throws std::invalid_argument when out is too short.
  void ask(std::span<const Item> items, std::span<Knowledge> out) const {
    if (out.size() < items.size()) {
      std::string message = "seenby: expected room for ";
      message.append(std::to_string(items.size())).append(" answers, got ").append(std::to_string(out.size()));
      throw std::invalid_argument(message);
    }
    for (std::size_t i = 0; i < items.size(); ++i) out[i] = ask(items[i]);
  }
  /// False: certainly neither hidden nor seen.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const {
    return ask(item) != Knowledge::unseen;
  }

  template <FilterKey<Item> Key>
  [[nodiscard]] bool is_hidden(const Key& item) const {
    return hidden_.contains(item);
  }
  /// Every hidden item, in no order that lasts. Valid until the next hide or unhide.
  [[nodiscard]] std::span<const Item> hidden() const noexcept { return hidden_.items(); }
  /// The exact part of what was seen, the newest first.
  [[nodiscard]] std::vector<Item> recent() const { return recent_.items(); }
  /// Items that the tail holds.
  [[nodiscard]] std::uint64_t tail_items() const {
    return std::visit([](const auto& tail) { return tail.items(); }, tail_);
  }
  /// What all three parts allocate, without what the items themselves do.
  [[nodiscard]] std::uint64_t memory_bytes() const {
    const std::uint64_t bits = std::visit([](const auto& tail) { return tail.capacity_bits(); }, tail_);
    return hidden_.memory_bytes() + recent_.memory_bytes() + bits / 8;
  }

 private:
  /// A clock that never runs backwards, one for both parts: each alone would know only the times at which it was
  /// called, and the tail would take an item that leaves the exact part for one from the future.
  [[nodiscard]] static Clock in_one_time(Clock clock) {
    return [clock = std::move(clock), latest = std::make_shared<detail::HighWater>()] {
      const Time now = clock ? clock() : system_time();
      return Time{std::chrono::seconds{latest->raise(now.time_since_epoch().count())}};
    };
  }

  using Forever = ScalableFilter<Item, Layout, Hash>;
  using Windowed = RotatingFilter<Item, Layout, Hash>;
  using Tail = std::variant<Forever, Windowed>;

  [[nodiscard]] static Tail make_tail(const HybridFilterOptions& options, const Clock& clock, const Hash& hash) {
    if (options.window.count() == 0) {
      return Forever({.initial_items = options.expected_items, .target_fpr = options.target_fpr}, hash);
    }
    return Windowed({.window = options.window,
                     .slices = options.slices,
                     .target_fpr = options.target_fpr,
                     .expected_items = options.expected_items,
                     .clock = clock},
                    hash);
  }
  void push_out(const Item& item, Time when) {
    const Digest digest = hash_(item);
    if (auto* windowed = std::get_if<Windowed>(&tail_)) {
      windowed->insert_at(digest, when);
    } else {
      std::get<Forever>(tail_).insert(digest);
    }
  }

  [[no_unique_address]] Hash hash_;
  Clock clock_;
  ExactSet<Item, Hash> hidden_;
  RecentSet<Item, Hash> recent_;
  Tail tail_;
};

}  // namespace seenby
