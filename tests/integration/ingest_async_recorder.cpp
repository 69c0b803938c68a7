// SPDX-License-Identifier: MIT
// AsyncRecorder: returns at once, writes in batches, and leaves nothing behind at the end.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/ingest/async_recorder.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace seenby;
using namespace std::chrono_literals;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;
constexpr std::uint64_t alice = 1;

SeenFilter<MemoryStore<std::uint64_t>> plain_filter() { return SeenFilter{MemoryStore<std::uint64_t>{{}}}; }

TEST_CASE("A record is hidden from its user at once, and in the filter after the flush",
          "[ingest][000-13][concurrent]") {
  auto filter = plain_filter();
  filter.create(alice).or_throw();
  AsyncRecorder recorder(filter, {.flush_every = 100ms});
  recorder.record(alice, 7).or_throw();
  CHECK(filter.ask(alice, std::uint64_t{7}) == Answer::seen);  // read your writes
  CHECK(filter.ask(alice, std::uint64_t{8}) == Answer::unseen);
  while (recorder.backlog() != 0) std::this_thread::sleep_for(1ms);
  CHECK(recorder.counters().recorded == 1);
  CHECK(recorder.staleness() <= 2s);
}

TEST_CASE("Without an overlay a record is eventual, and how stale the filter is can be read",
          "[ingest][002-11][concurrent]") {
  test::TestClock clock;
  SeenFilter filter{MemoryStore<std::uint64_t>{{.clock = clock.clock()}}};
  filter.create(alice).or_throw();
  AsyncRecorder recorder(filter, {.flush_every = 10ms, .overlay = 0s});
  while (recorder.staleness() > 0s) std::this_thread::sleep_for(1ms);
  clock.advance(30s);
  CHECK(recorder.staleness() >= 0s);
  recorder.record(alice, 7).or_throw();
  while (filter.ask(alice, std::uint64_t{7}) != Answer::seen) std::this_thread::sleep_for(1ms);
  while (recorder.staleness() > 0s) std::this_thread::sleep_for(1ms);
}

TEST_CASE("What is queued is written at the end, into the history as well, at its own time", "[ingest][concurrent]") {
  History history;
  SeenFilter filter{MemoryStore<std::uint64_t>{{}}, history};
  {
    AsyncRecorder recorder(filter, {.batch = 64, .flush_every = 1h});
    std::vector<std::thread> writers;
    for (std::uint64_t writer = 0; writer < 4; ++writer) {
      writers.emplace_back([&, writer] {
        for (std::uint64_t n = 0; n < 250; ++n) {
          recorder.record(n % 3, writer * 1'000 + n, Time{std::chrono::seconds{n}}).or_throw();
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
  }
  std::uint64_t items = 0;
  for (std::uint64_t user = 0; user < 3; ++user) items += history.item_count(user).or_throw();
  CHECK(items == 1'000);
  CHECK(history.item_count(0, Time{std::chrono::seconds{240}}).or_throw() == 4 * 4);  // 240, 243, 246, 249
  CHECK(filter.ask(std::uint64_t{0}, std::uint64_t{3}) == Answer::seen);
}

TEST_CASE("A full queue refuses, and the refused item is not hidden", "[ingest][concurrent]") {
  auto filter = plain_filter();
  filter.create(alice).or_throw();
  AsyncRecorder recorder(filter, {.queue = {.capacity = 1}, .batch = 100, .flush_every = 1h});
  recorder.record(alice, 7).or_throw();
  CHECK(recorder.record(alice, 8).error().code == ErrorCode::refused);
  CHECK(recorder.dropped() == 1);
  CHECK(filter.ask(alice, std::uint64_t{7}) == Answer::seen);
  CHECK(filter.ask(alice, std::uint64_t{8}) == Answer::unseen);
  CHECK(recorder.close() == 0);
  CHECK(recorder.close() == 0);
  CHECK(recorder.record(alice, 9).error().code == ErrorCode::unavailable);
}

/// A history that is down until it is told otherwise.
struct Down {
  using user_type = std::uint64_t;
  using item_type = std::uint64_t;
  Result<std::size_t> append(std::span<const SeenEvent<std::uint64_t, std::uint64_t>> events) {
    if (down) return Error{ErrorCode::unreachable, "down"};
    return rows.append(events);
  }
  Result<void> append(std::uint64_t user, std::span<const std::uint64_t> items, Time when) {
    return rows.append(user, items, when);
  }
  Result<void> contains(std::uint64_t user, std::span<const std::uint64_t> items, std::span<std::uint8_t> out,
                        Time since) {
    return rows.contains(user, items, out, since);
  }
  Result<std::vector<SeenItem<std::uint64_t>>> seen_since(std::uint64_t user, Time since) {
    return rows.seen_since(user, since);
  }
  Result<bool> forget(std::uint64_t user) { return rows.forget(user); }
  std::atomic<bool> down{true};
  History rows;
};

TEST_CASE("While the history is down records wait; what cannot be written in time is counted", "[ingest][concurrent]") {
  Down history;
  SeenFilter filter{MemoryStore<std::uint64_t>{{}}, history};
  AsyncRecorder recorder(filter, {.flush_every = 5ms, .patience = 50ms});
  recorder.record(alice, 7).or_throw();
  while (recorder.counters().failures < 2) std::this_thread::sleep_for(1ms);
  CHECK(recorder.backlog() == 1);
  history.down = false;
  while (recorder.backlog() != 0) std::this_thread::sleep_for(1ms);
  CHECK(history.rows.item_count(alice).or_throw() == 1);
  history.down = true;
  recorder.record(alice, 8).or_throw();
  CHECK(recorder.close() == 1);
}

}  // namespace
