#pragma once
// SPDX-License-Identifier: MIT
// Recording into one user's parts: exact start, first filter, growth by re-insertion or by a chain.

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

  /// Records digests in one slice.
  InsertOutcome insert(std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest) {
    if (context().uses_tables() || !tables_.empty()) {
      if (InsertOutcome outcome; insert_growing(digests, slice, newest, outcome)) return outcome;
    }
    const auto [first, last] = group(slice);
    if (last - first == 1 && parts_[first].kind == RecordKind::filter &&
        parts_[first].items + digests.size() <= parts_[first].capacity) {
      return {.newly_added = fill(parts_[first], digests)};
    }
    std::vector<Digest> unseen;
    digests = only_unseen(digests, first, last, unseen);
    if (digests.empty()) return {};
    InsertOutcome outcome;
    if (first == last) {
      start(digests, slice, outcome);
    } else if (parts_[last - 1].kind == RecordKind::exact) {
      add_to_exact(last - 1, digests, outcome);
    } else {
      add_to_chain(last - 1, digests, outcome);
    }
    if (outcome.grew) {
      ++counters().growths;
      const bool over = is_over_budget(slice);
      outcome.rebuild_wanted = over && context().has_history.load(std::memory_order_relaxed);
      if (over && !outcome.rebuild_wanted) ++counters().over_budget;
    }
    return outcome;
  }

  /// A record that grows without a history, or ages: a few exact digests, then a table; a first batch that is large
  /// gets a filter, which is smaller, and the table what comes later. False when the table would be too large: what
  /// comes goes into filters again then.
  bool insert_growing(std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest,
                      InsertOutcome& outcome) {
    if (context().windowed()) return insert_in_table(digests, slice, newest, outcome);
    const std::uint32_t parts = parts_.size();
    if (parts == 0 && tables_.empty()) return false;  // a start as any other
    std::vector<Digest> unseen;
    for (const Digest digest : digests) {
      if (!contains(0, parts, digest)) unseen.push_back(digest);
    }
    if (unseen.empty()) return true;
    if (tables_.empty() && parts > 0) {
      Part& last = parts_[parts - 1];
      if (last.kind == RecordKind::exact) {
        if (last.items + unseen.size() <= context().exact_items) return false;
        const std::vector<Digest> exact = digests_of(last);
        unseen.insert(unseen.end(), exact.begin(), exact.end());
        const Part few = last;
        parts_.erase(parts - 1);
        if (!insert_in_table(unseen, slice, newest, outcome)) {
          parts_.push_back(few);
          return false;
        }
        retired_.emplace_back(few.block, few.size);
        structure_changed_ = true;
        outcome.newly_added -= std::min<std::size_t>(outcome.newly_added, exact.size());
        outcome.grew = true;
      } else if (last.items + unseen.size() <= last.capacity) {
        outcome.newly_added = fill(last, unseen);
        return true;
      }
    }
    if (!outcome.grew && !insert_in_table(unseen, slice, newest, outcome)) return false;
    if (outcome.grew) {
      ++counters().growths;
      if (is_over_budget(0)) ++counters().over_budget;
    }
    return true;
  }

  /// One filter of `digests` (distinct) instead of a slice's parts, if it answers "seen" for all they hold.
  bool replace_chain(std::span<const Digest> digests, std::uint32_t slice) {
    if (!tables_.empty()) return false;
    auto [first, last] = group(slice);
    std::uint64_t capacity = 0;
    for (std::uint32_t i = first; i < last; ++i) {
      if (!explains(digests, parts_[i])) return false;
      capacity = std::max<std::uint64_t>(capacity, parts_[i].capacity);
    }
    if (first == last || digests.empty()) return first == last;
    const double growth = context().growth_factor;
    const double wanted =
        std::max(static_cast<double>(capacity) * growth, static_cast<double>(digests.size()) * (1 + (growth - 1) / 2));
    Part whole = new_filter(static_cast<std::uint64_t>(wanted), slice, 0);
    fill(whole, digests);
    for (; last > first; --last) remove(parts_, last - 1);
    parts_.insert_by_slice(whole);
    return true;
  }

  /// Takes over a part of another user, one of `theirs`: into the digests or bits that are there if it fits, else
  /// beside them.
  void adopt(const Part& part, std::uint32_t newest) {
    if (part.kind == RecordKind::table) return adopt_table(part);
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

  /// A table of another user: as this one's where they have none, else beside it.
  void adopt_table(const Part& part) {
    require_room();
    Part copy = part;
    copy.block = arena().allocate(part.size);
    copy_words(arena().at(copy.block), words_of(part), std::size_t{part.size} * granule_words);
    const bool beside = !tables_.empty();
    tables_.push_back(copy);
    structure_changed_ = true;
    if (beside || is_over_budget(0)) ++counters().over_budget;
  }

  /// Adds a part as a snapshot has it; false for a table that contradicts itself or the window.
  [[nodiscard]] bool restore(Part part, std::span<const std::byte> bytes) {
    if (part.kind == RecordKind::kept) return true;
    part.block = arena().allocate(part.size);
    copy_words(words_of(part), bytes);
    list_of(part.kind).push_back(part);
    structure_changed_ = true;
    if (is_over_budget(part.slice)) ++counters().over_budget;
    if (part.kind != RecordKind::table) return true;
    const TableHead head = head_of(part);
    return head.shape.sliced == context().windowed() && head.view(words_of(part)).is_sound();
  }

 protected:
  using Base::append, Base::arena, Base::contains, Base::context, Base::counters, Base::digests_of, Base::explains;
  using Base::fill, Base::group, Base::head_of, Base::insert_in_table, Base::is_over_budget, Base::list_of;
  using Base::parts_, Base::retired_, Base::structure_changed_, Base::require_room, Base::words_of;
  using Base::remove, Base::tables_;

 private:
  /// What of a batch the slice does not hold. A large first batch is taken as it comes: sorting it costs more than
  /// the few bytes that its duplicates are sized for.
  [[nodiscard]] std::span<const Digest> only_unseen(std::span<const Digest> digests, std::uint32_t first,
                                                    std::uint32_t last, std::vector<Digest>& unseen) const {
    constexpr std::size_t large = 64;
    if (first == last && digests.size() > large) return digests;
    unseen.reserve(digests.size());
    for (const Digest digest : digests) {
      if (!contains(first, last, digest)) unseen.push_back(digest);
    }
    if (unseen.size() <= large) {
      std::sort(unseen.begin(), unseen.end());
      unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
    }
    return unseen;
  }

  /// A slice's first part.
  void start(std::span<const Digest> digests, std::uint32_t slice, InsertOutcome& outcome) {
    require_room();
    const std::uint64_t usual = usual_volume(slice);
    const std::uint64_t wanted = std::max<std::uint64_t>(digests.size(), usual);
    if (wanted <= context().exact_items) {
      parts_.insert_by_slice({.block = 0,
                              .size = 0,
                              .items = 0,
                              .capacity = context().exact_items,
                              .slice = slice,
                              .kind = RecordKind::exact,
                              .link = 0,
                              .fpr = 0});
      structure_changed_ = true;
      append(parts_[group(slice).first], digests);
      outcome.newly_added = digests.size();
      return;
    }
    const std::uint64_t least = tables_.empty() ? (usual == 0 ? context().initial_items : usual) : usual_successor();
    Part part = new_filter(std::max<std::uint64_t>(digests.size(), least), slice, first_link());
    outcome.newly_added = fill(part, digests);
    if (part.items < digests.size() / 4 * 3 && part.size > 1) {  // mostly repeats: sized for what is different
      arena().release(part.block, part.size);
      part = new_filter(std::max<std::uint64_t>(part.items, least), slice, first_link());
      fill(part, digests);
    }
    parts_.insert_by_slice(part);
  }

  void add_to_exact(std::uint32_t at, std::span<const Digest> digests, InsertOutcome& outcome) {
    Part& part = parts_[at];
    outcome.newly_added = digests.size();
    if (part.items + digests.size() <= context().exact_items) return append(part, digests);
    std::vector<Digest> all = digests_of(part);
    all.insert(all.end(), digests.begin(), digests.end());
    const auto grown = static_cast<std::uint64_t>(std::ceil(context().exact_items * context().growth_factor));
    // A chain goes on where an exact part was adopted into it; otherwise the digests become the first filter.
    Part filter =
        new_filter(std::max({std::uint64_t{all.size()}, context().initial_items, grown, usual_volume(part.slice)}),
                   part.slice, std::max(part.link, first_link()));
    fill(filter, all);
    retired_.emplace_back(part.block, part.size);
    part = filter;
    outcome.grew = true;
  }
  /// Fills the chain's last filter to its capacity and continues with a larger, tighter one.
  void add_to_chain(std::uint32_t last, std::span<const Digest> digests, InsertOutcome& outcome) {
    Part& open = parts_[last];
    const std::uint32_t slice = open.slice;
    const std::size_t room = open.capacity > open.items ? open.capacity - open.items : 0;
    const auto fitting = digests.first(std::min(room, digests.size()));
    outcome.newly_added = fill(open, fitting);
    digests = digests.subspan(fitting.size());
    if (digests.empty()) return;
    require_room();
    const auto [first, end] = group(slice);
    std::uint64_t held = 0;
    for (std::uint32_t i = first; i < end; ++i) held += parts_[i].items;
    // At least half as many again: each link is tighter than the one before, and many short ones would cost most bits.
    const double successor = std::ceil(static_cast<double>(held) * std::max(context().growth_factor - 1, 0.5));
    Part part = new_filter(std::max<std::uint64_t>(digests.size(), static_cast<std::uint64_t>(successor)), slice,
                           open.link + 1U);
    outcome.newly_added += fill(part, digests);
    outcome.grew = true;
    parts_.insert_by_slice(part);
  }

  /// Filters that succeed a table which is too large to grow continue its chain, and share what it leaves.
  [[nodiscard]] std::uint8_t first_link() const noexcept { return tables_.empty() ? 0 : 1; }
  [[nodiscard]] double chain_share() const noexcept { return tables_.empty() ? 1 : 0.5; }
  /// At least half as many items as the tables hold.
  [[nodiscard]] std::uint64_t usual_successor() const noexcept {
    std::uint64_t held = 0;
    for (const Part& table : tables_) held += head_of(table).count;
    return std::max(context().initial_items, held / (context().windowed() ? 2 * (context().slices + 1) : 2));
  }

  /// A filter past what any may be large, as a damaged snapshot's counts can ask for, is no different from one that
  /// memory has no room for.
  [[nodiscard]] static std::uint64_t blocks_or_out_of_memory(std::uint64_t items, double fpr) {
    try {
      return split_blocks_for(items, fpr);
    } catch (const std::invalid_argument&) { throw std::bad_alloc(); }
  }

  [[nodiscard]] Part new_filter(std::uint64_t items, std::uint32_t slice, std::uint32_t link) {
    const CapacityTable& table = context().table();
    const std::uint32_t tabled = link == 0 ? table.blocks_for(items) : 0;
    Part part{.block = 0,
              .size = tabled,
              .items = 0,
              .capacity = tabled == 0 ? 0 : table.capacity(tabled),
              .slice = slice,
              .kind = RecordKind::filter,
              .link = static_cast<std::uint8_t>(std::min(link, 255U)),
              .fpr = table.fpr()};
    if (tabled == 0) {
      if (link > 0) part.fpr = link_fpr(context().rates.slice_rate, link, first_link_share) * chain_share();
      part.size = static_cast<std::uint32_t>(blocks_or_out_of_memory(items, part.fpr));
      part.capacity = static_cast<std::uint32_t>(split_block_capacity(part.size, part.fpr));
    }
    part.block = arena().allocate(part.size);
    structure_changed_ = true;
    return part;
  }

  /// What the user's earlier slices held on average, and a quarter more: half of all slices are above the average.
  [[nodiscard]] std::uint64_t usual_volume(std::uint32_t slice) const noexcept {
    std::uint64_t items = 0;
    std::uint64_t slices = 0;
    for (std::uint32_t i = 0; i < parts_.size() && parts_[i].slice < slice; ++i) {
      items += parts_[i].items;
      slices += i == 0 || parts_[i].slice != parts_[i - 1].slice ? 1U : 0U;
    }
    return slices == 0 ? 0 : (items * 5 + slices * 4 - 1) / (slices * 4);
  }
};

SEENBY_DETAIL_END
