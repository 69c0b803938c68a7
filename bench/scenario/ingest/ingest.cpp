// SPDX-License-Identifier: MIT
// Events a second through the whole path (queue, history, filters, acknowledgement), by batch size: embedded in SQLite
// and LMDB, over PostgreSQL and Redis where they are installed, and from a Redis stream too; then a rebuild of every
// filter from the history.
//   seenby_scenario_ingest [EVENTS | FILE]     100,000 events of 20,000 users unless another number is given, or a file
//                                              of lines "user<TAB>item<TAB>seconds"
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "seenby/histories/replay.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "seenby/lmdb/store.hpp"
#include "seenby/sqlite/history.hpp"
#include "support/temporary_folder.hpp"
#ifdef SEENBY_BENCH_SERVERS
#include "seenby/postgres/history.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/redis/stream_queue.hpp"
#include "support/postgres_server.hpp"
#include "support/redis_server.hpp"
#endif

namespace {

using namespace seenby;
using Steady = std::chrono::steady_clock;
using User = std::uint64_t;
using Item = std::uint64_t;
using Event = SeenEvent<User, Item>;
using EmbeddedHistory = SqliteHistory<User, Item>;
using EmbeddedStore = LmdbStore<User>;

const StorePolicy policy{.wrong_hide_rate = 0.01};

double seconds_since(Steady::time_point start) { return std::chrono::duration<double>(Steady::now() - start).count(); }

/// A few users see most: their numbers follow a power law, as people do.
std::vector<Event> made_events(std::uint64_t count) {
  std::vector<Event> events;
  const double users = 20'000;
  for (std::uint64_t n = 0; n < count; ++n) {
    const double place = static_cast<double>(detail::mix64(n) >> 11) * 0x1p-53;
    const auto user = static_cast<User>(users * place * place);
    events.push_back({user, detail::mix64(n ^ 0xabcdU) % 10'000, Time{std::chrono::seconds{1'700'000'000 + n / 10}},
                      std::string("e").append(std::to_string(n))});
  }
  return events;
}

std::vector<Event> read_events(const char* path) {
  std::vector<Event> events;
  std::ifstream file(path);
  User user = 0;
  Item item = 0;
  std::int64_t at = 0;
  while (file >> user >> item >> at) {
    events.push_back(
        {user, item, Time{std::chrono::seconds{at}}, std::string("e").append(std::to_string(events.size()))});
  }
  return events;
}

std::vector<std::string> lines_of(const std::vector<Event>& events) {
  std::vector<std::string> lines;
  for (const Event& event : events) {
    lines.push_back(format_impression({.id = event.id,
                                       .user = std::to_string(event.user),
                                       .item = std::to_string(event.item),
                                       .at = event.seen_at})
                        .or_throw());
  }
  return lines;
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Took {
  double seconds;            ///< by the clock
  double processor_seconds;  ///< of this process: what other programs do has no part in it
};

/// Ingests what is in a queue.
template <class Queue, class History, class Store>
Took drain(Queue& queue, std::size_t events, History& history, Store& store, std::size_t batch) {
  Ingestor ingestor(queue, history, store, {.batch = batch, .wait = std::chrono::milliseconds(0)});
  const auto start = Steady::now();
  const double processor = processor_seconds();
  while (ingestor.step().or_throw() != 0) {}
  const Took took{seconds_since(start), processor_seconds() - processor};
  const IngestCounters counters = ingestor.counters();
  if (counters.recorded != events || counters.acknowledged != events) {
    std::fprintf(stderr, "expected %zu events recorded, got %llu\n", events,
                 static_cast<unsigned long long>(counters.recorded));
    std::exit(1);
  }
  return took;
}

/// Ingests all messages from a queue in this process.
template <class Message, class History, class Store>
Took ingest(const std::vector<Message>& messages, History& history, Store& store, std::size_t batch) {
  BoundedQueue<Message> queue({.capacity = messages.size() + 1});
  for (const Message& message : messages) queue.push(message).or_throw();
  return drain(queue, messages.size(), history, store, batch);
}

void row(const char* path, const char* messages, std::size_t batch, std::size_t events, const Took& took) {
  const auto count = static_cast<double>(events);
  std::printf("%-20s %-8s %8zu %12.0f %14.2f\n", path, messages, batch, count / took.seconds,
              took.processor_seconds * 1e6 / count);
  std::fflush(stdout);
}

/// Loses every filter, and rebuilds them all from the history; false where something is missing afterwards.
template <class History, class Store>
bool rebuild(const char* path, History& history, Store& store) {
  store.set_replay(replay_of(history, store.hasher()));
  const auto start = Steady::now();
  const RepairProgress progress = RepairJob(history, store, {.probes = 0, .page = 2'000}).sweep().or_throw();
  std::printf("%-20s %llu filters rebuilt in %.2f s\n", path, static_cast<unsigned long long>(progress.repaired),
              seconds_since(start));
  const RepairProgress verified = RepairJob(history, store, {.probes = 0, .repair = false}).sweep().or_throw();
  if (progress.repaired == progress.users && verified.healthy == verified.users) return true;
  std::fprintf(stderr, "expected %llu healthy filters, got %llu\n", static_cast<unsigned long long>(verified.users),
               static_cast<unsigned long long>(verified.healthy));
  return false;
}

bool run_embedded(const std::vector<Event>& events, const std::vector<std::string>& lines) {
  constexpr const char* path = "SQLite, LMDB";
  for (const std::size_t batch : {100U, 1'000U, 10'000U}) {
    const test::TemporaryFolder folder;
    auto history = EmbeddedHistory::open(folder.path("history")).or_throw();
    auto store = EmbeddedStore::open(folder.path("filters"), policy).or_throw();
    row(path, "events", batch, events.size(), ingest(events, history, store, batch));
    if (batch != 10'000) continue;
    auto empty = EmbeddedStore::open(folder.path("new"), policy).or_throw();
    if (!rebuild(path, history, empty)) return false;
  }
  const test::TemporaryFolder folder;
  auto history = EmbeddedHistory::open(folder.path("history")).or_throw();
  auto store = EmbeddedStore::open(folder.path("filters"), policy).or_throw();
  row(path, "JSON", 10'000, lines.size(), ingest(lines, history, store, 10'000));
  return true;
}

#ifdef SEENBY_BENCH_SERVERS
bool run_servers(const std::vector<Event>& events, const std::vector<std::string>& lines) {
  if (!test::PostgresServer::installed() || !test::RedisServer::installed("redis-server")) {
    std::puts("PostgreSQL, Redis    SKIPPED: one of them is not installed");
    return true;
  }
  constexpr const char* path = "PostgreSQL, Redis";
  const test::PostgresServer postgres;
  auto history = PostgresHistory<User, Item>::open(postgres.address()).or_throw();
  for (const std::size_t batch : {100U, 1'000U, 10'000U}) {
    const test::RedisServer redis;
    redis::RedisStore<User> store(redis.socket_url() + "?timeout_ms=10000", policy, {.remembered_users = 1 << 17});
    postgres.sql("TRUNCATE seenby.events");
    row(path, "events", batch, events.size(), ingest(events, history, store, batch));
    if (batch != 10'000) continue;
    redis.call({"FLUSHALL"});
    if (!rebuild(path, history, store)) return false;
    postgres.sql("TRUNCATE seenby.events");
    row(path, "JSON", batch, lines.size(), ingest(lines, history, store, batch));
  }
  for (const std::size_t batch : {100U, 1'000U, 10'000U}) {
    const test::RedisServer redis;
    const std::string url = redis.socket_url() + "?timeout_ms=10000";
    redis::RedisStore<User> store(url, policy, {.remembered_users = 1 << 17});
    redis::StreamQueue queue(redis::make_executor(url).or_throw(), "events", {.max_length = 0});
    for (std::size_t from = 0; from < lines.size(); from += 1'000) {
      queue.push(std::span(lines).subspan(from, std::min<std::size_t>(1'000, lines.size() - from))).or_throw();
    }
    postgres.sql("TRUNCATE seenby.events");
    row("stream and both", "JSON", batch, lines.size(), drain(queue, lines.size(), history, store, batch));
  }
  return true;
}
#endif

}  // namespace

int main(int count, char** arguments) {
  char* end = nullptr;
  const std::uint64_t number = count > 1 ? std::strtoull(arguments[1], &end, 10) : 100'000;
  const bool is_file = end != nullptr && *end != '\0';
  const std::vector<Event> events = is_file ? read_events(arguments[1]) : made_events(number);
  if (events.empty()) {
    std::fputs("expected a number of events, or a file of some\n", stderr);
    return 2;
  }
  std::set<User> users;
  for (const Event& event : events) users.insert(event.user);
  std::printf("%zu events of %zu users\n%-20s %-8s %8s %12s\n", events.size(), users.size(), "path", "messages",
              "batch", "events/s");
  const std::vector<std::string> lines = lines_of(events);
  bool good = run_embedded(events, lines);
#ifdef SEENBY_BENCH_SERVERS
  good = good && run_servers(events, lines);
#endif
  return good ? 0 : 1;
}
