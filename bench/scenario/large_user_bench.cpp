// SPDX-License-Identifier: MIT
// One user of a MemoryStore without a history grows to SEENBY_BENCH_ITEMS items (50,000,000 by default) in batches of
// 1,000, while another thread records and checks for other users of the same shard: bits an item, the slowest of the
// calls, and how long anybody else waited. Counters are in milliseconds.
//
// The other thread's waits include the time the machine gave to others. Its CPU time beside says how much of the
// slowest one was its own work; a machine with other load is no place for a bound.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "seenby/stores/memory_store.hpp"

namespace {

using seenby::Digest;
using Store = seenby::MemoryStore<std::uint64_t>;
using Clock = std::chrono::steady_clock;

std::uint64_t wanted_items(std::uint64_t otherwise) {
  const char* text = std::getenv("SEENBY_BENCH_ITEMS");
  return text == nullptr ? otherwise : std::max<std::uint64_t>(1'000, std::strtoull(text, nullptr, 10));
}
Digest item(std::uint64_t i) { return seenby::Xxh3Hash{}(i); }
double milliseconds(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// What another user of the shard waited at most.
struct Waits {
  double record_ms = 0;
  double check_ms = 0;
  std::uint64_t over_1_ms = 0;
  std::uint64_t calls = 0;
};

void serve_others(Store& store, const std::atomic<bool>& stop, Waits& waits) {
  std::vector<Digest> asked;
  for (std::uint64_t i = 0; i < 100; ++i) asked.push_back(item((std::uint64_t{1} << 40) + i));
  std::vector<std::uint8_t> seen_by(asked.size());
  std::array<seenby::UserStatus, 2> status;
  for (std::uint64_t round = 0; !stop.load(std::memory_order_relaxed); ++round) {
    const std::array<std::uint64_t, 2> users{2 + round % 50, 2 + (round + 7) % 50};
    const auto before = Clock::now();
    benchmark::DoNotOptimize(store.record_digests(users[0], std::array{item((std::uint64_t{1} << 41) + round)}));
    const auto between = Clock::now();
    store.check_digests(users, asked, seen_by, status);
    const auto after = Clock::now();
    waits.record_ms = std::max(waits.record_ms, milliseconds(between - before));
    waits.check_ms = std::max(waits.check_ms, milliseconds(after - between));
    waits.over_1_ms += milliseconds(after - before) > 1 ? 1U : 0U;
    ++waits.calls;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void grow(benchmark::State& state, std::uint64_t first_batch) {
  const std::uint64_t items = wanted_items(static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) {
    Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}, {.shards = 1}};
    std::atomic<bool> stop{false};
    Waits waits;
    std::thread others([&] { serve_others(store, stop, waits); });
    double slowest = 0;
    double sum = 0;
    std::vector<Digest> batch;
    for (std::uint64_t next = 0; next < items;) {
      const std::uint64_t until = std::min(items, next + (next == 0 ? first_batch : 1'000));
      for (; next < until; ++next) batch.push_back(item(next));
      const auto before = Clock::now();
      if (!store.record_digests(1, batch)) state.SkipWithError("a record failed");
      const double took = milliseconds(Clock::now() - before);
      slowest = std::max(slowest, took);
      sum += took;
      batch.clear();
    }
    stop = true;
    others.join();
    state.counters["bits_item"] = static_cast<double>(store.user_bytes(1)) * 8 / static_cast<double>(items);
    state.counters["store_bits_item"] = static_cast<double>(store.memory_bytes()) * 8 / static_cast<double>(items);
    state.counters["slowest_ms"] = slowest;
    state.counters["ns_item"] = sum * 1e6 / static_cast<double>(items);
    state.counters["other_record_ms"] = waits.record_ms;
    state.counters["other_check_ms"] = waits.check_ms;
    state.counters["other_over_1_ms"] = static_cast<double>(waits.over_1_ms);
    state.counters["other_calls"] = static_cast<double>(waits.calls);

    std::uint64_t lost = 0;
    std::uint64_t wrong = 0;
    std::array<seenby::UserStatus, 1> status;
    std::vector<std::uint8_t> seen_by(1'000);
    const std::uint64_t step = std::max<std::uint64_t>(1, items / 1'000'000);
    for (std::uint64_t i = 0; i < items; i += 1'000 * step) {
      std::vector<Digest> known;
      std::vector<Digest> fresh;
      for (std::uint64_t j = 0; j < 1'000; ++j) {
        known.push_back(item(std::min(items - 1, i + j * step)));
        fresh.push_back(item((std::uint64_t{1} << 42) + i + j));
      }
      store.check_digests(std::array<std::uint64_t, 1>{1}, known, seen_by, status);
      lost += static_cast<std::uint64_t>(std::count(seen_by.begin(), seen_by.end(), 0));
      store.check_digests(std::array<std::uint64_t, 1>{1}, fresh, seen_by, status);
      wrong += static_cast<std::uint64_t>(std::count(seen_by.begin(), seen_by.end(), 1));
    }
    if (lost > 0) state.SkipWithError("an acknowledged item is unseen");
    state.counters["fpr"] =
        static_cast<double>(wrong) / (static_cast<double>((items + step * 1'000 - 1) / (step * 1'000)) * 1'000);
  }
}

void large_user(benchmark::State& state) { grow(state, 1'000); }
void large_user_first_few(benchmark::State& state) { grow(state, 4); }

}  // namespace

BENCHMARK(large_user)->Arg(100'000)->Arg(50'000'000)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(large_user_first_few)->Arg(100'000)->Arg(50'000'000)->Iterations(1)->Unit(benchmark::kSecond);
