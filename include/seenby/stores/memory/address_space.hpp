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
#include <mutex>
#include <new>
#include <vector>

#include "seenby/detail/shared_words.hpp"

SEENBY_DETAIL_BEGIN

/// The unit of the arena: one split block, 32 bytes, four words.
inline constexpr std::uint32_t granule_words = 4;
inline constexpr std::uint32_t granule_bytes = 32;

/// Hands out extents, runs of 1 KiB units, from one reservation: the lowest among those returned that fits, so that a
/// store that shrinks moves together; neighbours are joined.
///
/// Lock-free readers may follow a stale reference, whatever number it has become: every granule's address is inside the
/// reservation, which may be read from end to end and some way beyond (largest_overrun), and nothing of it is unmapped
/// before the store goes. A returned extent's pages go back to the system by madvise(MADV_DONTNEED) and read as zeros,
/// as do those never handed out. A 64th of what is in use may be kept for the next extent instead, zeroed: giving back
/// a part of a huge page would break it up. Thread-safe.
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
      void* start = ::mmap(nullptr, mapped_bytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (start != MAP_FAILED) {
        mapping_ = start;
        break;
      }
      if (reserved_bytes_ <= huge_page_bytes * 32) throw std::bad_alloc();  // a small RLIMIT_AS: take what there is
    }
    granule_mask_ = reserved_bytes_ / granule_bytes - 1;  // a power of two, as the reservation is
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    const std::uintptr_t aligned = (address + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    base_ = static_cast<std::uint64_t*>(static_cast<void*>(static_cast<std::byte*>(mapping_) + (aligned - address)));
    try {
      commit(huge_page_bytes);
    } catch (...) {
      ::munmap(mapping_, mapped_bytes());
      throw;
    }
    next_ = 1;  // offset 0 means "nowhere"
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() { ::munmap(mapping_, mapped_bytes()); }

  [[nodiscard]] std::uint64_t* at(std::uint32_t granule) const noexcept {
    return base_ + (std::size_t{granule} & granule_mask_) * granule_words;
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
    const auto fit = std::find_if(free_.begin(), free_.end(), [&](const Run& run) { return run.units >= units; });
    if (fit != free_.end()) {
      first = fit->first;
      if (fit->units > units) {
        *fit = {first + units, fit->units - units};
      } else {
        free_.erase(fit);
      }
      free_bytes_ -= bytes;
      kept_bytes_ = std::min(kept_bytes_, free_bytes_);  // what was taken may not have been kept: a bound
    } else {
      const std::uint64_t end = (std::uint64_t{next_} + units) * unit_bytes;
      if (end > reserved_bytes_) throw std::bad_alloc();
      if (end > committed_bytes_) commit(end);
      first = next_;
      next_ += units;
      join_full_pages();
    }
    held_bytes_ += bytes;
    if (!huge_ && held_bytes_ > committed_bytes_ / 2) advise_huge(true);
    return first * unit_granules;
  }

  /// Takes an extent back; its bytes are gone when this returns.
  void give_back(std::uint32_t granule, std::uint32_t units) noexcept {
    const Run run{granule / unit_granules, units};
    const std::uint64_t bytes = std::uint64_t{units} * unit_bytes;
    const std::lock_guard lock(mutex_);
    held_bytes_ -= bytes;
    free_bytes_ += bytes;
    const Run joined = join_free(run);
    if (kept_bytes_ + bytes <= held_bytes_ / 64) {
      zero_words(at(granule), bytes / sizeof(std::uint64_t));
      kept_bytes_ += bytes;
    } else {
      erase_bytes(run, joined);
    }
    if (huge_ && held_bytes_ < committed_bytes_ / 4) {
      advise_huge(false);
      drop_free();  // with the huge pages that small extents brought to life
    } else if (kept_bytes_ > held_bytes_ / 32) {
      drop_free();
    }
  }

 private:
  static constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t large_store_bytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t largest_reservation = std::uint64_t{1} << 37;  // 2^32 granules
  /// How far past a granule's address a reader may look: 65,535 exact digests, as many as a handle can speak of.
  static constexpr std::uint64_t largest_overrun = std::uint64_t{1} << 19;
  static_assert(largest_overrun <= huge_page_bytes);  // which is mapped behind the reservation
  [[nodiscard]] std::uint64_t mapped_bytes() const noexcept { return reserved_bytes_ + 2 * huge_page_bytes; }

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
    if (huge_ && committed_bytes_ >= large_store_bytes) ::madvise(start, size, MADV_HUGEPAGE);
#endif
    committed_bytes_ = wanted;
  }

  /// Turns what is handed out into huge pages, one at a time: a request to cold users is bound by TLB misses before it
  /// is bound by the cache's. A small store's pages are joined only once they are full, since a huge one that is
  /// used in part would be a good share of such a store; a large store gets huge ones from the start (`commit`).
  void join_full_pages() noexcept {
#ifdef MADV_HUGEPAGE
    if (!huge_) return;
    const std::uint64_t full = std::min(std::uint64_t{next_} * unit_bytes, large_store_bytes);
    for (; joined_bytes_ + huge_page_bytes <= full; joined_bytes_ += huge_page_bytes) {
      constexpr int madv_collapse = 25;  // Linux 6.1; older headers do not name it
      auto* const page = at(static_cast<std::uint32_t>(joined_bytes_ / granule_bytes));
      if (::madvise(page, huge_page_bytes, madv_collapse) != 0) ::madvise(page, huge_page_bytes, MADV_HUGEPAGE);
    }
#endif
  }

  /// A store that shrank leaves little in each huge page, and a touch of an empty one would bring all of it back.
  void advise_huge([[maybe_unused]] bool wanted) noexcept {
    huge_ = wanted;
#ifdef MADV_HUGEPAGE
    ::madvise(base_, committed_bytes_, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  }

  /// Units one after the other.
  struct Run {
    std::uint32_t first;
    std::uint32_t units;
    [[nodiscard]] std::uint64_t begin() const noexcept { return std::uint64_t{first} * unit_bytes; }
    [[nodiscard]] std::uint64_t end() const noexcept { return begin() + std::uint64_t{units} * unit_bytes; }
  };

  /// Pages that hold nothing but free units go back to the system; what `run` has of other pages, which a neighbour
  /// uses, is zeroed. Zeroing a page that went back already would bring it to life again: hence `joined`, the free
  /// units around.
  void erase_bytes(Run run, Run joined) const noexcept {
    const auto zero = [&](std::uint64_t from, std::uint64_t to) {
      if (from < to) zero_words(base_ + from / sizeof(std::uint64_t), (to - from) / sizeof(std::uint64_t));
    };
#if defined(__linux__)  // elsewhere the advice does not promise zeros
    const std::uint64_t page = page_bytes();
    const auto floor = [&](std::uint64_t at) { return at / page * page; };
    const auto ceil = [&](std::uint64_t at) { return (at + page - 1) / page * page; };
    const std::uint64_t from = floor(run.begin()) >= joined.begin() ? floor(run.begin()) : ceil(run.begin());
    const std::uint64_t to = ceil(run.end()) <= joined.end() ? ceil(run.end()) : floor(run.end());
    if (from < to && ::madvise(base_ + from / sizeof(std::uint64_t), to - from, MADV_DONTNEED) == 0) {
      zero(run.begin(), std::min(from, run.end()));
      zero(std::max(to, run.begin()), run.end());
      return;
    }
#endif
    zero(run.begin(), run.end());
  }
  /// Gives back whatever free runs have kept or brought to life.
  void drop_free() noexcept {
    for (const Run& run : free_) erase_bytes(run, run);
    kept_bytes_ = 0;
  }

  /// The free run that `run` is a part of now. Where there is no memory to note it, its addresses are lost to this
  /// store; the memory is not.
  [[nodiscard]] Run join_free(Run run) noexcept {
    const auto after = std::lower_bound(free_.begin(), free_.end(), run.first,
                                        [](const Run& other, std::uint32_t first) { return other.first < first; });
    const bool joins_after = after != free_.end() && after->first == run.first + run.units;
    if (after != free_.begin()) {
      Run& before = *std::prev(after);
      if (before.first + before.units == run.first) {
        before.units += run.units;
        if (!joins_after) return before;
        before.units += after->units;
        const Run joined = before;
        free_.erase(after);
        return joined;
      }
    }
    if (joins_after) return *after = {run.first, run.units + after->units};
    try {
      free_.insert(after, run);
    } catch (const std::bad_alloc&) {}
    return run;
  }

  std::uint64_t max_bytes_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t granule_mask_ = 0;
  void* mapping_ = nullptr;
  std::uint64_t* base_ = nullptr;
  mutable std::mutex mutex_;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t joined_bytes_ = 0;
  std::uint32_t next_ = 0;  // first unit never handed out
  std::vector<Run> free_;   // returned extents, in order
  bool huge_ = true;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t free_bytes_ = 0;  // returned
  std::uint64_t kept_bytes_ = 0;  // and not given back to the system, at most
};

SEENBY_DETAIL_END
