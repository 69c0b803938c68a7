#pragma once
// SPDX-License-Identifier: MIT
// One reserved range of addresses that backs a memory store: memory comes and goes, addresses stay readable for ever.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "seenby/detail/shared_words.hpp"

SEENBY_DETAIL_BEGIN

/// The unit of the arena: one split block, 32 bytes, four words.
inline constexpr std::uint32_t granule_words = 4;
inline constexpr std::uint32_t granule_bytes = 32;

/// Hands out extents, runs of 1 KiB units, from one reservation: best fit among those returned, neighbours joined.
///
/// Lock-free readers may follow a stale reference, so nothing handed out is ever unmapped before the store goes: a
/// returned extent's pages go back to the system by madvise(MADV_DONTNEED) and read as zeros. A 64th of what is in use
/// may be kept for the next extent instead, zeroed: giving back a part of a huge page would break it up. Thread-safe.
class AddressSpace {
 public:
  static constexpr std::uint32_t unit_bytes = 1024;
  static constexpr std::uint32_t unit_granules = unit_bytes / granule_bytes;

  /// Reserves addresses for twice `max_bytes` (0: the machine's memory), since moving a shard needs both copies for a
  /// moment, and returned extents may be too short for what is asked next. Throws std::bad_alloc.
  explicit AddressSpace(std::uint64_t max_bytes) : max_bytes_(max_bytes) {
    const std::uint64_t wanted = max_bytes != 0 ? max_bytes : physical_memory();
    reserved_bytes_ = std::clamp(std::bit_ceil(wanted) * 2, huge_page_bytes * 32, largest_reservation);
    for (;; reserved_bytes_ /= 2) {
      void* start = ::mmap(nullptr, reserved_bytes_ + huge_page_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (start != MAP_FAILED) {
        mapping_ = start;
        break;
      }
      if (reserved_bytes_ <= huge_page_bytes * 32) throw std::bad_alloc();  // a small RLIMIT_AS: take what there is
    }
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    const std::uintptr_t aligned = (address + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    base_ = static_cast<std::uint64_t*>(static_cast<void*>(static_cast<std::byte*>(mapping_) + (aligned - address)));
    try {
      commit(huge_page_bytes);
    } catch (...) {
      ::munmap(mapping_, reserved_bytes_ + huge_page_bytes);
      throw;
    }
    next_ = 1;  // offset 0 means "nowhere"
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() { ::munmap(mapping_, reserved_bytes_ + huge_page_bytes); }

  [[nodiscard]] std::uint64_t* at(std::uint32_t granule) const noexcept {
    return base_ + std::size_t{granule} * granule_words;
  }
  /// Bytes handed out, and returned ones that were kept.
  [[nodiscard]] std::uint64_t resident_bytes() const {
    const std::lock_guard lock(mutex_);
    return held_bytes_ + kept_bytes_;
  }

  /// A zeroed extent of `units`; its first granule. Throws std::bad_alloc when over max_bytes or out of memory.
  [[nodiscard]] std::uint32_t take(std::uint32_t units) {
    const std::uint64_t bytes = std::uint64_t{units} * unit_bytes;
    const std::lock_guard lock(mutex_);
    if (max_bytes_ != 0 && held_bytes_ + bytes > max_bytes_) throw std::bad_alloc();
    std::uint32_t first = 0;
    if (const auto fit = by_size_.lower_bound({units, 0}); fit != by_size_.end()) {
      const auto [size, start] = *fit;
      by_size_.erase(fit);
      by_start_.erase(start);
      first = start;
      if (size > units) add_free(start + units, size - units);
      kept_bytes_ -= std::min(kept_bytes_, bytes);
    } else {
      const std::uint64_t end = (std::uint64_t{next_} + units) * unit_bytes;
      if (end > reserved_bytes_) throw std::bad_alloc();
      if (end > committed_bytes_) commit(end);
      first = next_;
      next_ += units;
      join_full_pages();
    }
    held_bytes_ += bytes;
    return first * unit_granules;
  }

  /// Takes an extent back; its bytes are gone when this returns.
  void give_back(std::uint32_t granule, std::uint32_t units) noexcept {
    const std::uint64_t bytes = std::uint64_t{units} * unit_bytes;
    const std::lock_guard lock(mutex_);
    held_bytes_ -= bytes;
    if (kept_bytes_ + bytes <= held_bytes_ / 64) {
      zero_words(at(granule), bytes / sizeof(std::uint64_t));
      kept_bytes_ += bytes;
    } else {
      erase_bytes(granule, units);
    }
    try {
      join_free(granule / unit_granules, units);
    } catch (const std::bad_alloc&) {
      // The addresses are lost to this store; the memory is not.
    }
    if (kept_bytes_ > held_bytes_ / 32) drop_kept();
  }

 private:
  static constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t large_store_bytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 37;  // 2^32 granules

  [[nodiscard]] static std::uint64_t page_bytes() noexcept {
    static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
  }
  [[nodiscard]] static std::uint64_t physical_memory() noexcept {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes() : std::uint64_t{1} << 34;
  }

  /// Makes addresses usable up to at least `bytes`, in steps that grow with the store.
  void commit(std::uint64_t bytes) {
    const std::uint64_t step =
        std::clamp(std::bit_floor(committed_bytes_ / 8 + 1), huge_page_bytes, huge_page_bytes * 32);
    const std::uint64_t wanted = std::min((bytes + step - 1) / step * step, reserved_bytes_);
    auto* start = at(static_cast<std::uint32_t>(committed_bytes_ / granule_bytes));
    const std::uint64_t size = wanted - committed_bytes_;
    if (::mprotect(start, size, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (committed_bytes_ >= large_store_bytes) ::madvise(start, size, MADV_HUGEPAGE);
#endif
    committed_bytes_ = wanted;
  }

  /// Turns what is handed out into huge pages, one at a time: a request to cold users is bound by TLB misses before it
  /// is bound by the cache's. A small store's pages are joined only once they are full, since a huge one that is
  /// used in part would be a good share of such a store; a large store gets huge ones from the start (`commit`).
  void join_full_pages() noexcept {
#ifdef MADV_HUGEPAGE
    const std::uint64_t full = std::min(std::uint64_t{next_} * unit_bytes, large_store_bytes);
    for (; joined_bytes_ + huge_page_bytes <= full; joined_bytes_ += huge_page_bytes) {
      constexpr int madv_collapse = 25;  // Linux 6.1; older headers do not name it
      auto* const page = at(static_cast<std::uint32_t>(joined_bytes_ / granule_bytes));
      if (::madvise(page, huge_page_bytes, madv_collapse) != 0) ::madvise(page, huge_page_bytes, MADV_HUGEPAGE);
    }
#endif
  }

  /// Whole pages go back to the system; the rest of the first and the last page, which neighbours use, is zeroed.
  void erase_bytes(std::uint32_t granule, std::uint32_t units) const noexcept {
    const std::uint64_t begin = std::uint64_t{granule} * granule_bytes;
    const std::uint64_t end = begin + std::uint64_t{units} * unit_bytes;
    const std::uint64_t first_page = (begin + page_bytes() - 1) / page_bytes() * page_bytes();
    const std::uint64_t last_page = end / page_bytes() * page_bytes();
    const auto zero = [&](std::uint64_t from, std::uint64_t to) {
      zero_words(base_ + from / sizeof(std::uint64_t), (to - from) / sizeof(std::uint64_t));
    };
#if defined(__linux__)  // elsewhere the advice does not promise zeros
    if (first_page < last_page &&
        ::madvise(base_ + first_page / sizeof(std::uint64_t), last_page - first_page, MADV_DONTNEED) == 0) {
      zero(begin, first_page);
      zero(last_page, end);
      return;
    }
#endif
    zero(begin, end);
  }

  /// The store has shrunk since they were kept.
  void drop_kept() noexcept {
    for (const auto& [start, units] : by_start_) erase_bytes(start * unit_granules, units);
    kept_bytes_ = 0;
  }
  void add_free(std::uint32_t start, std::uint32_t units) {
    by_start_.emplace(start, units);
    by_size_.emplace(units, start);
  }
  void join_free(std::uint32_t start, std::uint32_t units) {
    const auto after = by_start_.lower_bound(start);
    if (after != by_start_.end() && after->first == start + units) {
      units += after->second;
      by_size_.erase({after->second, after->first});
      by_start_.erase(after);
    }
    const auto before = by_start_.lower_bound(start);
    if (before != by_start_.begin()) {
      const auto previous = std::prev(before);
      if (previous->first + previous->second == start) {
        start = previous->first;
        units += previous->second;
        by_size_.erase({previous->second, previous->first});
        by_start_.erase(previous);
      }
    }
    add_free(start, units);
  }

  std::uint64_t max_bytes_;
  std::uint64_t reserved_bytes_ = 0;
  void* mapping_ = nullptr;
  std::uint64_t* base_ = nullptr;
  mutable std::mutex mutex_;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t joined_bytes_ = 0;
  std::uint32_t next_ = 0;                                     // first unit never handed out
  std::map<std::uint32_t, std::uint32_t> by_start_;            // returned extents: first unit, units
  std::set<std::pair<std::uint32_t, std::uint32_t>> by_size_;  // the same: units, first unit
  std::uint64_t held_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
};

SEENBY_DETAIL_END
