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
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace std::chrono_literals;
using test::wait_until;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;
constexpr std::uint64_t alice = 1;

SeenFilter<MemoryStore<std::uint64_t>> plain_filter() { return SeenFilter{MemoryStore<std::uint64_t>{{}}}; }

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
  History rows{};
};

TEST_CASE("A record is hidden from its user at once, and in the filter after the flush",
          "[ingest][000-13][concurrent]") {
  auto filter = plain_filter();
  filter.create(alice).or_throw();
  AsyncRecorder recorder(filter, {.flush_every = 100ms});
  recorder.record(alice, 7).or_throw();
  CHECK(filter.ask(alice, std::uint64_t{7}) == Answer::seen);  // read your writes
  CHECK(filter.ask(alice, std::uint64_t{8}) == Answer::unseen);
  REQUIRE(wait_until([&] { return recorder.backlog() == 0; }));
  CHECK(recorder.counters().recorded == 1);
  CHECK(recorder.staleness() <= 2s);
}

TEST_CASE("Without an overlay a record is eventual, and how stale the filter is can be read",
          "[ingest][002-11][concurrent]") {
  test::TestClock clock;
  Down history{.down = false};
  SeenFilter filter{MemoryStore<std::uint64_t>{{.clock = clock.clock()}}, history};
  filter.create(alice).or_throw();
  AsyncRecorder recorder(filter, {.flush_every = 10ms, .overlay = 0s});
  REQUIRE(wait_until([&] { return recorder.staleness() == 0s; }));
  history.down = true;
  recorder.record(alice, 7).or_throw();
  REQUIRE(wait_until([&] { return recorder.counters().failures != 0; }));
  clock.advance(30s);
  CHECK(filter.ask(alice, std::uint64_t{7}) == Answer::unseen);
  CHECK(recorder.staleness() == 30s);
  history.down = false;
  CHECK(wait_until([&] { return filter.ask(alice, std::uint64_t{7}) == Answer::seen; }));
  CHECK(wait_until([&] { return recorder.staleness() == 0s; }));
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

TEST_CASE("While the history is down records wait; what cannot be written in time is counted", "[ingest][concurrent]") {
  Down history;
  SeenFilter filter{MemoryStore<std::uint64_t>{{}}, history};
  AsyncRecorder recorder(filter, {.flush_every = 5ms, .patience = 50ms});
  recorder.record(alice, 7).or_throw();
  REQUIRE(wait_until([&] { return recorder.counters().failures >= 2; }));
  CHECK(recorder.backlog() == 1);
  history.down = false;
  REQUIRE(wait_until([&] { return recorder.backlog() == 0; }));
  CHECK(history.rows.item_count(alice).or_throw() == 1);
  history.down = true;
  recorder.record(alice, 8).or_throw();
  CHECK(recorder.close() == 1);
}

TEST_CASE("During an outage a full batch is tried again after pauses that grow, and at once when it is closed",
          "[ingest][concurrent]") {
  Down history;
  SeenFilter filter{MemoryStore<std::uint64_t>{{}}, history};
  AsyncRecorder recorder(filter, {.batch = 1, .flush_every = 0ms, .patience = 100ms});
  for (std::uint64_t item = 0; item < 3; ++item) recorder.record(alice, item).or_throw();
  std::this_thread::sleep_for(300ms);
  CHECK(recorder.counters().failures <= 10);  // after 0, 10, 30, 70, 150 and 310 ms
  REQUIRE(wait_until([&] { return recorder.counters().failures >= 3; }));
  const auto begun = std::chrono::steady_clock::now();
  CHECK(recorder.close() == 3);
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(recorder.counters().failures <= 30);
}

TEST_CASE("Several threads may close a recorder at once: all learn what was not written", "[ingest][concurrent]") {
  Down history;
  SeenFilter filter{MemoryStore<std::uint64_t>{{}}, history};
  AsyncRecorder recorder(filter, {.flush_every = 5ms, .patience = 50ms});
  recorder.record(alice, 7).or_throw();
  std::vector<std::jthread> closers;
  std::atomic<std::size_t> left{0};
  for (int i = 0; i < 4; ++i) closers.emplace_back([&] { left += recorder.close(); });
  closers.clear();
  CHECK(left == 4);
}

}  // namespace
