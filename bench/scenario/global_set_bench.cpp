// SPDX-License-Identifier: MIT
// One global set of crawled URLs: how long an insert and a check take in PartitionedFilter, how a second thread helps,
// whether the rate is the planned one, and how long the saved file takes to open. The items are SEENBY_BENCH_ITEMS
// (10,000,000 by default; 100,000,000 take 3 GB); ns an item and speed-ups are counters.
//
// Digests are made before the clock starts. A thread's time is its CPU time as well as the wall's: on a machine that is
// busy otherwise only the former tells how threads get into each other's way.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "seenby/partitioned_filter.hpp"

namespace {

using seenby::Digest;
using Filter = seenby::PartitionedFilter<std::string>;

std::uint64_t wanted_items() {
  const char* text = std::getenv("SEENBY_BENCH_ITEMS");
  return text == nullptr ? 10'000'000 : std::max<std::uint64_t>(1'000, std::strtoull(text, nullptr, 10));
}

std::string url(std::uint64_t number) {
  std::string text = "https://host-";
  return text.append(std::to_string(number % 99'991)).append(".example/page/").append(std::to_string(number));
}

/// Digests of URLs from `start` on.
std::vector<Digest> digests_of(const Filter& filter, std::uint64_t start, std::uint64_t count) {
  std::vector<Digest> digests(count);
  std::vector<std::jthread> workers;
  const std::uint64_t half = count / 2;
  for (const auto& [first, last] : {std::pair{std::uint64_t{0}, half}, std::pair{half, count}}) {
    workers.emplace_back([&, from = first, to = last] {
      for (std::uint64_t i = from; i < to; ++i) digests[i] = filter.digest(url(start + i));
    });
  }
  workers.clear();
  return digests;
}

struct Timing {
  double wall_ns = 0;  ///< an item, all threads together
  double cpu_ns = 0;   ///< an item, of one thread's own time
};

double thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Runs `work` over the digests cut into one part a thread, all starting at once.
template <class Work>
Timing timed(std::span<const Digest> digests, std::size_t threads, Work work) {
  std::vector<double> cpu(threads);
  std::barrier start(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::jthread> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      const std::size_t share = digests.size() / threads;
      const auto mine = digests.subspan(t * share, t + 1 == threads ? digests.size() - t * share : share);
      start.arrive_and_wait();
      const double before = thread_cpu_ns();
      work(mine);
      cpu[t] = thread_cpu_ns() - before;
    });
  }
  start.arrive_and_wait();
  const auto begin = std::chrono::steady_clock::now();
  workers.clear();
  const double wall = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  double cpu_sum = 0;
  for (const double one : cpu) cpu_sum += one;
  const auto items = static_cast<double>(digests.size());
  return {.wall_ns = wall / items, .cpu_ns = cpu_sum / items};
}

std::unique_ptr<Filter> fresh_filter(std::uint64_t items) {
  auto filter = std::make_unique<Filter>(
      seenby::PartitionedFilterOptions{.expected_items = items, .target_fpr = 0.01, .partitions = 256});
  // Every page is taken from the system now, so that no run pays for it inside its time.
  for (std::uint32_t p = 0; p < filter->partitions(); ++p) benchmark::DoNotOptimize(filter->partition(p).fill_ratio());
  return filter;
}

void insert_batches(Filter& filter, std::span<const Digest> digests) { filter.insert(digests); }

std::uint64_t check_batches(const Filter& filter, std::span<const Digest> digests) {
  std::vector<std::uint8_t> seen(4'096);
  std::uint64_t hits = 0;
  for (std::size_t at = 0; at < digests.size(); at += seen.size()) {
    const auto part = digests.subspan(at, std::min(seen.size(), digests.size() - at));
    filter.may_contain(part, seen);
    for (std::size_t i = 0; i < part.size(); ++i) hits += seen[i];
  }
  return hits;
}

void global_set(benchmark::State& state) {
  const std::uint64_t items = state.range(0) == 0 ? wanted_items() : static_cast<std::uint64_t>(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    auto filter = fresh_filter(items);
    const auto known = digests_of(*filter, 0, items);
    const auto absent = digests_of(*filter, items, items);
    const std::span<const Digest> sample(known.data(), std::min<std::size_t>(known.size(), 4'000'000));

    // Warms the machine up and gives every page its memory; the filter is then made anew.
    const Timing one_by_one = timed(known, 1, [&](auto part) {
      for (const Digest digest : part) filter->insert(digest);
    });
    const Timing check_one_by_one = timed(sample, 1, [&](auto part) {
      for (const Digest digest : part) benchmark::DoNotOptimize(filter->may_contain(digest));
    });
    filter = fresh_filter(items);
    const Timing insert1 = timed(known, 1, [&](auto part) { insert_batches(*filter, part); });
    filter = fresh_filter(items);
    const Timing insert2 = timed(known, 2, [&](auto part) { insert_batches(*filter, part); });
    const Timing hit1 = timed(known, 1, [&](auto part) { benchmark::DoNotOptimize(check_batches(*filter, part)); });
    const Timing hit2 = timed(known, 2, [&](auto part) { benchmark::DoNotOptimize(check_batches(*filter, part)); });
    std::uint64_t wrong = 0;
    const Timing miss1 = timed(absent, 1, [&](auto part) { wrong = check_batches(*filter, part); });

    const auto path = std::filesystem::temp_directory_path() / ("seenby-bench-" + std::to_string(::getpid()));
    if (const auto saved = filter->save(path); !saved) state.SkipWithError(saved.error().message.c_str());
    const auto begin = std::chrono::steady_clock::now();
    const auto opened = Filter::open(path);
    const double open_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (!opened || check_batches(*opened, sample) != sample.size()) state.SkipWithError("the saved file lost items");
    std::filesystem::remove(path);

    const double rate = static_cast<double>(wrong) / static_cast<double>(items);
    state.counters["ns_insert"] = insert1.wall_ns;
    state.counters["ns_insert_cpu"] = insert1.cpu_ns;
    state.counters["ns_insert_one_by_one_cpu"] = one_by_one.cpu_ns;
    state.counters["ns_check_one_by_one_cpu"] = check_one_by_one.cpu_ns;
    state.counters["ns_check_hit_cpu"] = hit1.cpu_ns;
    state.counters["ns_check_miss_cpu"] = miss1.cpu_ns;
    state.counters["insert_speedup_wall"] = insert1.wall_ns / insert2.wall_ns;
    state.counters["insert_speedup_cpu"] = 2 * insert1.cpu_ns / insert2.cpu_ns;
    state.counters["check_speedup_wall"] = hit1.wall_ns / hit2.wall_ns;
    state.counters["check_speedup_cpu"] = 2 * hit1.cpu_ns / hit2.cpu_ns;
    state.counters["fpr_over_plan"] = rate / filter->planned_fpr(items);
    state.counters["bits_item"] = static_cast<double>(filter->capacity_bits()) / static_cast<double>(items);
    state.counters["open_ms"] = open_ms;
  }
}
BENCHMARK(global_set)->Arg(0)->Arg(100'000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
