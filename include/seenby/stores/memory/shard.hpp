#pragma once
// SPDX-License-Identifier: MIT
// One shard of a memory store: its users' records, changed under its mutex and read without it.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "seenby/stores/memory/arena.hpp"
#include "seenby/stores/memory/filter_blocks.hpp"
#include "seenby/stores/memory/lookup.hpp"
#include "seenby/stores/memory/record_writer.hpp"
#include "seenby/stores/memory/shard_context.hpp"
#include "seenby/stores/memory/shard_mutex.hpp"
#include "seenby/stores/memory/user_index.hpp"
#include "seenby/stores/memory/user_record.hpp"

SEENBY_DETAIL_BEGIN

/// Everything that changes a shard is called with its mutex held and may throw std::bad_alloc, which leaves the user
/// as before but for bits set in vain. Readers use `sequence`, `index` and the address space only.
template <std::size_t Words>
class Shard : public ShardFront<Words> {
 public:
  using Key = IndexKey<Words>;
  using ShardFront<Words>::index, ShardFront<Words>::sequence;

  Shard(ShardContext& context, std::uint32_t directory_bits)
      : ShardFront<Words>(directory_bits), context_(&context), arena_(context.space) {}

  ShardMutex mutex;
  ShardCounters counters;
  std::uint32_t depth = 0;     ///< how many bits of the hash all its users share
  std::size_t first_slot = 0;  ///< in the directory

  /// Records digests in one slice; creates the user. Of a large batch for a large user the last `left` are not recorded
  /// yet: others get their turn in between.
  InsertOutcome insert(const Key& key, std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest) {
    note_for_rebuild(key, digests, slice);
    std::uint64_t* const word = index.find(context_->space, key);
    const Handle handle{word == nullptr ? 0 : load_word(word)};
    if (handle.kind() == RecordKind::filter &&
        handle.items() + digests.size() <= context_->table().capacity(handle.size()) &&
        (!context_->goes_by_bits(handle.size()) ||
         (digests.size() == 1 &&
          context_->takes(arena_.at(handle.block()), handle.size(), handle.items(), digests[0])))) {
      const std::uint32_t changed = blocks_insert(arena_.at(handle.block()), handle.size(), digests);
      store_word_release(word,
                         Handle::of(RecordKind::filter, handle.block(), handle.size(), handle.items() + changed).raw);
      return {.newly_added = changed};
    }
    InsertOutcome before;
    if (insert_in_handle(key, word, handle, digests, before)) return before;
    if (handle.kind() == RecordKind::table && !every_access_atomic && digests.size() <= inserted_in_place) {
      digests = digests.subspan(insert_in_place(handle, digests, slice, newest, before));
      if (digests.empty()) return before;
    }
    Edit edit(*this, word, handle);
    edit.drop_dead(newest);
    const std::size_t at_once = edit.items_at_once(digests.size());
    InsertOutcome outcome = edit.insert(digests.first(at_once), slice, newest);
    edit.commit(key);
    outcome.left = digests.size() - at_once;
    outcome.newly_added += before.newly_added;
    outcome.renewed = outcome.renewed || before.renewed;
    return outcome;
  }

  /// The same for all of a batch at once; how many were new.
  std::size_t insert_all(const Key& key, std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest) {
    std::size_t added = 0;
    while (!digests.empty()) {
      const InsertOutcome outcome = insert(key, digests, slice, newest);
      added += outcome.newly_added;
      digests = digests.last(outcome.left);
    }
    return added;
  }

  /// An explicit empty record; false when the user is known already.
  bool create(const Key& key) {
    if (index.find(context_->space, key) != nullptr) return false;
    make_room();
    index.insert(context_->space, key, Handle::of(RecordKind::empty));
    return true;
  }

  /// Takes a user out and zeroes what was theirs; whoever reads their history must read it again.
  bool erase(const Key& key) {
    cancel_reads(key);
    std::uint64_t* const word = index.find(context_->space, key);
    if (word == nullptr) return false;
    const Handle handle{load_word(word)};
    PartList parts;
    decode(handle, parts);
    sequence.begin_shift();
    index.erase(context_->space, word, context_->key_seed);
    sequence.end_shift();
    for (const Part& part : parts) {
      if (part.kind == RecordKind::segmented) release_segments(context_->space, part);
      if (part.size > 0) arena_.release(part.block, part.size);
    }
    if (handle.kind() == RecordKind::extended) arena_.release(handle.block(), handle.size());
    compact_if_wasteful();
    return true;
  }
  /// Lets go of every slice that left the window.
  void sweep(std::uint32_t newest) {
    std::vector<Key> affected;
    index.for_each(context_->space, [&](const auto& words, const std::uint64_t* handle_word) {
      PartList parts;
      decode(Handle{load_word(handle_word)}, parts);
      if (std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
            return !context_->is_live(part.slice, newest) ||
                   (part.is_table() && context_->windowed() &&
                    (part.slice != newest || part.kind == RecordKind::segmented));
          })) {
        affected.push_back(key_of_words(words, context_->key_seed));
      }
    });
    for (const Key& key : affected) {
      std::uint64_t* const word = index.find(context_->space, key);
      Edit edit(*this, word, Handle{load_word(word)});
      edit.drop_dead(newest, true);
      edit.commit(key);
    }
  }

  /// Adds what another user, of this shard or a locked other one, has seen; false when there is no such user.
  bool adopt(const Key& key, const Shard& from_shard, const Key& from, std::uint32_t newest) {
    PartList theirs;
    if (!from_shard.parts_of(from, theirs)) return false;
    cancel_reads(key);
    std::uint64_t* const word = index.find(context_->space, key);
    Edit edit(*this, word, Handle{word == nullptr ? 0 : load_word(word)});
    edit.drop_dead(newest);
    for (const Part& part : theirs) {
      if (context_->is_live(part.slice, newest)) edit.adopt(part, newest);
    }
    edit.commit(key);
    return true;
  }

  // Reading a history, which no lock is held for. A forget or a merge of the user meanwhile ends it.

  /// Before the history of a missing user is read: a number for `end_creation`.
  [[nodiscard]] std::uint64_t begin_creation(const Key& key) {
    const std::uint64_t number = context_->last_read.fetch_add(1, std::memory_order_relaxed) + 1;
    reads_.push_back({.key = key, .number = number, .noted = {}});
    return number;
  }
  /// False when what was read since may be of a user who was forgotten.
  bool end_creation(const Key& key, std::uint64_t number) noexcept {
    const auto found = find_read(key, number);
    if (found == reads_.end()) return false;
    reads_.erase(found);
    return true;
  }

  /// Before a history is read to re-insert a filter from it: until `finish_rebuild`, what is recorded for the user is
  /// noted. False when another thread does it.
  bool begin_rebuild(const Key& key) {
    if (find_read(key, rebuild_number) != reads_.end()) return false;
    reads_.push_back({.key = key, .number = rebuild_number, .noted = {}});
    return true;
  }
  /// Gives up: the table beside the filter stays.
  void abandon_rebuild(const Key& key) noexcept {
    if (const auto found = find_read(key, rebuild_number); found != reads_.end()) reads_.erase(found);
    ++counters.over_budget;
  }
  /// Replaces the record by one filter of everything in `history` and everything recorded meanwhile, unless it holds
  /// something that neither explains: then it stays, and the FPR is over budget. True when replaced.
  bool finish_rebuild(const Key& key, std::span<const SliceDigest> history, std::uint32_t slice) {
    const auto found = find_read(key, rebuild_number);
    if (found == reads_.end()) return false;  // forgotten or merged meanwhile
    std::vector<SliceDigest> noted = std::move(found->noted);
    reads_.erase(found);
    std::vector<Digest> digests;
    digests.reserve(history.size() + noted.size());
    for (const auto list : {history, std::span<const SliceDigest>(noted)}) {
      for (const SliceDigest& seen : list) {
        if (seen.slice == slice) digests.push_back(seen.digest);
      }
    }
    std::sort(digests.begin(), digests.end());
    digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
    std::uint64_t* const word = index.find(context_->space, key);
    if (word == nullptr) return false;
    Edit edit(*this, word, Handle{load_word(word)});
    const bool replaced = edit.replace_all(digests);
    if (replaced) {
      ++counters.rebuilds;
    } else {
      ++counters.over_budget;
    }
    edit.commit(key);
    return replaced;
  }

  /// The user's parts; false when there is no such user.
  bool parts_of(const Key& key, PartList& parts) const {
    const std::uint64_t* const word = index.find(context_->space, key);
    if (word == nullptr) return false;
    decode(Handle{load_word(word)}, parts);
    return true;
  }
  /// The rate at which the user's live filters together hide a fresh candidate, as their item counts tell.
  [[nodiscard]] double expected_fpr(const Key& key, std::uint32_t newest) const {
    PartList parts;
    double passes = 1;
    if (!parts_of(key, parts)) return 0;
    for (const Part& part : parts) {
      double rate = 0;
      if (part.is_table()) {
        visit_tables(context_->space, part, [&](const auto& table, const TableHead& head, std::uint32_t bits, auto) {
          if (context_->is_live(head.newest, newest))
            rate += std::ldexp(table.estimated_fpr(), -static_cast<int>(bits));
        });
      }
      passes *= 1 - rate;
      if (part.kind != RecordKind::filter || !context_->is_live(part.slice, newest)) continue;
      passes *= 1 - split_block_fpr(part.size, part.items);
    }
    return 1 - passes;
  }
  /// Bytes of the user's blocks and slot, and a quarter of a slot for the free ones.
  [[nodiscard]] std::uint64_t bytes_of(const Key& key) const {
    const std::uint64_t* const word = index.find(context_->space, key);
    if (word == nullptr) return 0;
    const Handle handle{load_word(word)};
    PartList parts;
    decode(handle, parts);
    std::uint64_t granules = handle.kind() == RecordKind::extended ? handle.size() : 0;
    std::uint64_t segments = 0;
    for (const Part& part : parts) {
      granules += part.size;
      if (part.kind == RecordKind::segmented) segments += SegmentDirectory::of(context_->space, part).table_bytes();
    }
    return segments + granules * granule_bytes + UserIndex<Words>::slot_words * sizeof(std::uint64_t) * 5 / 4;
  }
  // Snapshots.

  /// Appends every user's live parts; whether any has segments.
  template <class Writer>
  bool write_records(Writer& out, std::uint32_t newest) const {
    bool segmented = false;
    index.for_each(context_->space, [&](const auto& words, const std::uint64_t* handle_word) {
      PartList parts;
      decode(Handle{load_word(handle_word)}, parts);
      put_record<Words>(out, words, parts, context_->space, *context_, newest);
      for (const Part& part : parts) segmented = segmented || part.kind == RecordKind::segmented;
    });
    return segmented;
  }
  /// Adds a user from a snapshot; bytes[i] are those of part i. False when the user is there already, or when a part
  /// contradicts itself: then the shard is to be thrown away.
  bool restore(const Key& key, const PartList& parts, const std::span<const std::byte>* bytes) {
    if (index.find(context_->space, key) != nullptr) return false;
    Edit edit(*this, nullptr, Handle{});
    for (std::uint32_t i = 0; i < parts.size(); ++i) {
      if (!edit.restore(parts[i], bytes[i])) return false;
    }
    edit.commit(key);
    return true;
  }
  /// Empties the shard for good: readers find nobody and see that the sequence moved; memory goes back at once.
  void retire() noexcept {
    sequence.begin_shift();
    for_each_segmented([&](const Part& part) { release_segments(context_->space, part); });
    index.replace(context_->space, {}, 0, sequence);
    sequence.end_shift();
    arena_ = Arena(context_->space);
    reads_ = {};
    counters = {};
  }

  /// Bytes outside the shard itself and the address space.
  [[nodiscard]] std::uint64_t bookkeeping_bytes() const noexcept {
    std::uint64_t bytes = arena_.bookkeeping_bytes() + reads_.capacity() * sizeof(HistoryRead);
    for (const HistoryRead& read : reads_) bytes += read.noted.capacity() * sizeof(SliceDigest);
    return bytes;
  }
  /// Bytes of the address space.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept {
    std::uint64_t segments = 0;
    for_each_segmented(
        [&](const Part& part) { segments += SegmentDirectory::of(context_->space, part).table_bytes(); });
    return segments + arena_.held_bytes() + std::uint64_t{index.units()} * AddressSpace::unit_bytes;
  }

  // Splitting.

  /// Users in memory of their own.
  struct Copy {
    Arena arena;
    typename UserIndex<Words>::Table table;
    std::uint32_t users;
  };
  /// Copies those users whose first bit of the hash that they do not share is `bit`. Throws std::bad_alloc.
  [[nodiscard]] Copy copy_half(std::uint64_t bit) {
    return copy_of([&](const Key& key) { return next_bit(key) == bit; });
  }
  /// Copies the other half to a shard that nobody knows yet, with the reads of those users. Throws std::bad_alloc.
  void move_half_to(Shard& upper) {
    upper.reads_.reserve(reads_.size());
    upper.adopt(copy_half(1));
    const auto moving = std::stable_partition(reads_.begin(), reads_.end(),
                                              [&](const HistoryRead& read) { return next_bit(read.key) == 0; });
    upper.reads_.assign(std::make_move_iterator(moving), std::make_move_iterator(reads_.end()));
    reads_.erase(moving, reads_.end());
  }
  /// Serves from a copy; what it was made of goes.
  void adopt(Copy&& copy) noexcept {
    index.replace(context_->space, copy.table, copy.users, sequence);
    arena_ = std::move(copy.arena);  // the old one goes with `copy`
  }

 private:
  class Edit;

  /// The most items that go into a table without decoding the record. A larger batch mostly makes the table grow.
  static constexpr std::size_t inserted_in_place = 32;

  /// Keeps a user's first items in the handle; false, and nothing changed, where it has no room for all.
  bool insert_in_handle(const Key& key, std::uint64_t* word, Handle handle, std::span<const Digest> digests,
                        InsertOutcome& outcome) {
    InlinedLanes few;
    if (handle.kind() == RecordKind::inlined) {
      few = InlinedLanes(handle);
    } else if (handle.kind() != RecordKind::none && handle.kind() != RecordKind::empty) {
      return false;
    }
    std::size_t added = 0;
    if (!context_->inlines() || digests.empty() || !few.insert(digests, added)) return false;
    outcome.newly_added = added;
    if (word != nullptr) {
      store_word_release(word, few.handle().raw);
    } else {
      make_room();
      index.insert(context_->space, key, few.handle());
    }
    return true;
  }
  /// Inserts into a user's only table where nothing else must change; readers of the shard look again. Says how many
  /// went in before it was full.
  std::size_t insert_in_place(Handle handle, std::span<const Digest> digests, std::uint32_t slice, std::uint32_t newest,
                              InsertOutcome& outcome) noexcept {
    std::uint64_t* const words = arena_.at(handle.block());
    TableHead head = TableHead::of(load_word(words), handle.size());
    if (context_->windowed() && head.newest < newest) return 0;  // slices must go first
    for (std::size_t i = 0; i < digests.size(); ++i) {
      const FingerprintItem item{digests[i], static_cast<std::uint8_t>(slice)};
      if (detail::insert_in_place(words, head, {&item, 1}, *context_, sequence, outcome) == 0) return i;
    }
    return digests.size();
  }

  static constexpr std::uint64_t rebuild_number = 0;  // a user has one rebuild at a time, and any number of creations
  struct HistoryRead {
    Key key;
    std::uint64_t number;
    std::vector<SliceDigest> noted;  // what was recorded since a rebuild began
  };

  auto find_read(const Key& key, std::uint64_t number) noexcept {
    return std::find_if(reads_.begin(), reads_.end(),
                        [&](const HistoryRead& read) { return read.number == number && read.key.words == key.words; });
  }
  void cancel_reads(const Key& key) noexcept {
    std::erase_if(reads_, [&](const HistoryRead& read) { return read.key.words == key.words; });
  }
  void note_for_rebuild(const Key& key, std::span<const Digest> digests, std::uint32_t slice) {
    if (reads_.empty()) return;
    const auto found = find_read(key, rebuild_number);
    if (found == reads_.end()) return;
    for (const Digest digest : digests) found->noted.push_back({digest, slice});
  }
  [[nodiscard]] std::uint64_t next_bit(const Key& key) const noexcept { return key.hash >> (63 - depth) & 1U; }

  /// Calls visit(part) for each user's segmented part.
  template <class Visit>
  void for_each_segmented(Visit&& visit) const {
    index.for_each(context_->space, [&](const auto&, const std::uint64_t* handle_word) {
      const Handle handle{load_word(handle_word)};
      for (std::uint32_t i = 0; handle.kind() == RecordKind::extended && i < handle.size(); ++i) {
        const Part part = Part::load(arena_.at(handle.block()) + std::size_t{i} * granule_words);
        if (part.kind == RecordKind::segmented) visit(part);
      }
    });
  }
  [[nodiscard]] PartList decoded(Handle handle) const noexcept {
    PartList parts;
    decode(handle, parts);
    return parts;
  }
  void decode(Handle handle, PartList& parts) const noexcept {
    parts.clear();
    if (handle.kind() == RecordKind::extended) {
      for (std::uint32_t i = 0; i < handle.size(); ++i) {
        Part part = Part::load(arena_.at(handle.block()) + std::size_t{i} * granule_words);
        if (part.kind == RecordKind::table) {  // changed in place: its head knows better than the list
          const TableHead head = TableHead::of(load_word(arena_.at(part.block)), part.size);
          part.items = head.count;
          part.slice = head.newest;
        }
        parts.push_back(part);
      }
    } else if (handle.kind() == RecordKind::table) {
      const TableHead head = TableHead::of(load_word(arena_.at(handle.block())), handle.size());
      parts.push_back({.block = handle.block(),
                       .size = handle.size(),
                       .items = head.count,
                       .capacity = 0,
                       .slice = head.newest,
                       .kind = RecordKind::table,
                       .link = 0,
                       .fpr = context_->table_rate()});
    } else if (handle.kind() == RecordKind::inlined) {
      parts.push_back(Part::inlined(handle, context_->table_rate()));
    } else if (handle.kind() == RecordKind::filter || handle.kind() == RecordKind::exact) {
      const bool is_filter = handle.kind() == RecordKind::filter;
      parts.push_back({.block = handle.block(),
                       .size = handle.size(),
                       .items = handle.items(),
                       .capacity = is_filter ? context_->table().capacity(handle.size()) : context_->exact_items,
                       .slice = 0,
                       .kind = handle.kind(),
                       .link = 0,
                       .fpr = is_filter ? context_->table().fpr() : 0.0});
    }
  }

  /// Room for one more user in the index.
  void make_room() {
    if (!index.is_full()) return;
    index.resize(context_->space, UserIndex<Words>::units_for(std::uint64_t{index.users()} + 1), sequence,
                 context_->key_seed);
  }

  /// Moves all blocks into a fresh arena when a quarter of this one lies in free blocks, and the index into a table of
  /// half the size when two thirds of it are free. Readers go on meanwhile.
  void compact_if_wasteful() noexcept {
    constexpr std::uint64_t not_worth_it = 8192;
    try {
      const std::uint32_t units = UserIndex<Words>::units_for(index.users());
      if (units * 2 < index.units()) index.resize(context_->space, units, sequence, context_->key_seed);
      const std::uint64_t wasted = arena_.fragmented_bytes();
      if (wasted >= not_worth_it && wasted >= arena_.held_bytes() / 4) compact();
    } catch (const std::bad_alloc&) {
      // No room for a second copy: the free blocks stay and are reused.
    }
  }
  void compact() {
    adopt(copy_of([](const Key&) { return true; }));
  }
  template <class Wanted>
  [[nodiscard]] Copy copy_of(Wanted&& wanted) const {
    AddressSpace& space = context_->space;
    std::vector<std::pair<Key, Handle>> users;
    users.reserve(index.users());
    index.for_each(space, [&](const auto& words, const std::uint64_t* handle_word) {
      const Key key = key_of_words(words, context_->key_seed);
      if (wanted(key)) users.emplace_back(key, Handle{load_word(handle_word)});
    });
    Copy copy{Arena(space), {}, static_cast<std::uint32_t>(users.size())};
    copy.arena.reserve((arena_.held_bytes() - arena_.wasted_bytes()) * users.size() / std::max(index.users(), 1U));
    for (auto& [key, handle] : users) handle = moved(handle, copy.arena);
    copy.table = UserIndex<Words>::make_table(space, UserIndex<Words>::units_for(users.size()));
    for (const auto& [key, handle] : users) index.place(space, copy.table, key, handle.raw);
    return copy;
  }
  /// Tables in extents of their own stay where they are, for the copy too: one of the two goes, and not with them.
  [[nodiscard]] Handle moved(Handle handle, Arena& to) const {
    if (handle.kind() == RecordKind::inlined) return handle;
    PartList parts;
    decode(handle, parts);
    for (Part& part : parts) {
      const std::uint32_t block = to.allocate(part.size);
      copy_words(to.at(block), arena_.at(part.block), std::size_t{part.size} * granule_words);
      part.block = block;
    }
    if (handle.kind() != RecordKind::extended) {
      return parts.empty() ? handle : Handle::of(handle.kind(), parts[0].block, parts[0].size, parts[0].items);
    }
    return store_list(parts, to);
  }
  [[nodiscard]] static Handle store_list(const PartList& parts, Arena& arena) {
    const std::uint32_t block = arena.allocate(parts.size());
    for (std::uint32_t i = 0; i < parts.size(); ++i) parts[i].store(arena.at(block) + std::size_t{i} * granule_words);
    return Handle::of(RecordKind::extended, block, parts.size());
  }

  ShardContext* context_;
  Arena arena_;
  std::vector<HistoryRead> reads_;
};

/// Decodes a record, and publishes what became of it with one store; readers see the record before or after.
template <std::size_t Words>
class Shard<Words>::Edit : public RecordWriter<Words> {
  using Base = RecordWriter<Words>;
  using Base::context, Base::counts_changed_, Base::handle_, Base::parts_, Base::published_, Base::retired_;
  using Base::retired_segments_, Base::structure_changed_, Base::tables_;

 public:
  Edit(Shard& shard, std::uint64_t* word, Handle handle)
      : Base(*shard.context_, shard.arena_, shard.counters, shard.sequence, handle, shard.decoded(handle)),
        shard_(shard),
        word_(word) {}

  /// Publishes. The pointer to the user's slot is stale afterwards.
  void commit(const Key& key) {
    const Handle next = encoded();
    if (word_ == nullptr) {
      shard_.make_room();
      shard_.index.insert(context().space, key, next);
    } else if (next.raw != handle_.raw) {
      store_word_release(word_, next.raw);
    }
    published_ = true;
    if (retired_.empty()) return;
    shard_.sequence.memory_unlinked();
    for (const Part& part : retired_segments_) release_segments(context().space, part);
    for (const auto& [block, granules] : retired_) shard_.arena_.release(block, granules);
    shard_.compact_if_wasteful();
  }

 private:
  [[nodiscard]] bool is_simple() const noexcept {
    if (context().windowed() || !tables_.empty() || parts_.size() != 1 || parts_[0].link != 0) { return false; }
    const Part& part = parts_[0];
    if (part.kind == RecordKind::exact) return true;
    // The handle has no room for a capacity: it must be the one that decode() looks up.
    return part.size <= Handle::largest_size && part.capacity <= Handle::largest_items && part.items <= part.capacity &&
           context().table().capacity(part.size) == part.capacity;
  }
  [[nodiscard]] Handle encoded() {
    if (parts_.empty() && tables_.empty()) {
      retire_list();
      return Handle::of(RecordKind::empty);
    }
    if (const auto few = inlined()) {
      retire_list();
      return few->handle();
    }
    for (Part& table : tables_) {
      if (table.kind == RecordKind::inlined) this->store_table(table, this->image_of(table));
    }
    if (parts_.empty() && tables_.size() == 1 && tables_[0].kind == RecordKind::table &&
        tables_[0].fpr <= context().table_rate()) {
      retire_list();
      return Handle::of(RecordKind::table, tables_[0].block, tables_[0].size);
    }
    if (is_simple()) {
      retire_list();
      return Handle::of(parts_[0].kind, parts_[0].block, parts_[0].size, parts_[0].items);
    }
    PartList all = parts_;
    for (const Part& table : tables_) all.insert_by_slice(table);
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
  /// The lanes of a user's only table, where they fit the handle; the table is then retired.
  [[nodiscard]] std::optional<InlinedLanes> inlined() {
    if (!context().inlines() || !parts_.empty() || tables_.size() != 1) return {};
    const Part& table = tables_[0];
    if (table.kind == RecordKind::inlined) return InlinedLanes(table.inlined());
    if (table.kind != RecordKind::table || table.size != 1) return {};
    const std::uint64_t* const block = this->words_of(table);
    const auto few = InlinedTable::of(TableHead::of(load_word(block), 1), block);
    if (few) this->retire(table);
    return few;
  }
  void retire_list() {
    if (handle_.kind() == RecordKind::extended) retired_.emplace_back(handle_.block(), handle_.size());
  }

  Shard& shard_;
  std::uint64_t* word_;
};

SEENBY_DETAIL_END
