#pragma once
// SPDX-License-Identifier: MIT
// A change to one user's record in a shard: worked out on a copy of its parts, then published at once.

#include "seenby/detail/memory_shard.hpp"
#include "seenby/detail/record_writer.hpp"

SEENBY_DETAIL_BEGIN

/// Decodes a record, and publishes what became of it with one store; readers see the record before or after.
template <std::size_t Words>
class Shard<Words>::Edit : public RecordWriter<Words> {
  using Base = RecordWriter<Words>;
  using Base::context, Base::counts_changed_, Base::kept_, Base::parts_, Base::retired_, Base::structure_changed_;

 public:
  Edit(Shard& shard, std::uint64_t* word, Handle handle)
      : Base(*shard.context_, shard.arena_, shard.counters, shard.decoded(handle)),
        shard_(shard),
        word_(word),
        handle_(handle) {}

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
};

SEENBY_DETAIL_END
