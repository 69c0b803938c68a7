#pragma once
// SPDX-License-Identifier: MIT
// ErasableGate: an ExistenceGate whose ids can be taken out again, for four bits a counter instead of one.

#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "seenby/filters/counting_bloom_filter.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/gates/existence_gate.hpp"
#include "seenby/hash.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

/// A CountingBloomFilter as a gate's filter. Any thread may call any member; writers wait for each other and for
/// readers.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class ErasableGateFilter {
 public:
  /// Counters for so many items at that rate. Throws std::invalid_argument as CountingBloomFilter does.
  explicit ErasableGateFilter(const PartitionedFilterOptions& options, Hash hash = {})
      : expected_items_(options.expected_items),
        filter_({.expected_items = options.expected_items, .target_fpr = options.target_fpr}, std::move(hash)) {}

  /// Adds one occurrence. O(k).
  void insert(Digest digest) {
    const std::unique_lock lock(mutex_);
    filter_.insert(digest);
    ++size_;
  }
  /// Takes one occurrence away; false when it was certainly not there. O(k).
  bool erase(Digest digest) {
    const std::unique_lock lock(mutex_);
    const bool erased = filter_.erase(digest);
    if (erased) --size_;
    return erased;
  }
  /// False: every occurrence that was added is erased, or there was none. O(k).
  [[nodiscard]] bool may_contain(Digest digest) const {
    const std::shared_lock lock(mutex_);
    return filter_.may_contain(digest);
  }
  /// Occurrences added and not erased.
  [[nodiscard]] std::uint64_t size() const {
    const std::shared_lock lock(mutex_);
    return size_;
  }
  /// The items it was sized for.
  [[nodiscard]] std::uint64_t expected_items() const noexcept { return expected_items_; }
  /// The rate to expect with so many items in it.
  [[nodiscard]] double expected_fpr(std::uint64_t items) const {
    const std::shared_lock lock(mutex_);
    return sizing::expected_fpr(filter_.shape(), items);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::uint64_t expected_items_;
  std::uint64_t size_ = 0;
  CountingBloomFilter<Item, Hash> filter_;
};

/// For ids that are deleted and must be "not found" before the next rebuild. Each id is added once and erased once. An
/// id that was added twice stays positive after one erase, at most until the next rebuild: by a feed that repeats
/// itself, or by a rebuild whose scan finds what was added within write_lag and carried into it. It cannot be saved;
/// ExistenceGate can.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
using ErasableGate = ExistenceGate<Item, Hash, ErasableGateFilter<Item, Hash>>;

}  // namespace seenby
