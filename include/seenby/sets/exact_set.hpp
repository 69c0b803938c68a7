#pragma once
// SPDX-License-Identifier: MIT
// ExactSet: a set of items without error, listable, for what must not be wrong.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/sets/index_table.hpp"

namespace seenby {

/// An exact set, for explicit hides and other small sets that must not err: 20 to 32 bytes an integer, where a Bloom
/// filter at 1% takes 1.2. For long strings an ExactSet<std::uint64_t> of digest values is smaller; two strings are
/// then one only if their 64-bit digests collide. For small dense ids take DenseIdSet, for the last N or the last days
/// RecentSet.
///
/// Item owns its bytes: std::string, not std::string_view.
///
/// Thread safety: as a standard container: any number of readers, or one writer.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class ExactSet {
 public:
  using item_type = Item;  ///< what it holds

  explicit ExactSet(Hash hash = {}) : hash_(std::move(hash)) {}  ///< an empty set

  /// Adds an item; true when it was not there. Throws std::bad_alloc; std::length_error past 2^32 - 2 items.
  template <FilterKey<Item> Key>
  bool insert(const Key& item) {
    const Digest digest = hash_(item);
    if (find(item, digest) != detail::IndexTable::none) return false;
    if (items_.size() >= detail::IndexTable::none - 1)
      throw std::length_error("seenby: expected at most 2^32 - 2 items");
    items_.push_back(static_cast<Item>(item));
    try {
      index_.insert(digest, static_cast<std::uint32_t>(items_.size() - 1));
    } catch (...) {
      items_.pop_back();
      throw;
    }
    return true;
  }

  /// Removes an item; true when it was there.
  template <FilterKey<Item> Key>
  bool erase(const Key& item) {
    const Digest digest = hash_(item);
    const std::uint32_t at = find(item, digest);
    if (at == detail::IndexTable::none) return false;
    index_.erase(digest, at);
    // The last item replaces the erased one.
    const auto last = static_cast<std::uint32_t>(items_.size() - 1);
    if (at != last) {
      index_.move(hash_(items_[last]), last, at);
      items_[at] = std::move(items_[last]);
    }
    items_.pop_back();
    return true;
  }

  /// Forgets every item. O(n).
  void clear() noexcept {
    items_.clear();
    index_.clear();
  }

  /// Whether the item is in it, exactly. Expected O(1).
  template <FilterKey<Item> Key>
  [[nodiscard]] bool contains(const Key& item) const {
    return find(item, hash_(item)) != detail::IndexTable::none;
  }

  /// Every item, in no order that lasts. Valid until the next insert or erase.
  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }
  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }  ///< items in it
  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }       ///< whether it holds nothing
  /// What the set allocates, without what the items themselves do.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return items_.capacity() * sizeof(Item) + index_.memory_bytes();
  }

 private:
  template <class Key>
  [[nodiscard]] std::uint32_t find(const Key& item, Digest digest) const {
    return index_.find(digest, [&](std::uint32_t at) { return detail::same_item(items_[at], item); });
  }

  std::vector<Item> items_;
  detail::IndexTable index_;
  [[no_unique_address]] Hash hash_;
};

}  // namespace seenby
