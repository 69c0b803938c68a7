#pragma once
// SPDX-License-Identifier: MIT
// The blocks of one shard of a memory store: bump allocation, exact-size free lists, no header a block.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "seenby/detail/shared_words.hpp"
#include "seenby/stores/memory/address_space.hpp"

SEENBY_DETAIL_BEGIN

/// Allocates runs of 32-byte granules, named by the number of their first granule in the store's address space.
///
/// There are no size classes to round up to: free blocks wait in one list for each exact size, the list's links inside
/// the free blocks. What fragmentation costs is bounded by the shard, which moves everything into a fresh arena once
/// `wasted_bytes` is too much of `held_bytes`. Free memory is all zeros but for the links. Not thread-safe.
class Arena {
 public:
  explicit Arena(AddressSpace& space) noexcept : space_(&space) {}
  Arena(Arena&& other) noexcept : space_(other.space_) { swap(other); }
  Arena& operator=(Arena&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Arena() {
    for (const Extent& extent : extents_) space_->give_back(extent.granule, extent.units);
  }

  [[nodiscard]] std::uint64_t* at(std::uint32_t granule) const noexcept { return space_->at(granule); }
  /// Bytes taken from the address space.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_granules_ * granule_bytes; }
  /// Held bytes that no block uses.
  [[nodiscard]] std::uint64_t wasted_bytes() const noexcept {
    return (held_granules_ - used_granules_) * granule_bytes;
  }
  /// Bytes in free blocks: what moving everything would win back.
  [[nodiscard]] std::uint64_t fragmented_bytes() const noexcept { return free_granules_ * granule_bytes; }
  [[nodiscard]] std::uint64_t bookkeeping_bytes() const noexcept { return extents_.capacity() * sizeof(Extent); }

  /// A zeroed block of `granules` > 0: the best fit among the small free blocks, the first among the large ones, or
  /// fresh memory. O(1). Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t allocate(std::uint32_t granules) {
    std::uint32_t block = take_free(granules);
    if (block == 0) block = take_new(granules);
    used_granules_ += granules;
    return block;
  }

  /// Zeroes a block and takes it back. Readers must have been told by then (ReadSequence::memory_unlinked).
  void release(std::uint32_t block, std::uint32_t granules) noexcept {
    zero_words(at(block), std::size_t{granules} * granule_words);
    used_granules_ -= granules;
    put_free(block, granules);
  }

  /// Takes extents for `bytes` ahead, so that blocks of that many bytes in all leave little waste. Throws.
  void reserve(std::uint64_t bytes) {
    planned_granules_ = static_cast<std::uint64_t>((bytes + granule_bytes - 1) / granule_bytes);
  }

 private:
  struct Extent {
    std::uint32_t granule;
    std::uint32_t units;
  };
  static constexpr std::uint32_t exact_lists = 64;  // sizes 1 to 63 granules; list 0 holds all the larger ones
  static constexpr int large_looks = 16;

  void swap(Arena& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(extents_, other.extents_);
    std::swap(lists_, other.lists_);
    std::swap(occupied_, other.occupied_);
    std::swap(next_, other.next_);
    std::swap(end_, other.end_);
    std::swap(held_granules_, other.held_granules_);
    std::swap(used_granules_, other.used_granules_);
    std::swap(free_granules_, other.free_granules_);
    std::swap(planned_granules_, other.planned_granules_);
  }

  // A free block's first word: next free block of the list in the low half, its size in the high half.
  void put_free(std::uint32_t block, std::uint32_t granules) noexcept {
    if (granules == 0) return;
    const std::uint32_t list = granules < exact_lists ? granules : 0;
    store_word(at(block), lists_[list] | (std::uint64_t{granules} << 32));
    lists_[list] = block;
    occupied_ |= std::uint64_t{1} << list;
    free_granules_ += granules;
  }
  [[nodiscard]] std::uint32_t pop(std::uint32_t list) noexcept {
    const std::uint32_t block = lists_[list];
    const std::uint64_t link = load_word(at(block));
    lists_[list] = static_cast<std::uint32_t>(link);
    if (lists_[list] == 0) occupied_ &= ~(std::uint64_t{1} << list);
    store_word(at(block), 0);
    free_granules_ -= static_cast<std::uint32_t>(link >> 32);
    return block;
  }

  [[nodiscard]] std::uint32_t take_free(std::uint32_t granules) noexcept {
    if (granules < exact_lists) {
      const std::uint64_t fitting = occupied_ >> granules << granules & ~std::uint64_t{1};
      if (fitting != 0) {
        const auto list = static_cast<std::uint32_t>(std::countr_zero(fitting));
        const std::uint32_t block = pop(list);
        put_free(block + granules, list - granules);
        return block;
      }
    }
    return take_large(granules);
  }
  [[nodiscard]] std::uint32_t take_large(std::uint32_t granules) noexcept {
    std::uint32_t before = 0;
    std::uint32_t block = lists_[0];
    for (int looks = 0; block != 0 && looks < large_looks; ++looks) {
      const std::uint64_t link = load_word(at(block));
      const auto size = static_cast<std::uint32_t>(link >> 32);
      const auto after = static_cast<std::uint32_t>(link);
      if (size >= granules) {
        if (before == 0) {
          lists_[0] = after;
          if (after == 0) occupied_ &= ~std::uint64_t{1};
        } else {
          store_word(at(before), (load_word(at(before)) >> 32 << 32) | after);
        }
        store_word(at(block), 0);
        free_granules_ -= size;
        put_free(block + granules, size - granules);
        return block;
      }
      before = block;
      block = after;
    }
    return 0;
  }

  [[nodiscard]] std::uint32_t take_new(std::uint32_t granules) {
    if (end_ - next_ < granules) {
      const std::uint32_t units = next_units(granules);
      extents_.reserve(extents_.size() + 1);
      const std::uint32_t extent = space_->take(units);
      held_granules_ += std::uint64_t{units} * AddressSpace::unit_granules;
      if (extent == end_ && !extents_.empty() && !AddressSpace::begins_segment(extent / AddressSpace::unit_granules)) {
        extents_.back().units += units;  // what is left of the last extent goes on in this one
      } else {
        extents_.push_back({extent, units});
        put_free(next_, end_ - next_);
        next_ = extent;
      }
      end_ = extent + units * AddressSpace::unit_granules;
    }
    const std::uint32_t block = next_;
    next_ += granules;
    return block;
  }

  /// What the block needs; at least a 32nd of what is held, so that the unused tail stays below 2% on average and the
  /// list of extents short; or all that is planned and not yet held.
  [[nodiscard]] std::uint32_t next_units(std::uint32_t granules) const noexcept {
    std::uint64_t wanted = std::max<std::uint64_t>(granules, held_granules_ / 32);
    if (planned_granules_ > held_granules_) wanted = std::max(wanted, planned_granules_ - held_granules_);
    return static_cast<std::uint32_t>((wanted + AddressSpace::unit_granules - 1) / AddressSpace::unit_granules);
  }

  AddressSpace* space_;
  std::vector<Extent> extents_;
  std::array<std::uint32_t, exact_lists> lists_{};
  std::uint64_t occupied_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t end_ = 0;
  std::uint64_t held_granules_ = 0;
  std::uint64_t used_granules_ = 0;
  std::uint64_t free_granules_ = 0;
  std::uint64_t planned_granules_ = 0;
};

SEENBY_DETAIL_END
