#pragma once
// SPDX-License-Identifier: MIT
// The inline namespace that keeps code compiled for different instruction sets apart at link time.

/// Two translation units, one built with -mavx2 and one without, each instantiate the inline functions of `detail`.
/// Without a tag the linker keeps one copy for both, and a machine without AVX2 would crash in the "plain" unit.
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define SEENBY_ISA_NAMESPACE isa_avx512
#elif defined(__AVX2__)
#define SEENBY_ISA_NAMESPACE isa_avx2
#elif defined(__AVX__)
#define SEENBY_ISA_NAMESPACE isa_avx
#elif defined(__SSE4_2__)
#define SEENBY_ISA_NAMESPACE isa_sse42
#else
#define SEENBY_ISA_NAMESPACE isa_baseline
#endif

#define SEENBY_DETAIL_BEGIN  \
  namespace seenby::detail { \
  inline namespace SEENBY_ISA_NAMESPACE {
#define SEENBY_DETAIL_END \
  }                       \
  }
