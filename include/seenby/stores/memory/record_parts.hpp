#pragma once
// SPDX-License-Identifier: MIT
// One user's record, decoded: its parts, the digests kept beside them, and what a change leaves to be released.

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
#include "seenby/stores/memory/user_record.hpp"

SEENBY_DETAIL_BEGIN

/// A copy of a record's parts to work on, under the lock of its shard. Bits and digests go into live blocks at once,
/// which hides nothing: they are being recorded. Blocks that the record no longer needs are only listed: they are
/// released when the changed record has been published. `Words` are those of the shard's keys: a template, so that only
/// programs with a memory store compile it.
template <std::size_t Words>
class RecordParts {
 public:
  RecordParts(const ShardContext& context, Arena& arena, ShardCounters& counters, const PartList& all) noexcept
      : context_(context), arena_(arena), counters_(counters) {
    for (const Part& part : all) (part.kind == RecordKind::kept ? kept_ : parts_).push_back(part);
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
    while (!kept_.empty() && !context().is_live(kept_[0].slice, newest)) remove(kept_, 0);
  }

 protected:
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
  /// Room for two more parts: a filter and the digests kept beside it.
  void require_room() const {
    if (parts_.size() + kept_.size() + 2 > max_parts) throw std::bad_alloc();
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
    std::uint32_t granules = (total + granule_words - 1) / granule_words;
    if (granules > part.size) {
      if (part.kind == RecordKind::kept) granules += part.size / 4;
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

  // Kept digests.

  [[nodiscard]] Part* kept_of(std::uint32_t slice) noexcept {
    return std::find_if(kept_.begin(), kept_.end(), [&](const Part& part) { return part.slice == slice; });
  }
  /// Keeps what of a batch is not kept yet. Items that the filters do not know cannot be. Those they do know are looked
  /// up: one they are wrong about was never inserted, and the filter that succeeds them must hold it all the same.
  void keep_missing(std::span<const Digest> digests, std::uint32_t first, std::uint32_t last) {
    if (parts_[last - 1].kind != RecordKind::filter) return;
    const Part* const kept = kept_of(parts_[first].slice);
    std::vector<Digest> missing;
    for (const Digest digest : digests) {
      if (contains(first, last, digest) && kept != kept_.end() &&
          digests_contain(words_of(*kept), kept->items, digest)) {
        continue;
      }
      missing.push_back(digest);
    }
    keep(missing, parts_[first].slice);
  }
  void keep(std::span<const Digest> digests, std::uint32_t slice) {
    if (!context().keep_digests || digests.empty()) return;
    if (kept_of(slice) == kept_.end()) {
      kept_.insert_by_slice({.block = 0,
                             .size = 0,
                             .items = 0,
                             .capacity = 0,
                             .slice = slice,
                             .kind = RecordKind::kept,
                             .link = 0,
                             .fpr = 0});
      structure_changed_ = true;
    }
    append(*kept_of(slice), digests);
  }

  PartList parts_;
  PartList kept_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> retired_;  // blocks and their granules
  bool structure_changed_ = false;                                // other parts, or parts elsewhere
  bool counts_changed_ = false;

 private:
  const ShardContext& context_;
  Arena& arena_;
  ShardCounters& counters_;
};

SEENBY_DETAIL_END
