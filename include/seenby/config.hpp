#pragma once
// SPDX-License-Identifier: MIT
// What a compiler must offer, and the inline namespace that keeps code compiled for different instruction sets apart.

#include <version>

// A header that is missing ends the compilation at once: the reason is the first line, not the first of thousands.
#if __cplusplus < 202002L
#error "seenby needs C++20: compile with -std=c++20 or later"
#include "seenby needs C++20"
#elif !defined(__cpp_exceptions)
#error "seenby needs exceptions: compile without -fno-exceptions"
#include "seenby needs exceptions"
#elif !defined(__cpp_lib_span) || !defined(__cpp_concepts)
#error "seenby needs the C++20 library of GCC 12 or later, or of LLVM 14 or later (libc++)"
#include "seenby needs a C++20 standard library"
#endif

// Defined when this build runs under ThreadSanitizer: its readers must be atomic, so only the scalar kernel serves.
#if defined(__SANITIZE_THREAD__)
#define SEENBY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEENBY_THREAD_SANITIZER 1
#endif
#endif

// Defined when vector kernels are compiled in: SEENBY_SIMD, and beside it what the processor family has. Define
// SEENBY_DISABLE_SIMD to leave them out.
#if !defined(SEENBY_DISABLE_SIMD) && !defined(SEENBY_THREAD_SANITIZER) && defined(__GNUC__)
#define SEENBY_SIMD 1
#if defined(__x86_64__)
#define SEENBY_X86_KERNELS 1
#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SEENBY_NEON_KERNELS 1
#endif
#endif

/// Two translation units, one built with -mavx2 and one without, each instantiate the inline functions of `detail`.
/// Without a tag the linker keeps one copy for both, and a machine without AVX2 would crash in the "plain" unit; units
/// with and without kernels would share one table of them. The tag covers `detail`, where the vector code is. The
/// inline functions of public classes are not tagged, as in any header-only library: what the compiler makes of their
/// plain loops under -mavx2 may serve the plain unit too. A program for older machines builds all its units for them;
/// the kernels are chosen at run time.
#if defined(SEENBY_THREAD_SANITIZER)
#define SEENBY_ISA_KERNELS isa_tsan_
#elif defined(SEENBY_SIMD)
#define SEENBY_ISA_KERNELS isa_
#else
#define SEENBY_ISA_KERNELS isa_scalar_
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define SEENBY_ISA_LEVEL avx512
#elif defined(__AVX2__)
#define SEENBY_ISA_LEVEL avx2
#elif defined(__AVX__)
#define SEENBY_ISA_LEVEL avx
#elif defined(__SSE4_2__)
#define SEENBY_ISA_LEVEL sse42
#else
#define SEENBY_ISA_LEVEL baseline
// Defined when a memory store's core is taken from seenby::core, which is built for the baseline; a unit built for more
// compiles its own.
#if defined(SEENBY_COMPILED)
#define SEENBY_COMPILED_STORE 1
#endif
#endif
#define SEENBY_ISA_JOIN_EXPANDED(kernels, level) kernels##level
#define SEENBY_ISA_JOIN(kernels, level) SEENBY_ISA_JOIN_EXPANDED(kernels, level)
#define SEENBY_ISA_NAMESPACE SEENBY_ISA_JOIN(SEENBY_ISA_KERNELS, SEENBY_ISA_LEVEL)

#define SEENBY_DETAIL_BEGIN  \
  namespace seenby::detail { \
  inline namespace SEENBY_ISA_NAMESPACE {
#define SEENBY_DETAIL_END \
  }                       \
  }
