// SPDX-License-Identifier: MIT
// seenby beside what one would use instead: the same workloads, in one process and run. Names are workload/contender.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contender.hpp"
#include "memory.hpp"
#include "seenby/kernels.hpp"

namespace peers {
namespace {

/// SEENBY_BENCH_USERS users are in every store. With fewer than 100,000 the cold workloads are not cold.
std::size_t user_count() {
  const char* given = std::getenv("SEENBY_BENCH_USERS");
  return given == nullptr ? 100'000 : std::max<std::size_t>(std::strtoull(given, nullptr, 10), 64);
}

std::vector<Contender> contenders() {
  std::vector<Contender> all = seenby_contenders();
  const auto append = [&all](std::vector<Contender> more) {
    for (Contender& contender : more) all.push_back(std::move(contender));
  };
  append(seenby_native_contenders());
#if defined(PEERS_HAVE_BOOST)
  append(boost_contenders());
  append(boost_plain_contenders());
#else
  std::cerr << "boost contenders SKIPPED: no Boost 1.89 or later found; run bench/peers/get_boost.sh\n";
#endif
  append(classic_contenders());
  return all;
}

/// A contender's store, loaded when the first of its benchmarks runs and kept for the others.
Store& loaded(const Contender& contender) {
  static std::map<std::string, std::unique_ptr<Store>> stores;
  std::unique_ptr<Store>& store = stores[contender.name];
  if (!store) {
    store = contender.make_store();
    Items history;
    for (User user = 0; user < user_count(); ++user) {
      history_of(user, history);
      store->record(user, history);
    }
  }
  return *store;
}

void set_ns_per_check(benchmark::State& state, std::size_t checks_an_iteration) {
  state.counters["ns_per_check"] =
      benchmark::Counter(static_cast<double>(checks_an_iteration) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

constexpr std::size_t checks_a_request = page_size * users_per_request;

/// Requests in turns of 50, over and over.
template <class Answering>
void run_requests(benchmark::State& state, Answering& store, const Workload& work) {
  store.prepare(work.pages);
  const std::size_t turn = std::min<std::size_t>(50, work.requests.size());
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(store.select(std::span(work.requests).subspan(at, turn)));
    at = at + 2 * turn <= work.requests.size() ? at + turn : 0;
  }
  set_ns_per_check(state, turn * checks_a_request);
}

const Workload& cold() {
  static const Workload work = cold_requests(user_count());
  return work;
}
const Workload& hot() {
  static const Workload work = hot_requests(user_count(), 0);
  return work;
}
const Workload& hit_1pct() {
  static const Workload work = hot_requests(user_count(), 1);
  return work;
}

void report_memory(benchmark::State& state, const std::string& contender) {
  MemoryFigures figures;
  for (auto _ : state) {
    figures = measure_memory(contender, user_count());
    state.SetIterationTime(figures.ns_per_insert * 1e-9);
  }
  state.counters["bytes_per_user"] = figures.bytes_per_user;
  state.counters["fpr"] = figures.fpr;
  state.counters["ns_per_insert"] = figures.ns_per_insert;
}

const Items& random_items(std::size_t count, std::uint64_t seed) {
  static std::map<std::pair<std::size_t, std::uint64_t>, Items> made;
  Items& items = made[{count, seed}];
  if (items.items.empty()) {
    Random random(seed);
    for (std::size_t i = 0; i < count; ++i) items.add(random() & (fresh_items * 2 - 1));
  }
  return items;
}

/// Misses, one look-up after the other, in a filter of 10,000 items at 1% (13 KiB).
void run_single(benchmark::State& state, const Contender& contender) {
  const Items& held = random_items(10'000, 1);
  const Items& asked = random_items(4096, 2);
  const auto set = contender.make_set(held.items.size(), 0.01);
  set->insert(held.items, held.digests);
  std::size_t found = 0;
  for (auto _ : state) benchmark::DoNotOptimize(found = set->count(asked.items, asked.digests));
  set_ns_per_check(state, asked.items.size());
  state.counters["fpr"] = static_cast<double>(found) / static_cast<double>(asked.items.size());
}

void run_insert_batch(benchmark::State& state, const Contender& contender) {
  const Items& items = random_items(10'000, 1);
  // What is inserted again costs a filter the same; an exact set is made anew, outside the clock.
  auto set = contender.make_set(items.items.size(), 0.01);
  const bool exact = contender.name.find("set") != std::string::npos || contender.name == "croaring";
  for (auto _ : state) {
    if (exact) {
      state.PauseTiming();
      set = contender.make_set(items.items.size(), 0.01);
      state.ResumeTiming();
    }
    set->insert(items.items, items.digests);
    benchmark::ClobberMemory();
  }
  set_ns_per_check(state, items.items.size());
}

/// Ten million items in one filter at 1%; batches of 1,024 look-ups, one in 64 of them a hit.
void run_lookup_10m(benchmark::State& state, const Contender& contender) {
  constexpr std::size_t batch = 1024;
  static std::map<std::string, std::unique_ptr<Set>> sets;
  std::unique_ptr<Set>& set = sets[contender.name];
  const Items& asked = random_items(std::size_t{1} << 20, 2);
  if (!set) {
    set = contender.make_set(10'000'000, 0.01);
    Random random(1);
    Items part;
    for (std::size_t i = 0; i < 10'000'000; i += 10'000) {
      part.clear();
      for (std::size_t j = 0; j < 10'000; ++j) part.add(random() & (fresh_items * 2 - 1));
      set->insert(part.items, part.digests);
    }
  }
  std::vector<std::uint8_t> found(batch);
  std::size_t at = 0;
  for (auto _ : state) {
    set->look_up(std::span(asked.items).subspan(at, batch), std::span(asked.digests).subspan(at, batch), found.data());
    benchmark::ClobberMemory();
    at = (at + batch) % asked.items.size();
  }
  set_ns_per_check(state, batch);
}

template <class Run>
benchmark::internal::Benchmark* add(std::string name, Run run) {
  return benchmark::RegisterBenchmark(name.c_str(), run);
}

void add_facade_over_kernel(const Contender& seenby) {
  add("facade_over_kernel/facade", [&seenby](benchmark::State& state) { run_requests(state, loaded(seenby), hot()); });
  add("facade_over_kernel/kernel", [](benchmark::State& state) {
    std::vector<User> users;
    for (const Request& request : hot().requests) users.insert(users.end(), request.users.begin(), request.users.end());
    BareKernel kernel(users);
    run_requests(state, kernel, hot());
  });
}

void add_all(const std::vector<Contender>& all) {
  for (const Contender& one : all) {
    if (!one.make_store) continue;
    add("request_cold/" + one.name, [&one](benchmark::State& s) { run_requests(s, loaded(one), cold()); });
    add("request_hot/" + one.name, [&one](benchmark::State& s) { run_requests(s, loaded(one), hot()); });
    add("hit_1pct/" + one.name, [&one](benchmark::State& s) { run_requests(s, loaded(one), hit_1pct()); });
    add("memory/" + one.name, [&one](benchmark::State& s) { report_memory(s, one.name); })
        ->Iterations(1)
        ->UseManualTime();
  }
  for (const Contender& one : all) {
    if (!one.make_set) continue;
    add("single/" + one.name, [&one](benchmark::State& s) { run_single(s, one); });
    add("insert_batch/" + one.name, [&one](benchmark::State& s) { run_insert_batch(s, one); });
    add("lookup_10M/" + one.name, [&one](benchmark::State& s) { run_lookup_10m(s, one); });
  }
  add_facade_over_kernel(all.front());
}

std::optional<std::string> argument(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (text.starts_with(name)) return std::string(text.substr(name.size()));
  }
  return std::nullopt;
}

int run(int argc, char** argv) {
  const std::vector<Contender> all = contenders();
  if (const auto name = argument(argc, argv, "--measure-memory=")) {
    const std::size_t users = std::stoull(argument(argc, argv, "--users=").value());
    for (const Contender& one : all) {
      if (one.name == *name && one.make_store) return print_memory_figures(one, users), EXIT_SUCCESS;
    }
    return EXIT_FAILURE;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::AddCustomContext("seenby_kernel", std::string(seenby::active_kernel_name()));
  add_all(all);
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) { return peers::run(argc, argv); }
