// SPDX-License-Identifier: MIT
// Several threads on one memory store: requests, records, and nine requests to a record. Items per second are requests
// and records of all threads together.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace {

using Filter = seenby::SeenFilter<seenby::MemoryStore<std::uint64_t>>;
using Pool = seenby::CandidatePool<std::uint64_t>;

constexpr std::uint64_t user_count = 100'000;
constexpr std::uint64_t fresh_items = std::uint64_t{1} << 40;

std::vector<std::uint64_t> items(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + i;
  return all;
}

/// 100,000 users of 10 to 300 items, made anew for each benchmark: records make users larger, and later ones slower.
Filter& loaded(bool anew = false) {
  static std::unique_ptr<Filter> filter;
  if (anew) {
    filter =
        std::make_unique<Filter>(seenby::MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.01, .users_per_request = 2}});
    for (std::uint64_t user = 0; user < user_count; ++user) {
      filter->record_all(user, items(user << 20, 10 + seenby::detail::mix64(user) % 291)).or_throw();
    }
  }
  return *filter;
}

/// One thread's work: every `record_every`th step records an item, 0 never; the others answer a request for two users.
void run(benchmark::State& state, std::uint64_t record_every) {
  Filter& filter = loaded();
  const Pool pool(items(fresh_items, 100));
  seenby::Selection<std::uint64_t> page;
  std::uint64_t random = static_cast<std::uint64_t>(state.thread_index()) << 32;
  std::uint64_t step = 0;
  const auto any_user = [&random] { return seenby::detail::mix64(++random) % user_count; };
  for ([[maybe_unused]] auto _ : state) {
    if (record_every != 0 && ++step % record_every == 0) {
      benchmark::DoNotOptimize(filter.record(any_user(), random));
    } else {
      const std::uint64_t users[2] = {any_user(), any_user()};
      filter.select_unseen(pool, std::span<const std::uint64_t>(users), {}, page);
      benchmark::DoNotOptimize(page.size());
    }
  }
  state.SetItemsProcessed(state.iterations());
}

void select(benchmark::State& state) { run(state, 0); }
void record(benchmark::State& state) { run(state, 1); }
void mixed(benchmark::State& state) { run(state, 10); }

/// The same number of steps for one thread, two and four together.
void add(const char* name, void (*run)(benchmark::State&), std::int64_t steps) {
  for (const int threads : {1, 2, 4}) {
    benchmark::RegisterBenchmark(name, run)
        ->Setup([](const benchmark::State&) { loaded(true); })
        ->Threads(threads)
        ->Iterations(steps / threads)
        ->UseRealTime();
  }
}

[[maybe_unused]] const bool added = [] {
  add("threads/select", select, 2'000'000);
  add("threads/record", record, 2'000'000);
  add("threads/mixed", mixed, 2'000'000);
  return true;
}();

}  // namespace
