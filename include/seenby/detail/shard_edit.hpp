#pragma once
// SPDX-License-Identifier: MIT
// A change to one user's record in a shard: worked out on a copy of its parts, then published at once.

#include <cstring>

#include "seenby/detail/memory_shard.hpp"

SEENBY_DETAIL_BEGIN

/// Decodes a record, changes its parts, and publishes the result with one store; readers see the record before or
/// after. Bits and digests go into live blocks at once, which hides nothing: they are being recorded.
template <std::size_t Words>
class Shard<Words>::Edit {
 public:
  Edit(Shard& shard, std::uint64_t* word, Handle handle) : shard_(shard), word_(word), handle_(handle) {
    PartList all;
    shard_.decode(handle, all);
    for (const Part& part : all) (part.kind == RecordKind::kept ? kept_ : parts_).push_back(part);
  }

  /// Lets go of the slices that left the window.
  void drop_dead(std::uint32_t newest) {
    std::uint32_t last_dropped = 0;
    bool dropped = false;
    while (!parts_.empty() && !context().is_live(parts_[0].slice, newest)) {
      if (!dropped || parts_[0].slice != last_dropped) ++shard_.counters.slices_dropped;
      dropped = true;
      last_dropped = parts_[0].slice;
      remove(parts_, 0);
    }
    while (!kept_.empty() && !context().is_live(kept_[0].slice, newest)) remove(kept_, 0);
  }

  InsertOutcome insert(std::span<const Digest> digests, std::uint32_t slice) {
    const auto [first, last] = group(slice);
    if (context().keep_digests && last > first) keep_missing(digests, first, last);
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
      ++shard_.counters.growths;
      const bool over = is_over_budget(slice);
      outcome.rebuild_wanted = over && context().has_history.load(std::memory_order_relaxed);
      if (over && !outcome.rebuild_wanted) ++shard_.counters.over_budget;
    }
    return outcome;
  }

  /// One filter of `digests` (distinct) instead of a slice's parts, if it answers "seen" for all they hold.
  bool replace_chain(std::span<const Digest> digests, std::uint32_t slice) {
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
  /// beside them. Filters whose digests were kept need not be taken over: the digests are.
  void adopt(const Part& part, const PartList& theirs) {
    if (part.kind != RecordKind::filter) {
      insert(digests_of(part), part.slice);
      return;
    }
    for (const Part& kept : theirs) {
      if (kept.kind != RecordKind::kept || kept.slice != part.slice) continue;
      auto digests = digests_of(kept);
      std::sort(digests.begin(), digests.end());
      if (explains(digests, part)) return;
    }
    const std::uint64_t* const words = words_of(part);  // all shards share one address space
    const auto [first, last] = group(part.slice);
    for (std::uint32_t i = first; i < last; ++i) {
      Part& own = parts_[i];
      const std::uint64_t together = std::uint64_t{own.items} + part.items;
      if (own.kind != RecordKind::filter || own.size != part.size || together > own.capacity) continue;
      std::uint64_t* const bits = shard_.arena_.at(own.block);
      for (std::size_t w = 0; w < std::size_t{own.size} * granule_words; ++w) {
        store_word(bits + w, load_word(bits + w) | load_word(words + w));
      }
      own.items = static_cast<std::uint32_t>(together);
      return;
    }
    require_room();
    Part copy = part;
    copy.block = shard_.arena_.allocate(part.size);
    copy_words(shard_.arena_.at(copy.block), words, std::size_t{part.size} * granule_words);
    copy.link = last == first ? std::uint8_t{0} : static_cast<std::uint8_t>(parts_[last - 1].link + 1);
    parts_.insert_by_slice(copy);
    structure_changed_ = true;
    if (is_over_budget(part.slice)) ++shard_.counters.over_budget;
  }

  /// Adds a part as a snapshot has it.
  void restore(Part part, std::span<const std::byte> bytes) {
    if (part.kind == RecordKind::kept && !context().keep_digests) return;
    part.block = shard_.arena_.allocate(part.size);
    std::memcpy(words_of(part), bytes.data(), bytes.size());
    (part.kind == RecordKind::kept ? kept_ : parts_).push_back(part);
    structure_changed_ = true;
    if (is_over_budget(part.slice)) ++shard_.counters.over_budget;
  }

  /// Publishes. The pointer to the user's slot is stale afterwards.
  void commit(const Key& key) {
    const Handle next = encoded();
    if (word_ == nullptr) {
      shard_.make_room();
      shard_.index.insert(context().space, key, next);
    } else if (next.raw != handle_.raw) {
      store_word_release(word_, next.raw);
    }
    if (retired_.empty()) return;
    shard_.sequence.memory_unlinked();
    for (const auto& [block, granules] : retired_) shard_.arena_.release(block, granules);
    shard_.compact_if_wasteful();
  }

 private:
  [[nodiscard]] const ShardContext& context() const noexcept { return *shard_.context_; }
  [[nodiscard]] std::uint64_t* words_of(const Part& part) const noexcept { return shard_.arena_.at(part.block); }

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
  /// One larger filter of all that was kept instead of a full one; false when the filters know more than that.
  bool regrow(std::uint32_t slice) {
    const Part* const kept = kept_of(slice);
    if (kept == kept_.end()) return false;
    auto digests = digests_of(*kept);
    std::sort(digests.begin(), digests.end());
    digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
    return replace_chain(digests, slice);
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

  std::uint32_t fill(Part& part, std::span<const Digest> digests) noexcept {
    const std::uint32_t changed = blocks_insert(words_of(part), part.size, digests);
    part.items += changed;
    counts_changed_ = true;
    return changed;
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
    keep(digests, slice);
    Part part = new_filter(usual == 0 ? std::max(wanted, context().initial_items) : wanted, slice, 0);
    outcome.newly_added = fill(part, digests);
    parts_.insert_by_slice(part);
  }

  void add_to_exact(std::uint32_t at, std::span<const Digest> digests, InsertOutcome& outcome) {
    Part& part = parts_[at];
    outcome.newly_added = digests.size();
    if (part.items + digests.size() <= context().exact_items) return append(part, digests);
    std::vector<Digest> all = digests_of(part);
    all.insert(all.end(), digests.begin(), digests.end());
    keep(all, part.slice);
    const auto grown = static_cast<std::uint64_t>(std::ceil(context().exact_items * context().growth_factor));
    // A chain goes on where an exact part was adopted into it; otherwise the digests become the first filter.
    Part filter =
        new_filter(std::max({std::uint64_t{all.size()}, context().initial_items, grown, usual_volume(part.slice)}),
                   part.slice, part.link);
    fill(filter, all);
    retired_.emplace_back(part.block, part.size);
    part = filter;
    outcome.grew = true;
  }
  /// Puts digests behind those of an exact part, in a larger block where needed.
  void append(Part& part, std::span<const Digest> digests) {
    const auto total = part.items + static_cast<std::uint32_t>(digests.size());
    std::uint32_t granules = (total + granule_words - 1) / granule_words;
    if (granules > part.size) {
      if (part.kind == RecordKind::kept) granules += part.size / 4;
      const std::uint32_t block = shard_.arena_.allocate(granules);
      if (part.size > 0) {
        copy_words(shard_.arena_.at(block), words_of(part), part.items);
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

  /// Fills the chain's last filter to its capacity and continues with a larger, tighter one.
  void add_to_chain(std::uint32_t last, std::span<const Digest> digests, InsertOutcome& outcome) {
    Part& open = parts_[last];
    const std::uint32_t slice = open.slice;
    const std::size_t room = open.capacity > open.items ? open.capacity - open.items : 0;
    const auto fitting = digests.first(std::min(room, digests.size()));
    outcome.newly_added = fill(open, fitting);
    digests = digests.subspan(fitting.size());
    if (digests.empty()) return;
    if (context().keep_digests && regrow(slice)) {
      outcome.newly_added += digests.size();
      outcome.grew = true;
      return;
    }
    require_room();
    const auto [first, end] = group(slice);
    std::uint64_t held = 0;
    for (std::uint32_t i = first; i < end; ++i) held += parts_[i].items;
    const double successor = std::ceil(static_cast<double>(held) * (context().growth_factor - 1));
    Part part = new_filter(std::max<std::uint64_t>(digests.size(), static_cast<std::uint64_t>(successor)), slice,
                           open.link + 1U);
    outcome.newly_added += fill(part, digests);
    outcome.grew = true;
    parts_.insert_by_slice(part);
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
      if (link > 0) part.fpr = link_fpr(context().rates.slice_rate, link, first_link_share);
      const FilterShape shape = sizing::shape_for(LayoutKind::split_block, items, part.fpr);
      part.size = static_cast<std::uint32_t>(shape.bits / split_block_bits);
      part.capacity = static_cast<std::uint32_t>(sizing::capacity_of(shape, part.fpr));
    }
    part.block = shard_.arena_.allocate(part.size);
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

  [[nodiscard]] bool is_simple() const noexcept {
    if (context().windowed() || !kept_.empty() || parts_.size() != 1 || parts_[0].link != 0) return false;
    const Part& part = parts_[0];
    if (part.kind == RecordKind::exact) return true;
    // The handle has no room for a capacity: it must be the one that decode() looks up.
    return part.size <= Handle::largest_size && part.capacity <= Handle::largest_items && part.items <= part.capacity &&
           context().table().capacity(part.size) == part.capacity;
  }
  [[nodiscard]] Handle encoded() {
    if (parts_.empty()) {
      retire_list();
      return Handle::of(RecordKind::empty);
    }
    if (is_simple()) {
      retire_list();
      return Handle::of(parts_[0].kind, parts_[0].block, parts_[0].size, parts_[0].items);
    }
    PartList all = parts_;
    for (const Part& part : kept_) all.insert_by_slice(part);
    if (handle_.kind() == RecordKind::extended && !structure_changed_) {
      if (counts_changed_) {
        for (std::uint32_t i = 0; i < all.size(); ++i) {
          all[i].store_counts(shard_.arena_.at(handle_.block()) + std::size_t{i} * granule_words);
        }
      }
      return handle_;
    }
    const Handle next = store_list(all, shard_.arena_);
    retire_list();
    return next;
  }
  void retire_list() {
    if (handle_.kind() == RecordKind::extended) retired_.emplace_back(handle_.block(), handle_.size());
  }

  Shard& shard_;
  std::uint64_t* word_;
  Handle handle_;
  PartList parts_;
  PartList kept_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> retired_;
  bool structure_changed_ = false;
  bool counts_changed_ = false;
};

SEENBY_DETAIL_END
