#pragma once
// SPDX-License-Identifier: MIT
// All kernels of a build. Only what compiles their code includes this: every unit of a header-only program, and one of
// the compiled component.

#include "seenby/detail/cpu.hpp"
#include "seenby/kernels/avx2.hpp"
#include "seenby/kernels/avx512.hpp"
#include "seenby/kernels/fingerprint.hpp"
#include "seenby/kernels/fingerprint_avx2.hpp"
#include "seenby/kernels/fingerprint_avx512.hpp"
#include "seenby/kernels/fingerprint_sse2.hpp"
#include "seenby/kernels/neon.hpp"
#include "seenby/kernels/portable.hpp"
#include "seenby/kernels/scalar.hpp"
#include "seenby/kernels/sse2.hpp"
#include "seenby/kernels/ssse3.hpp"

SEENBY_DETAIL_BEGIN

[[nodiscard]] inline bool runs_everywhere() noexcept { return true; }

/// Every kernel in this build, the slowest first; the machine may lack the later ones.
inline constexpr Kernel every_kernel[] = {
    {"scalar", runs_everywhere, one_by_one::check<split_block_test>, one_by_one::check_pair<split_block_test>,
     scalar::check_fingerprints, one_by_one::insert<split_block_insert>, scalar::match_add, scalar::compress, nullptr,
     0},
#if defined(SEENBY_SIMD)
    {"portable", runs_everywhere, one_by_one::check<portable::test>, one_by_one::check_pair<portable::test>,
     scalar::check_fingerprints, one_by_one::insert<portable::insert>, scalar::match_add, scalar::compress, nullptr, 0},
#endif
#if defined(SEENBY_X86_KERNELS)
    {"sse2", runs_everywhere, one_by_one::check<sse2::test>, one_by_one::check_pair<sse2::test>,
     sse2::check_fingerprints, one_by_one::insert<sse2::insert>, scalar::match_add, scalar::compress, nullptr, 0},
    {"ssse3", cpu_has_ssse3, ssse3::check, ssse3::check_pair, sse2::check_fingerprints,
     one_by_one::insert<sse2::insert>, scalar::match_add, scalar::compress, ssse3::precompute, ssse3::least_for_lanes},
    {"avx2", cpu_has_avx2, avx2::check, avx2::check_pair, avx2::check_fingerprints, avx2::insert, avx2::match_add,
     avx2::compress, avx2::precompute, avx2::least_for_lanes},
    {"avx512", cpu_has_avx512, avx512::check, avx512::check_pair, avx512::check_fingerprints, avx2::insert,
     avx512::match_add, avx512::compress, avx512::precompute, avx512::least_for_lanes},
#endif
#if defined(SEENBY_NEON_KERNELS)
    {"neon", runs_everywhere, neon::check, neon::check_pair, scalar::check_fingerprints,
     one_by_one::insert<portable::insert>, scalar::match_add, scalar::compress, neon::precompute,
     neon::least_for_lanes},
#endif
};

/// The index of AVX2's kernel among them; those after it need AVX2 too.
inline constexpr std::size_t avx2_kernel = 4;

SEENBY_DETAIL_END
