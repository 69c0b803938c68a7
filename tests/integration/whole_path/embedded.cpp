// SPDX-License-Identifier: MIT
// The whole path embedded: a queue in a file, a history in SQLite, filters in LMDB, and a worker that is killed.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "seenby/ingest/ingestor.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "seenby/lmdb/store.hpp"
#include "seenby/sqlite/history.hpp"
#include "support/file_queue.hpp"
#include "support/random.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using History = SqliteHistory<std::string, std::uint64_t>;
using Store = LmdbStore<std::string>;

/// What the worker keeps on disk. Without a sync of the disk: a kill -9 is no loss of power.
struct Disk {
  explicit Disk(const TemporaryFolder& folder)
      : queue(folder.path("queue")),
        history(History::open(folder.path("history"), {.durable = false}).or_throw()),
        store(Store::open(folder.path("filters"), {.wrong_hide_rate = 0.001}, {.durable = false}).or_throw()) {}
  FileQueue queue;
  History history;
  Store store;
};

/// Ingests until the queue is empty, or until it kills itself: before a step, or at any moment.
void work(const TemporaryFolder& folder, std::uint64_t steps, std::uint64_t microseconds) {
  Disk disk(folder);
  Ingestor ingestor(disk.queue, disk.history, disk.store,
                    {.batch = 10, .wait = std::chrono::milliseconds(0), .before = [&](IngestStep) {
                       if (steps-- == 0) ::raise(SIGKILL);
                     }});
  std::thread([microseconds] {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    ::raise(SIGKILL);
  }).detach();
  while (ingestor.step().or_throw() != 0) {}
  ::_exit(0);
}

TEST_CASE("A worker killed again and again leaves every event in the history exactly once, and in the filter",
          "[ingest]") {
  const TemporaryFolder folder;
  SEENBY_RANDOM(random);
  constexpr std::uint64_t events = 40'000;
  std::map<std::uint64_t, std::uint64_t> of_item;
  {
    std::ofstream queue(folder.path("queue"));
    for (std::uint64_t n = 0; n < events; ++n) {
      const std::uint64_t item = n % 1'500;
      ++of_item[item];
      queue << format_impression({.id = "e" + std::to_string(n),
                                  .user = "u" + std::to_string(item % 5),
                                  .item = std::to_string(item),
                                  .at = Time{std::chrono::seconds{1'700'000'000 + n}}})
                   .or_throw()
            << '\n';
    }
  }
  int kills = 0;
  for (int status = -1; status != 0;) {
    // Now before a step, now in the midst of one; the worker gets far enough to go on at all.
    const std::uint64_t steps = random.below(2) == 0 ? 1 + random.below(12) : events;
    const std::uint64_t microseconds = steps == events ? 5'000 + random.below(30'000) : 60'000'000;
    const pid_t child = ::fork();
    if (child == 0) work(folder, steps, microseconds);
    ::waitpid(child, &status, 0);
    if (status == 0) break;
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(++kills < 20'000);
  }
  UNSCOPED_INFO(kills << " kills");
  CHECK(kills >= 100);
  Disk disk(folder);
  CHECK(disk.queue.backlog() == 0);
  std::uint64_t wrong = 0;
  for (const auto& [item, count] : of_item) wrong += disk.history.event_count(item).or_throw() == count ? 0U : 1U;
  CHECK(wrong == 0);
  RepairJob verify(disk.history, disk.store, {.probes = 0, .repair = false});
  const RepairProgress verified = verify.sweep().or_throw();
  CHECK(verified.users == 5);
  CHECK(verified.items == 1'500);
  CHECK(verified.healthy == 5);
  CHECK(verified.false_negatives == 0);
}

}  // namespace
