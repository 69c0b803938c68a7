#pragma once
// SPDX-License-Identifier: MIT
// CandidatePool: the items a ranker would like to show, hashed once and shared by all requests.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/range.hpp"
#include "seenby/hash.hpp"
#include "seenby/kernels/table.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// Candidates in ranking order, best first, with their digests beside them. Building it hashes each item once and finds
/// the in-page duplicates, so that a request does neither: the digests serve every user's filter, whatever its size.
///
///     seenby::CandidatePool pool{questions};          // any range of integers or strings
///     auto seeded = filter.pool(questions);            // the same, under a store's secret seed
///
/// Immutable after construction, so any number of threads may share one.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class CandidatePool {
 public:
  using item_type = Item;
  using hasher_type = Hash;

  /// Copies the items. O(n log n). Throws std::invalid_argument for more than 2^32 - 1 of them.
  explicit CandidatePool(std::vector<Item> items, Hash hash = {}) : items_(std::move(items)), hash_(std::move(hash)) {
    if (items_.size() > std::numeric_limits<std::uint32_t>::max()) {
      std::string message = "seenby: expected at most 2^32 - 1 candidates in a pool, got ";
      throw std::invalid_argument(message.append(std::to_string(items_.size())));
    }
    digests_.reserve(items_.size());
    for (const Item& item : items_) digests_.push_back(hash_(item));
    drop_duplicates();
    lanes_ = detail::precompute_lanes(digests_);
  }
  template <detail::InputRange Range>
  requires std::convertible_to<detail::RangeReference<Range>, Item>
  explicit CandidatePool(const Range& items, Hash hash = {})
      : CandidatePool(std::vector<Item>(std::ranges::begin(items), std::ranges::end(items)), std::move(hash)) {}
  CandidatePool(std::initializer_list<Item> items, Hash hash = {})
      : CandidatePool(std::vector<Item>(items), std::move(hash)) {}

  /// The items as they were given, duplicates and all. A pick's index counts here.
  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  [[nodiscard]] const Item& operator[](std::size_t index) const noexcept { return items_[index]; }
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }

  /// How many candidates repeat an earlier one.
  [[nodiscard]] std::size_t duplicates() const noexcept { return items_.size() - digests_.size(); }
  /// The different candidates, each at its first place in the ranking.
  [[nodiscard]] ItemBatch<Item> distinct() const noexcept {
    return {first_at_.empty() ? std::span<const Item>(items_) : std::span<const Item>(distinct_items_),
            digests_,
            {lanes_.empty() ? nullptr : lanes_.data(), digests_.data()}};
  }
  /// Where distinct candidate i stands among the items as given.
  [[nodiscard]] std::uint32_t index_of(std::size_t i) const noexcept {
    return first_at_.empty() ? static_cast<std::uint32_t>(i) : first_at_[i];
  }
  [[nodiscard]] const Hash& hasher() const noexcept { return hash_; }

 private:
  void drop_duplicates() {
    std::vector<std::uint32_t> order(digests_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [this](std::uint32_t a, std::uint32_t b) { return digests_[a] < digests_[b]; });
    const auto repeats = std::unique(order.begin(), order.end(),
                                     [this](std::uint32_t a, std::uint32_t b) { return digests_[a] == digests_[b]; });
    if (repeats == order.end()) return;
    order.erase(repeats, order.end());
    std::sort(order.begin(), order.end());
    std::vector<Digest> digests;
    digests.reserve(order.size());
    distinct_items_.reserve(order.size());
    for (const std::uint32_t i : order) {
      digests.push_back(digests_[i]);
      distinct_items_.push_back(items_[i]);
    }
    digests_ = std::move(digests);
    first_at_ = std::move(order);
  }

  std::vector<Item> items_;
  std::vector<Digest> digests_;            // of the distinct candidates
  std::vector<detail::DigestLanes> lanes_;  // of these digests; empty where the kernel has no use for them
  std::vector<Item> distinct_items_;       // empty while nothing repeats
  std::vector<std::uint32_t> first_at_;    // empty while nothing repeats
  [[no_unique_address]] Hash hash_;
};

template <class Range>
CandidatePool(const Range&) -> CandidatePool<detail::RangeValue<Range>>;
template <class Range, Hasher Hash>
CandidatePool(const Range&, Hash) -> CandidatePool<detail::RangeValue<Range>, Hash>;
template <class Item>
CandidatePool(std::initializer_list<Item>) -> CandidatePool<Item>;

}  // namespace seenby
