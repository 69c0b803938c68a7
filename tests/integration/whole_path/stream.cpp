// SPDX-License-Identifier: MIT
// The whole path behind a Redis stream: a history in SQLite, filters in Redis, and workers that are killed.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/redis/stream_queue.hpp"
#include "seenby/sqlite/history.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/random.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using redis::StreamQueue;
using History = SqliteHistory<std::string, std::uint64_t>;
using Store = redis::RedisStore<std::string>;

constexpr std::uint64_t users = 5;

std::string event(std::uint64_t n, std::uint64_t item) {
  return format_impression({.id = "e" + std::to_string(n),
                            .user = "u" + std::to_string(item % users),
                            .item = std::to_string(item),
                            .at = Time{std::chrono::seconds{1'700'000'000 + n}}})
      .or_throw();
}

/// What a worker works on. SQLite without a sync of the disk: a kill -9 is no loss of power.
struct Place {
  explicit Place(const TemporaryFolder& folder, const std::string& url)
      : queue(redis::make_executor(url).or_throw(), "events", {.claim_after = 0ms}),
        history(History::open(folder.path("history"), {.durable = false}).or_throw()),
        store(url, {.wrong_hide_rate = 0.001}) {}
  StreamQueue queue;
  History history;
  Store store;
};

/// Ingests until nothing is left, or until it kills itself: before the step and batch that `at` says, or after a time.
[[noreturn]] void work(const TemporaryFolder& folder, const std::string& url, IngestStep at, std::uint64_t batches,
                       std::chrono::microseconds after) {
  Place place(folder, url);
  Ingestor ingestor(place.queue, place.history, place.store,
                    {.batch = 20, .wait = 0ms, .most_deliveries = 0, .before = [&](IngestStep step) {
                       if (step == at && batches-- == 0) ::raise(SIGKILL);
                     }});
  std::thread([after] {
    std::this_thread::sleep_for(after);
    ::raise(SIGKILL);
  }).detach();
  while (ingestor.step().or_throw() != 0) {}
  ::_exit(0);
}

TEST_CASE("Workers of a stream killed at every step leave every event in the history exactly once, and in the filter",
          "[ingest][redis][002-04]") {
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  const TemporaryFolder folder;
  const RedisServer server;
  SEENBY_RANDOM(random);
  constexpr std::uint64_t events = 24'000;
  std::map<std::uint64_t, std::uint64_t> of_item;
  {
    std::vector<std::string> messages;
    for (std::uint64_t n = 0; n < events; ++n) {
      messages.push_back(event(n, n % 1'500));
      ++of_item[n % 1'500];
    }
    StreamQueue(redis::make_executor(server.socket_url()).or_throw(), "events").push(messages).or_throw();
  }
  constexpr std::array steps{IngestStep::read, IngestStep::append, IngestStep::record, IngestStep::acknowledge};
  std::map<IngestStep, int> kills;
  int in_between = 0;
  for (std::uint64_t round = 0, status = 1; status != 0; ++round) {
    // Now before a step, each as often as the others; now in the midst of one.
    const bool timed = round % 5 == 4;
    const IngestStep at = steps[round % 5 % steps.size()];
    const std::uint64_t batches = timed ? events : 1 + random.below(6);
    const std::chrono::microseconds after = timed ? 5'000us + 30us * random.below(1'000) : 60s;
    const pid_t child = ::fork();
    if (child == 0) work(folder, server.socket_url(), at, batches, after);
    int ended = 0;
    ::waitpid(child, &ended, 0);
    status = ended == 0 ? 0 : 1;
    if (status == 0) break;
    REQUIRE(WIFSIGNALED(ended));
    timed ? ++in_between : ++kills[at];
    REQUIRE(round < 20'000);
  }
  UNSCOPED_INFO(in_between << " kills at any moment");
  for (const IngestStep step : steps) CHECK(kills[step] >= 20);
  const Place place(folder, server.socket_url());
  CHECK(place.queue.backlog().or_throw().held == 0);
  CHECK(place.queue.backlog().or_throw().unread == 0);
  CHECK(place.queue.backlog().or_throw().dead_letters == 0);
  std::uint64_t wrong = 0;
  for (const auto& [item, count] : of_item) wrong += place.history.event_count(item).or_throw() == count ? 0U : 1U;
  CHECK(wrong == 0);
  Place verified(folder, server.socket_url());
  RepairJob verify(verified.history, verified.store, {.probes = 0, .repair = false});
  const RepairProgress progress = verify.sweep().or_throw();
  CHECK(progress.users == users);
  CHECK(progress.items == 1'500);
  CHECK(progress.healthy == users);
  CHECK(progress.false_negatives == 0);
}

TEST_CASE(
    "What is no event, or ended its workers too often, is in the stream's dead letters with the reason; the rest "
    "is ingested",
    "[ingest][redis][002-04]") {
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  const RedisServer server;
  const auto open = [&] {
    return StreamQueue(redis::make_executor(server.socket_url()).or_throw(), "events", {.claim_after = 0ms});
  };
  StreamQueue writer = open();
  writer.push(event(1, 1)).or_throw();
  // Three workers die with it in their hands.
  for (int worker = 0; worker < 3; ++worker) REQUIRE(open().read(9, 0ms).or_throw().size() == 1);
  const std::string huge = R"({"user":"u1","item":")" + std::string(100'000, 'x') + R"(","at":1})";
  writer.push(std::vector<std::string>{"{", "", R"({"user":"u1"})", event(2, 2), "\xff", huge, event(3, 3)}).or_throw();
  MemoryHistory<std::string, std::uint64_t> history;
  MemoryStore<std::string> store({.wrong_hide_rate = 0.001});
  StreamQueue queue = open();
  Ingestor ingestor(queue, history, store, {.batch = 5, .wait = 0ms, .most_deliveries = 3});
  while (ingestor.step().or_throw() != 0) {}
  CHECK(ingestor.counters().buried == 6);
  CHECK(ingestor.counters().appended == 2);
  CHECK(history.event_count(1).or_throw() == 0);
  CHECK(history.event_count(2).or_throw() == 1);
  CHECK(history.event_count(3).or_throw() == 1);
  const auto backlog = queue.backlog().or_throw();
  CHECK(backlog.held == 0);
  CHECK(backlog.unread == 0);
  CHECK(backlog.dead_letters == 6);
  const auto letters = server.call({"XRANGE", queue.dead_letters_key(), "-", "+"});
  const auto& poison = *(*(*letters.array())[0].array())[1].array();
  CHECK(*poison[1].string() == event(1, 1));
  CHECK(poison[3].string()->find("expected at most 3 deliveries without an acknowledgement, got 4") !=
        std::string::npos);
}

}  // namespace
