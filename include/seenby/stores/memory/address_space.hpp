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
#include <iterator>
#include <mutex>
#include <new>
#include <vector>

#include "seenby/detail/shared_words.hpp"

SEENBY_DETAIL_BEGIN

/// The unit of the arena: one split block, 32 bytes, four words.
inline constexpr std::uint32_t granule_words = 4;
inline constexpr std::uint32_t granule_bytes = 32;

/// Hands out extents, runs of 1 KiB units: the lowest among those returned that fits, so that a store that shrinks
/// moves together; neighbours are joined.
///
/// Granules are numbered from 0 and lie in segments: the first has 64 KiB, each further one as much as all before it.
/// A segment is reserved when it is first needed and stays until the store goes, so that a store of a few users holds
/// few addresses, and one that was large and shrank does not reserve again.
///
/// Lock-free readers may follow a stale reference, whatever number it has become: `at` masks it to the reserved
/// granules, and some way beyond each segment may be read (largest_overrun). A returned extent's pages go back to the
/// system by madvise(MADV_DONTNEED) and read as zeros, as do those never handed out. A 64th of what is in use may be
/// kept for the next extent instead, zeroed: giving back a part of a huge page would break it up. Thread-safe.
class AddressSpace {
 public:
  static constexpr std::uint32_t unit_bytes = 1024;
  static constexpr std::uint32_t unit_granules = unit_bytes / granule_bytes;
  /// How far past a granule's address a reader may look: 4,095 granules, as many as a handle can speak of.
  static constexpr std::uint64_t largest_overrun = std::uint64_t{1} << 17;

  /// `max_bytes` may be handed out; 0: as many as the machine gives, up to 128 GiB. Throws std::bad_alloc.
  explicit AddressSpace(std::uint64_t max_bytes) : max_bytes_(max_bytes) {
    reserve_segment();
    next_ = 1;  // granule 0 means "nowhere"
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() {
    for (std::uint32_t i = 0; i < segment_count_; ++i) ::munmap(mappings_[i], mapped_bytes(i));
  }

  /// Any number has an address that can be read; a granule of an extent has its own.
  [[nodiscard, gnu::always_inline]] std::uint64_t* at(std::uint32_t granule) const noexcept {
    const std::uint32_t masked = granule & mask_.load(std::memory_order_relaxed);
    const auto segment = 31U ^ static_cast<unsigned>(std::countl_zero((masked >> (first_segment_bits - 1)) | 1U));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an origin is no address of an object, only a granule's is
    return reinterpret_cast<std::uint64_t*>(origins_[segment].load(std::memory_order_relaxed) +
                                            std::uintptr_t{masked} * granule_bytes);
  }
  /// Whether the units before this one are elsewhere: no block lies on both sides.
  [[nodiscard]] static constexpr bool begins_segment(std::uint32_t unit) noexcept {
    return unit >= segment_begin(1) / unit_bytes && std::has_single_bit(unit);
  }

  /// Lets so many bytes more (or fewer) be handed out, where there is a limit at all: restoring a snapshot needs room
  /// for the users before and after.
  void change_limit(std::int64_t by) {
    const std::lock_guard lock(mutex_);
    if (max_bytes_ != 0) max_bytes_ += static_cast<std::uint64_t>(by);
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
      first = take_new(units);
      join_full_pages();
    }
    held_bytes_ += bytes;
    if (!huge_ && held_bytes_ > touched_bytes() / 2) advise_huge(true);
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
    if (huge_ && held_bytes_ < touched_bytes() / 4) {
      advise_huge(false);
      drop_free();  // with the huge pages that small extents brought to life
    } else if (kept_bytes_ > held_bytes_ / 32) {
      drop_free();
    }
  }

 private:
  static constexpr std::uint32_t first_segment_bits = 11;  // 2^11 granules
  static constexpr std::uint32_t most_segments = 32 - first_segment_bits + 1;
  static constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t large_store_bytes = std::uint64_t{64} << 20;

  [[nodiscard]] static std::uint64_t page_bytes() noexcept {
    static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
  }
  /// Segment i covers [segment_begin(i), segment_begin(i + 1)) of the bytes that granules number.
  [[nodiscard]] static constexpr std::uint64_t segment_begin(std::uint32_t i) noexcept {
    return i == 0 ? 0 : std::uint64_t{granule_bytes} << (first_segment_bits + i - 1);
  }
  [[nodiscard]] static constexpr std::uint64_t segment_bytes(std::uint32_t i) noexcept {
    return segment_begin(i + 1) - segment_begin(i);
  }
  /// What is reserved for it: room to align large ones, and to read beyond.
  [[nodiscard]] static constexpr std::uint64_t mapped_bytes(std::uint32_t i) noexcept {
    return segment_bytes(i) + largest_overrun + (segment_bytes(i) >= huge_page_bytes ? huge_page_bytes : 0);
  }
  [[nodiscard]] std::uint64_t* address(std::uint64_t offset) const noexcept {
    return at(static_cast<std::uint32_t>(offset / granule_bytes));
  }
  /// The bytes from the first to the last that was ever handed out.
  [[nodiscard]] std::uint64_t touched_bytes() const noexcept { return std::uint64_t{next_} * unit_bytes; }

  void reserve_segment() {
    if (segment_count_ == most_segments) throw std::bad_alloc();
    const std::uint32_t i = segment_count_;
    void* const mapping =
        ::mmap(nullptr, mapped_bytes(i), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    auto start = reinterpret_cast<std::uintptr_t>(mapping);
    if (segment_bytes(i) >= huge_page_bytes) start = (start + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
#ifdef MADV_HUGEPAGE
    if (huge_ && segment_begin(i) >= large_store_bytes) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): as above
      ::madvise(reinterpret_cast<void*>(start), segment_bytes(i), MADV_HUGEPAGE);
    }
#endif
    mappings_[i] = mapping;
    ++segment_count_;
    origins_[i].store(start - segment_begin(i), std::memory_order_relaxed);
    // Whoever meets a granule of this segment got its number after this.
    mask_.store(static_cast<std::uint32_t>(segment_begin(segment_count_) / granule_bytes - 1),
                std::memory_order_release);
  }

  /// Units never handed out; an extent lies in one segment, what is left of the one before is free.
  [[nodiscard]] std::uint32_t take_new(std::uint32_t units) {
    for (;;) {
      const auto end = static_cast<std::uint32_t>(segment_begin(segment_count_) / unit_bytes);
      if (next_ + std::uint64_t{units} <= end) break;
      if (next_ < end) {
        free_.push_back({next_, end - next_});  // the last ones by number
        free_bytes_ += std::uint64_t{end - next_} * unit_bytes;
        next_ = end;
      }
      reserve_segment();
    }
    const std::uint32_t first = next_;
    next_ += units;
    return first;
  }

  /// Turns what is handed out into huge pages, one at a time: a request to cold users is bound by TLB misses before it
  /// is bound by the cache's. A small store's pages are joined only once they are full, since a huge one that is
  /// used in part would be a good share of such a store; a large store gets huge ones from the start (`commit`).
  void join_full_pages() noexcept {
#ifdef MADV_HUGEPAGE
    if (!huge_) return;
    const std::uint64_t full = std::min(touched_bytes(), large_store_bytes);
    for (; joined_bytes_ + huge_page_bytes <= full; joined_bytes_ += huge_page_bytes) {
      constexpr int madv_collapse = 25;  // Linux 6.1; older headers do not name it
      auto* const page = address(joined_bytes_);
      if (::madvise(page, huge_page_bytes, madv_collapse) != 0) ::madvise(page, huge_page_bytes, MADV_HUGEPAGE);
    }
#endif
  }

  /// A store that shrank leaves little in each huge page, and a touch of an empty one would bring all of it back.
  void advise_huge([[maybe_unused]] bool wanted) noexcept {
    huge_ = wanted;
#ifdef MADV_HUGEPAGE
    for (std::uint32_t i = 0; i < segment_count_; ++i) {
      if (segment_bytes(i) < huge_page_bytes) continue;
      ::madvise(address(segment_begin(i)), segment_bytes(i), wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
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
      if (from < to) zero_words(address(from), (to - from) / sizeof(std::uint64_t));
    };
#if defined(__linux__)  // elsewhere the advice does not promise zeros
    const std::uint64_t page = page_bytes();
    const auto floor = [&](std::uint64_t at) { return at / page * page; };
    const auto ceil = [&](std::uint64_t at) { return (at + page - 1) / page * page; };
    const std::uint64_t from = floor(run.begin()) >= joined.begin() ? floor(run.begin()) : ceil(run.begin());
    const std::uint64_t to = ceil(run.end()) <= joined.end() ? ceil(run.end()) : floor(run.end());
    if (from < to && ::madvise(address(from), to - from, MADV_DONTNEED) == 0) {
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
    const auto joins = [](const Run& before, const Run& behind) {
      return before.first + before.units == behind.first && !begins_segment(behind.first);
    };
    const bool joins_after = after != free_.end() && joins(run, *after);
    if (after != free_.begin()) {
      Run& before = *std::prev(after);
      if (joins(before, run)) {
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

  std::array<std::atomic<std::uintptr_t>, most_segments> origins_{};  // where granule 0 would be, segment by segment
  std::atomic<std::uint32_t> mask_{0};
  std::uint32_t segment_count_ = 0;
  std::array<void*, most_segments> mappings_{};
  mutable std::mutex mutex_;
  std::uint64_t max_bytes_;
  std::uint64_t joined_bytes_ = huge_page_bytes;  // segments before the first huge page are smaller than one
  std::uint32_t next_ = 0;                        // first unit never handed out
  std::vector<Run> free_;                         // returned extents, in order
  bool huge_ = true;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t free_bytes_ = 0;  // returned
  std::uint64_t kept_bytes_ = 0;  // and not given back to the system, at most
};

/// Lets so many bytes more be handed out for a while.
class LimitRaised {
 public:
  LimitRaised(AddressSpace& space, std::uint64_t bytes) : space_(space), bytes_(static_cast<std::int64_t>(bytes)) {
    space_.change_limit(bytes_);
  }
  LimitRaised(const LimitRaised&) = delete;
  LimitRaised& operator=(const LimitRaised&) = delete;
  ~LimitRaised() { space_.change_limit(-bytes_); }

 private:
  AddressSpace& space_;
  std::int64_t bytes_;
};

SEENBY_DETAIL_END
