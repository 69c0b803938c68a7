#pragma once
// SPDX-License-Identifier: MIT
// What the compiler and the machine offer the kernels.

#include "seenby/detail/isa.hpp"

// Defined when this build runs under ThreadSanitizer: its readers must be atomic, so only the scalar kernel serves.
#if defined(__SANITIZE_THREAD__)
#define SEENBY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEENBY_THREAD_SANITIZER 1
#endif
#endif

// Defined when vector kernels are compiled in. Define SEENBY_DISABLE_SIMD to leave them out.
#if !defined(SEENBY_DISABLE_SIMD) && !defined(SEENBY_THREAD_SANITIZER) && defined(__x86_64__) && defined(__GNUC__)
#define SEENBY_X86_KERNELS 1
#endif

SEENBY_DETAIL_BEGIN

#if defined(SEENBY_X86_KERNELS)
/// Whether the processor runs the AVX2 kernel and the operating system keeps its registers.
[[nodiscard]] inline bool cpu_has_avx2() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}
/// The same for the AVX-512 kernel: everything from Ice Lake and Zen 4 on.
[[nodiscard]] inline bool cpu_has_avx512() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vbmi2") != 0;
}
#endif

SEENBY_DETAIL_END
