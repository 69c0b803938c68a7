#pragma once
// SPDX-License-Identifier: MIT
// The shards of a memory store, and how a reader asks them without a lock.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "seenby/detail/memory_shard.hpp"

SEENBY_DETAIL_BEGIN

/// How often a reader tries without the lock. A writer moves a shard's memory for well under a millisecond and most
/// writes move nothing; a reader that loses this often waits its turn instead.
inline constexpr int optimistic_tries = 64;

/// Candidates a reader answers between two looks at the sequence: their answers fit on its stack.
inline constexpr std::size_t read_chunk = 256;

/// One part as a reader sees it: `count` blocks of a filter, or exact digests.
struct ReadPart {
  const std::uint64_t* words;
  std::uint32_t count;
  std::uint32_t slice;
  bool is_filter;

  void check(std::span<const Digest> digests, std::uint8_t* seen) const noexcept {
    if (is_filter) {
      blocks_check(words, count, digests, seen);
    } else {
      digests_check(words, count, digests, seen);
    }
  }
};

/// Shards and what they share. Restoring a snapshot builds a second one and swaps; the first is emptied but stays,
/// since readers may still be looking into it.
template <std::size_t Words>
class MemoryState {
 public:
  using Key = IndexKey<Words>;

  MemoryState(std::uint32_t shard_bits, std::uint64_t max_bytes, double rate)
      : context(max_bytes, rate),
        shard_bits_(shard_bits),
        shards_(static_cast<Shard<Words>*>(
            ::operator new (sizeof(Shard<Words>) << shard_bits, std::align_val_t{alignof(Shard<Words>)}))) {
    for (; built_ < size(); ++built_) ::new (static_cast<void*>(shards_ + built_)) Shard<Words>(context, shard_bits);
  }
  MemoryState(const MemoryState&) = delete;
  MemoryState& operator=(const MemoryState&) = delete;
  ~MemoryState() {
    std::destroy_n(shards_, built_);
    ::operator delete (static_cast<void*>(shards_), std::align_val_t{alignof(Shard<Words>)});
  }

  [[nodiscard]] std::size_t size() const noexcept { return std::size_t{1} << shard_bits_; }
  [[nodiscard]] std::uint32_t shard_bits() const noexcept { return shard_bits_; }
  [[nodiscard]] Shard<Words>& operator[](std::size_t i) const noexcept { return shards_[i]; }
  [[nodiscard]] Shard<Words>& shard_of(const Key& key) const noexcept {
    return shards_[shard_bits_ == 0 ? 0 : key.hash >> (64 - shard_bits_)];
  }

  /// The user's handle, if any. For readers between two looks at the sequence.
  [[nodiscard]] Handle find(const Shard<Words>& shard, const Key& key) const noexcept {
    const std::uint64_t* const word = shard.index.find(context.space, key);
    return word == nullptr ? Handle{} : Handle{load_word_acquire(word)};
  }

  /// Calls visit(ReadPart) for each live part; false when the record changed under the reader. The list of an extended
  /// record is copied and the sequence checked before anything it refers to is touched: what a stale list says could
  /// lie outside the addresses in use.
  template <class Visit>
  bool for_each_part(const Shard<Words>& shard, std::uint32_t sequence, Handle handle, std::uint32_t newest,
                     Visit&& visit) const noexcept {
    if (handle.kind() == RecordKind::filter || handle.kind() == RecordKind::exact) {
      const bool is_filter = handle.kind() == RecordKind::filter;
      visit(ReadPart{context.space.at(handle.block()), is_filter ? handle.size() : handle.items(), 0, is_filter});
      return true;
    }
    if (handle.kind() != RecordKind::extended) return true;
    std::array<Part, max_parts> parts;
    const std::uint32_t count = std::min(handle.size(), max_parts);
    for (std::uint32_t i = 0; i < count; ++i) {
      parts[i] = Part::load(context.space.at(handle.block()) + std::size_t{i} * granule_words);
    }
    if (!shard.sequence.unchanged_since(sequence)) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Part& part = parts[i];
      if (!context.is_live(part.slice, newest)) continue;
      const bool is_filter = part.kind == RecordKind::filter;
      visit(ReadPart{context.space.at(part.block), is_filter ? part.size : part.items, part.slice, is_filter});
    }
    return true;
  }

  ShardContext context;

 private:
  std::uint32_t shard_bits_;
  Shard<Words>* shards_;
  std::size_t built_ = 0;
};

SEENBY_DETAIL_END
