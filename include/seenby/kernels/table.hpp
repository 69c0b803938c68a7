#pragma once
// SPDX-License-Identifier: MIT
// Batch operations on split-block filters, each behind a table of kernels chosen once at run time.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "seenby/kernels/avx2.hpp"
#include "seenby/kernels/avx512.hpp"
#include "seenby/kernels/scalar.hpp"
#include "seenby/kernels/sse2.hpp"

SEENBY_DETAIL_BEGIN

/// One kernel: the same answers, bit for bit, whichever serves. `seen` may not overlap the digests. Any count, 0 too.
struct Kernel {
  using Check = void (*)(SplitBlockRef, DigestsRef, std::size_t, std::uint8_t*) noexcept;
  using CheckPair = void (*)(SplitBlockRef, SplitBlockRef, DigestsRef, std::size_t, std::uint8_t*) noexcept;
  using Insert = std::size_t (*)(std::byte*, std::uint32_t, const Digest*, std::size_t) noexcept;
  using Match = void (*)(const std::uint64_t*, std::size_t, const Digest*, std::size_t, std::uint8_t*) noexcept;
  using WorkOut = void (*)(const Digest*, std::size_t, BitPlanes*) noexcept;
  using Compact = std::size_t (*)(const std::uint8_t*, std::size_t, std::uint8_t, std::uint64_t, void*) noexcept;

  std::string_view name;
  bool (*runs_here)() noexcept;
  Check check;
  Check check_add;
  CheckPair check_pair;
  CheckPair check_pair_add;
  Insert insert;
  Match match_add;
  Compact compact_at_most;
  WorkOut work_out;                  ///< null where the kernel has no use for planes
  std::size_t least_for_planes = 0;  ///< the smallest batch it uses them in
};

/// Where AVX2's kernel stands among the compiled ones; those behind it need what it needs.
inline constexpr std::size_t avx2_kernel = 2;

/// Every kernel in this build, the slowest first; the machine may lack the later ones.
[[nodiscard]] inline std::span<const Kernel> compiled_kernels() noexcept {
  static constexpr Kernel kernels[] = {
    {"scalar", []() noexcept { return true; }, one_by_one::check<split_block_test, false>,
     one_by_one::check<split_block_test, true>, one_by_one::check_pair<split_block_test, false>,
     one_by_one::check_pair<split_block_test, true>, one_by_one::insert<split_block_insert>, scalar::match_add,
     scalar::compact_at_most, nullptr},
#if defined(SEENBY_X86_KERNELS)
    {"sse2", []() noexcept { return true; }, one_by_one::check<sse2::test, false>, one_by_one::check<sse2::test, true>,
     one_by_one::check_pair<sse2::test, false>, one_by_one::check_pair<sse2::test, true>,
     one_by_one::insert<sse2::insert>, scalar::match_add, scalar::compact_at_most, nullptr},
    {"avx2", cpu_has_avx2, avx2::check<false>, avx2::check<true>, avx2::check_pair<false>, avx2::check_pair<true>,
     avx2::insert, avx2::match_add, avx2::compact_at_most, nullptr},
    {"avx512", cpu_has_avx512, avx512::check<false>, avx512::check<true>, avx512::check_pair<false>,
     avx512::check_pair<true>, avx2::insert, avx512::match_add, avx512::compact_at_most, avx512::work_out,
     avx512::small_least_count},
#endif
  };
  return kernels;
}

SEENBY_DETAIL_END

namespace seenby::detail {

/// Which kernel serves, as an index into compiled_kernels(); no_kernel until the first call chooses. One for the whole
/// program, whatever instruction set its translation units are built for: the order of the kernels is the same in all.
inline constexpr std::size_t no_kernel = static_cast<std::size_t>(-1);
inline constinit std::atomic<std::size_t> chosen_kernel{no_kernel};

}  // namespace seenby::detail

SEENBY_DETAIL_BEGIN

/// The index of a kernel that is compiled in and runs on this machine; no_kernel when the name is another.
[[nodiscard]] inline std::size_t find_kernel(std::string_view name) noexcept {
  const auto kernels = compiled_kernels();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].name == name && kernels[i].runs_here()) return i;
  }
  return no_kernel;
}

[[gnu::cold, gnu::noinline]] inline std::size_t choose_kernel() noexcept {
  const char* wanted = std::getenv("SEENBY_KERNEL");
  std::size_t choice = wanted == nullptr ? no_kernel : find_kernel(wanted);
  if (choice == no_kernel) {
    const auto kernels = compiled_kernels();
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (kernels[i].runs_here()) choice = i;
    }
  }
  chosen_kernel.store(choice, std::memory_order_relaxed);
  return choice;
}

/// The kernel that serves: one load and an indexed address on every call but the first.
[[nodiscard]] inline const Kernel& kernel() noexcept {
#if defined(SEENBY_X86_KERNELS)
  const std::size_t choice = chosen_kernel.load(std::memory_order_relaxed);
  return compiled_kernels()[choice != no_kernel ? choice : choose_kernel()];
#else
  return compiled_kernels().front();
#endif
}

/// seen[i] = 1 when the filter may contain digest i, else 0.
inline void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  kernel().check(filter, digests, count, seen);
}
/// seen[i] += 1 when the filter may contain digest i.
inline void check_add(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  kernel().check_add(filter, digests, count, seen);
}
/// seen[i] = how many of two filters may contain digest i, from one mask for both.
inline void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen) noexcept {
  kernel().check_pair(first, second, digests, count, seen);
}
/// seen[i] += how many of two filters may contain digest i.
inline void check_pair_add(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                           std::uint8_t* seen) noexcept {
  kernel().check_pair_add(first, second, digests, count, seen);
}
/// seen[i] = how many of the filters (at most 255) may contain digest i.
inline void check_all(std::span<const SplitBlockRef> filters, DigestsRef digests, std::size_t count,
                      std::uint8_t* seen) noexcept {
  const Kernel& serving = kernel();
  std::size_t i = filters.size() % 2;
  if (i == 1) {
    serving.check(filters[0], digests, count, seen);
  } else if (!filters.empty()) {
    serving.check_pair(filters[0], filters[1], digests, count, seen);
    i = 2;
  } else if (count > 0) {
    std::memset(seen, 0, count);
  }
  for (; i < filters.size(); i += 2) serving.check_pair_add(filters[i], filters[i + 1], digests, count, seen);
}
/// Inserts a batch; returns how many digests set a bit that was clear when their turn came.
inline std::size_t insert(std::byte* blocks, std::uint32_t block_count, const Digest* digests,
                          std::size_t count) noexcept {
  return kernel().insert(blocks, block_count, digests, count);
}
/// seen[i] += 1 when digest i is one of a run of different digests.
inline void match_add(const std::uint64_t* run, std::size_t run_size, const Digest* digests, std::size_t count,
                      std::uint8_t* seen) noexcept {
  kernel().match_add(run, run_size, digests, count, seen);
}
/// What the serving kernel wants to have been worked out of digests that are checked again and again, if anything.
[[nodiscard]] inline std::vector<BitPlanes> bit_planes(std::span<const Digest> digests) {
  std::vector<BitPlanes> planes;
  const Kernel& serving = kernel();
  if (serving.work_out != nullptr && digests.size() >= serving.least_for_planes) {
    planes.resize((digests.size() + BitPlanes::candidates - 1) / BitPlanes::candidates);
    serving.work_out(digests.data(), digests.size(), planes.data());
  }
  return planes;
}
/// Writes the 64-bit words first + i of every i with seen[i] <= most to `out`, in order, and returns how many. `out`
/// has room for `count` of them, at any alignment; what a caller puts into the high half of `first` stays.
inline std::size_t compact_at_most(const std::uint8_t* seen, std::size_t count, std::uint8_t most, std::uint64_t first,
                                   void* out) noexcept {
  return kernel().compact_at_most(seen, count, most, first, out);
}

/// Whether one digest may be contained. Inlined where the translation unit is built for AVX2 (0.45 ns); elsewhere a
/// branch that always goes the same way and a direct call take 1.2 ns, a call through the table or SSE2 in line 1.4.
[[nodiscard]] inline bool test(SplitBlockRef filter, Digest digest) noexcept {
#if !defined(SEENBY_X86_KERNELS)
  return split_block_test(filter, digest);
#elif defined(__AVX2__)
  return avx2::test(filter, digest);
#else
  std::size_t choice = chosen_kernel.load(std::memory_order_relaxed);
  if (choice == no_kernel) [[unlikely]] { choice = choose_kernel(); }
  return choice >= avx2_kernel ? avx2::test_called(filter, digest) : sse2::test(filter, digest);
#endif
}
/// Inserts one digest; true when one of its bits was clear.
inline bool insert(std::byte* blocks, std::uint32_t block_count, Digest digest) noexcept {
#if defined(SEENBY_X86_KERNELS)
  return sse2::insert(blocks, block_count, digest);
#else
  return split_block_insert(blocks, block_count, digest);
#endif
}

/// Asks for a filter's first lines before the first check needs them. Larger filters are left to the kernel: past a
/// few lines the checks overlap their own misses.
inline void prefetch(SplitBlockRef filter) noexcept {
  constexpr std::size_t line = 64;
  constexpr std::size_t most = 16 * line;
  const std::size_t size = filter.block_count * split_block_bytes;
  for (std::size_t at = 0; at < size && at < most; at += line) __builtin_prefetch(filter.blocks + at);
}

SEENBY_DETAIL_END
