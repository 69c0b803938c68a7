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

#include "seenby/filters/partitioned_filter.hpp"

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

/// Runs `work` over the digests cut into one part a thread, all starting at once. The wall's time is from the first
/// thread's start to the last one's end, by their own clocks.
template <class Work>
Timing timed(std::span<const Digest> digests, std::size_t threads, Work work) {
  struct Part {
    double cpu_ns;
    std::chrono::steady_clock::time_point begin;
    std::chrono::steady_clock::time_point end;
  };
  std::vector<Part> parts(threads);
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::jthread> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      const std::size_t share = digests.size() / threads;
      const auto mine = digests.subspan(t * share, t + 1 == threads ? digests.size() - t * share : share);
      start.arrive_and_wait();
      parts[t].begin = std::chrono::steady_clock::now();
      const double before = thread_cpu_ns();
      work(mine);
      parts[t].cpu_ns = thread_cpu_ns() - before;
      parts[t].end = std::chrono::steady_clock::now();
    });
  }
  workers.clear();
  const auto begin = std::ranges::min(parts, {}, &Part::begin).begin;
  const auto end = std::ranges::max(parts, {}, &Part::end).end;
  double cpu_sum = 0;
  for (const Part& part : parts) cpu_sum += part.cpu_ns;
  const auto items = static_cast<double>(digests.size());
  return {.wall_ns = std::chrono::duration<double, std::nano>(end - begin).count() / items, .cpu_ns = cpu_sum / items};
}

std::unique_ptr<Filter> fresh_filter(std::uint64_t items) {
  return std::make_unique<Filter>(
      seenby::PartitionedFilterOptions{.expected_items = items, .target_fpr = 0.01, .partitions = 256});
}

/// A filter whose pages the system has handed out already, so that no run pays for them inside its time: two in a
/// hundred of its items, others than those that will be timed, are in it.
std::unique_ptr<Filter> warm_filter(std::uint64_t items) {
  auto filter = fresh_filter(items);
  for (std::uint64_t i = 0; i < items / 50; ++i) filter->insert(seenby::Mix64Hash{1}(i));
  return filter;
}

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

    const Timing one_by_one = timed(known, 1, [&](auto part) {
      for (const Digest digest : part) filter->insert(digest);
    });
    const Timing check_one_by_one = timed(sample, 1, [&](auto part) {
      for (const Digest digest : part) benchmark::DoNotOptimize(filter->may_contain(digest));
    });
    const Timing hit1 = timed(known, 1, [&](auto part) { benchmark::DoNotOptimize(check_batches(*filter, part)); });
    const Timing hit2 = timed(known, 2, [&](auto part) { benchmark::DoNotOptimize(check_batches(*filter, part)); });
    std::uint64_t wrong = 0;
    const Timing miss1 = timed(absent, 1, [&](auto part) { wrong = check_batches(*filter, part); });
    auto warm = warm_filter(items);
    const Timing insert1 = timed(known, 1, [&](auto part) { warm->insert(part); });
    warm = warm_filter(items);
    const Timing insert2 = timed(known, 2, [&](auto part) { warm->insert(part); });

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
    state.counters["fpr_over_plan"] = rate / filter->expected_fpr(items);
    state.counters["bits_item"] = static_cast<double>(filter->capacity_bits()) / static_cast<double>(items);
    state.counters["open_ms"] = open_ms;
  }
}
BENCHMARK(global_set)->Arg(0)->Arg(100'000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
