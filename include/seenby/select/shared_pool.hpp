#pragma once
// SPDX-License-Identifier: MIT
// SharedPool: a candidate pool that is refreshed while requests read it.

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

#include "seenby/detail/range.hpp"
#include "seenby/hash.hpp"
#include "seenby/select/candidate_pool.hpp"

namespace seenby {

/// A pool that all requests read while it is refreshed now and then: trending items, a topic's questions.
///
/// @code
/// seenby::SharedPool<std::uint64_t> trending{ids};
/// const auto pool = trending.read();                       // in a request: this version, until `pool` goes
/// auto page = filter.select_unseen(*pool, {alice}, {.limit = 10});
/// trending.refresh(newer_ids);                             // in another thread, at any time
/// @endcode
///
/// A request sees one version whole. read() never waits: two atomic operations, and again when a refresh came between.
/// There are three versions at most: refresh() waits while requests still read both of those before the newest.
///
/// Thread safety: any thread may call anything.
template <HashableItem Item, Hasher Hash = Xxh3Hash>
class SharedPool {
  struct alignas(64) Version {
    std::atomic<std::size_t> readers{0};
    CandidatePool<Item, Hash> pool;
  };

 public:
  using pool_type = CandidatePool<Item, Hash>;  ///< what readers see

  /// A version of the pool. It does not change during this object's lifetime; the page's items are in it.
  class Reading {
   public:
    /// By SharedPool::read only.
    explicit Reading(Version& version) noexcept : version_(&version) {}  // for SharedPool: a Version is private
    /// The moved-from reading holds nothing.
    Reading(Reading&& other) noexcept : version_(std::exchange(other.version_, nullptr)) {}
    /// Lets go of its own version first.
    Reading& operator=(Reading&& other) noexcept {
      std::swap(version_, other.version_);
      return *this;
    }
    ~Reading() {
      if (version_ != nullptr) version_->readers.fetch_sub(1, std::memory_order_release);
    }
    /// The pool, unchanged as long as this lives.
    [[nodiscard]] const pool_type& operator*() const noexcept { return version_->pool; }
    [[nodiscard]] const pool_type* operator->() const noexcept { return &version_->pool; }  ///< the pool's members

   private:
    Version* version_;
  };

  /// Throws as CandidatePool.
  template <detail::ItemRange Range>
  explicit SharedPool(const Range& items, Hash hash = {})
      : versions_{Version{.pool = pool_type(hash)}, Version{.pool = pool_type(hash)},
                  Version{.pool = pool_type(hash)}} {
    fill(versions_[0], items);
  }
  SharedPool(const SharedPool&) = delete;
  SharedPool& operator=(const SharedPool&) = delete;

  /// The newest candidates, held until the reading is destroyed. Lock-free.
  [[nodiscard]] Reading read() const noexcept {
    // A reader counts itself and then looks whether the version still serves; a refresh changes which one serves and
    // then looks for readers: in one order for all threads, so that one of the two sees the other.
    for (;;) {
      Version& version = versions_[serving_.load(std::memory_order_seq_cst)];
      version.readers.fetch_add(1, std::memory_order_seq_cst);
      if (&versions_[serving_.load(std::memory_order_seq_cst)] == &version) return Reading(version);
      version.readers.fetch_sub(1, std::memory_order_release);
    }
  }

  /// Replaces the candidates. Reuses the memory of a version that has no readers left.
  template <detail::ItemRange Range>
  void refresh(const Range& items) {
    const std::lock_guard lock(refreshing_);
    const std::size_t now = serving_.load(std::memory_order_relaxed);
    std::size_t next = now;
    do {
      next = (next + 1) % versions_.size();
      if (next == now) std::this_thread::yield();
    } while (next == now || versions_[next].readers.load(std::memory_order_seq_cst) != 0);
    fill(versions_[next], items);
    serving_.store(next, std::memory_order_seq_cst);
  }

 private:
  template <class Range>
  static void fill(Version& version, const Range& items) {
    version.pool.assign(items);
    version.pool.precompute();
  }

  mutable std::array<Version, 3> versions_;
  std::atomic<std::size_t> serving_{0};
  std::mutex refreshing_;
};

}  // namespace seenby
