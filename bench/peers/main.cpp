// SPDX-License-Identifier: MIT
// seenby beside what one would use instead: the same workloads, in one process and run. Names are workload/contender.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contender.hpp"
#include "grown.hpp"
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

std::unique_ptr<Store> load(const Contender& contender, std::size_t users) {
  auto store = contender.make_store();
  Items history;
  for (User user = 0; user < users; ++user) {
    history_of(user, history);
    store->record(user, history);
  }
  return store;
}

std::vector<Contender> fresh_contenders(bool strings) {
  std::vector<Contender> all = seenby_fresh_contenders(strings);
#if defined(PEERS_HAVE_BOOST)
  for (Contender& contender : boost_fresh_contenders(strings)) all.push_back(std::move(contender));
#endif
  return all;
}

/// A contender's store, loaded when the first of its benchmarks runs and kept for the others.
Store& loaded(const Contender& contender) {
  static std::map<std::string, std::unique_ptr<Store>> stores;
  std::unique_ptr<Store>& store = stores[contender.name];
  if (!store) store = load(contender, user_count());
  return *store;
}

void set_ns_per_check(benchmark::State& state, std::size_t checks_an_iteration) {
  state.counters["ns_per_check"] =
      benchmark::Counter(static_cast<double>(checks_an_iteration) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

constexpr std::size_t checks_a_request = page_size * users_per_request;

/// As many requests are answered in one call.
constexpr std::size_t turn_size = 16;

/// Requests turn by turn, over and over.
template <class Answering>
void run_requests(benchmark::State& state, Answering& store, const Workload& work) {
  store.prepare(work.pages);
  const std::size_t turn = std::min(turn_size, work.requests.size());
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

/// Requests to a store that is kept under this key for the next repetition.
void run_kept(benchmark::State& state, const Contender& contender, const std::string& key, const Workload& work) {
  static std::map<std::string, std::unique_ptr<Store>> stores;
  std::unique_ptr<Store>& store = stores[key];
  if (!store) store = load(contender, user_count());
  run_requests(state, *store, work);
}

/// Cold requests with candidates of their own.
void run_fresh(benchmark::State& state, const Contender& contender, const std::string& key) {
  run_kept(state, contender, key, cold());
  state.counters["ns_per_request"] =
      benchmark::Counter(static_cast<double>(turn_size) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Requests about users who grew item by item: `request_*_grown` without a window, `request_*_window` within one.
std::vector<Contender> grown_contenders(Growth growth) {
  std::vector<Contender> all{{"seenby", [growth] { return make_seenby_grown(growth); }, {}}};
#if defined(PEERS_HAVE_BOOST)
  if (growth == Growth::window) all.push_back({"boost_flat_map", [] { return make_boost_grown(); }, {}});
#endif
  return all;
}

/// Records item by item, all users growing side by side in random order, each call timed. `waits` are those over a
/// millisecond.
void run_record_grown(benchmark::State& state, const std::function<std::unique_ptr<GrownStore>()>& make,
                      std::size_t users, std::size_t most) {
  for (auto _ : state) {
    std::vector<std::uint32_t> order;
    std::vector<Random> next;
    for (User user = 0; user < users; ++user) {
      next.emplace_back(user * 2);  // as history_of draws them
      order.insert(order.end(), std::min(history_size(user), most), static_cast<std::uint32_t>(user));
    }
    Random random(13);
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    std::vector<std::uint32_t> nanoseconds(order.size());
    const auto store = make();
    store->reserve(users);
    auto before = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < order.size(); ++i) {
      store->record(order[i], next[order[i]]() & (fresh_items - 1), time_of(i));
      const auto after = std::chrono::steady_clock::now();
      nanoseconds[i] = static_cast<std::uint32_t>(std::min<std::int64_t>((after - before).count(), 4'000'000'000));
      before = after;
    }
    double total = 0;
    for (const std::uint32_t each : nanoseconds) total += each;
    std::sort(nanoseconds.begin(), nanoseconds.end());
    const auto at = [&](double share) {
      return nanoseconds[static_cast<std::size_t>(share * static_cast<double>(nanoseconds.size() - 1))] * 1e-3;
    };
    state.SetIterationTime(total * 1e-9);
    state.counters["ns_per_record"] = total / static_cast<double>(nanoseconds.size());
    state.counters["p999_us"] = at(0.999);
    state.counters["p9999_us"] = at(0.9999);
    state.counters["max_us"] = at(1);
    state.counters["waits"] =
        static_cast<double>(nanoseconds.end() - std::upper_bound(nanoseconds.begin(), nanoseconds.end(), 1'000'000));
  }
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
  // What is inserted again costs a filter the same; an exact set is rebuilt outside the timed loop.
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

/// A set of so many items at 1%.
std::unique_ptr<Set> make_filled_set(const Contender& contender, std::size_t items) {
  auto set = contender.make_set(items, 0.01);
  Random random(1);
  Items part;
  for (std::size_t left = items; left > 0;) {
    part.clear();
    for (std::size_t j = std::min<std::size_t>(left, 10'000); j > 0; --j, --left) {
      part.add(random() & (fresh_items * 2 - 1));
    }
    set->insert(part.items, part.digests);
  }
  return set;
}

/// Batches of 1,024 look-ups, nearly all of them misses.
void run_look_ups(benchmark::State& state, Set& set) {
  constexpr std::size_t batch = 1024;
  const Items& asked = random_items(std::size_t{1} << 20, 2);
  std::vector<std::uint8_t> found(batch);
  std::size_t at = 0;
  for (auto _ : state) {
    set.look_up(std::span(asked.items).subspan(at, batch), std::span(asked.digests).subspan(at, batch), found.data());
    benchmark::ClobberMemory();
    at = (at + batch) % asked.items.size();
  }
  set_ns_per_check(state, batch);
}

/// Look-ups among ten million items, which are kept for the next repetition.
void run_lookup_10m(benchmark::State& state, const Contender& contender) {
  static std::map<std::string, std::unique_ptr<Set>> sets;
  std::unique_ptr<Set>& set = sets[contender.name];
  if (!set) set = make_filled_set(contender, 10'000'000);
  run_look_ups(state, *set);
}

/// Look-ups among so many items.
void run_filter_size(benchmark::State& state, const Contender& contender) {
  run_look_ups(state, *make_filled_set(contender, static_cast<std::size_t>(state.range(0))));
}

/// Cold requests against a store of so many users.
void run_store_size(benchmark::State& state, const Contender& contender) {
  static std::pair<std::string, std::unique_ptr<Store>> last;
  const auto users = static_cast<std::size_t>(state.range(0));
  const std::string key = contender.name + std::to_string(users);
  if (last.first != key) {
    last = {key, nullptr};
    last.second = load(contender, users);
  }
  const Workload work = cold_requests(users);
  run_requests(state, *last.second, work);
  state.counters["ns_per_request"] =
      benchmark::Counter(static_cast<double>(std::min(turn_size, work.requests.size())) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Ten million users loaded and asked, each request timed on its own: does it fit, and does any request stall?
void run_10m_users(benchmark::State& state) {
  constexpr std::size_t users = 10'000'000;
  constexpr std::size_t asked = 1'000'000;
  for (auto _ : state) {
    const std::size_t before = resident_bytes();
    const Contender contender = seenby_contenders().front();
    const auto store = load(contender, users);
    const std::size_t grown = resident_bytes() - before;
    Workload work;
    for (std::uint64_t i = 0; i < 32; ++i) work.pages.push_back(fresh_page(i));
    Random random(9);
    for (std::size_t i = 0; i < asked; ++i) {
      work.requests.push_back({{random.below(users), random.below(users)}, static_cast<std::uint32_t>(i % 32)});
    }
    store->prepare(work.pages);
    std::vector<double> microseconds(asked);
    for (std::size_t i = 0; i < asked; ++i) {
      const auto start = std::chrono::steady_clock::now();
      benchmark::DoNotOptimize(store->select(std::span(work.requests).subspan(i, 1)));
      microseconds[i] = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    }
    std::sort(microseconds.begin(), microseconds.end());
    const auto percentile = [&](double p) { return microseconds[static_cast<std::size_t>(p * (asked - 1))]; };
    state.SetIterationTime(percentile(0.5) * 1e-6);
    state.counters["gib"] = static_cast<double>(grown) / (1 << 30);
    state.counters["bytes_per_user"] = static_cast<double>(grown) / users;
    state.counters["p50_us"] = percentile(0.5);
    state.counters["p99_us"] = percentile(0.99);
    state.counters["p999_us"] = percentile(0.999);
    state.counters["max_us"] = microseconds.back();
  }
}

template <class Run>
benchmark::internal::Benchmark* add(std::string name, Run run) {
  return benchmark::RegisterBenchmark(name.c_str(), run);
}

void add_record_grown() {
  const auto add_one = [](const std::string& name, const std::function<std::unique_ptr<GrownStore>()>& make,
                          std::size_t users, std::size_t most) {
    add("record_grown/" + name, [=](benchmark::State& s) { run_record_grown(s, make, users, most); })
        ->Iterations(1)
        ->UseManualTime();
  };
  constexpr std::size_t all_items = 200'000;
  add_one(
      "seenby", [] { return make_seenby_grown(Growth::alone); }, user_count(), all_items);
  add_one(
      "seenby_history", [] { return make_seenby_grown(Growth::history); }, user_count(), all_items);
  add_one(
      "seenby_window", [] { return make_seenby_grown(Growth::window); }, user_count(), all_items);
#if defined(PEERS_HAVE_BOOST)
  add_one(
      "boost_flat_map", [] { return make_boost_grown(); }, user_count(), all_items);
#endif
  // Eight million users of five items: what stalls is the index, the arena or the machine's page faults.
  if (std::getenv("SEENBY_BENCH_10M") != nullptr)
    add_one(
        "seenby_8M_users", [] { return make_seenby_grown(Growth::alone); }, 8'000'000, 5);
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

/// What the report draws: fewer contenders, more sizes.
void add_sizes(const std::vector<Contender>& all) {
  const auto drawn = [](const Contender& one) {
    return one.name == "textbook" || (one.name.starts_with("seenby") && one.name != "seenby_native") ||
           one.name == "boost_multiblock" || one.name == "boost_filter";
  };
  for (const Contender& one : all) {
    if (!drawn(one)) continue;
    if (one.make_set) {
      add("filter_size/" + one.name, [&one](benchmark::State& s) { run_filter_size(s, one); })
          ->RangeMultiplier(10)
          ->Range(100, 10'000'000);
    }
    if (one.make_store) {
      add("store_size/" + one.name, [&one](benchmark::State& s) { run_store_size(s, one); })
          ->RangeMultiplier(10)
          ->Range(1000, 1'000'000);
    }
  }
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
  for (const bool strings : {false, true}) {
    for (const Contender& one : fresh_contenders(strings)) {
      const std::string name = (strings ? "request_fresh_strings/" : "request_fresh/") + one.name;
      add(name, [one, name](benchmark::State& s) { run_fresh(s, one, name); });
    }
  }
  for (const auto& [suffix, growth] : {std::pair{"_grown/", Growth::alone}, std::pair{"_window/", Growth::window}}) {
    for (const Contender& one : grown_contenders(growth)) {
      const std::string name = suffix + one.name;
      add("request_cold" + name, [one, name](benchmark::State& s) { run_kept(s, one, name, cold()); });
      add("request_hot" + name, [one, name](benchmark::State& s) { run_kept(s, one, name, hot()); });
    }
  }
  add_record_grown();
  add_facade_over_kernel(all.front());
  add_sizes(all);
  if (std::getenv("SEENBY_BENCH_10M") != nullptr)
    add("users_10M/seenby", run_10m_users)->Iterations(1)->UseManualTime();
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
