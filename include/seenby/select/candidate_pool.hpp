#pragma once
// SPDX-License-Identifier: MIT
// CandidatePool: the items a ranker would like to show, hashed once and shared by all requests.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/detail/range.hpp"
#include "seenby/hash.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// Candidates in ranking order, best first, with their digests beside them. Building it hashes each item once and finds
/// the in-page duplicates, so that a request does neither: the digests serve every user's filter, whatever its size.
///
///     seenby::CandidatePool pool{questions};           // any range of integers or strings
///     seenby::CandidatePool topics{"rivers", "lakes"};  // literals become strings
///     auto seeded = filter.pool(questions);            // under a store's secret seed
///
/// Share one between requests where they rank alike (a quiz); it is then immutable, and any number of threads may read
/// it. Where each request ranks its own candidates, hand them to select_unseen as they are, or assign() them to a pool
/// of the thread's. Integers that are hashed for each request cost a fifth of XXH3's time under Mix64Hash: take
/// `MemoryStore<User, Mix64Hash>` where no other program shares the filters.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class CandidatePool {
 public:
  using item_type = Item;    ///< what it holds
  using hasher_type = Hash;  ///< makes digests of items

  /// Empty, to be assigned.
  explicit CandidatePool(Hash hash = {}) : hash_(std::move(hash)) {}
  /// Takes the items. O(n). Throws std::invalid_argument for more than 2^32 - 1 of them.
  explicit CandidatePool(std::vector<std::type_identity_t<Item>> items, Hash hash = {})
      : items_(std::move(items)), size_(items_.size()), hash_(std::move(hash)) {
    index_.hash(this->items(), hash_);
    index_.precompute();
  }
  /// Copies the items.
  template <detail::ItemRange Range>
  requires std::convertible_to<detail::RangeReference<Range>, Item>
  explicit CandidatePool(const Range& items, Hash hash = {})
      : CandidatePool(std::vector<Item>(std::ranges::begin(items), std::ranges::end(items)), std::move(hash)) {}
  /// The same for a list of items.
  CandidatePool(std::initializer_list<std::type_identity_t<Item>> items, Hash hash = {})
      : CandidatePool(std::vector<Item>(items), std::move(hash)) {}

  /// Items whose digests the caller keeps beside them, made by the same hasher: nothing is hashed but the first, which
  /// is compared. Throws std::invalid_argument for digests that are not as many, or another hasher's.
  [[nodiscard]] static CandidatePool with_digests(std::vector<Item> items, std::span<const Digest> digests,
                                                  Hash hash = {}) {
    CandidatePool pool(std::move(hash));
    pool.items_ = std::move(items);
    pool.size_ = pool.items_.size();
    pool.index_.take(pool.items(), digests, pool.hash_);
    pool.index_.own_digests();
    pool.index_.precompute();
    return pool;
  }

  /// Replaces the candidates, for a request or few. Allocates nothing when the pool was as large before (strings longer
  /// than their buffers aside). No request may be reading the pool.
  template <detail::ItemRange Range>
  requires std::convertible_to<detail::RangeReference<Range>, Item>
  void assign(const Range& items) {
    copy(items);
    index_.hash(this->items(), hash_);
  }
  /// As with_digests.
  template <detail::ItemRange Range>
  requires std::convertible_to<detail::RangeReference<Range>, Item>
  void assign(const Range& items, std::span<const Digest> digests) {
    copy(items);
    index_.take(this->items(), digests, hash_);
    index_.own_digests();
  }

  /// Computes what the kernel can reuse from request to request, as the constructors do: for a pool that was assigned
  /// and then serves many requests.
  void precompute() { index_.precompute(); }

  /// How many items were given, duplicates and all.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }  ///< whether it holds nothing
  /// The items as given. A pick's index counts here.
  [[nodiscard]] std::span<const Item> items() const noexcept { return {items_.data(), size_}; }
  /// The item at a place of the pool, unchecked. `pick.index` is such a place.
  [[nodiscard]] const Item& operator[](std::size_t index) const noexcept { return items_[index]; }

  /// How many candidates repeat an earlier one.
  [[nodiscard]] std::size_t duplicates() const noexcept { return candidates().duplicates(); }
  /// The different candidates, each at its first place in the ranking.
  [[nodiscard]] ItemBatch<Item> distinct() const noexcept { return candidates().distinct; }
  /// The index of distinct candidate i among the items as given.
  [[nodiscard]] std::uint32_t index_of(std::size_t i) const noexcept { return candidates().index_of(i); }
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }  ///< the hasher, with its seed
  /// All of it, as a request reads it.
  [[nodiscard]] detail::Candidates<Item> candidates() const noexcept { return index_.of(items()); }

 private:
  /// Over the items before, whose buffers strings then use again.
  template <class Range>
  void copy(const Range& items) {
    if constexpr (std::is_trivially_copyable_v<Item> && detail::SizedRange<Range>) {
      items_.assign(std::ranges::begin(items), std::ranges::end(items));
      size_ = items_.size();
    } else {
      size_ = 0;
      for (const auto& item : items) {
        if (size_ < items_.size()) {
          items_[size_] = item;
        } else {
          items_.emplace_back(item);
        }
        ++size_;
      }
    }
  }

  std::vector<Item> items_;  // the first size_ are the pool's; the rest keep their memory for the next assign()
  std::size_t size_ = 0;
  detail::CandidateIndex<Item> index_;
  [[no_unique_address]] Hash hash_;
};

/// A pool keeps its items: views and literals become strings.
template <class Item>
CandidatePool(std::vector<Item>) -> CandidatePool<detail::Kept<Item>>;
/// A pool keeps its items: views and literals become strings.
template <class Item, Hasher Hash>
CandidatePool(std::vector<Item>, Hash) -> CandidatePool<detail::Kept<Item>, Hash>;
/// A pool keeps its items: views and literals become strings.
template <detail::ItemRange Range>
CandidatePool(const Range&) -> CandidatePool<detail::Kept<detail::RangeValue<Range>>>;
/// A pool keeps its items: views and literals become strings.
template <detail::ItemRange Range, Hasher Hash>
CandidatePool(const Range&, Hash) -> CandidatePool<detail::Kept<detail::RangeValue<Range>>, Hash>;
/// The same for a list of items.
template <class Item>
CandidatePool(std::initializer_list<Item>) -> CandidatePool<detail::Kept<Item>>;
/// The same for a list of items.
template <class Item, Hasher Hash>
CandidatePool(std::initializer_list<Item>, Hash) -> CandidatePool<detail::Kept<Item>, Hash>;

}  // namespace seenby
