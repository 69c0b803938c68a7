// SPDX-License-Identifier: MIT
// One filter: insert, hit, miss and batch miss, by layout and size. Warm asks one filter over and over; Cold asks one
// of many equal filters that together exceed the caches, another one each time. Digests are computed outside the timed
// loop, but for the benchmarks whose name says `item`. Run with --benchmark_filter='miss.*/split_block/'.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace {

using seenby::Digest;

constexpr double target_fpr = 0.01;
constexpr std::size_t batch_size = 100;                   // the candidates of one request
constexpr std::size_t cold_bytes = std::size_t{1} << 28;  // 256 MiB, several times a server's last-level cache
constexpr std::size_t asked = 1 << 16;                    // different digests asked for; a power of two

template <class Layout>
using Filter = seenby::BloomFilter<std::uint64_t, Layout>;

/// Digests of `count` items from `first` on, in an order that has nothing to do with the positions they set.
std::vector<Digest> digests_from(std::uint64_t first, std::size_t count) {
  std::vector<Digest> digests(count);
  const seenby::Xxh3Hash hash;
  for (std::size_t i = 0; i < count; ++i) digests[i] = hash(first + i);
  return digests;
}

template <class Layout>
Filter<Layout> filled(std::uint64_t items) {
  Filter<Layout> filter{{.expected_items = items, .target_fpr = target_fpr}};
  for (std::uint64_t item = 0; item < items; ++item) filter.insert(item);
  return filter;
}

/// The CPU time of the timed loop, read twice: a counter of Google Benchmark's own that is a time per operation would
/// be printed in seconds.
class LoopTime {
 public:
  [[nodiscard]] double ns_per(std::int64_t operations) const {
    return static_cast<double>(now() - start_) / static_cast<double>(operations);
  }

 private:
  static std::int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
  std::int64_t start_ = now();
};

/// ns_per_check (or per insert) and bits_per_item, the two figures this library is chosen by.
void report(benchmark::State& state, const LoopTime& time, std::int64_t operations, double bits_per_item) {
  state.SetItemsProcessed(operations);
  state.counters["ns_per_check"] = time.ns_per(operations);
  state.counters["bits_per_item"] = bits_per_item;
}

template <class Layout>
double bits_per_item(const Filter<Layout>& filter, std::int64_t items) {
  return static_cast<double>(filter.capacity_bits()) / static_cast<double>(items);
}

template <class Layout>
void insert(benchmark::State& state) {
  const auto items = static_cast<std::uint64_t>(state.range(0));
  Filter<Layout> filter{{.expected_items = items, .target_fpr = target_fpr}};
  const auto digests = digests_from(0, std::min<std::size_t>(items, std::size_t{1} << 20));
  const LoopTime time;
  for (auto _ : state) {
    filter.insert(std::span<const Digest>(digests));
    benchmark::ClobberMemory();
  }
  report(state, time, state.iterations() * static_cast<std::int64_t>(digests.size()),
         bits_per_item(filter, state.range(0)));
}

/// Asks for single digests: present ones (hit) or absent ones (miss).
template <class Layout>
void ask_single(benchmark::State& state, std::uint64_t first_item) {
  const auto filter = filled<Layout>(static_cast<std::uint64_t>(state.range(0)));
  const std::size_t distinct =
      first_item == 0 ? std::min<std::size_t>(asked, static_cast<std::size_t>(state.range(0))) : asked;
  const auto digests = digests_from(first_item, distinct);
  std::int64_t present = 0;
  const LoopTime time;
  for (auto _ : state) {
    for (const Digest digest : digests) present += filter.may_contain(digest) ? 1 : 0;
    benchmark::DoNotOptimize(present);
  }
  const auto checks = state.iterations() * static_cast<std::int64_t>(digests.size());
  report(state, time, checks, bits_per_item(filter, state.range(0)));
  state.counters["present_rate"] = static_cast<double>(present) / static_cast<double>(checks);
}

template <class Layout>
void hit(benchmark::State& state) {
  ask_single<Layout>(state, 0);
}

constexpr std::uint64_t absent = std::uint64_t{1} << 40;

template <class Layout>
void miss_warm(benchmark::State& state) {
  ask_single<Layout>(state, absent);
}

/// As miss_warm, but for items: the hash is in the figure.
template <class Layout>
void miss_item(benchmark::State& state) {
  const auto filter = filled<Layout>(static_cast<std::uint64_t>(state.range(0)));
  std::uint64_t item = absent;
  std::int64_t present = 0;
  const LoopTime time;
  for (auto _ : state) present += filter.may_contain(item++) ? 1 : 0;
  benchmark::DoNotOptimize(present);
  report(state, time, state.iterations(), bits_per_item(filter, state.range(0)));
}

template <class Layout>
void batch_miss_warm(benchmark::State& state) {
  const auto filter = filled<Layout>(static_cast<std::uint64_t>(state.range(0)));
  const auto digests = digests_from(absent, asked);
  std::vector<std::uint8_t> answers(batch_size);
  std::size_t at = 0;
  const LoopTime time;
  for (auto _ : state) {
    filter.may_contain(std::span(digests).subspan(at, batch_size), answers);
    benchmark::DoNotOptimize(answers.data());
    benchmark::ClobberMemory();
    at = (at + batch_size) % (asked - batch_size);
  }
  report(state, time, state.iterations() * static_cast<std::int64_t>(batch_size),
         bits_per_item(filter, state.range(0)));
}

/// Equal copies of one filter's bits, in random order, too many for any cache.
template <class Layout>
class ColdCopies {
 public:
  explicit ColdCopies(const Filter<Layout>& filter) : shape_(filter.shape()) {
    const std::size_t stride = (static_cast<std::size_t>(shape_.bytes()) + 63) / 64 * 64;
    const std::size_t copies = std::max<std::size_t>(2, cold_bytes / stride);
    bytes_.resize(copies * stride + 64);
    const std::size_t skew = (64 - reinterpret_cast<std::uintptr_t>(bytes_.data()) % 64) % 64;
    std::vector<std::size_t> order(copies);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64{1});
    for (const std::size_t copy : order) {
      std::byte* at = bytes_.data() + skew + copy * stride;
      std::memcpy(at, filter.bits().data(), filter.bits().size());
      views_.emplace_back(shape_, std::span<const std::byte>(at, filter.bits().size()));
    }
  }
  const auto& next() noexcept {
    at_ = at_ + 1 == views_.size() ? 0 : at_ + 1;
    return views_[at_];
  }

 private:
  seenby::FilterShape shape_;
  std::vector<std::byte> bytes_;
  std::vector<seenby::BloomFilterView<std::uint64_t, Layout>> views_;
  std::size_t at_ = 0;
};

template <class Layout>
void miss_cold(benchmark::State& state) {
  const auto filter = filled<Layout>(static_cast<std::uint64_t>(state.range(0)));
  ColdCopies<Layout> copies(filter);
  const auto digests = digests_from(absent, asked);
  std::int64_t present = 0;
  std::size_t at = 0;
  const LoopTime time;
  for (auto _ : state) present += copies.next().may_contain(digests[at++ & (asked - 1)]) ? 1 : 0;
  benchmark::DoNotOptimize(present);
  report(state, time, state.iterations(), bits_per_item(filter, state.range(0)));
}

template <class Layout>
void batch_miss_cold(benchmark::State& state) {
  const auto filter = filled<Layout>(static_cast<std::uint64_t>(state.range(0)));
  ColdCopies<Layout> copies(filter);
  const auto digests = digests_from(absent, asked);
  std::vector<std::uint8_t> answers(batch_size);
  std::size_t at = 0;
  const LoopTime time;
  for (auto _ : state) {
    copies.next().may_contain(std::span(digests).subspan(at, batch_size), answers);
    benchmark::DoNotOptimize(answers.data());
    benchmark::ClobberMemory();
    at = (at + batch_size) % (asked - batch_size);
  }
  report(state, time, state.iterations() * static_cast<std::int64_t>(batch_size),
         bits_per_item(filter, state.range(0)));
}

template <class Layout>
void register_layout(const std::string& layout) {
  const auto add = [&](const char* workload, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark((std::string(workload) + "/" + layout).c_str(), run)
        ->Arg(100)
        ->Arg(1'000)
        ->Arg(10'000)
        ->Arg(100'000)
        ->Arg(1'000'000)
        ->Arg(10'000'000);
  };
  add("insert", insert<Layout>);
  add("hit", hit<Layout>);
  add("miss_warm", miss_warm<Layout>);
  add("miss_cold", miss_cold<Layout>);
  add("miss_item", miss_item<Layout>);
  add("batch_miss_warm", batch_miss_warm<Layout>);
  add("batch_miss_cold", batch_miss_cold<Layout>);
}

const bool registered = [] {
  register_layout<seenby::ClassicLayout>("classic");
  register_layout<seenby::SplitBlockLayout>("split_block");
  return true;
}();

}  // namespace
