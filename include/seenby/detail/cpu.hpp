#pragma once
// SPDX-License-Identifier: MIT
// What the machine offers the kernels.

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

#if defined(SEENBY_X86_KERNELS)
/// Whether the processor runs the SSSE3 kernel: every one from 2011 on.
[[nodiscard]] inline bool cpu_has_ssse3() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("ssse3") != 0;
}
/// Whether the processor runs the AVX2 kernel, which uses BMI2 too, and the operating system keeps its registers.
[[nodiscard]] inline bool cpu_has_avx2() noexcept {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
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
