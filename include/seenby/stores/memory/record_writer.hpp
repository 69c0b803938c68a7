#pragma once
// SPDX-License-Identifier: MIT
// Recording into one user's parts: exact start, first filter, tables, and growth by re-insertion.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <stdexcept>
#include <vector>

#include "seenby/detail/sizing_math.hpp"
#include "seenby/stores/memory/record_parts.hpp"

SEENBY_DETAIL_BEGIN

/// What can be done to a record short of publishing it. Throws std::bad_alloc, and then must not be published.
template <std::size_t Words>
class RecordWriter : public RecordParts<Words> {
  using Base = RecordParts<Words>;

 public:
  using Base::Base;

  /// Records digests in one slice. Without a window: a few exact digests, then a filter where there is a history to
  /// read again or the first batch is large, and a table for whatever comes later than that. With one: a table.
  InsertOutcome insert(std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest) {
    InsertOutcome outcome;
    if (context().windowed()) {
      insert_in_table(digests, slice, newest, outcome);
      return outcome;
    }
    insert_for_ever(digests, newest, outcome);
    if (outcome.grew) {
      ++counters().growths;
      const bool over = is_over_budget(slice);
      outcome.rebuild_wanted = over && context().has_history.load(std::memory_order_relaxed);
      if (over && !outcome.rebuild_wanted) ++counters().over_budget;
    }
    return outcome;
  }

  /// One filter of `digests` (sorted, distinct) instead of all parts, if it answers "seen" for all they hold.
  bool replace_all(std::span<const Digest> digests) {
    std::uint64_t capacity = 0;
    for (const Part& part : parts_) {
      if (!explains(digests, part)) return false;
      capacity = std::max<std::uint64_t>(capacity, part.capacity);
    }
    for (const Part& part : tables_) {
      if (!explains_tables(digests, part)) return false;
    }
    if (parts_.empty() || digests.empty()) return parts_.empty() && tables_.empty();
    const double growth = context().growth_factor;
    const double wanted =
        std::max(static_cast<double>(capacity) * growth, static_cast<double>(digests.size()) * (1 + (growth - 1) / 2));
    Part whole = new_filter(static_cast<std::uint64_t>(wanted));
    fill(whole, digests);
    while (!parts_.empty()) remove(parts_, parts_.size() - 1);
    while (!tables_.empty()) remove(tables_, tables_.size() - 1);
    parts_.push_back(whole);
    return true;
  }

  /// Takes over a part of another user, one of `theirs`: into the digests or bits that are there if it fits, else
  /// beside them.
  void adopt(const Part& part, std::uint32_t newest) {
    if (part.is_table()) return adopt_table(part, newest);
    if (part.kind != RecordKind::filter) {
      insert(digests_of(part), part.slice, newest);
      return;
    }
    const std::uint64_t* const words = words_of(part);  // all shards share one address space
    const auto [first, last] = group(part.slice);
    for (std::uint32_t i = first; i < last; ++i) {
      Part& own = parts_[i];
      const std::uint64_t together = std::uint64_t{own.items} + part.items;
      if (own.kind != RecordKind::filter || own.size != part.size || together > own.capacity) continue;
      std::uint64_t* const bits = arena().at(own.block);
      for (std::size_t w = 0; w < std::size_t{own.size} * granule_words; ++w) {
        store_word(bits + w, load_word(bits + w) | load_word(words + w));
      }
      own.items = static_cast<std::uint32_t>(together);
      return;
    }
    require_room();
    Part copy = part;
    copy.block = arena().allocate(part.size);
    copy_words(arena().at(copy.block), words, std::size_t{part.size} * granule_words);
    copy.link = last == first ? std::uint8_t{0} : static_cast<std::uint8_t>(parts_[last - 1].link + 1);
    parts_.insert_by_slice(copy);
    structure_changed_ = true;
    if (is_over_budget(part.slice)) ++counters().over_budget;
  }

  /// A table of another user: as this one's where they have none, else united with it, or beside it where one of the
  /// two has many or both together are too large for one.
  void adopt_table(const Part& part, std::uint32_t newest) {
    const bool has_table = !tables_.empty();
    if (has_table && unite(tables_.back(), part, newest)) return;
    require_room();
    structure_changed_ = true;
    if (part.kind == RecordKind::segmented) {
      tables_.push_back(Segments::empty_part(arena(), part.slice, part.fpr));
      segments(tables_.back()).copy(part);
    } else if (part.kind == RecordKind::inlined) {
      tables_.push_back(part);
    } else {
      tables_.push_back(part);
      tables_.back().size = 0;  // not theirs to release
      store_table(tables_.back(), image_of(part));
    }
    if (!has_table && parts_.size() == 1 && parts_[0].kind == RecordKind::exact && context().uses_tables()) {
      const std::vector<Digest> few = digests_of(parts_[0]);
      remove(parts_, 0);
      InsertOutcome outcome;
      insert_in_table(few, 0, newest, outcome);
    }
    if (has_table || is_over_budget(0)) ++counters().over_budget;
  }

  /// Adds a part as a snapshot has it; false for a table that contradicts itself or the window.
  [[nodiscard]] bool restore(Part part, std::span<const std::byte> bytes) {
    if (part.kind == RecordKind::kept) return true;
    structure_changed_ = true;
    if (part.kind == RecordKind::segmented) return restore_segments(part, bytes);
    part.block = arena().allocate(part.size);
    copy_words(words_of(part), bytes);
    list_of(part).push_back(part);
    if (is_over_budget(part.slice)) ++counters().over_budget;
    return part.kind != RecordKind::table || image_of(part).is_sound(context(), part.slice);
  }

 protected:
  using Base::append, Base::arena, Base::contains, Base::context, Base::counters, Base::digests_of, Base::explains;
  using Base::explains_tables, Base::fill, Base::group, Base::image_of, Base::insert_in_table, Base::is_over_budget;
  using Base::list_of, Base::parts_, Base::remove, Base::require_room, Base::retired_, Base::segments;
  using Base::store_table, Base::structure_changed_, Base::tables_, Base::words_of;

 private:
  void insert_for_ever(std::span<const Digest> digests, std::uint32_t newest, InsertOutcome& outcome) {
    if (tables_.empty() && parts_.size() == 1 && parts_[0].kind == RecordKind::filter &&
        !context().goes_by_bits(parts_[0].size) && parts_[0].items + digests.size() <= parts_[0].capacity) {
      outcome.newly_added = fill(parts_[0], digests);
      return;
    }
    std::vector<Digest> unseen;
    digests = only_unseen(digests, unseen);
    if (digests.empty()) return;
    if (!tables_.empty()) return insert_in_table(digests, 0, newest, outcome);
    if (parts_.empty()) return start(digests, outcome);
    Part& last = parts_[parts_.size() - 1];
    if (last.kind == RecordKind::exact) return add_to_exact(digests, newest, outcome);
    const std::size_t room = last.capacity > last.items ? last.capacity - last.items : 0;
    // Where the bits decide they are asked again for every few items: those add a twentieth to the rate.
    const std::size_t few = context().goes_by_bits(last.size) ? std::max(1U, last.size / 8) : room;
    for (std::size_t left = std::min(room, digests.size());
         left > 0 && context().takes(words_of(last), last.size, last.items, digests[0]);) {
      const auto fitting = digests.first(std::min(few, left));
      outcome.newly_added += fill(last, fitting);
      digests = digests.subspan(fitting.size());
      left -= fitting.size();
    }
    if (!digests.empty()) insert_in_table(digests, 0, newest, outcome);
  }

  /// What of a batch the parts other than tables do not hold. A large first batch is taken as it comes: sorting it
  /// costs more than the few bytes that its duplicates are sized for.
  [[nodiscard]] std::span<const Digest> only_unseen(std::span<const Digest> digests,
                                                    std::vector<Digest>& unseen) const {
    constexpr std::size_t large = 64;
    if (parts_.empty() && (digests.size() > large || !tables_.empty())) return digests;
    unseen.reserve(digests.size());
    for (const Digest digest : digests) {
      if (!contains(0, parts_.size(), digest)) unseen.push_back(digest);
    }
    if (unseen.size() <= large) {
      std::sort(unseen.begin(), unseen.end());
      unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
    }
    return unseen;
  }

  /// A user's first part.
  void start(std::span<const Digest> digests, InsertOutcome& outcome) {
    if (digests.size() <= context().exact_items) {
      parts_.push_back({.block = 0,
                        .size = 0,
                        .items = 0,
                        .capacity = context().exact_items,
                        .slice = 0,
                        .kind = RecordKind::exact,
                        .link = 0,
                        .fpr = 0});
      structure_changed_ = true;
      append(parts_[0], digests);
      outcome.newly_added = digests.size();
      return;
    }
    const std::uint64_t least = context().initial_items;
    Part part = new_filter(std::max<std::uint64_t>(digests.size(), least));
    outcome.newly_added = fill(part, digests);
    if (part.items < digests.size() / 4 * 3 && part.size > 1) {  // mostly repeats: sized for what is different
      arena().release(part.block, part.size);
      part = new_filter(std::max<std::uint64_t>(part.items, least));
      fill(part, digests);
    }
    // A few times: what was chosen to share a block does so in any filter.
    for (int i = 0; i < 8 && context().is_unlucky(words_of(part), part.size); ++i) {
      arena().release(part.block, part.size);
      part = new_filter(std::uint64_t{part.capacity} + 1);
      fill(part, digests);
    }
    parts_.push_back(part);
  }

  void add_to_exact(std::span<const Digest> digests, std::uint32_t newest, InsertOutcome& outcome) {
    Part& part = parts_.back();
    outcome.newly_added = digests.size();
    if (part.items + digests.size() <= context().exact_items) return append(part, digests);
    std::vector<Digest> all = digests_of(part);
    all.insert(all.end(), digests.begin(), digests.end());
    const Part few = part;
    if (context().uses_tables()) {
      parts_.erase(parts_.size() - 1);
      insert_in_table(all, 0, newest, outcome);
      outcome.newly_added = digests.size();
    } else {
      const auto grown = static_cast<std::uint64_t>(std::ceil(context().exact_items * context().growth_factor));
      part = new_filter(std::max({std::uint64_t{all.size()}, context().initial_items, grown}));
      fill(part, all);
    }
    retired_.emplace_back(few.block, few.size);
    outcome.grew = true;
  }

  /// Makes one of two tables; false where that is too large, or one is many already.
  [[nodiscard]] bool unite(Part& own, const Part& part, std::uint32_t newest) {
    if (own.kind == RecordKind::segmented || part.kind == RecordKind::segmented) return false;
    const TableLimits limits{
        .share = own.fpr, .newest = std::max({newest, own.slice, part.slice}), .largest = context().largest_table};
    const auto image = TableImage::united(image_of(own), image_of(part), context(), limits);
    if (!image) return false;
    if (image->view().estimated_fpr() > own.fpr) ++counters().over_budget;
    store_table(own, *image);
    return true;
  }
  [[nodiscard]] bool restore_segments(const Part& part, std::span<const std::byte> bytes) {
    tables_.push_back(Segments::empty_part(arena(), part.slice, part.fpr));
    tables_.back().set_rate(part.rate());
    Segments into = segments(tables_.back());
    std::size_t next = 0;
    const bool whole = for_each_stored_segment(bytes, [&](std::uint32_t depth, std::span<const std::byte> block) {
      if (block.empty()) return into.append(next, depth, nullptr);
      const TableImage image(block);
      return image.is_sound(context(), part.slice) && into.append(next, depth, &image);
    });
    if (is_over_budget(part.slice)) ++counters().over_budget;
    return whole && next == SegmentDirectory::of(context().space, tables_.back()).size();
  }

  /// A filter past what any may be large, as a damaged snapshot's counts can ask for, is no different from one that
  /// memory has no room for.
  [[nodiscard]] static std::uint64_t blocks_or_out_of_memory(std::uint64_t items, double fpr) {
    try {
      return split_blocks_for(items, fpr);
    } catch (const std::invalid_argument&) { throw std::bad_alloc(); }
  }

  [[nodiscard]] Part new_filter(std::uint64_t items) {
    const CapacityTable& table = context().table();
    const std::uint32_t tabled = table.blocks_for(items);
    Part part{.block = 0,
              .size = tabled,
              .items = 0,
              .capacity = tabled == 0 ? 0 : table.capacity(tabled),
              .slice = 0,
              .kind = RecordKind::filter,
              .link = 0,
              .fpr = table.fpr()};
    if (tabled == 0) {
      part.size = static_cast<std::uint32_t>(blocks_or_out_of_memory(items, part.fpr));
      part.capacity = static_cast<std::uint32_t>(split_block_capacity(part.size, part.fpr));
    }
    part.block = arena().allocate(part.size);
    structure_changed_ = true;
    return part;
  }
};

SEENBY_DETAIL_END
