#pragma once
// SPDX-License-Identifier: MIT
// IndexTable: finds an item's index in an array, by its digest.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/config.hpp"
#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// Whether two items of one kind are equal, each as it is hashed: integers of any width by value, strings by their
/// characters, bytes by their bytes.
template <HashableItem A, HashableItem B>
[[nodiscard]] bool same_item(const A& a, const B& b) {
  if constexpr (StringItem<A>) {
    return std::string_view(a) == std::string_view(b);
  } else if constexpr (BytesItem<A>) {
    const std::span<const std::byte> left = a;
    const std::span<const std::byte> right = b;
    return std::equal(left.begin(), left.end(), right.begin(), right.end());
  } else {
    return as_uint64(a) == as_uint64(b);
  }
}

/// Open addressing with linear probing, at most two thirds full, deletion by shifting back (no tombstones). Eight bytes
/// a slot: the high half of the digest and the index. The items themselves stay in the caller's array, whose equality
/// decides.
class IndexTable {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  /// The index of the item of this digest for which same(index) holds; none when there is not one.
  template <class Same>
  [[nodiscard]] std::uint32_t find(Digest digest, Same same) const {
    if (slots_.empty()) return none;
    const std::uint32_t tag = tag_of(digest);
    for (std::size_t at = home(tag);; at = next(at)) {
      const Slot& slot = slots_[at];
      if (slot.index == none) return none;
      if (slot.tag == tag && same(slot.index)) return slot.index;
    }
  }

  /// Adds an index that is not there. Throws std::bad_alloc, and is then as it was.
  void insert(Digest digest, std::uint32_t index) {
    if ((size_ + 1) * 3 > slots_.size() * 2) grow();
    place({tag_of(digest), index});
    ++size_;
  }

  /// Removes an index that is there.
  void erase(Digest digest, std::uint32_t index) noexcept {
    std::size_t hole = where(digest, index);
    // Backward shift: an entry behind the hole moves into it unless its home slot lies between them.
    for (std::size_t at = next(hole); slots_[at].index != none; at = next(at)) {
      const std::size_t from_home = (at - home(slots_[at].tag)) & mask();
      if (from_home >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = {};
    --size_;
  }

  /// The item at index `from` is now at `to`.
  void move(Digest digest, std::uint32_t from, std::uint32_t to) noexcept { slots_[where(digest, from)].index = to; }

  void clear() noexcept {
    slots_.clear();
    size_ = 0;
  }
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t index = none;
  };
  [[nodiscard]] static std::uint32_t tag_of(Digest digest) noexcept {
    return static_cast<std::uint32_t>(digest.value >> 32);
  }
  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  [[nodiscard]] std::size_t home(std::uint32_t tag) const noexcept { return tag & mask(); }
  [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }
  [[nodiscard]] std::size_t where(Digest digest, std::uint32_t index) const noexcept {
    std::size_t at = home(tag_of(digest));
    while (slots_[at].index != index) at = next(at);
    return at;
  }
  void place(Slot slot) noexcept {
    std::size_t at = home(slot.tag);
    while (slots_[at].index != none) at = next(at);
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> larger(slots_.empty() ? 8 : slots_.size() * 2);
    std::swap(slots_, larger);
    for (const Slot& slot : larger) {
      if (slot.index != none) place(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  std::size_t size_ = 0;
};

SEENBY_DETAIL_END
