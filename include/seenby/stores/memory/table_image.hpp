#pragma once
// SPDX-License-Identifier: MIT
// A fingerprint table of a memory store while no reader sees it: copied, grown, trimmed or halved, then stored.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "seenby/stores/memory/shard_context.hpp"
#include "seenby/stores/memory/table_record.hpp"

SEENBY_DETAIL_BEGIN

/// Inserts items into a table that readers may be looking at: they see by the sequence that it changes, and look again;
/// none waits for more than one item. Says how many went in before it was full, and leaves the head as it is then.
inline std::size_t insert_in_place(std::uint64_t* block, TableHead& head, std::span<const FingerprintItem> items,
                                   const ShardContext& context, ReadSequence& sequence,
                                   InsertOutcome& outcome) noexcept {
  FingerprintTable table = head.table(block);
  for (std::size_t i = 0; i < items.size(); ++i) {
    sequence.begin_shift();
    const auto did = table.insert(items[i], context.window_at(head.newest));
    head.count = table.count();
    store_word(block, head.word());
    sequence.end_shift();
    if (!outcome.count(did)) return i;
  }
  return items.size();
}

/// How large a table may grow, and how its block is measured.
struct TableLimits {
  double share;                               ///< what the table may err
  std::uint32_t newest;                       ///< slice
  std::uint32_t largest;                      ///< granules
  std::uint32_t unit = 1;                     ///< its block is a multiple of so many granules
  std::optional<double> errs = std::nullopt;  ///< what all tables of the user err together, where there are many
};

/// The words of a table's block.
class TableImage {
 public:
  /// An empty table, in as many granules as its shape needs, rounded up to `unit`.
  TableImage(const FingerprintShape& shape, std::uint32_t newest, std::uint32_t unit) {
    const std::uint64_t granules = (TableHead::granules_for(shape) + unit - 1) / unit * unit;
    head_ = TableHead::of(TableHead{shape, 0, newest}.word(), static_cast<std::uint32_t>(granules));
    words_.resize(static_cast<std::size_t>(granules) * granule_words);
  }
  /// A copy of a block.
  TableImage(const std::uint64_t* block, std::uint32_t granules)
      : words_(std::size_t{granules} * granule_words), head_(TableHead::of(load_word(block), granules)) {
    copy_words(words_.data(), block, words_.size());
  }
  /// The same from a snapshot.
  explicit TableImage(std::span<const std::byte> block) : words_(block.size() / sizeof(std::uint64_t)) {
    copy_words(words_.data(), block);
    head_ = TableHead::of(words_[0], granules());
  }
  /// What `from` (null: nothing) holds and `more` items, which are sorted and made distinct; nothing when that is too
  /// large. Throws std::bad_alloc.
  [[nodiscard]] static std::optional<TableImage> grown(const TableImage* from, std::vector<FingerprintItem>& more,
                                                       const ShardContext& context, const TableLimits& limits) {
    const FingerprintView held = from == nullptr ? FingerprintView({}, 0, nullptr) : from->view();
    const FingerprintView* const old = from == nullptr ? nullptr : &held;
    sort_by_digest(more);
    more.erase(std::unique(more.begin(), more.end(), [](const auto& a, const auto& b) { return a.digest == b.digest; }),
               more.end());
    // A little room beyond what is asked, which keeps the cost of growing item by item amortised.
    const std::uint64_t asked = std::max<std::uint64_t>(more.size(), held.count() / 32);
    FingerprintShape shape = grown_shape(old, asked, limits.share, context.windowed(), limits.errs);
    shape.tail_bytes = std::min(shape.tail_bytes, TableHead::largest_tail);
    if (TableHead::granules_for(shape) > limits.largest) return std::nullopt;
    TableImage image(shape, limits.newest, limits.unit);
    FingerprintTable next = image.table();
    if (!next.rebuild(old, more, context.window_at(limits.newest))) throw std::bad_alloc();
    image.close(next.count());
    return image;
  }
  /// What two tables hold; nothing when that is too large. Throws std::bad_alloc.
  [[nodiscard]] static std::optional<TableImage> united(const TableImage& a, const TableImage& b,
                                                        const ShardContext& context, const TableLimits& limits) {
    const FingerprintView first = a.view();
    const FingerprintView second = b.view();
    FingerprintShape shape = united_shape(first, second, limits.share, context.windowed());
    shape.tail_bytes = std::min(shape.tail_bytes, TableHead::largest_tail);
    if (TableHead::granules_for(shape) > limits.largest) return std::nullopt;
    TableImage image(shape, limits.newest, limits.unit);
    FingerprintTable next = image.table();
    if (!next.rebuild(&first, {}, context.window_at(limits.newest), &second)) throw std::bad_alloc();
    image.close(next.count());
    return image;
  }
  /// Those digests that begin with `bit`, shifted left by one.
  [[nodiscard]] TableImage half(std::uint32_t bit, const ShardContext& context, std::uint32_t unit) const {
    const FingerprintView from = view();
    TableImage image(half_of(from, bit), head_.newest, unit);
    FingerprintTable next = image.table();
    if (!next.rebuild_half(from, bit, context.window_at(head_.newest))) throw std::bad_alloc();
    image.close(next.count());
    return image;
  }
  /// Takes the dead lanes out; says how many slices went. Leaves the block as it is where none did.
  std::uint32_t trim(std::uint32_t newest, const ShardContext& context, std::uint32_t unit) {
    const FingerprintWindow window = context.window_at(newest);
    const std::uint32_t slices = view().slices_older_than(window.max_age, window.newest);
    if (slices == 0) return 0;
    FingerprintTable now = table();
    now.drop(window);
    head_.newest = newest;
    close(now.count());
    FingerprintShape fitted = head_.shape;
    fitted.capacity = head_.count;
    TableImage fewer(fitted, newest, unit);
    if (fewer.granules() >= granules()) return slices;
    FingerprintTable next = fewer.table();
    const FingerprintView from = view();
    if (!next.rebuild(&from, {}, window)) throw std::bad_alloc();
    fewer.close(next.count());
    *this = std::move(fewer);
    return slices;
  }
  /// Inserts items until it is full; says how many went in.
  std::size_t insert(std::span<const FingerprintItem> items, std::uint32_t newest, const ShardContext& context,
                     InsertOutcome& outcome) {
    FingerprintTable now = table();
    std::size_t done = 0;
    while (done < items.size() && outcome.count(now.insert(items[done], context.window_at(newest)))) ++done;
    head_.newest = newest;
    close(now.count());
    return done;
  }

  [[nodiscard]] const TableHead& head() const noexcept { return head_; }
  [[nodiscard]] std::uint32_t count() const noexcept { return head_.count; }
  [[nodiscard]] std::uint32_t granules() const noexcept {
    return static_cast<std::uint32_t>(words_.size() / granule_words);
  }
  /// Whether what came from a snapshot contradicts neither itself nor the store.
  [[nodiscard]] bool is_sound(const ShardContext& context, std::uint32_t newest) const noexcept {
    return head_.is_sound(granules()) && head_.shape.sliced == context.windowed() && head_.newest <= newest &&
           view().is_sound();
  }
  [[nodiscard]] FingerprintView view() const noexcept { return head_.view(words_.data()); }
  void store(std::uint64_t* block) const noexcept { copy_words(block, words_.data(), words_.size()); }

 private:
  [[nodiscard]] FingerprintTable table() noexcept { return head_.table(words_.data()); }
  void close(std::uint32_t count) noexcept {
    head_.count = count;
    words_[0] = head_.word();
  }

  std::vector<std::uint64_t> words_;
  TableHead head_;
};

/// How many items a growth added, of `asked` that were given.
[[nodiscard]] inline std::size_t added_by_growth(const TableImage* before, const TableImage& after,
                                                 std::size_t asked) noexcept {
  const std::size_t held = before == nullptr ? 0 : before->count();
  return std::min<std::size_t>(asked, after.count() - std::min<std::size_t>(after.count(), held));
}

SEENBY_DETAIL_END
