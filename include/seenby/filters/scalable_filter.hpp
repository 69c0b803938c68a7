#pragma once
// SPDX-License-Identifier: MIT
// ScalableFilter: a Bloom filter that grows without a history, by a chain of larger, tighter filters.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/range.hpp"
#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/container.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

/// How a chain starts and grows.
struct ScalableFilterOptions {
  std::uint64_t initial_items = 1'000;  ///< distinct items the first filter holds; at least 1
  double target_fpr = 0.01;             ///< the rate of the whole chain, however long it grows; in [2^-64, 1)
  double growth_factor = 2.0;           ///< capacity of a filter over that of the one before; 1.1 to 16
};

/// A chain of Bloom filters (Almeida, Baquero, Preguica and Hutchison, "Scalable Bloom Filters", 2007): when the
/// newest is full, a larger one with a smaller share of the error budget succeeds it. For sets whose size is not known
/// and whose items cannot be read again; with a history at hand, BloomFilter::grow gives fewer bits and one probe.
///
/// Filter i may err at target_fpr * 6/pi^2 / (i+1)^2. These shares sum to at most target_fpr over any length, and fall
/// gently: at a target of 1% the first filter takes 10.6 bits an item and the eleventh, past 1,000 times the first
/// capacity, 20.6; the paper's halving shares take 11.0 and 25.5.
///
/// A filter is full when the bits themselves say that its share is spent, not when a count says that it should be: of
/// a hundred filters of 100 items each, half are worse than the formula, one by a quarter.
///
/// Thread safety: as a standard container: any number of readers, or one writer.
template <HashableItem Item, class Layout = ClassicLayout, Hasher Hash = Xxh3Hash>
class ScalableFilter {
 public:
  using item_type = Item;                               ///< what it holds
  using layout_type = Layout;                           ///< where a digest's bits are
  using hasher_type = Hash;                             ///< makes digests of items
  using filter_type = BloomFilter<Item, Layout, Hash>;  ///< one stage of the chain

  /// Throws std::invalid_argument for 0 items, a rate outside [2^-64, 1) or a growth factor outside 1.1 to 16.
  explicit ScalableFilter(const ScalableFilterOptions& options, Hash hash = {})
      : options_(checked(options)), hash_(std::move(hash)) {
    add_stage();
  }

  // Modify

  /// Adds an item; when the newest filter is full, a larger one is made first. Amortised O(stages * k). Throws
  /// std::bad_alloc, and std::invalid_argument past 2^37 bits in one filter; the chain is then as it was.
  template <FilterKey<Item> Key>
  void insert(const Key& item) {
    (void)insert_if_absent(hash_(item));
  }
  void insert(Digest digest) { (void)insert_if_absent(digest); }  ///< the same for a digest
  /// The same for many digests.
  void insert(std::span<const Digest> digests) {
    for (const Digest digest : digests) insert(digest);
  }

  /// Adds an item; true when it was certainly new, false when it may have been there. What an older filter may hold is
  /// not added again: filters are never dropped from a chain, so the answer stays.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool insert_if_absent(const Key& item) {
    return insert_if_absent(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool insert_if_absent(Digest digest) {
    if (may_contain(digest)) return false;
    if (stages_.back().items >= stages_.back().review_at && full(stages_.back())) add_stage();
    stages_.back().filter.insert(digest);
    ++stages_.back().items;
    return true;
  }

  /// Forgets every item and every filter but a first one of the initial size.
  void clear() {
    std::vector<Stage> none;
    std::swap(none, stages_);
    try {
      add_stage();
    } catch (...) {
      std::swap(none, stages_);
      throw;
    }
  }

  // Query

  /// False: the item was never inserted. True: it was, or the chain errs. O(stages), the newest first.
  template <FilterKey<Item> Key>
  [[nodiscard]] bool may_contain(const Key& item) const noexcept {
    return may_contain(hash_(item));
  }
  /// The same for a digest.
  [[nodiscard]] bool may_contain(Digest digest) const noexcept {
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      if (stage->filter.may_contain(digest)) return true;
    }
    return false;
  }
  /// out[i] = 1 when digest i may be contained, else 0. Throws std::invalid_argument when out is too short.
  void may_contain(std::span<const Digest> digests, std::span<std::uint8_t> out) const {
    detail::require_room(digests.size(), out.size());
    out = out.first(digests.size());
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    std::array<std::uint8_t, 512> part;
    for (const Stage& stage : stages_) {
      for (std::size_t at = 0; at < digests.size(); at += part.size()) {
        const auto chunk = digests.subspan(at, std::min(part.size(), digests.size() - at));
        stage.filter.may_contain(chunk, part);
        for (std::size_t i = 0; i < chunk.size(); ++i) out[at + i] |= part[i];
      }
    }
  }

  /// The item's digest, good for every filter with the same hasher and seed.
  template <FilterKey<Item> Key>
  [[nodiscard]] Digest digest(const Key& item) const noexcept {
    return hash_(item);
  }

  // Capacity

  /// Items it holds before it next adds a filter, by plan: chance may bring that a few percent forward.
  [[nodiscard]] std::uint64_t capacity() const noexcept {
    return size() - stages_.back().items + stages_.back().capacity;
  }
  /// Items that were certainly new when inserted.
  [[nodiscard]] std::uint64_t size() const noexcept {
    std::uint64_t sum = 0;
    for (const Stage& stage : stages_) sum += stage.items;
    return sum;
  }
  [[nodiscard]] std::size_t stages() const noexcept { return stages_.size(); }      ///< filters in the chain
  [[nodiscard]] double target_fpr() const noexcept { return options_.target_fpr; }  ///< the rate it was made for
  /// As given at construction.
  [[nodiscard]] const ScalableFilterOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }  ///< the hasher, with its seed
  /// Bits in memory, over all parts.
  [[nodiscard]] std::uint64_t capacity_bits() const noexcept {
    std::uint64_t bits = 0;
    for (const Stage& stage : stages_) bits += stage.filter.capacity_bits();
    return bits;
  }
  /// The rate at which these very bits err. O(m).
  [[nodiscard]] double estimated_fpr() const noexcept {
    double log_pass = 0;
    for (const Stage& stage : stages_) log_pass += std::log1p(-std::min(stage.filter.estimated_fpr(), 1 - 1e-15));
    return -std::expm1(log_pass);
  }
  /// The rate that filter `index` of a chain may err at.
  [[nodiscard]] static double stage_fpr(double target_fpr, std::size_t index) noexcept {
    constexpr double six_over_pi_squared = 0.607927101854026628663;
    const double place = static_cast<double>(index) + 1;
    return target_fpr * six_over_pi_squared / (place * place);
  }

  // Serialize

  /// The chain as bytes: an envelope with a checksum, each filter in format v1.
  [[nodiscard]] std::vector<std::byte> encode() const {
    detail::ContainerWriter writer(detail::ContainerKind::scalable);
    writer.put(options_.initial_items);
    writer.put(options_.target_fpr);
    writer.put(options_.growth_factor);
    writer.put(static_cast<std::uint32_t>(stages_.size()));
    for (const Stage& stage : stages_) {
      writer.put(stage.items);
      writer.put(stage.review_at);
      writer.put_bytes(stage.filter.encode());
    }
    return writer.finish();
  }

  /// Reads what encode wrote. Errors: those of BloomFilter::decode, and wrong_type for an envelope of another kind.
  [[nodiscard]] static Result<ScalableFilter> decode(std::span<const std::byte> bytes, Hash hash = {}) {
    auto reader = detail::ContainerReader::open(bytes, detail::ContainerKind::scalable);
    if (!reader) return std::move(reader).error();
    ScalableFilterOptions options;
    options.initial_items = reader->template take<std::uint64_t>();
    options.target_fpr = reader->template take<double>();
    options.growth_factor = reader->template take<double>();
    const auto count = reader->template take<std::uint32_t>();
    if (!reader->ok() || count == 0 || !valid(options)) return damaged("options or number of filters");
    ScalableFilter chain(options, std::move(hash), {});
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto items = reader->template take<std::uint64_t>();
      const auto review_at = reader->template take<std::uint64_t>();
      const auto part = reader->take_bytes();
      if (!reader->ok()) return damaged("filter sizes");
      auto filter = filter_type::decode(part, chain.hash_);
      if (!filter) return std::move(filter).error();
      chain.adopt(std::move(*filter));
      chain.stages_.back().items = items;
      chain.stages_.back().review_at = std::min(review_at, chain.stages_.back().capacity);
    }
    if (!reader->complete()) return damaged("length");
    return chain;
  }

  /// Equal when every future answer is.
  friend bool operator==(const ScalableFilter& a, const ScalableFilter& b) noexcept {
    const auto same = [](const Stage& x, const Stage& y) { return x.filter == y.filter && x.items == y.items; };
    return std::equal(a.stages_.begin(), a.stages_.end(), b.stages_.begin(), b.stages_.end(), same);
  }

 private:
  struct Stage {
    filter_type filter;
    std::uint64_t capacity;   // items it may hold at its share of the budget
    std::uint64_t items;      // distinct items put into it
    std::uint64_t review_at;  // items at which to look at the bits again
  };

  ScalableFilter(const ScalableFilterOptions& options, Hash hash, std::vector<Stage> stages)
      : options_(options), hash_(std::move(hash)), stages_(std::move(stages)) {}

  [[nodiscard]] static bool valid(const ScalableFilterOptions& options) noexcept {
    return options.initial_items > 0 && options.target_fpr >= detail::least_fpr && options.target_fpr < 1 &&
           options.growth_factor >= 1.1 && options.growth_factor <= 16;
  }
  [[nodiscard]] static const ScalableFilterOptions& checked(const ScalableFilterOptions& options) {
    detail::require_items(options.initial_items);
    detail::require_rate(options.target_fpr, "target_fpr");
    if (valid(options)) return options;
    const bool rate = options.target_fpr < detail::least_fpr;
    std::string message = rate ? "seenby: expected a target_fpr of at least 2^-64, got "
                               : "seenby: expected a growth_factor from 1.1 to 16, got ";
    throw std::invalid_argument(message.append(detail::text_of(rate ? options.target_fpr : options.growth_factor)));
  }
  [[nodiscard]] static Error damaged(const char* what) {
    std::string message = "expected a chain of filters, but its ";
    return detail::container_error(ErrorCode::corrupt, message.append(what).append(" cannot be"));
  }

  void add_stage() {
    const auto initial = static_cast<double>(options_.initial_items);
    const double planned = std::ceil(initial * std::pow(options_.growth_factor, static_cast<double>(stages_.size())));
    // 2^63 items are refused by the sizing, with its message.
    const auto items = static_cast<std::uint64_t>(std::min(planned, 0x1p63));
    const double fpr = stage_fpr(options_.target_fpr, stages_.size());
    adopt(filter_type({.expected_items = items, .target_fpr = fpr}, hash_));
  }
  void adopt(filter_type filter) {
    const std::uint64_t capacity = sizing::capacity_of(filter.shape(), stage_fpr(options_.target_fpr, stages_.size()));
    stages_.push_back({.filter = std::move(filter), .capacity = capacity, .items = 0, .review_at = capacity / 2});
  }

  /// Whether one more item would exceed a filter's share, and if not, when to look again. The rate grows as about
  /// the k-th power of the items, so at rate f there is room for (share / f)^(1/k) times as many: look again half way
  /// there, some ten times in a filter's life.
  [[nodiscard]] bool full(Stage& stage) const noexcept {
    if (stage.items >= stage.capacity) return true;
    if (stage.items == 0) return false;
    const double share = stage_fpr(options_.target_fpr, stages_.size() - 1);
    const double rate = std::max(stage.filter.estimated_fpr(), 1e-300);
    const double items = static_cast<double>(stage.items);
    const double room = items * std::pow(share / rate, 1.0 / stage.filter.hash_count()) - items;
    if (room < 1) return true;
    const double step = std::clamp(room / 2, 1.0, static_cast<double>(stage.capacity));
    stage.review_at = std::min(stage.capacity, stage.items + static_cast<std::uint64_t>(step));
    return false;
  }

  ScalableFilterOptions options_;
  [[no_unique_address]] Hash hash_;
  std::vector<Stage> stages_;  // oldest first, never empty
};

}  // namespace seenby
