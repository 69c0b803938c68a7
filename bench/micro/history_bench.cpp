// SPDX-License-Identifier: MIT
// What remembering over time costs: a check in a window by its slices, in a chain by its length, and in a counting
// filter, each of 100 or more items. Items per second are checks; bits_item is memory.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "seenby/filters/counting_bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/filters/rotating_filter.hpp"
#include "seenby/filters/scalable_filter.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Digest;

constexpr std::size_t batch = 512;

/// Digests that no structure here holds: the common case of a feed, and the one that must ask everything.
std::vector<Digest> fresh_digests() {
  std::vector<Digest> digests;
  const seenby::Xxh3Hash hash;
  for (std::uint64_t i = 0; i < batch; ++i) digests.push_back(hash(i + (std::uint64_t{1} << 40)));
  return digests;
}

template <class Filter>
void check_batches(benchmark::State& state, const Filter& filter, double items) {
  const auto digests = fresh_digests();
  std::vector<std::uint8_t> seen(batch);
  for ([[maybe_unused]] auto _ : state) {
    filter.may_contain(digests, seen);
    benchmark::DoNotOptimize(seen.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch));
  state.counters["bits_item"] = static_cast<double>(filter.capacity_bits()) / items;
}

/// Arguments: slices, items a window.
template <class Layout>
void window_check(benchmark::State& state) {
  seenby::Time now{1'700'000'000s};
  const auto slices = static_cast<std::uint32_t>(state.range(0));
  const auto items = static_cast<std::uint64_t>(state.range(1));
  seenby::RotatingFilter<std::uint64_t, Layout> filter({.window = std::chrono::seconds{3'600 * slices},
                                                        .slices = slices,
                                                        .expected_items = items,
                                                        .clock = seenby::Clock::simulated([&] { return now; })});
  // Two windows, so that the slices have found their size.
  for (std::uint64_t i = 0; i < 2 * items; ++i) {
    filter.insert(i);
    if ((i + 1) % (items / slices + 1) == 0) now += filter.slice_length();
  }
  check_batches(state, filter, static_cast<double>(filter.size()));
}
BENCHMARK_TEMPLATE(window_check, seenby::ClassicLayout)->ArgsProduct({{1, 6, 30}, {100, 2'000, 100'000}});
BENCHMARK_TEMPLATE(window_check, seenby::SplitBlockLayout)->ArgsProduct({{1, 6, 30}, {100, 2'000, 100'000}});

/// Arguments: how many times its first capacity a chain holds, items.
template <class Layout>
void chain_check(benchmark::State& state) {
  const auto items = static_cast<std::uint64_t>(state.range(1));
  const auto first = std::max<std::uint64_t>(1, items / static_cast<std::uint64_t>(state.range(0)));
  seenby::ScalableFilter<std::uint64_t, Layout> filter({.initial_items = first});
  for (std::uint64_t i = 0; i < items; ++i) filter.insert(i);
  check_batches(state, filter, static_cast<double>(items));
  state.counters["filters"] = static_cast<double>(filter.stages());
}
BENCHMARK_TEMPLATE(chain_check, seenby::ClassicLayout)->ArgsProduct({{1, 10, 1'000}, {100, 100'000}});
BENCHMARK_TEMPLATE(chain_check, seenby::SplitBlockLayout)->ArgsProduct({{1, 10, 1'000}, {100, 100'000}});

/// Argument: items.
void counting_insert_erase(benchmark::State& state) {
  const auto items = static_cast<std::uint64_t>(state.range(0));
  seenby::CountingBloomFilter<std::uint64_t> filter({.expected_items = items});
  for (std::uint64_t i = 0; i < items; ++i) filter.insert(i);
  std::uint64_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(filter.erase(next % items));
    filter.insert(next % items);
    ++next;
  }
  state.SetItemsProcessed(2 * state.iterations());
  state.counters["bits_item"] = static_cast<double>(filter.memory_bytes()) * 8 / static_cast<double>(items);
}
BENCHMARK(counting_insert_erase)->Arg(100)->Arg(100'000);

}  // namespace
