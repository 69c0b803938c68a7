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
#include "seenby/stores/memory/shard_context.hpp"
#include "seenby/stores/memory/table_record.hpp"
#include "seenby/stores/memory/user_record.hpp"

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

/// A copy of a record's parts to work on, under the lock of its shard. Bits and digests go into live blocks at once,
/// which hides nothing: they are being recorded. Blocks that the record no longer needs are only listed: they are
/// released when the changed record has been published. `Words` are those of the shard's keys: a template, so that only
/// programs with a memory store compile it.
template <std::size_t Words>
class RecordParts {
 public:
  RecordParts(const ShardContext& context, Arena& arena, ShardCounters& counters, ReadSequence& sequence,
              const PartList& all) noexcept
      : context_(context), arena_(arena), counters_(counters), sequence_(sequence) {
    for (const Part& part : all) list_of(part.kind).push_back(part);
  }

  /// Lets go of the slices that left the window.
  void drop_dead(std::uint32_t newest) {
    std::uint32_t last_dropped = 0;
    bool dropped = false;
    while (!parts_.empty() && !context().is_live(parts_[0].slice, newest)) {
      if (!dropped || parts_[0].slice != last_dropped) ++counters().slices_dropped;
      dropped = true;
      last_dropped = parts_[0].slice;
      remove(parts_, 0);
    }
    for (std::uint32_t i = 0; context().windowed() && i < tables_.size();) {
      if (trim(i, newest)) ++i;
    }
  }

 protected:
  /// Tables of up to 2 KiB are changed in a copy.
  static constexpr std::uint32_t copied_granules = 64;

  [[nodiscard]] PartList& list_of(RecordKind kind) noexcept { return kind == RecordKind::table ? tables_ : parts_; }
  [[nodiscard]] const ShardContext& context() const noexcept { return context_; }
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
    retired_.emplace_back(list[i].block, list[i].size);
    list.erase(i);
    structure_changed_ = true;
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

  [[nodiscard]] TableHead head_of(const Part& table) const noexcept {
    return TableHead::of(load_word(words_of(table)), table.size);
  }
  [[nodiscard]] std::vector<std::uint64_t> words_in(const Part& table) const {
    std::vector<std::uint64_t> words(std::size_t{table.size} * granule_words);
    copy_words(words.data(), words_of(table), words.size());
    return words;
  }
  [[nodiscard]] static FingerprintTable table_in(std::vector<std::uint64_t>& words, const TableHead& head) noexcept {
    // No words: no table, and an empty one has no bytes.
    return {head.shape, head.count, words.empty() ? nullptr : reinterpret_cast<std::byte*>(words.data() + 1)};
  }
  /// Lets a table's part stand for these words.
  void store_table(Part& part, std::vector<std::uint64_t>& words, TableHead head, std::uint32_t count) {
    head.count = count;
    words[0] = head.word();
    const auto granules = static_cast<std::uint32_t>(words.size() / granule_words);
    const std::uint32_t block = arena().allocate(granules);
    copy_words(arena().at(block), words.data(), words.size());
    if (part.size > 0) retired_.emplace_back(part.block, part.size);
    part.block = block;
    part.size = granules;
    part.items = count;
    part.slice = head.newest;
    structure_changed_ = true;
  }
  /// Takes the dead lanes out of a table; false when it had no others and is gone.
  bool trim(std::uint32_t i, std::uint32_t newest) {
    Part& part = tables_[i];
    if (part.slice >= newest) return true;
    TableHead head = head_of(part);
    const FingerprintWindow window = context().window_at(newest);
    if (!context().is_live(part.slice, newest)) {  // its slices' numbers may have come round
      counters().slices_dropped += head.view(words_of(part)).slices_older_than(-1, window.newest);
      remove(tables_, i);
      return false;
    }
    std::vector<std::uint64_t> words = words_in(part);
    FingerprintTable table = table_in(words, head);
    const std::uint32_t slices = table.view().slices_older_than(window.max_age, window.newest);
    if (slices == 0) return true;
    counters().slices_dropped += slices;
    table.drop(window);
    head.newest = newest;
    TableHead smaller = head;
    smaller.shape.capacity = table.count();
    const std::uint64_t granules = TableHead::granules_for(smaller.shape);
    if (granules >= part.size) {
      store_table(part, words, head, table.count());
      return true;
    }
    std::vector<std::uint64_t> fewer(static_cast<std::size_t>(granules) * granule_words);
    smaller = TableHead::of(smaller.word(), static_cast<std::uint32_t>(granules));
    FingerprintTable next(smaller.shape, 0, reinterpret_cast<std::byte*>(fewer.data() + 1));
    const FingerprintView from = table.view();
    if (!next.rebuild(&from, {}, window)) throw std::bad_alloc();
    store_table(part, fewer, smaller, next.count());
    return true;
  }
  /// Records digests in the open table, or in the first one; false when that would be larger than a table may be: what
  /// still fitted may be in it.
  bool insert_in_table(std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest,
                       InsertOutcome& outcome) {
    // Another writer may know a newer slice already.
    if (!tables_.empty()) newest = std::max(newest, tables_.back().slice);
    const FingerprintWindow window = context().window_at(newest);
    std::vector<FingerprintItem> rest;
    rest.reserve(digests.size());
    for (const Digest digest : digests) rest.push_back({digest, static_cast<std::uint8_t>(slice)});
    Part* const open = tables_.empty() ? nullptr : &tables_.back();
    if (open != nullptr && !every_access_atomic && open->size > copied_granules) {
      return insert_in_place(*open, rest, newest, outcome);
    }
    TableHead head;
    std::vector<std::uint64_t> words;
    if (open != nullptr) {
      head = head_of(*open);
      words = words_in(*open);
    }
    FingerprintTable table = table_in(words, head);
    if (open != nullptr) {
      const std::size_t done = insert_while_room(table, rest, window, outcome);
      if (done == rest.size()) {
        if (outcome.newly_added == 0 && !outcome.renewed && head.newest == newest) return true;
        head.newest = newest;
        store_table(*open, words, head, table.count());
        return true;
      }
      rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(done));
    }
    return grow_table(open, open == nullptr ? nullptr : &table, rest, newest, outcome);
  }
  /// In a large table, which would take long to copy.
  bool insert_in_place(Part& open, std::vector<FingerprintItem>& rest, std::uint32_t newest, InsertOutcome& outcome) {
    TableHead head = head_of(open);
    head.newest = newest;
    const std::size_t done = detail::insert_in_place(words_of(open), head, rest, context(), sequence_, outcome);
    open.items = head.count;
    open.slice = newest;
    structure_changed_ = true;
    if (done == rest.size()) return true;
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(done));
    const FingerprintTable table = head.table(words_of(open));
    return grow_table(&open, &table, rest, newest, outcome);
  }
  static std::size_t insert_while_room(FingerprintTable& table, std::span<const FingerprintItem> items,
                                       FingerprintWindow window, InsertOutcome& outcome) noexcept {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!outcome.count(table.insert(items[i], window))) return i;
    }
    return items.size();
  }
  bool grow_table(Part* open, const FingerprintTable* from, std::vector<FingerprintItem>& rest, std::uint32_t newest,
                  InsertOutcome& outcome) {
    sort_by_digest(rest);
    rest.erase(std::unique(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.digest == b.digest; }),
               rest.end());
    const FingerprintView view = from == nullptr ? FingerprintView({}, 0, nullptr) : from->view();
    const double share = open == nullptr ? context().table_rate(!parts_.empty()) : open->fpr;
    // A little room beyond what is asked, which keeps the cost of growing item by item amortised.
    const std::uint64_t more = std::max<std::uint64_t>(rest.size(), view.count() / 32);
    const FingerprintShape shape = grown_shape(from == nullptr ? nullptr : &view, more, share, context().windowed());
    const std::uint64_t granules = TableHead::granules_for(shape);
    if (granules > Handle::largest_size) return false;
    TableHead head = TableHead::of(TableHead{shape, 0, newest}.word(), static_cast<std::uint32_t>(granules));
    std::vector<std::uint64_t> words(static_cast<std::size_t>(granules) * granule_words);
    FingerprintTable next(head.shape, 0, reinterpret_cast<std::byte*>(words.data() + 1));
    if (!next.rebuild(from == nullptr ? nullptr : &view, rest, context().window_at(newest))) throw std::bad_alloc();
    outcome.newly_added += std::min<std::size_t>(rest.size(), next.count() - std::min(next.count(), view.count()));
    if (open == nullptr) {
      require_room();
      Part part{.block = 0,
                .size = 0,
                .items = 0,
                .capacity = 0,
                .slice = newest,
                .kind = RecordKind::table,
                .link = 0,
                .fpr = share};
      store_table(part, words, head, next.count());
      tables_.push_back(part);
      outcome.grew = !parts_.empty();
    } else {
      store_table(*open, words, head, next.count());
      outcome.grew = true;
    }
    return true;
  }

  PartList parts_;
  PartList tables_;                                               // one, but where users merged
  std::vector<std::pair<std::uint32_t, std::uint32_t>> retired_;  // blocks and their granules
  bool structure_changed_ = false;                                // other parts, or parts elsewhere
  bool counts_changed_ = false;

 private:
  const ShardContext& context_;
  Arena& arena_;
  ShardCounters& counters_;
  ReadSequence& sequence_;
};

SEENBY_DETAIL_END
