#pragma once
// SPDX-License-Identifier: MIT
// Batch operations on split-block filters, each behind a table of kernels chosen once at run time.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "seenby/kernels/fingerprint.hpp"
#include "seenby/kernels/portable.hpp"
#include "seenby/kernels/scalar.hpp"
#include "seenby/kernels/sse2.hpp"

// With SEENBY_COMPILED the kernels' code is in a library, and a unit compiles none of it.
#if defined(SEENBY_COMPILED)
namespace seenby::detail {
extern const Kernel* const library_kernels;
extern const std::size_t library_kernel_count;
}  // namespace seenby::detail
#if defined(__AVX2__)
#include "seenby/kernels/avx2.hpp"
#endif
#else
#include "seenby/kernels/every_kernel.hpp"
#endif

SEENBY_DETAIL_BEGIN

/// Kernels in a row. Not a std::span, whose members would have one symbol for units of all instruction sets.
class KernelList {
 public:
  constexpr KernelList(const Kernel* first, std::size_t count) noexcept : first_(first), count_(count) {}
  [[nodiscard]] constexpr const Kernel* begin() const noexcept { return first_; }
  [[nodiscard]] constexpr const Kernel* end() const noexcept { return first_ + count_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  [[nodiscard]] constexpr const Kernel& front() const noexcept { return *first_; }
  [[nodiscard]] constexpr const Kernel& operator[](std::size_t i) const noexcept { return first_[i]; }

 private:
  const Kernel* first_;
  std::size_t count_;
};

/// Every kernel in this build, the slowest first; the machine may lack the later ones.
[[nodiscard]] inline KernelList compiled_kernels() noexcept {
#if defined(SEENBY_COMPILED)
  return {library_kernels, library_kernel_count};
#else
  return {every_kernel, sizeof(every_kernel) / sizeof(Kernel)};
#endif
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
#if defined(SEENBY_SIMD)
  const std::size_t choice = chosen_kernel.load(std::memory_order_relaxed);
  return compiled_kernels()[choice != no_kernel ? choice : choose_kernel()];
#else
  return compiled_kernels().front();
#endif
}

/// seen[i] = 1 when the filter may contain digest i, else 0.
inline void check(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  kernel().check(filter, digests, count, seen, Answers::replace);
}
/// seen[i] += 1 when the filter may contain digest i.
inline void check_add(SplitBlockRef filter, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  kernel().check(filter, digests, count, seen, Answers::add);
}
/// seen[i] = how many of two filters may contain digest i, from one mask for both.
inline void check_pair(SplitBlockRef first, SplitBlockRef second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen) noexcept {
  kernel().check_pair(first, second, digests, count, seen, Answers::replace);
}
/// seen[i] = how many of the filters (at most 255) may contain digest i.
inline void check_all(const SplitBlockRef* filters, std::size_t filter_count, DigestsRef digests, std::size_t count,
                      std::uint8_t* seen) noexcept {
  if (filter_count == 0 && count > 0) std::memset(seen, 0, count);
  const Kernel& serving = kernel();
  Answers answers = Answers::replace;
  for (; filter_count >= 2; filters += 2, filter_count -= 2, answers = Answers::add) {
    serving.check_pair(filters[0], filters[1], digests, count, seen, answers);
  }
  if (filter_count != 0) serving.check(filters[0], digests, count, seen, answers);
}
/// As check, of a fingerprint table's live lanes.
inline void check(const FingerprintRef& table, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  kernel().check_table(table, digests, count, seen, Answers::replace);
}
/// seen[i] += 1 when a live lane of the table matches digest i.
inline void check_add(const FingerprintRef& table, DigestsRef digests, std::size_t count, std::uint8_t* seen) noexcept {
  kernel().check_table(table, digests, count, seen, Answers::add);
}
/// As check_pair, of two fingerprint tables.
inline void check_pair(const FingerprintRef& first, const FingerprintRef& second, DigestsRef digests, std::size_t count,
                       std::uint8_t* seen) noexcept {
  check(first, digests, count, seen);
  check_add(second, digests, count, seen);
}
/// Inserts a batch; returns how many digests set a bit that was clear when they were reached.
inline std::size_t insert(std::byte* blocks, std::uint32_t block_count, const Digest* digests,
                          std::size_t count) noexcept {
  return kernel().insert(blocks, block_count, digests, count);
}
/// seen[i] += 1 when digest i is one of a run of different digests.
inline void match_add(const std::uint64_t* run, std::size_t run_size, const Digest* digests, std::size_t count,
                      std::uint8_t* seen) noexcept {
  kernel().match_add(run, run_size, digests, count, seen);
}
/// The lanes of digests that are checked again and again, where the serving kernel uses them.
[[nodiscard]] inline std::vector<DigestLanes> precompute_lanes(std::span<const Digest> digests) {
  std::vector<DigestLanes> lanes;
  const Kernel& serving = kernel();
  if (serving.precompute != nullptr && digests.size() >= serving.least_for_lanes) {
    lanes.resize((digests.size() + DigestLanes::candidates - 1) / DigestLanes::candidates);
    serving.precompute(digests.data(), digests.size(), lanes.data());
  }
  return lanes;
}
/// Writes the 64-bit words first + i of every i with seen[i] <= most to `out`, in order, and returns how many. `out`
/// has room for `count` of them, at any alignment; what a caller puts into the high half of `first` stays.
inline std::size_t compress(const std::uint8_t* seen, std::size_t count, std::uint8_t most, std::uint64_t first,
                            void* out) noexcept {
  return kernel().compress(seen, count, most, first, out);
}

/// Whether one digest may be contained. Inlined where the translation unit is built for AVX2 (0.45 ns); elsewhere a
/// branch that always goes the same way and a direct call take 1.2 ns, a call through the table or SSE2 in line 1.4.
[[nodiscard]] inline bool test(SplitBlockRef filter, Digest digest) noexcept {
#if !defined(SEENBY_SIMD)
  return split_block_test(filter, digest);
#elif !defined(SEENBY_X86_KERNELS)
  return portable::test(filter, digest);
#elif defined(__AVX2__)
  return avx2::test(filter, digest);
#elif defined(SEENBY_COMPILED)
  return sse2::test(filter, digest);
#else
  std::size_t choice = chosen_kernel.load(std::memory_order_relaxed);
  if (choice == no_kernel) [[unlikely]] { choice = choose_kernel(); }
  return choice >= avx2_kernel ? avx2::test_called(filter, digest) : sse2::test_called(filter, digest);
#endif
}
/// Inserts one digest; true when one of its bits was clear.
inline bool insert(std::byte* blocks, std::uint32_t block_count, Digest digest) noexcept {
#if defined(SEENBY_X86_KERNELS)
  return sse2::insert(blocks, block_count, digest);
#elif defined(SEENBY_SIMD)
  return portable::insert(blocks, block_count, digest);
#else
  return split_block_insert(blocks, block_count, digest);
#endif
}

SEENBY_DETAIL_END
