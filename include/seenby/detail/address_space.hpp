#pragma once
// SPDX-License-Identifier: MIT
// One reserved range of addresses that backs a memory store: memory comes and goes, addresses stay readable for ever.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "seenby/detail/shared_words.hpp"

SEENBY_DETAIL_BEGIN

/// The unit of the arena: one split block, 32 bytes, four words.
inline constexpr std::uint32_t granule_words = 4;
inline constexpr std::uint32_t granule_bytes = 32;

/// Hands out extents of 1 KiB << size_class, aligned to their size, from one reservation.
///
/// Lock-free readers may follow a stale reference, so nothing handed out is ever unmapped before the store goes: a
/// returned extent's pages go back to the system by madvise(MADV_DONTNEED) and read as zeros. Thread-safe.
class AddressSpace {
 public:
  static constexpr std::uint32_t smallest_extent_bytes = 1024;
  static constexpr std::uint32_t size_classes = 26;  // up to 32 GiB

  /// Reserves addresses for twice `max_bytes` (0: the machine's memory), since moving a shard needs both copies for a
  /// moment, and returned extents of one size serve only that size again. Throws std::bad_alloc.
  explicit AddressSpace(std::uint64_t max_bytes) : max_bytes_(max_bytes) {
    const std::uint64_t wanted = max_bytes != 0 ? max_bytes : physical_memory();
    reserved_bytes_ = std::clamp(std::bit_ceil(wanted) * 2, first_chunk_bytes * 32, largest_reservation);
    for (;; reserved_bytes_ /= 2) {
      void* start = ::mmap(nullptr, reserved_bytes_ + first_chunk_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (start != MAP_FAILED) {
        mapping_ = start;
        break;
      }
      if (reserved_bytes_ <= first_chunk_bytes * 32) throw std::bad_alloc();  // a small RLIMIT_AS: take what there is
    }
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    const std::uintptr_t aligned = (address + first_chunk_bytes - 1) / first_chunk_bytes * first_chunk_bytes;
    base_ = static_cast<std::uint64_t*>(static_cast<void*>(static_cast<std::byte*>(mapping_) + (aligned - address)));
    try {
      commit(first_chunk_bytes);
    } catch (...) {
      ::munmap(mapping_, reserved_bytes_ + first_chunk_bytes);
      throw;
    }
    next_ = smallest_extent_bytes;  // offset 0 means "nowhere"
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() { ::munmap(mapping_, reserved_bytes_ + first_chunk_bytes); }

  [[nodiscard]] std::uint64_t* at(std::uint32_t granule) const noexcept {
    return base_ + std::size_t{granule} * granule_words;
  }
  /// Bytes handed out and not returned.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_bytes_.load(std::memory_order_relaxed); }

  [[nodiscard]] static constexpr std::uint32_t extent_granules(std::uint32_t size_class) noexcept {
    return (smallest_extent_bytes / granule_bytes) << size_class;
  }

  /// A zeroed extent's first granule. Throws std::bad_alloc when over max_bytes or out of memory.
  [[nodiscard]] std::uint32_t take(std::uint32_t size_class) {
    const std::uint64_t bytes = std::uint64_t{smallest_extent_bytes} << size_class;
    const std::lock_guard lock(mutex_);
    if (size_class >= size_classes || (max_bytes_ != 0 && held_bytes() + bytes > max_bytes_)) throw std::bad_alloc();
    std::uint32_t granule = 0;
    if (auto& returned = returned_[size_class]; !returned.empty()) {
      granule = returned.back();
      returned.pop_back();
    } else {
      const std::uint64_t start = (next_ + bytes - 1) / bytes * bytes;
      if (start + bytes > reserved_bytes_) throw std::bad_alloc();
      if (start + bytes > committed_bytes_) commit(start + bytes);
      keep_gap(next_, start);
      next_ = start + bytes;
      granule = static_cast<std::uint32_t>(start / granule_bytes);
    }
    held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return granule;
  }

  /// Takes an extent back; its bytes are gone when this returns.
  void give_back(std::uint32_t granule, std::uint32_t size_class) noexcept {
    const std::uint64_t bytes = std::uint64_t{smallest_extent_bytes} << size_class;
    if (bytes < page_bytes() || ::madvise(at(granule), bytes, MADV_DONTNEED) != 0) {
      zero_words(at(granule), bytes / sizeof(std::uint64_t));
    }
    const std::lock_guard lock(mutex_);
    held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    try {
      returned_[size_class].push_back(granule);
    } catch (const std::bad_alloc&) {
      // The addresses are lost to this store; the memory is not.
    }
  }

 private:
  static constexpr std::uint64_t first_chunk_bytes = std::uint64_t{2} << 20;    // one huge page
  static constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 37;  // 2^32 granules

  [[nodiscard]] static std::uint64_t page_bytes() noexcept {
    static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
  }
  [[nodiscard]] static std::uint64_t physical_memory() noexcept {
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes() : std::uint64_t{1} << 34;
  }

  /// Makes addresses usable up to at least `bytes`, in steps that grow with the store. The first chunk has small
  /// pages, so that a small store stays small; the rest may have huge ones: a request to cold users is bound by TLB
  /// misses before it is bound by the cache's.
  void commit(std::uint64_t bytes) {
    const std::uint64_t step =
        std::clamp(std::bit_floor(committed_bytes_ / 8 + 1), first_chunk_bytes, first_chunk_bytes * 32);
    const std::uint64_t wanted = std::min((bytes + step - 1) / step * step, reserved_bytes_);
    auto* start = at(static_cast<std::uint32_t>(committed_bytes_ / granule_bytes));
    const std::uint64_t size = wanted - committed_bytes_;
    if (::mprotect(start, size, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (committed_bytes_ >= first_chunk_bytes * 2) ::madvise(start, size, MADV_HUGEPAGE);
#endif
    committed_bytes_ = wanted;
  }

  /// What alignment skipped serves smaller extents.
  void keep_gap(std::uint64_t from, std::uint64_t to) {
    while (from < to) {
      const auto size_class = static_cast<std::uint32_t>(std::countr_zero(from / smallest_extent_bytes));
      returned_[size_class].push_back(static_cast<std::uint32_t>(from / granule_bytes));
      from += std::uint64_t{smallest_extent_bytes} << size_class;
    }
  }

  std::uint64_t max_bytes_;
  std::uint64_t reserved_bytes_ = 0;
  void* mapping_ = nullptr;
  std::uint64_t* base_ = nullptr;
  std::mutex mutex_;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t next_ = 0;
  std::array<std::vector<std::uint32_t>, size_classes> returned_;
  std::atomic<std::uint64_t> held_bytes_{0};
};

SEENBY_DETAIL_END
