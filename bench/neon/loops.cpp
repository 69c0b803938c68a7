// SPDX-License-Identifier: MIT
// The loops of a check on aarch64, ours and Boost.Bloom's, between the marks that llvm-mca looks for. See cycles.sh.

#include <boost/bloom.hpp>
#include <cstddef>
#include <cstdint>

#include "seenby/kernels/neon.hpp"

#define MCA_BEGIN(name) asm volatile("# LLVM-MCA-BEGIN " name ::: "memory")
#define MCA_END() asm volatile("# LLVM-MCA-END" ::: "memory")

namespace neon = seenby::detail::neon;
using seenby::detail::DigestLanes;

struct Prehashed {
  using is_avalanching = void;
  std::size_t operator()(std::uint64_t digest) const noexcept { return digest; }
};

using Boost = boost::bloom::filter<std::uint64_t, 1, boost::bloom::fast_multiblock32<8>, 0, Prehashed>;

void boost_multiblock(const Boost& filter, const std::uint64_t* digests, std::size_t count, std::uint8_t* seen) {
  for (std::size_t i = 0; i < count; ++i) {
    MCA_BEGIN("boost_multiblock 1");
    seen[i] = filter.may_contain(digests[i]) ? 1 : 0;
    MCA_END();
  }
}

void seenby_4_blocks(const uint8x16_t (&tables)[8][1], const DigestLanes& lanes, std::uint8_t* seen) {
  for (std::size_t i = 0; i < 64; i += 16) {
    MCA_BEGIN("seenby_4_blocks 16");
    vst1q_u8(seen + i, neon::hits(tables, lanes.block[2], lanes, i));
    MCA_END();
  }
}
void seenby_8_blocks(const uint8x16_t (&tables)[8][2], const DigestLanes& lanes, std::uint8_t* seen) {
  for (std::size_t i = 0; i < 64; i += 16) {
    MCA_BEGIN("seenby_8_blocks 16");
    vst1q_u8(seen + i, neon::hits(tables, lanes.block[6], lanes, i));
    MCA_END();
  }
}
void seenby_16_blocks(const uint8x16_t (&tables)[8][4], const DigestLanes& lanes, std::uint8_t* seen) {
  for (std::size_t i = 0; i < 64; i += 16) {
    MCA_BEGIN("seenby_16_blocks 16");
    vst1q_u8(seen + i, neon::hits(tables, lanes.block[14], lanes, i));
    MCA_END();
  }
}
void seenby_any_size(seenby::detail::SplitBlockRef filter, const seenby::Digest* digests, std::size_t count,
                     std::uint32_t* seen) {
  for (std::size_t i = 0; i < count; i += 4) {
    MCA_BEGIN("seenby_any_size 4");
    seen[i / 4] = neon::test_four(filter, digests + i);
    MCA_END();
  }
}
void seenby_transpose(seenby::detail::SplitBlockRef filter, uint8x16_t (&tables)[8]) {
  MCA_BEGIN("seenby_transpose_4_blocks 100");
  neon::transpose(filter, 0, tables);
  MCA_END();
}
