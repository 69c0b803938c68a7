// SPDX-License-Identifier: MIT
// Every kernel on its own: a hundred candidates against two filters of so many blocks, with lanes as a pool has them
// and without, and the lanes themselves. Items per second are checks, or candidates whose lanes are precomputed.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/kernels/table.hpp"

namespace {

using seenby::Digest;
using seenby::detail::DigestLanes;
using seenby::detail::Kernel;

constexpr std::size_t candidates = 100;

struct Inputs {
  std::vector<Digest> digests;
  std::vector<DigestLanes> lanes;
  std::vector<std::byte> blocks;

  Inputs(const Kernel& kernel, std::size_t block_count) : lanes(2), blocks(32 * block_count) {
    for (std::uint64_t i = 0; i < candidates; ++i) digests.emplace_back(seenby::Xxh3Hash{}(i));
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(seenby::detail::mix64(i));
    if (kernel.precompute != nullptr) kernel.precompute(digests.data(), candidates, lanes.data());
  }
};

void check_pair(benchmark::State& state, const Kernel& kernel, bool with_lanes) {
  const auto blocks = static_cast<std::uint32_t>(state.range(0));
  const Inputs in(kernel, 2 * blocks);
  const std::byte* const second = in.blocks.data() + std::size_t{32} * blocks;
  std::vector<std::uint8_t> seen(candidates);
  for ([[maybe_unused]] auto _ : state) {
    kernel.check_pair({in.blocks.data(), blocks}, {second, blocks},
                      {in.digests.data(), with_lanes ? in.lanes.data() : nullptr}, candidates, seen.data(),
                      seenby::detail::Answers::replace);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(2 * candidates));
}

void precompute(benchmark::State& state, const Kernel& kernel) {
  Inputs in(kernel, 1);
  for ([[maybe_unused]] auto _ : state) {
    kernel.precompute(in.digests.data(), candidates, in.lanes.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(candidates));
}

[[maybe_unused]] const bool registered = [] {
  for (const Kernel& kernel : seenby::detail::compiled_kernels()) {
    if (!kernel.runs_here()) continue;
    const std::string name = "kernel/" + std::string(kernel.name);
    const auto pairs = [&](const std::string& kind, bool with_lanes) {
      benchmark::RegisterBenchmark(
          (name + kind).c_str(),
          [&kernel, with_lanes](benchmark::State& state) { check_pair(state, kernel, with_lanes); })
          ->Arg(2)
          ->Arg(8)
          ->Arg(16)
          ->Arg(100);
    };
    pairs("/pair", false);
    if (kernel.precompute == nullptr) continue;
    pairs("/pair_lanes", true);
    benchmark::RegisterBenchmark((name + "/precompute").c_str(), [&](benchmark::State& s) { precompute(s, kernel); });
  }
  return true;
}();

}  // namespace
