// SPDX-License-Identifier: MIT
// One fingerprint table, filled item by item, with and without slices, beside the split-block filter of as many items
// at the same share: batch misses, warm (one table over and over) and cold (another of many each time), and inserts. A
// sliced table is asked when its oldest slices have left the window. Run with --benchmark_filter='batch_miss'.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/fingerprint_table.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace {

using seenby::Digest;
using seenby::FingerprintItem;
using seenby::FingerprintShape;
using seenby::FingerprintTable;
using seenby::FingerprintView;
using seenby::FingerprintWindow;

constexpr double share = 0.005;  // a pair at 1%
constexpr std::size_t batch_size = 100;
constexpr std::size_t cold_bytes = std::size_t{1} << 28;
constexpr std::size_t asked = 1 << 16;
constexpr std::uint8_t newest = 30;
constexpr FingerprintWindow window{newest, 25};

std::vector<Digest> random_digests(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<Digest> digests(count);
  for (Digest& digest : digests) digest = Digest{random()};
  return digests;
}

/// A table that was filled one by one, slice after slice.
struct Grown {
  FingerprintShape shape;
  std::uint32_t count = 0;
  std::vector<std::byte> body;

  Grown(std::span<const Digest> digests, bool sliced) {
    shape.sliced = sliced;
    for (std::size_t i = 0; i < digests.size(); ++i) {
      insert({digests[i], static_cast<std::uint8_t>((newest + 1) * i / digests.size())});
    }
  }
  void insert(FingerprintItem item) {
    FingerprintTable table(shape, count, body.data());
    const auto done = table.insert(item, {newest, newest});
    count = table.count();
    if (done != FingerprintTable::Inserted::full) return;
    const FingerprintView old(shape, count, body.data());
    FingerprintShape next = grown_shape(&old, 1, share, shape.sliced);
    next.capacity += next.capacity / 32;
    std::vector<std::byte> bytes(static_cast<std::size_t>(next.bytes()));
    FingerprintTable grown(next, 0, bytes.data());
    if (!grown.rebuild(&old, std::span(&item, 1), {newest, newest})) std::abort();
    shape = next;
    count = grown.count();
    body = std::move(bytes);
  }
};

void report(benchmark::State& state, std::int64_t operations, double bytes) {
  state.SetItemsProcessed(operations);
  state.counters["bits_per_item"] = bytes * 8 / static_cast<double>(state.range(0));
}

/// Asks one of `copies` equal bodies after the other, in random order: `ask(body, digests, answers)`.
template <class Ask>
void batch_miss(benchmark::State& state, std::span<const std::byte> body, bool cold, Ask&& ask) {
  const std::size_t stride = (body.size() + 63) / 64 * 64;
  const std::size_t copies = cold ? std::max<std::size_t>(2, cold_bytes / stride) : 1;
  std::vector<std::byte> bytes(copies * stride + 64);
  std::vector<const std::byte*> bodies;
  for (std::size_t i = 0; i < copies; ++i) {
    std::copy(body.begin(), body.end(), bytes.begin() + static_cast<std::ptrdiff_t>(i * stride));
    bodies.push_back(bytes.data() + i * stride);
  }
  std::shuffle(bodies.begin(), bodies.end(), std::mt19937_64{1});
  const auto digests = random_digests(2, asked);
  std::vector<std::uint8_t> answers(batch_size);
  std::size_t at = 0;
  std::size_t which = 0;
  for (auto _ : state) {
    const std::byte* const from = bodies[which];
    which = which + 1 == bodies.size() ? 0 : which + 1;
    if (cold) {
      for (std::size_t line = 0; line < stride && line < 4096; line += 64) __builtin_prefetch(from + line);
    }
    ask(from, std::span(digests).subspan(at, batch_size), answers.data());
    benchmark::DoNotOptimize(answers.data());
    benchmark::ClobberMemory();
    at = (at + batch_size) % (asked - batch_size);
  }
  report(state, state.iterations() * static_cast<std::int64_t>(batch_size), static_cast<double>(body.size()));
}

void table(benchmark::State& state, bool sliced, bool cold) {
  const Grown grown(random_digests(1, static_cast<std::size_t>(state.range(0))), sliced);
  batch_miss(state, grown.body, cold,
             [&](const std::byte* body, std::span<const Digest> digests, std::uint8_t* answers) {
               const FingerprintView view(grown.shape, grown.count, body);
               seenby::detail::check(sliced ? view.ref(window) : view.ref(), digests.data(), digests.size(), answers);
             });
}

void split_block(benchmark::State& state, bool cold) {
  seenby::BloomFilter<std::uint64_t, seenby::SplitBlockLayout> filter{
      {.expected_items = static_cast<std::uint64_t>(state.range(0)), .target_fpr = share}};
  for (const Digest digest : random_digests(1, static_cast<std::size_t>(state.range(0)))) filter.insert(digest);
  const auto blocks = static_cast<std::uint32_t>(filter.bits().size() / seenby::detail::split_block_bytes);
  batch_miss(
      state, filter.bits(), cold, [&](const std::byte* body, std::span<const Digest> digests, std::uint8_t* answers) {
        seenby::detail::check(seenby::detail::SplitBlockRef{body, blocks}, digests.data(), digests.size(), answers);
      });
}

/// One item at a time into an empty table until all are in, growth included.
void insert(benchmark::State& state, bool sliced) {
  const auto digests = random_digests(1, static_cast<std::size_t>(state.range(0)));
  std::size_t bytes = 0;
  for (auto _ : state) {
    const Grown grown(digests, sliced);
    bytes = grown.body.size();
    benchmark::DoNotOptimize(grown.body.data());
  }
  report(state, state.iterations() * state.range(0), static_cast<double>(bytes));
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Arg(10)->Arg(30)->Arg(100)->Arg(220)->Arg(1'000)->Arg(10'000);
  };
  for (const bool cold : {false, true}) {
    const std::string work = cold ? "batch_miss_cold/" : "batch_miss_warm/";
    add(work + "table", [=](benchmark::State& state) { table(state, false, cold); });
    add(work + "table_sliced", [=](benchmark::State& state) { table(state, true, cold); });
    add(work + "table_beside_split_block", [=](benchmark::State& state) { split_block(state, cold); });
  }
  add("insert/table", [](benchmark::State& state) { insert(state, false); });
  add("insert/table_sliced", [](benchmark::State& state) { insert(state, true); });
  return true;
}();

}  // namespace
