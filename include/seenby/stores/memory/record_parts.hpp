#pragma once
// SPDX-License-Identifier: MIT
// One user's record, decoded: its parts, and what a change leaves to be released.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "seenby/stores/memory/arena.hpp"
#include "seenby/stores/memory/filter_blocks.hpp"
#include "seenby/stores/memory/segments.hpp"
#include "seenby/stores/memory/shard_context.hpp"
#include "seenby/stores/memory/table_image.hpp"
#include "seenby/stores/memory/user_record.hpp"

SEENBY_DETAIL_BEGIN

/// A copy of a record's parts to work on, under the lock of its shard. Bits and digests go into live blocks at once,
/// which hides nothing: they are being recorded. Blocks that the record no longer needs are only listed: they are
/// released when the changed record has been published. `Words` are those of the shard's keys: a template, so that only
/// programs with a memory store compile it.
template <std::size_t Words>
class RecordParts {
 public:
  RecordParts(ShardContext& context, Arena& arena, ShardCounters& counters, ReadSequence& sequence, Handle handle,
              const PartList& all) noexcept
      : context_(context), arena_(arena), counters_(counters), sequence_(sequence), handle_(handle) {
    for (const Part& part : all) list_of(part).push_back(part);
  }
  RecordParts(const RecordParts&) = delete;
  RecordParts& operator=(const RecordParts&) = delete;
  /// Tables that no record has got go again.
  ~RecordParts() {
    if (published_) return;
    for (Part& part : tables_) {
      if (part.kind == RecordKind::segmented && list_entry(part) == nullptr) release_segments(context_.space, part);
    }
  }

  /// How many of a batch's items are recorded before other writers of the shard get their turn: a few where each goes
  /// into a table of its own, all where one copy takes all.
  [[nodiscard]] std::size_t items_at_once(std::size_t items) const noexcept {
    constexpr std::size_t few = 64;
    return !tables_.empty() && tables_.back().kind == RecordKind::segmented ? std::min(items, few) : items;
  }
  /// Lets go of the slices that left the window. A user's many tables wait until they are written to, or `thoroughly`.
  void drop_dead(std::uint32_t newest, bool thoroughly = false) {
    std::uint32_t last_dropped = 0;
    bool dropped = false;
    while (!parts_.empty() && !context().is_live(parts_[0].slice, newest)) {
      if (!dropped || parts_[0].slice != last_dropped) ++counters().slices_dropped;
      dropped = true;
      last_dropped = parts_[0].slice;
      remove(parts_, 0);
    }
    for (std::uint32_t i = 0; context().windowed() && i < tables_.size();) {
      if (!trim(i, newest)) continue;
      if (thoroughly && tables_[i].kind == RecordKind::segmented) segments(tables_[i]).trim(newest);
      ++i;
    }
  }

 protected:
  /// Tables of up to 2 KiB are changed in a copy.
  static constexpr std::uint32_t copied_granules = 64;

  [[nodiscard]] PartList& list_of(const Part& part) noexcept { return part.is_table() ? tables_ : parts_; }
  [[nodiscard]] ShardContext& context() const noexcept { return context_; }
  [[nodiscard]] Arena& arena() const noexcept { return arena_; }
  [[nodiscard]] ShardCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] std::uint64_t* words_of(const Part& part) const noexcept { return arena_.at(part.block); }

  /// The parts of one slice: [first, last).
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> group(std::uint32_t slice) const noexcept {
    std::uint32_t first = 0;
    while (first < parts_.size() && parts_[first].slice < slice) ++first;
    std::uint32_t last = first;
    while (last < parts_.size() && parts_[last].slice == slice) ++last;
    return {first, last};
  }
  void remove(PartList& list, std::uint32_t i) {
    retire(list[i]);
    list.erase(i);
    structure_changed_ = true;
  }
  void retire(const Part& part) {
    if (part.kind == RecordKind::segmented) retired_segments_.push_back(part);
    if (part.size > 0) retired_.emplace_back(part.block, part.size);
  }
  /// Room for one more part.
  void require_room() const {
    if (parts_.size() + tables_.size() + 1 > max_parts) throw std::bad_alloc();
  }
  [[nodiscard]] std::vector<Digest> digests_of(const Part& part) const {
    std::vector<Digest> digests(part.items);
    for (std::uint32_t i = 0; i < part.items; ++i) digests[i].value = load_word(words_of(part) + i);
    return digests;
  }

  [[nodiscard]] bool contains(std::uint32_t first, std::uint32_t last, Digest digest) const noexcept {
    for (std::uint32_t i = first; i < last; ++i) {
      const Part& part = parts_[i];
      if (part.kind == RecordKind::exact ? digests_contain(words_of(part), part.items, digest)
                                         : blocks_test(words_of(part), part.size, digest)) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool is_over_budget(std::uint32_t slice) const noexcept {
    const auto [first, last] = group(slice);
    double rate = 0;
    for (std::uint32_t i = first; i < last; ++i) rate += parts_[i].fpr;
    if (!context().windowed()) {
      for (const Part& table : tables_) rate += table.fpr;
    }
    return rate > context().rates.slice_rate * (1 + 1e-9);
  }

  /// Whether every bit or digest of a part is one of these digests'.
  [[nodiscard]] bool explains(std::span<const Digest> sorted, const Part& part) const {
    if (part.kind == RecordKind::exact) {
      for (std::uint32_t i = 0; i < part.items; ++i) {
        if (!std::binary_search(sorted.begin(), sorted.end(), Digest{load_word(words_of(part) + i)})) return false;
      }
      return true;
    }
    std::vector<std::uint64_t> cover(std::size_t{part.size} * granule_words);
    blocks_insert(cover.data(), part.size, sorted);
    return words_covered(words_of(part), cover.data(), cover.size());
  }

  /// The same of a table's lanes: each must be how one of these digests begins.
  [[nodiscard]] bool explains_tables(std::span<const Digest> sorted, const Part& part) const {
    bool all = true;
    visit_tables(context_.space, part, [&](const auto& table, const auto&, std::uint32_t depth, std::uint64_t prefix) {
      table.for_each_lane([&](std::uint64_t bits, std::uint32_t count) {  // a digest's first `count` bits
        const std::uint64_t first = prefix | bits >> depth;
        const std::uint64_t last = first | (depth + count >= 64 ? 0 : ~std::uint64_t{0} >> (depth + count));
        const auto at = std::lower_bound(sorted.begin(), sorted.end(), Digest{first});
        all = all && at != sorted.end() && at->value <= last;
      });
    });
    return all;
  }

  std::uint32_t fill(Part& part, std::span<const Digest> digests) noexcept {
    const std::uint32_t changed = blocks_insert(words_of(part), part.size, digests);
    part.items += changed;
    counts_changed_ = true;
    return changed;
  }

  /// Puts digests behind those of an exact part, in a larger block where needed.
  void append(Part& part, std::span<const Digest> digests) {
    const auto total = part.items + static_cast<std::uint32_t>(digests.size());
    const std::uint32_t granules = (total + granule_words - 1) / granule_words;
    if (granules > part.size) {
      const std::uint32_t block = arena().allocate(granules);
      if (part.size > 0) {
        copy_words(arena().at(block), words_of(part), part.items);
        retired_.emplace_back(part.block, part.size);
      }
      part.block = block;
      part.size = granules;
      structure_changed_ = true;
    }
    for (std::size_t i = 0; i < digests.size(); ++i) store_word(words_of(part) + part.items + i, digests[i].value);
    part.items = total;
    counts_changed_ = true;
  }

  // Tables. Readers may be looking at one, so that each change is made in a copy and then in a block of its own.

  [[nodiscard]] TableImage image_of(const Part& table) const {
    if (table.kind == RecordKind::inlined) return {InlinedTable(table.inlined()).block(), 1};
    return {words_of(table), table.size};
  }
  /// Where the list that readers know has a part; null for a new one.
  [[nodiscard]] std::uint64_t* list_entry(const Part& part) const noexcept {
    for (std::uint32_t i = 0; handle_.kind() == RecordKind::extended && i < handle_.size(); ++i) {
      std::uint64_t* const words = arena_.at(handle_.block()) + std::size_t{i} * granule_words;
      if (load_word(words) == part.place()) return words;
    }
    return nullptr;
  }
  [[nodiscard]] Segments segments(Part& part) noexcept {
    return {context_, arena_, counters_, sequence_, part, list_entry(part)};
  }
  /// Lets a table's part stand for an image.
  void store_table(Part& part, const TableImage& image) {
    const std::uint32_t block = arena().allocate(image.granules());
    image.store(arena().at(block));
    if (part.size > 0) retired_.emplace_back(part.block, part.size);
    part.block = block;
    part.size = image.granules();
    part.items = image.count();
    part.capacity = 0;
    part.slice = image.head().newest;
    part.kind = RecordKind::table;
    structure_changed_ = true;
  }
  /// Takes the dead lanes out of a table; false when it had no others and is gone.
  bool trim(std::uint32_t i, std::uint32_t newest) {
    Part& part = tables_[i];
    if (part.slice >= newest) return true;
    if (!context().is_live(part.slice, newest)) {  // its slices' numbers may have come round
      counters().slices_dropped += slices_of(part);
      remove(tables_, i);
      return false;
    }
    if (part.kind == RecordKind::segmented) return true;
    TableImage image = image_of(part);
    const std::uint32_t slices = image.trim(newest, context(), 1);
    counters().slices_dropped += slices;
    if (slices > 0) store_table(part, image);
    return true;
  }
  /// How many slices a table has lanes of; of many tables, the first one.
  [[nodiscard]] std::uint32_t slices_of(const Part& part) const noexcept {
    Handle table = Handle::of(RecordKind::table, part.block, part.size);
    if (part.kind == RecordKind::segmented) table = SegmentDirectory::of(context_.space, part).at(0);
    if (table.size() == 0) return 0;
    const std::uint64_t* const block = context_.space.at(table.block());
    const TableHead head = TableHead::of(load_word(block), table.size());
    return head.view(block).slices_older_than(-1, static_cast<std::uint8_t>(head.newest));
  }
  /// Records digests in the open table, or in the first one.
  void insert_in_table(std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest,
                       InsertOutcome& outcome) {
    // Another writer may know a newer slice already.
    if (!tables_.empty()) newest = std::max(newest, tables_.back().slice);
    std::vector<FingerprintItem> rest;
    rest.reserve(digests.size());
    for (const Digest digest : digests) rest.push_back({digest, static_cast<std::uint8_t>(slice)});
    if (tables_.empty()) return start_table(rest, newest, outcome);
    Part& open = tables_.back();
    if (open.kind == RecordKind::segmented) return segments(open).insert(rest, newest, outcome);
    if (!every_access_atomic && open.size > copied_granules) return insert_in_place(open, rest, newest, outcome);
    TableImage image = image_of(open);
    const bool known_newest = image.head().newest == newest;
    const std::size_t done = image.insert(rest, newest, context(), outcome);
    if (done < rest.size()) {
      rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(done));
      return grow_table(open, &image, rest, newest, outcome);
    }
    if (outcome.newly_added > 0 || outcome.renewed || !known_newest) store_table(open, image);
  }
  /// In a large table, which would take long to copy.
  void insert_in_place(Part& open, std::vector<FingerprintItem>& rest, std::uint32_t newest, InsertOutcome& outcome) {
    TableHead head = TableHead::of(load_word(words_of(open)), open.size);
    head.newest = newest;
    const std::size_t done = detail::insert_in_place(words_of(open), head, rest, context(), sequence_, outcome);
    open.items = head.count;
    open.slice = newest;
    structure_changed_ = true;
    if (done == rest.size()) return;
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(done));
    const TableImage image = image_of(open);
    grow_table(open, &image, rest, newest, outcome);
  }
  /// The table may err what the filters' bits leave: their luck, good or bad, stays what it is. A filter that a history
  /// is to replace has no part of the rate to leave.
  void start_table(std::vector<FingerprintItem>& items, std::uint32_t newest, InsertOutcome& outcome) {
    require_room();
    double filters = 0;
    for (Part& part : parts_) {
      if (part.kind == RecordKind::filter && context().uses_tables()) part.fpr = blocks_fpr(words_of(part), part.size);
      filters += part.fpr;
    }
    tables_.push_back({.block = 0,
                       .size = 0,
                       .items = 0,
                       .capacity = 0,
                       .slice = newest,
                       .kind = RecordKind::table,
                       .link = 0,
                       .fpr = context().table_rate(filters)});
    grow_table(tables_.back(), nullptr, items, newest, outcome);
    outcome.grew = !parts_.empty();
  }
  /// Gives a table (null: none) with more items a larger block, or makes it several where that would be too large.
  void grow_table(Part& open, const TableImage* from, std::vector<FingerprintItem>& items, std::uint32_t newest,
                  InsertOutcome& outcome) {
    outcome.grew = true;
    const TableLimits limits{.share = open.fpr, .newest = newest, .largest = context().largest_table};
    if (const auto image = TableImage::grown(from, items, context(), limits)) {
      outcome.newly_added += added_by_growth(from, *image, items.size());
      return store_table(open, *image);
    }
    retire(open);
    open = Segments::empty_part(arena(), newest, open.fpr);
    structure_changed_ = true;
    Segments many = segments(open);
    if (from != nullptr) many.take(*from);
    many.insert(items, newest, outcome);
  }

  PartList parts_;
  PartList tables_;                                               // one, but where users merged
  std::vector<std::pair<std::uint32_t, std::uint32_t>> retired_;  // blocks and their granules
  std::vector<Part> retired_segments_;
  bool published_ = false;
  bool structure_changed_ = false;  // other parts, or parts elsewhere
  bool counts_changed_ = false;

 private:
  ShardContext& context_;
  Arena& arena_;
  ShardCounters& counters_;
  ReadSequence& sequence_;

 protected:
  const Handle handle_;  // as the record was
};

SEENBY_DETAIL_END
