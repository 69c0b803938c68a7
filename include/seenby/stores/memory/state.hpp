#pragma once
// SPDX-License-Identifier: MIT
// The shards of a memory store, and how a reader asks them without a lock.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "seenby/stores/memory/shard.hpp"

SEENBY_DETAIL_BEGIN

/// Shards and what they share. Restoring a snapshot builds a second one and swaps; the first is emptied but stays,
/// since readers may still be looking into it.
template <std::size_t Words>
class MemoryState {
 public:
  using Key = IndexKey<Words>;

  MemoryState(std::uint32_t shard_bits, std::uint64_t max_bytes, const RateTables& rates)
      : context(max_bytes, rates),
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
    return shards_[key.hash >> 1 >> (63 - shard_bits_)];  // in two steps, since there may be no bits
  }

  /// The user's handle, if any. For readers between two looks at the sequence, and for the shard's writer.
  [[nodiscard]] Handle find(const Shard<Words>& shard, const Key& key) const noexcept {
    const std::uint64_t* const word = shard.index.find(context.space, key);
    return word == nullptr ? Handle{} : Handle{load_word_acquire(word)};
  }

  ShardContext context;

 private:
  std::uint32_t shard_bits_;
  Shard<Words>* shards_;
  std::size_t built_ = 0;
};

/// Runs change(state, shard) with the key's shard locked, in the state that is current then.
template <std::size_t Words, class Change>
auto with_locked_shard(const std::atomic<MemoryState<Words>*>& current, const IndexKey<Words>& key, Change&& change) {
  for (;;) {
    MemoryState<Words>* const state = current.load(std::memory_order_acquire);
    Shard<Words>& shard = state->shard_of(key);
    const std::lock_guard lock(shard.mutex);
    if (state == current.load(std::memory_order_acquire)) return change(*state, shard);
  }
}

SEENBY_DETAIL_END
