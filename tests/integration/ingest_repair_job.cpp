// SPDX-License-Identifier: MIT
// RepairJob: a filter that lost what the history knows is found, told apart and rebuilt.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/history_contract.hpp"
#include "support/map_blobs.hpp"
#include "support/test_clock.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;
using Store = MemoryStore<std::uint64_t>;
using Items = std::vector<std::uint64_t>;

Items sequence(std::uint64_t first, std::size_t count) {
  Items items(count);
  for (std::size_t i = 0; i < count; ++i) items[i] = first + i;
  return items;
}
template <class AnyStore>
UserState state_of(const AnyStore& store, std::uint64_t user, const Items& items, std::size_t& seen) {
  std::vector<Digest> digests;
  for (const auto item : items) digests.push_back(store.hasher()(item));
  std::vector<std::uint8_t> out(items.size());
  UserStatus status;
  store.check(std::span(&user, 1), ItemBatch<std::uint64_t>{items, digests}, out, {&status, 1});
  seen = static_cast<std::size_t>(std::count(out.begin(), out.end(), 1));
  return status.state;
}
template <class AnyStore>
void record(AnyStore& store, std::uint64_t user, const Items& items) {
  std::vector<Digest> digests;
  for (const auto item : items) digests.push_back(store.hasher()(item));
  store.record(user, ItemBatch<std::uint64_t>{items, digests}).or_throw();
}

TEST_CASE("A missing filter is rebuilt, one that is suspiciously empty is filled, a healthy one is left alone",
          "[ingest][002-15]") {
  History history;
  Store store{{.wrong_hide_rate = 0.001}};
  store.set_replay(replay_of(history, store.hasher()));
  for (const std::uint64_t user : {1U, 2U, 3U}) history.append(user, sequence(user * 1'000, 300), at(1)).or_throw();
  record(store, 1, sequence(1'000, 300));
  // User 2 lost most of theirs: a store without the replay wrote only what was new.
  Store amnesic{{.wrong_hide_rate = 0.001}};
  record(amnesic, 2, sequence(2'000, 10));
  RepairJob job(history, store);
  CHECK(job.repair(1).or_throw().found == FilterState::healthy);

  const Repair lost = job.repair(3).or_throw();
  CHECK(lost.found == FilterState::lost);
  CHECK(lost.items == 300);
  CHECK(lost.repaired);
  CHECK(job.repair(3).or_throw().found == FilterState::healthy);

  RepairJob other(history, amnesic);
  const Repair incomplete = other.repair(2).or_throw();
  CHECK(incomplete.found == FilterState::incomplete);
  CHECK(incomplete.false_negatives >= 285);
  CHECK(incomplete.repaired);
  std::size_t seen = 0;
  CHECK(state_of(amnesic, 2, sequence(2'000, 300), seen) == UserState::known);
  CHECK(seen == 300);
  CHECK(other.repair(2).or_throw().found == FilterState::healthy);
}

TEST_CASE("A filter that expired early is told apart from one that expired", "[ingest][002-20]") {
  TestClock clock;
  const StorePolicy policy{.window = 30 * day, .slices = 10, .clock = clock.clock()};
  History history;
  Store store{policy};
  history.append(1, Items{1, 2}, clock.now() - 40 * day).or_throw();
  history.append(2, Items{1, 2}, clock.now() - 10 * day).or_throw();
  RepairJob job(history, store);
  const Repair expired = job.repair(1).or_throw();
  CHECK(expired.found == FilterState::expired);
  CHECK_FALSE(expired.repaired);
  CHECK(job.repair(2).or_throw().found == FilterState::lost);
  std::size_t seen = 0;
  CHECK(state_of(store, 1, {1, 2}, seen) == UserState::missing);
  CHECK(state_of(store, 2, {1, 2}, seen) == UserState::known);
  CHECK(seen == 2);
}

TEST_CASE("A sweep repairs every user of the history, and says how far it is", "[ingest][002-15]") {
  History history;
  BlobStore<MapBlobs> store{MapBlobs{}, {.wrong_hide_rate = 0.001}};
  store.set_replay(replay_of(history, store.hasher()));
  for (std::uint64_t user = 0; user < 100; ++user) {
    history.append(user, sequence(user * 100, 20), at(1)).or_throw();
    if (user % 2 == 0) record(store, user, sequence(user * 100, 20));
  }
  std::vector<std::uint64_t> progress;
  RepairJob looking(history, store, {.page = 7, .repair = false});
  const RepairProgress looked = looking.sweep().or_throw();
  CHECK(looked.users == 100);
  CHECK(looked.lost == 50);
  CHECK(looked.repaired == 0);
  RepairJob job(history, store,
                {.page = 7, .progress = [&](const RepairProgress& now) { progress.push_back(now.users); }});
  const RepairProgress done = job.sweep().or_throw();
  CHECK(done.lost == 50);
  CHECK(done.repaired == 50);
  CHECK(done.errors == 0);
  CHECK(progress.size() == 100);
  CHECK(progress.back() == 100);
  CHECK(job.sweep().or_throw().healthy == 100);
}

TEST_CASE("A sweep keeps its pace, stops when asked, and goes on past a user who cannot be asked", "[ingest]") {
  History history;
  MapBlobs blobs;
  BlobStore<MapBlobs> store{blobs, {}};
  for (std::uint64_t user = 0; user < 20; ++user) history.append(user, Items{1}, at(1)).or_throw();
  RepairJob slow(history, store, {.users_per_second = 100});
  const auto begin = std::chrono::steady_clock::now();
  CHECK(slow.sweep().or_throw().users == 20);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(190));
  std::stop_source stop;
  RepairJob stopped(history, store, {.users_per_second = 100, .progress = [&](const RepairProgress& now) {
                                       if (now.users == 5) stop.request_stop();
                                     }});
  CHECK(stopped.sweep(stop.get_token()).or_throw().users == 5);
  blobs.state().down = true;
  CHECK(RepairJob(history, store).sweep().or_throw().errors == 20);
}

TEST_CASE("A filter over its budget is found, and rebuilt where the store can", "[ingest][002-15]") {
  History history;
  history.append(1, sequence(0, 100), at(1)).or_throw();
  // A store that hides everything until it is rebuilt.
  struct Greedy {
    using user_type = std::uint64_t;
    using hasher_type = Xxh3Hash;
    Store inner{{.wrong_hide_rate = 0.01}};
    bool greedy = true;
    int rebuilds = 0;
    mutable int questions = 0;
    [[nodiscard]] const StorePolicy& policy() const noexcept { return inner.policy(); }
    [[nodiscard]] Xxh3Hash hasher() const noexcept { return inner.hasher(); }
    void check(std::span<const std::uint64_t> users, const ItemBatch<std::uint64_t>& batch,
               std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const {
      ++questions;
      inner.check(users, batch, seen_by, status);
      for (std::size_t i = 0; greedy && i < seen_by.size(); i += 10) seen_by[i] = 1;
    }
    Result<RecordOutcome> record(std::uint64_t user, const ItemBatch<std::uint64_t>& batch) {
      return inner.record(user, batch);
    }
    Result<void> create(std::uint64_t user) { return inner.create(user); }
    Result<bool> forget(std::uint64_t user) { return inner.forget(user); }
    Result<void> rebuild(std::uint64_t) {
      ++rebuilds;
      greedy = false;
      return {};
    }
    [[nodiscard]] StoreCounters counters() const { return inner.counters(); }
  } store;
  record(store, 1, sequence(0, 100));
  RepairJob job(history, store);
  CHECK(job.repair(1).or_throw().found == FilterState::over_budget);
  CHECK(store.rebuilds == 1);
  store.questions = 0;
  CHECK(job.repair(1).or_throw().found == FilterState::healthy);
  CHECK(store.rebuilds == 1);
  CHECK(store.questions == 1);  // about what it must hold, and what it should not
}

TEST_CASE("A sweep over pages of no users is refused", "[ingest]") {
  History history;
  Store store{{}};
  CHECK_THROWS_AS(RepairJob(history, store, {.page = 0}), std::invalid_argument);
}

TEST_CASE("On read a filter is repaired once, however many requests ask", "[ingest][concurrent]") {
  struct Slow : History {
    std::atomic<int> reads{0};
    std::atomic<bool> open{false};
    Result<std::vector<SeenItem<std::uint64_t>>> seen_since(std::uint64_t user, Time since = all_time) {
      ++reads;
      static_cast<void>(wait_until([&] { return open.load(); }));  // in a thread: no CHECK
      return History::seen_since(user, since);
    }
  } history;
  history.append(1, sequence(0, 100), at(1)).or_throw();
  Store store{{}};
  RepairJob job(history, store);
  std::atomic<int> rebuilt{0};
  std::vector<std::thread> requests;
  for (int request = 0; request < 4; ++request) {
    requests.emplace_back([&] {
      if (job.repair(1).or_throw().repaired) ++rebuilt;
    });
  }
  CHECK(wait_until([&] { return history.reads != 0; }));
  CHECK_FALSE(job.try_repair(1).or_throw().has_value());  // answers at once: unknown, for now
  CHECK(history.reads == 1);
  history.open = true;
  for (std::thread& request : requests) request.join();
  CHECK(rebuilt == 1);
  CHECK(job.try_repair(1).or_throw()->found == FilterState::healthy);
}

}  // namespace
