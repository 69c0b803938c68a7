#pragma once
// SPDX-License-Identifier: MIT
// What the parts of the AVX-512 kernel share.

#include "seenby/kernels/scalar.hpp"

#if defined(SEENBY_X86_KERNELS)
#include <immintrin.h>

#define SEENBY_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2")]]
#define SEENBY_AVX512_INLINE \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2"), gnu::always_inline]] inline

// GCC 12 takes the deliberately undefined registers of its own intrinsics for uninitialized variables, and without
// optimisation its gathers convert a mask's sign.
#if defined(__clang__)
#define SEENBY_AVX512_BEGIN \
  SEENBY_DETAIL_BEGIN       \
  namespace avx512 {
#define SEENBY_AVX512_END \
  }                       \
  SEENBY_DETAIL_END
#else
#define SEENBY_AVX512_BEGIN                                                            \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wuninitialized\"") \
      _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")                      \
          _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"") SEENBY_DETAIL_BEGIN namespace avx512 {
#define SEENBY_AVX512_END \
  }                       \
  SEENBY_DETAIL_END       \
  _Pragma("GCC diagnostic pop")
#endif

SEENBY_AVX512_BEGIN

SEENBY_AVX512_INLINE __m256i load_half(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

SEENBY_AVX512_INLINE __m512i join(__m256i low, __m256i high) noexcept {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

SEENBY_AVX512_END

#endif
