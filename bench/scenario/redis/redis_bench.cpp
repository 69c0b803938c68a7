// SPDX-License-Identifier: MIT
// Reads from one Redis: 2 users x 100 candidates by seenby, by one BITFIELD a bit, and by RedisBloom; a plain GET of as
// many bytes is what no reading of whole values can be faster than. Writes: 1, 20 or 100 items of one user.
//
// A service has several requests under way at once, so `requests_per_second` is that of SEENBY_BENCH_CALLERS threads (4
// unless given) that each wait for their answer, over one connection pool: the throughput of a server that is kept
// busy. It is the same number for every contender. The benchmarks that end in `_one_caller` have one thread, whose rate
// is mostly the machine's time to wake a sleeper.
//
// SEENBY_REDIS_URL names the server. Without it a redis-server is started on a Unix socket of its own, with the module
// that SEENBY_REDISBLOOM_MODULE names, if any. Keys are written under "seenby-bench:" and removed at the end.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/redis/store.hpp"
#include "seenby/sizing.hpp"
#include "support/redis_server.hpp"

namespace {

using namespace seenby;
using namespace seenby::redis;

constexpr std::size_t users_a_request = 2;
constexpr std::size_t candidates = 100;
constexpr std::size_t population = 200;
constexpr std::size_t requests_a_tick = 100;
constexpr std::string_view prefix = "seenby-bench:";

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "seenby_bench_redis: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}

/// The server and what all benchmarks share.
class Bench {
 public:
  Bench() {
    std::string url;
    if (const char* given = std::getenv("SEENBY_REDIS_URL")) {
      url = given;
    } else if (test::RedisServer::installed("redis-server")) {
      std::vector<std::string> arguments;
      if (const char* module = std::getenv("SEENBY_REDISBLOOM_MODULE")) arguments = {"--loadmodule", module};
      server_.emplace("redis-server", arguments);
      url = server_->socket_url();
    } else {
      std::fprintf(stderr, "SKIPPED: SEENBY_REDIS_URL is not set and redis-server is not installed\n");
      return;
    }
    executor_ = must(make_executor(url));
    must(execute_one(*executor_, Command::with_key(Command::no_key, std::string_view("PING")), patience()));
    std::fprintf(stderr, "server: %s\n", executor_->name().c_str());
  }
  ~Bench() {
    if (!executor_) return;
    for (const std::string& key : keys_) {
      auto gone = executor_->execute({{Command::with_key(1, std::string_view("UNLINK"), key)}}, patience());
      if (!gone) return;
    }
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] bool ready() const { return executor_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<Executor>& executor() const { return executor_; }
  [[nodiscard]] static Deadline patience() { return Deadline::after(std::chrono::seconds(10)); }

  [[nodiscard]] bool has_bloom() const {
    auto reply = execute_one(*executor_,
                             Command::with_key(Command::no_key, std::string_view("COMMAND"), std::string_view("INFO"),
                                               std::string_view("BF.MEXISTS")),
                             patience());
    return reply && reply->array() != nullptr && !reply->array()->empty() && reply->array()->front().array() != nullptr;
  }
  /// The server's processor time so far, in microseconds.
  [[nodiscard]] double server_cpu() const {
    const Reply info = must(execute_one(
        *executor_, Command::with_key(Command::no_key, std::string_view("INFO"), std::string_view("cpu")), patience()));
    double seconds = 0;
    std::istringstream lines(*info.string());
    for (std::string line; std::getline(lines, line);) {
      for (const std::string_view field : {"used_cpu_user:", "used_cpu_sys:"}) {
        if (line.rfind(field, 0) == 0) seconds += std::stod(line.substr(field.size()));
      }
    }
    return seconds * 1e6;
  }
  void keep(std::string key) { keys_.push_back(std::move(key)); }

 private:
  std::optional<test::RedisServer> server_;
  std::shared_ptr<Executor> executor_;
  std::vector<std::string> keys_;
};

/// What one request asks: two users of the population, a hundred items of which about half were seen.
struct Request {
  std::vector<std::uint64_t> users;
  std::vector<std::uint64_t> items;
  std::vector<Digest> digests;
};

/// What one request is answered.
struct Answer {
  std::vector<std::uint8_t> seen_by = std::vector<std::uint8_t>(candidates);
  std::vector<UserStatus> status = std::vector<UserStatus>(users_a_request);
};

std::vector<Request> make_requests(std::size_t items_a_user) {
  std::mt19937_64 random(20'240'601);
  // Few enough to stay in a cache, as digests that were just computed are. They ask for every user all the same.
  std::vector<Request> requests(500);
  for (Request& request : requests) {
    for (std::size_t i = 0; i < users_a_request; ++i) request.users.push_back(random() % population);
    for (std::size_t i = 0; i < candidates; ++i) {
      request.items.push_back(random() % (2 * items_a_user));
      request.digests.push_back(Xxh3Hash{}(request.items.back()));
    }
  }
  return requests;
}

/// One caller's request (or tick of requests), with buffers of its own; told which of the prepared requests is next.
using Caller = std::function<void(std::size_t)>;

/// Threads that draw requests from one counter: all begin together, and none idles while there are requests left.
class Callers {
 public:
  explicit Callers(std::vector<Caller> callers)
      : callers_(std::move(callers)), gate_(static_cast<std::ptrdiff_t>(callers_.size())) {
    for (std::size_t i = 1; i < callers_.size(); ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~Callers() {
    stop_ = true;
    gate_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  /// Carries out so many calls. The calling thread is the first caller: Google Benchmark measures by its time.
  void run(std::size_t calls) {
    end_ += calls;
    gate_.arrive_and_wait();
    draw(0);
    gate_.arrive_and_wait();
    next_ = end_;
  }

 private:
  void draw(std::size_t caller) {
    for (std::size_t call = next_++; call < end_; call = next_++) callers_[caller](call);
  }
  void work(std::size_t caller) {
    while (true) {
      gate_.arrive_and_wait();
      if (stop_) return;
      draw(caller);
      gate_.arrive_and_wait();
    }
  }

  std::vector<Caller> callers_;
  std::barrier<> gate_;
  std::atomic<std::size_t> next_{0};
  std::size_t end_ = 0;  ///< written while the others wait at the gate
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Measures calls of so many requests each: all requests over the wall time, and the server's processor time a request.
/// `prepare` makes one caller.
void measure(benchmark::State& state, const Bench& bench, std::size_t callers, std::size_t requests_a_call,
             const std::function<Caller()>& prepare) {
  std::vector<Caller> prepared;
  for (std::size_t i = 0; i < callers; ++i) prepared.push_back(prepare());
  for (Caller& caller : prepared) caller(0);  // its connection, its buffers
  Callers together(std::move(prepared));
  const std::size_t batch = requests_a_call == 1 ? 64 * callers : 4 * callers;
  using clock = std::chrono::steady_clock;
  const double cpu = bench.server_cpu();
  const auto start = clock::now();
  while (state.KeepRunningBatch(static_cast<std::int64_t>(batch))) together.run(batch);
  // The benchmark's own rates count this thread's processor time; a request is mostly waiting for the server.
  const std::chrono::duration<double> elapsed = clock::now() - start;
  const auto requests = static_cast<double>(state.iterations()) * static_cast<double>(requests_a_call);
  state.counters["requests_per_second"] = requests / elapsed.count();
  state.counters["server_cpu_us"] = (bench.server_cpu() - cpu) / requests;
}

// ---- seenby

/// A store whose users' filters have exactly so many bytes of bits and are full to their rate of 1%.
std::unique_ptr<RedisStore<>> make_store(Bench& bench, std::size_t bytes, std::size_t& items) {
  const FilterShape shape{.layout = LayoutKind::split_block, .hash_count = 8, .bits = bytes * 8};
  items = sizing::capacity_of(shape, 0.01);
  StorePolicy policy{.wrong_hide_rate = 0.01, .users_per_request = 1, .initial_items = items};
  RedisStoreOptions options;
  options.prefix = std::string(prefix).append(std::to_string(bytes)).append(":");
  options.timeout = std::chrono::seconds(10);
  auto store = std::make_unique<RedisStore<>>(bench.executor(), policy, options);
  std::vector<SeenDigest> history;
  for (std::uint64_t item = 0; item < items; ++item) history.push_back({Xxh3Hash{}(item), Time{}});
  store->set_replay([&](const std::uint64_t&, Time) -> Result<std::vector<SeenDigest>> { return history; });
  for (std::uint64_t user = 0; user < population; ++user) {
    bench.keep(store->key_of(user));
    if (auto gone = store->forget(user); !gone) give_up(gone.error().message);
    if (auto done = store->rebuild(user); !done) give_up(done.error().message);
  }
  const auto size = must(execute_one(
      *bench.executor(), Command::with_key(1, std::string_view("STRLEN"), store->key_of(0)), Bench::patience()));
  if (*size.integer() != static_cast<std::int64_t>(bytes + 32))
    give_up("expected another filter size, got " + std::to_string(*size.integer()));
  return store;
}

void check_answers(const Request& request, const Answer& answer, std::size_t items_a_user) {
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    if (request.items[i] < items_a_user && answer.seen_by[i] != users_a_request)
      give_up("an item that was recorded is unseen");
  }
}

void check(const RedisStore<>& store, const Request& request, Answer& answer) {
  store.check(std::span<const std::uint64_t>(request.users), ItemBatch<std::uint64_t>{request.items, request.digests},
              answer.seen_by, answer.status);
  for (const UserStatus& status : answer.status) {
    if (status.state != UserState::known) give_up("a user is not there");
  }
}

void read_seenby(benchmark::State& state, Bench& bench, std::size_t bytes, std::size_t callers) {
  std::size_t items = 0;
  const auto store = make_store(bench, bytes, items);
  const auto requests = make_requests(items);
  // Every user once, so that what a process remembers of large values is remembered.
  for (const Request& request : requests) {
    Answer answer;
    check(*store, request, answer);
    check_answers(request, answer, items);
  }
  measure(state, bench, callers, 1, [&]() -> Caller {
    return [&, answer = Answer{}](std::size_t call) mutable {
      check(*store, requests[call % requests.size()], answer);
      benchmark::DoNotOptimize(answer.seen_by.data());
      benchmark::ClobberMemory();
    };
  });
}

void tick_seenby(benchmark::State& state, Bench& bench, std::size_t bytes, std::size_t callers) {
  using TickRequest = CheckRequest<std::uint64_t, std::uint64_t>;
  std::size_t items = 0;
  const auto store = make_store(bench, bytes, items);
  const auto requests = make_requests(items);
  for (const Request& request : requests) {
    Answer answer;
    check(*store, request, answer);
  }
  measure(state, bench, callers, requests_a_tick, [&]() -> Caller {
    return [&, answers = std::vector<Answer>(requests_a_tick),
            tick = std::vector<TickRequest>{}](std::size_t call) mutable {
      tick.clear();
      const std::size_t first = call * requests_a_tick;
      for (std::size_t i = 0; i < requests_a_tick; ++i) {
        const Request& request = requests[(first + i) % requests.size()];
        tick.push_back({request.users, {request.items, request.digests}, answers[i].seen_by, answers[i].status});
      }
      store->check_many(std::span<const TickRequest>(tick));
      benchmark::ClobberMemory();
      if (answers.back().status[0].state != UserState::known) give_up("a user is not there");
      check_answers(requests[first % requests.size()], answers[0], items);
    };
  });
}

// ---- the quiz article: u5 exponent at the head, k = 4, one BITFIELD a position

/// What a caller of the pipelines below keeps between requests.
struct Pipeline {
  std::vector<Command> batch{};
  std::array<std::uint8_t, candidates> seen_by{};
};

void read_per_bit(benchmark::State& state, Bench& bench, std::size_t bytes, std::size_t callers) {
  constexpr std::size_t k = 4;
  constexpr std::size_t header_bits = 5;
  const std::uint64_t bits = bytes * 8;
  const std::size_t items = bytes;
  std::mt19937_64 random(1);
  std::vector<std::string> keys;
  for (std::size_t user = 0; user < population; ++user) {
    std::string& key = keys.emplace_back(prefix);
    key.append("article:").append(std::to_string(bytes)).append(":{").append(std::to_string(user)).append("}");
    bench.keep(key);
    std::string value(bytes + 1, '\0');
    for (char& c : value) c = static_cast<char>(random() & random());
    must(execute_one(*bench.executor(), Command::with_key(1, std::string_view("SET"), key, value), Bench::patience()));
  }
  const auto requests = make_requests(items);
  const auto ask = [&](Pipeline& own, const Request& request) {
    own.batch.clear();
    for (const std::uint64_t user : request.users) {
      for (const Digest digest : request.digests) {
        const std::uint64_t step = (digest.value >> 32) | 1;
        for (std::uint64_t i = 0; i < k; ++i) {
          const std::uint64_t position = header_bits + (digest.value + i * step) % bits;
          own.batch.push_back(Command::with_key(1, std::string_view("BITFIELD"), keys[user], std::string_view("GET"),
                                                std::string_view("u1"), static_cast<std::int64_t>(position)));
        }
      }
    }
    const auto replies = bench.executor()->execute(own.batch, Bench::patience());
    if (!replies) give_up(replies.error().message);
    own.seen_by.fill(0);
    std::size_t at = 0;
    for (std::size_t user = 0; user < request.users.size(); ++user) {
      for (std::uint8_t& seen : own.seen_by) {
        std::int64_t all = 1;
        for (std::size_t j = 0; j < k; ++j) all &= *(*replies)[at++].array()->front().integer();
        seen = static_cast<std::uint8_t>(seen + all);
      }
    }
    benchmark::DoNotOptimize(own.seen_by.data());
  };
  measure(state, bench, callers, 1, [&]() -> Caller {
    return [&, own = Pipeline{}](std::size_t call) mutable { ask(own, requests[call % requests.size()]); };
  });
}

// ---- RedisBloom

void read_bloom(benchmark::State& state, Bench& bench, std::size_t bytes, std::size_t callers) {
  // RedisBloom takes 9.585 bits an item at 1%.
  const std::size_t items = static_cast<std::size_t>(static_cast<double>(bytes * 8) / 9.585);
  std::vector<std::string> keys;
  for (std::size_t user = 0; user < population; ++user) {
    std::string& key = keys.emplace_back(prefix);
    key.append("bloom:").append(std::to_string(bytes)).append(":{").append(std::to_string(user)).append("}");
    bench.keep(key);
    must(execute_one(*bench.executor(), Command::with_key(1, std::string_view("DEL"), key), Bench::patience()));
    must(execute_one(*bench.executor(),
                     Command::with_key(1, std::string_view("BF.RESERVE"), key, std::string_view("0.01"),
                                       static_cast<std::int64_t>(items)),
                     Bench::patience()));
    for (std::size_t at = 0; at < items; at += 1'000) {
      Command add = Command::with_key(1, std::string_view("BF.MADD"), key);
      for (std::size_t item = at; item < std::min(items, at + 1'000); ++item) add.add(static_cast<std::int64_t>(item));
      must(execute_one(*bench.executor(), add, Bench::patience()));
    }
  }
  const auto requests = make_requests(items);
  const auto ask = [&](Pipeline& own, const Request& request) {
    own.batch.clear();
    for (const std::uint64_t user : request.users) {
      Command& exists = own.batch.emplace_back();
      exists.add("BF.MEXISTS").add_key(keys[user]);
      for (const std::uint64_t item : request.items) exists.add(static_cast<std::int64_t>(item));
    }
    const auto replies = bench.executor()->execute(own.batch, Bench::patience());
    if (!replies) give_up(replies.error().message);
    own.seen_by.fill(0);
    for (const Reply& reply : *replies) {
      for (std::size_t i = 0; i < candidates; ++i)
        own.seen_by[i] = static_cast<std::uint8_t>(own.seen_by[i] + *(*reply.array())[i].integer());
    }
    benchmark::DoNotOptimize(own.seen_by.data());
  };
  measure(state, bench, callers, 1, [&]() -> Caller {
    return [&, own = Pipeline{}](std::size_t call) mutable { ask(own, requests[call % requests.size()]); };
  });
}

// ---- GET: the same bytes, and nothing done with them

void read_get(benchmark::State& state, Bench& bench, std::size_t bytes, std::size_t callers) {
  std::vector<std::string> keys;
  for (std::size_t user = 0; user < population; ++user) {
    std::string& key = keys.emplace_back(prefix);
    key.append("get:").append(std::to_string(bytes)).append(":{").append(std::to_string(user)).append("}");
    bench.keep(key);
    must(execute_one(*bench.executor(),
                     Command::with_key(1, std::string_view("SET"), key, std::string(bytes + 32, 'x')),
                     Bench::patience()));
  }
  const auto requests = make_requests(bytes);
  measure(state, bench, callers, 1, [&]() -> Caller {
    return [&, own = Pipeline{}](std::size_t call) mutable {
      own.batch.clear();
      for (const std::uint64_t user : requests[call % requests.size()].users) {
        own.batch.emplace_back().add("GET").add_key(keys[user]);
      }
      const auto replies = bench.executor()->execute(own.batch, Bench::patience());
      if (!replies) give_up(replies.error().message);
      benchmark::DoNotOptimize(replies->data());
    };
  });
}

// ---- Writes: users of 1,000 items at first; what is written is drawn from 4,000, so that users stop to grow

constexpr std::uint64_t items_before = 1'000;
constexpr std::uint64_t items_in_all = 4'000;

struct Write {
  std::uint64_t user = 0;
  std::vector<std::uint64_t> items{};
  std::vector<Digest> digests{};
};

std::vector<Write> make_writes(std::size_t count) {
  std::mt19937_64 random(20'240'602);
  std::vector<Write> writes(4'000);
  for (Write& write : writes) {
    write.user = random() % population;
    for (std::size_t i = 0; i < count; ++i) {
      write.items.push_back(random() % items_in_all);
      write.digests.push_back(Xxh3Hash{}(write.items.back()));
    }
  }
  return writes;
}

/// What every user has before.
Write first_write() {
  Write write;
  for (std::uint64_t item = 0; item < items_before; ++item) {
    write.items.push_back(item);
    write.digests.push_back(Xxh3Hash{}(item));
  }
  return write;
}

/// `with_history`: users who grow by reading their history again.
void write_store(benchmark::State& state, Bench& bench, std::size_t count, std::size_t callers, bool with_history) {
  RedisStoreOptions options;
  options.prefix = std::string(prefix).append(with_history ? "history:" : "write:");
  options.timeout = std::chrono::seconds(10);
  RedisStore<> store(bench.executor(), {.wrong_hide_rate = 0.01, .users_per_request = 1}, options);
  std::vector<SeenDigest> history;
  for (std::uint64_t item = 0; item < items_in_all; ++item) history.push_back({Xxh3Hash{}(item), Time{}});
  if (with_history) {
    store.set_replay([&](const std::uint64_t&, Time) -> Result<std::vector<SeenDigest>> { return history; });
  }
  const Write first = first_write();
  for (std::uint64_t user = 0; user < population; ++user) {
    bench.keep(store.key_of(user));
    must(store.forget(user));
    must(store.record(user, ItemBatch<std::uint64_t>{first.items, first.digests}));
  }
  const auto writes = make_writes(count);
  measure(state, bench, callers, 1, [&]() -> Caller {
    return [&](std::size_t call) {
      const Write& write = writes[call % writes.size()];
      must(store.record(write.user, ItemBatch<std::uint64_t>{write.items, write.digests}));
    };
  });
}
void write_seenby(benchmark::State& state, Bench& bench, std::size_t count, std::size_t callers) {
  write_store(state, bench, count, callers, false);
}
void write_seenby_history(benchmark::State& state, Bench& bench, std::size_t count, std::size_t callers) {
  write_store(state, bench, count, callers, true);
}

/// Sends one pipeline a write, as `append(batch, key, write)` makes it.
void write_pipelines(benchmark::State& state, Bench& bench, std::size_t count, std::size_t callers,
                     const std::vector<std::string>& keys,
                     const std::function<void(std::vector<Command>&, const std::string&, const Write&)>& append) {
  const auto writes = make_writes(count);
  measure(state, bench, callers, 1, [&]() -> Caller {
    return [&, batch = std::vector<Command>{}](std::size_t call) mutable {
      const Write& write = writes[call % writes.size()];
      batch.clear();
      append(batch, keys[write.user], write);
      const auto replies = bench.executor()->execute(batch, Bench::patience());
      if (!replies) give_up(replies.error().message);
      benchmark::DoNotOptimize(replies->data());
    };
  });
}

std::vector<std::string> written_keys(Bench& bench, std::string_view contender) {
  std::vector<std::string> keys;
  for (std::size_t user = 0; user < population; ++user) {
    std::string& key = keys.emplace_back(prefix);
    key.append(contender).append(":{").append(std::to_string(user)).append("}");
    bench.keep(key);
    must(execute_one(*bench.executor(), Command::with_key(1, std::string_view("DEL"), key), Bench::patience()));
  }
  return keys;
}

/// The article's way: k = 4, one BITFIELD a position, in 8 KiB a user.
void write_per_bit(benchmark::State& state, Bench& bench, std::size_t count, std::size_t callers) {
  const auto keys = written_keys(bench, "write-article");
  write_pipelines(state, bench, count, callers, keys,
                  [](std::vector<Command>& batch, const std::string& key, const Write& write) {
                    for (const Digest digest : write.digests) {
                      const std::uint64_t step = (digest.value >> 32) | 1;
                      for (std::uint64_t i = 0; i < 4; ++i) {
                        const std::uint64_t position = 5 + (digest.value + i * step) % 65'536;
                        batch.push_back(Command::with_key(1, std::string_view("BITFIELD"), key, std::string_view("SET"),
                                                          std::string_view("u1"), static_cast<std::int64_t>(position),
                                                          std::string_view("1")));
                      }
                    }
                  });
}

void write_bloom(benchmark::State& state, Bench& bench, std::size_t count, std::size_t callers) {
  const auto keys = written_keys(bench, "write-bloom");
  for (const std::string& key : keys) {
    Command add = Command::with_key(1, std::string_view("BF.MADD"), key);
    for (std::uint64_t item = 0; item < items_before; ++item) add.add(static_cast<std::int64_t>(item));
    must(execute_one(*bench.executor(), add, Bench::patience()));
  }
  write_pipelines(state, bench, count, callers, keys,
                  [](std::vector<Command>& batch, const std::string& key, const Write& write) {
                    Command& add = batch.emplace_back();
                    add.add("BF.MADD").add_key(key);
                    for (const std::uint64_t item : write.items) add.add(static_cast<std::int64_t>(item));
                  });
}

using Contender = void (*)(benchmark::State&, Bench&, std::size_t bytes_or_items, std::size_t callers);

/// The contender with all callers, and with one.
void add(Bench& bench, const std::string& name, Contender contender, std::size_t bytes, std::size_t callers) {
  for (const auto& [suffix, count] : {std::pair{"", callers}, std::pair{"_one_caller", std::size_t{1}}}) {
    benchmark::RegisterBenchmark(std::string(name).append(suffix).c_str(), [&bench, contender, bytes,
                                                                            count = count](benchmark::State& state) {
      contender(state, bench, bytes, count);
    })->Unit(benchmark::kMicrosecond);
  }
}

std::size_t callers_wanted() {
  const char* given = std::getenv("SEENBY_BENCH_CALLERS");
  if (given == nullptr) return 4;
  const long callers = std::strtol(given, nullptr, 10);
  if (callers < 1 || callers > 64) give_up("expected SEENBY_BENCH_CALLERS from 1 to 64");
  return static_cast<std::size_t>(callers);
}

}  // namespace

int main(int argc, char** argv) {
  // A request mostly waits, and Google Benchmark counts processor time: a tenth of a second of it is long enough. Given
  // first, so that the caller's own flag wins; per benchmark it would become part of the names.
  std::string min_time = "--benchmark_min_time=0.1";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + 1, min_time.data());
  argc = static_cast<int>(arguments.size());
  argv = arguments.data();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const std::size_t callers = callers_wanted();
  Bench bench;
  if (!bench.ready()) return 0;
  const bool bloom = bench.has_bloom();
  if (!bloom) std::fprintf(stderr, "bf_mexists and bf_madd SKIPPED: the server has no RedisBloom\n");
  std::fprintf(stderr, "callers: %zu, and one where the name says so\n", callers);
  const std::pair<const char*, std::size_t> sizes[] = {
      {"read_256B/", 256}, {"read_2KiB/", 2'048}, {"read_128KiB/", 131'072}};
  for (const auto& [group, bytes] : sizes) {
    const std::string name = group;
    add(bench, name + "seenby", read_seenby, bytes, callers);
    add(bench, name + "seenby_tick100", tick_seenby, bytes, callers);
    add(bench, name + "get", read_get, bytes, callers);
    add(bench, name + "article_per_bit", read_per_bit, bytes, callers);
    if (bloom) add(bench, name + "bf_mexists", read_bloom, bytes, callers);
  }
  for (const std::size_t items : {std::size_t{1}, std::size_t{20}, std::size_t{100}}) {
    const std::string name = std::string("write_").append(std::to_string(items)).append("/");
    add(bench, name + "seenby", write_seenby, items, callers);
    add(bench, name + "seenby_history", write_seenby_history, items, callers);
    add(bench, name + "article_per_bit", write_per_bit, items, callers);
    if (bloom) add(bench, name + "bf_madd", write_bloom, items, callers);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
