#pragma once
// SPDX-License-Identifier: MIT
// RotatingFilter: what was seen within a window of time, in slices that are dropped as they leave it.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/slice_time.hpp"
#include "seenby/filters/container.hpp"
#include "seenby/filters/scalable_filter.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

/// What a window remembers, and how finely it forgets.
struct RotatingFilterOptions {
  std::chrono::seconds window = std::chrono::hours{24 * 30};  ///< how long an item stays seen; at least 1 s
  std::uint32_t slices = 6;  ///< 1 to 250; an item is forgotten at most window / slices late
  double target_fpr = 0.01;  ///< the rate of the whole window, all its slices together; in (0, 1)
  std::uint64_t expected_items =
      1'000;      ///< distinct items a window, for the first slices; later ones follow the volume
  Clock clock{};  ///< the system's when empty
};

/// A Bloom filter over a moving window of time. Items go into the newest slice; a query tests all; the oldest slice is
/// dropped once its last second is older than the window. A window of S slices holds S + 1 of them, so each may err at
/// 1 - (1 - target_fpr)^(1/(S+1)): thirty slices hide 1% together, where thirty filters at 1% would hide 26%.
///
/// - Remembered: whatever was inserted up to `window` ago. Forgotten: whatever was last inserted more than
///   window + window / slices ago. Inserting an item again renews it.
/// - Slices are planned for the volume of those before (an average, halved with every slice, and a quarter on top);
///   one that outgrows its plan goes on as a chain (ScalableFilter) within its share of the budget.
/// - Time never runs backwards here. When the clock jumps back, inserts go on into the newest slice and nothing is
///   dropped until the clock has caught up: nothing is lost. What the clock has once moved past stays dropped.
/// - A clock that jumps ahead by more than a slice is not followed until it has stayed there for a minute (Clock);
///   until then time goes on by the steady clock.
///
/// ClassicLayout takes the fewest bits, SplitBlockLayout the least time: with 2,000 items in six slices 18.5 bits an
/// item and 9.1 ns a check against 22.3 and 2.7, in thirty slices 23.1 and 46 against 30.9 and 8.0 (in batches; 1%).
///
/// Thread safety: as a standard container: any number of readers, or one writer. The clock is called by readers too.
template <HashableItem Item, class Layout = ClassicLayout, Hasher Hash = Xxh3Hash>
class RotatingFilter {
 public:
  using item_type = Item;                                 ///< what it holds
  using layout_type = Layout;                             ///< where a digest's bits are
  using hasher_type = Hash;                               ///< makes digests of items
  using slice_type = ScalableFilter<Item, Layout, Hash>;  ///< one slice of the window

  static constexpr std::uint32_t max_slices = 250;  ///< the most slices of a window
  static constexpr std::uint8_t no_age = 255;       ///< what ages() writes for an item that was not seen

  /// Throws std::invalid_argument for a window under a second, slices outside 1 to 250 or more than the window has
  /// seconds, a rate outside (0, 1), or 0 items.
  explicit RotatingFilter(RotatingFilterOptions options, Hash hash = {})
      : options_(checked(std::move(options))),
        hash_(std::move(hash)),
        time_((options_.window.count() + options_.slices - 1) / options_.slices),
        slice_fpr_(sizing::split_budget(options_.target_fpr, options_.slices + 1)),
        volume_(static_cast<double>(options_.expected_items) / options_.slices) {}

  // Modify

  /// Marks an item as seen now. Amortised O(k); at a new slice it allocates one. Throws std::bad_alloc.
  template <FilterKey<Item> Key>
  void insert(const Key& item) {
    insert(hash_(item));
  }
  void insert(Digest digest) { newest_slice().insert(digest); }  ///< the same for a digest
  /// The same for many digests; reads the clock once.
  void insert(std::span<const Digest> digests) { newest_slice().insert(digests); }

  /// Marks an item as seen now; true when no slice of the window had it, false when it may have been there.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool insert_if_absent(const Key& item) {
    return insert_if_absent(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool insert_if_absent(Digest digest) {
    const std::int64_t now = current_epoch();
    const bool absent = !seen_at(digest, now);
    slice_at(now).insert(digest);
    return absent;
  }

  /// Marks an item as seen at a time in the past: for filling a window from a history. A time past the window
  /// changes nothing; one to come counts as now. False when it lay past the window.
  template <FilterKey<Item> Key>
  bool insert_at(const Key& item, Time seen_at) {
    return insert_at(hash_(item), seen_at);
  }
  /// The same for a digest.
  bool insert_at(Digest digest, Time seen_at) {
    const std::int64_t now = current_epoch();
    const std::int64_t epoch = std::min(now, time_.number(seen_at));
    if (!live(epoch, now)) return false;
    slice_at(epoch).insert(digest);
    return true;
  }

  /// Drops the slices that have left the window, now rather than at the next insert; returns how many.
  std::size_t expire() { return drop_before(current_epoch()); }

  /// Forgets every item; keeps the volume that it observed, and the time.
  void clear() noexcept { slices_.clear(); }

  // Query

  /// False: the item was not inserted within the window. True: it was, at most window + window / slices ago, or the
  /// filter errs. O(slices).
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const {
    return may_contain(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool may_contain(Digest digest) const { return seen_at(digest, current_epoch()).has_value(); }
  /// out[i] = 1 when digest i may be contained, else 0. Reads the clock once. Throws std::invalid_argument when out is
  /// too short.
  void may_contain(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    ages(digests, out);
    for (std::size_t i = 0; i < digests.size(); ++i) out[i] = out[i] == no_age ? 0 : 1;
  }

  /// How many slices ago an item was last seen, 0 being the current one; nothing when it was not. A false positive has
  /// an age as well.
  template <FilterKey<Item> Key>
  [[nodiscard]] std::optional<std::uint32_t> age_of(const Key& item) const {
    return age_of(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] std::optional<std::uint32_t> age_of(Digest digest) const {
    const std::int64_t now = current_epoch();
    const auto epoch = seen_at(digest, now);
    if (!epoch) return std::nullopt;
    return static_cast<std::uint32_t>(now - *epoch);
  }
  /// out[i] = the age of digest i in slices, or no_age. Reads the clock once. Throws std::invalid_argument when out is
  /// too short.
  void ages(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    detail::require_room(digests.size(), out.size());
    std::fill_n(out.begin(), digests.size(), no_age);
    const std::int64_t now = current_epoch();
    std::array<std::uint8_t, 512> part;
    // From the oldest on, so that a newer slice overwrites.
    for (const Slice& slice : slices_) {
      if (!live(slice.epoch, now)) continue;
      const auto age = static_cast<std::uint8_t>(now - slice.epoch);
      for (std::size_t at = 0; at < digests.size(); at += part.size()) {
        const auto chunk = digests.subspan(at, std::min(part.size(), digests.size() - at));
        slice.filter.may_contain(chunk, part);
        for (std::size_t i = 0; i < chunk.size(); ++i) out[at + i] = part[i] != 0 ? age : out[at + i];
      }
    }
  }

  /// The item's digest, good for every filter with the same hasher and seed.
  template <FilterKey<Item> Key>
  [[nodiscard]] Digest digest(const Key& item) const noexcept {
    return hash_(item);
  }

  // Capacity

  /// How long one slice lasts: window / slices, rounded up to a second.
  [[nodiscard]] std::chrono::seconds slice_length() const noexcept {
    return std::chrono::seconds{time_.slice_seconds()};
  }
  /// The rate that each slice may err at.
  [[nodiscard]] double slice_fpr() const noexcept { return slice_fpr_; }
  /// As given at construction.
  [[nodiscard]] const RotatingFilterOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }  ///< the hasher, with its seed
  /// Slices within the window that hold anything; at most slices + 1.
  [[nodiscard]] std::size_t live_slices() const {
    const std::int64_t now = current_epoch();
    return static_cast<std::size_t>(slices_.end() - first_live(now));
  }
  /// How often the clock jumped ahead by more than a slice and was not followed at once.
  [[nodiscard]] std::uint64_t clock_jumps() const noexcept { return time_.jumps(); }
  /// Items that the slices in memory hold, each counted once a slice.
  [[nodiscard]] std::uint64_t size() const noexcept {
    std::uint64_t sum = 0;
    for (const Slice& slice : slices_) sum += slice.filter.size();
    return sum;
  }
  /// Bits in memory, over all parts.
  [[nodiscard]] std::uint64_t capacity_bits() const noexcept {
    std::uint64_t bits = 0;
    for (const Slice& slice : slices_) bits += slice.filter.capacity_bits();
    return bits;
  }
  /// The items that the next slice will be planned for.
  [[nodiscard]] std::uint64_t planned_items() const noexcept {
    double volume = volume_;
    if (!slices_.empty()) volume = average(volume, slices_.back());
    return plan(volume);
  }
  /// The rate at which the bits within the window err. O(m).
  [[nodiscard]] double estimated_fpr() const {
    const std::int64_t now = current_epoch();
    double log_pass = 0;
    for (const Slice& slice : slices_) {
      if (live(slice.epoch, now)) log_pass += std::log1p(-std::min(slice.filter.estimated_fpr(), 1 - 1e-15));
    }
    return -std::expm1(log_pass);
  }

  // Serialize

  /// The window as bytes, with a checksum; the clock is not part of it.
  [[nodiscard]] std::vector<std::byte> encode() const {
    detail::ContainerWriter writer(detail::ContainerKind::rotating);
    writer.put(std::int64_t{options_.window.count()});
    writer.put(options_.slices);
    writer.put(options_.target_fpr);
    writer.put(options_.expected_items);
    writer.put(volume_);
    writer.put(time_.latest());
    writer.put(static_cast<std::uint32_t>(slices_.size()));
    for (const Slice& slice : slices_) {
      writer.put(slice.epoch);
      writer.put_bytes(slice.filter.encode());
    }
    return writer.finish();
  }

  /// Reads what encode wrote. Errors: those of ScalableFilter::decode.
  [[nodiscard]] static Result<RotatingFilter> decode(std::span<const std::byte> bytes, Clock clock = {},
                                                     Hash hash = {}) {
    auto reader = detail::ContainerReader::open(bytes, detail::ContainerKind::rotating);
    if (!reader) return std::move(reader).error();
    RotatingFilterOptions options;
    options.window = std::chrono::seconds{reader->template take<std::int64_t>()};
    options.slices = reader->template take<std::uint32_t>();
    options.target_fpr = reader->template take<double>();
    options.expected_items = reader->template take<std::uint64_t>();
    options.clock = std::move(clock);
    const auto volume = reader->template take<double>();
    const auto latest = reader->template take<std::int64_t>();
    const auto count = reader->template take<std::uint32_t>();
    if (!reader->ok() || fault(options) || !(volume >= 0 && volume < max_volume)) return damaged("options");
    RotatingFilter window(std::move(options), std::move(hash));
    window.volume_ = volume;
    window.time_.resume(latest);
    if (window.time_.started() && window.time_.latest() != latest) return damaged("time");
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto epoch = reader->template take<std::int64_t>();
      const auto part = reader->take_bytes();
      const bool ascending = window.slices_.empty() || window.slices_.back().epoch < epoch;
      if (!reader->ok() || !ascending || epoch > latest) return damaged("slices");
      auto filter = slice_type::decode(part, window.hash_);
      if (!filter) return std::move(filter).error();
      window.slices_.push_back({epoch, std::move(*filter)});
    }
    if (!reader->complete()) return damaged("length");
    return window;
  }

 private:
  /// The items seen in [epoch * slice_seconds, (epoch + 1) * slice_seconds).
  struct Slice {
    std::int64_t epoch;
    slice_type filter;
  };

  static constexpr std::int64_t max_window_seconds = std::int64_t{1} << 40;
  static constexpr double max_volume = 0x1p40;
  static constexpr std::uint64_t min_planned_items = 8;

  /// Why the options cannot be, or null.
  [[nodiscard]] static const char* fault(const RotatingFilterOptions& options) noexcept {
    const std::int64_t window = options.window.count();
    if (window < 1 || window > max_window_seconds) return "a window of 1 to 2^40 seconds";
    if (options.slices < 1 || options.slices > max_slices) return "1 to 250 slices";
    if (options.slices > window) return "slices of at least a second";
    if (!(options.target_fpr / (options.slices + 1) >= detail::least_fpr && options.target_fpr < 1)) {
      return "0 < target_fpr < 1, and no less than 2^-64 a slice";
    }
    if (options.expected_items < 1 || static_cast<double>(options.expected_items) >= max_volume) {
      return "1 to 2^40 expected_items";
    }
    return nullptr;
  }
  [[nodiscard]] static RotatingFilterOptions checked(RotatingFilterOptions options) {
    const char* expected = fault(options);
    if (expected == nullptr) return options;
    std::string message = "seenby: expected ";
    message.append(expected).append(", got a window of ").append(std::to_string(options.window.count()));
    message.append(" s in ").append(std::to_string(options.slices)).append(" slices at fpr ");
    message.append(detail::text_of(options.target_fpr)).append(" for ").append(std::to_string(options.expected_items));
    throw std::invalid_argument(message.append(" items"));
  }
  [[nodiscard]] static Error damaged(const char* what) {
    std::string message = "expected a window of slices, but its ";
    return detail::container_error(ErrorCode::corrupt, message.append(what).append(" cannot be"));
  }
  [[nodiscard]] std::int64_t current_epoch() const { return time_.newest(options_.clock); }
  /// Whether a slice still reaches into the window. The difference wraps rather than overflows, for absurd clocks.
  [[nodiscard]] bool live(std::int64_t epoch, std::int64_t now) const noexcept {
    return static_cast<std::uint64_t>(now) - static_cast<std::uint64_t>(epoch) <= options_.slices;
  }

  [[nodiscard]] std::optional<std::int64_t> seen_at(Digest digest, std::int64_t now) const noexcept {
    for (auto slice = slices_.rbegin(); slice != slices_.rend() && live(slice->epoch, now); ++slice) {
      if (slice->filter.may_contain(digest)) return slice->epoch;
    }
    return std::nullopt;
  }

  [[nodiscard]] auto first_live(std::int64_t now) const {
    return std::find_if(slices_.begin(), slices_.end(), [&](const Slice& slice) { return live(slice.epoch, now); });
  }

  std::size_t drop_before(std::int64_t now) {
    const auto first = first_live(now);
    const auto dropped = static_cast<std::size_t>(first - slices_.begin());
    // The volume of the last slice would go with it.
    if (first == slices_.end() && !slices_.empty()) volume_ = average(volume_, slices_.back());
    slices_.erase(slices_.begin(), first);
    return dropped;
  }

  [[nodiscard]] slice_type& newest_slice() { return slice_at(current_epoch()); }

  /// The slice of an epoch that is live, made if there is none.
  [[nodiscard]] slice_type& slice_at(std::int64_t epoch) {
    if (!slices_.empty() && slices_.back().epoch == epoch) return slices_.back().filter;
    drop_before(time_.latest());
    auto at = std::lower_bound(slices_.begin(), slices_.end(), epoch,
                               [](const Slice& slice, std::int64_t other) { return slice.epoch < other; });
    if (at != slices_.end() && at->epoch == epoch) return at->filter;
    double volume = volume_;
    const bool closes_one = at == slices_.end() && !slices_.empty();
    if (closes_one) volume = average(volume_, slices_.back());
    slice_type filter({.initial_items = plan(volume), .target_fpr = slice_fpr_}, hash_);
    at = slices_.insert(at, Slice{epoch, std::move(filter)});
    volume_ = volume;
    return at->filter;
  }

  [[nodiscard]] static double average(double volume, const Slice& closed) noexcept {
    return std::min((volume + static_cast<double>(closed.filter.size())) / 2, max_volume / 2);
  }
  /// A quarter more than the average: volumes vary, and a second filter in a slice costs more than spare bits.
  [[nodiscard]] static std::uint64_t plan(double volume) noexcept {
    return std::max(min_planned_items, static_cast<std::uint64_t>(std::ceil(volume * 1.25)));
  }

  RotatingFilterOptions options_;
  [[no_unique_address]] Hash hash_;
  detail::SliceTime time_;
  double slice_fpr_;
  double volume_;              // items a slice: the average of the closed ones, the plan before there were any
  std::vector<Slice> slices_;  // oldest first, ascending epochs
};

}  // namespace seenby
