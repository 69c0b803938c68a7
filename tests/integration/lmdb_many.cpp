// SPDX-License-Identifier: MIT
// LmdbStore: many users in one transaction and one sync of the disk, merges that are whole, marks for every process.

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "seenby/lmdb/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/picks.hpp"
#include "support/random.hpp"
#include "support/temporary_folder.hpp"

namespace {
std::atomic<int> syncs{0};
}  // namespace

/// In place of libc's, for liblmdb too: counts, and syncs.
extern "C" int fdatasync(int file) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}

namespace {

using namespace seenby;
using test::Ids;
using test::TemporaryFolder;
using Store = LmdbStore<std::uint64_t>;
using Event = SeenEvent<std::uint64_t, std::uint64_t>;

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
const StorePolicy rare{.wrong_hide_rate = 1e-6, .users_per_request = 2};

Store open(const TemporaryFolder& folder, bool durable = true) {
  return Store::open(folder.path("seen.lmdb"), rare, {.durable = durable}).or_throw();
}

/// Runs `work` in another process, and waits for its end.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a batch of many users is one sync of the disk", "[lmdb][many]") {
  const TemporaryFolder folder;
  SeenFilter filter{open(folder)};
  std::vector<Event> events;
  for (std::uint64_t n = 0; n < 3'000; ++n) events.push_back({n % 1'000, n, {}, {}});
  filter.record(alice, 1U).or_throw();  // the kind of the items is there from now on
  syncs = 0;
  filter.record_many(events).or_throw();
  CHECK(syncs == 1);
  syncs = 0;
  filter.record_many(events).or_throw();  // nothing new
  CHECK(syncs == 0);
  std::size_t lost = 0;
  for (const Event& event : events) lost += filter.ask(event.user, event.item) == Answer::seen ? 0U : 1U;
  CHECK(lost == 0);
}

TEST_CASE("a full map grows in the midst of a batch, which is written whole", "[lmdb][many]") {
  const TemporaryFolder folder;
  SeenFilter filter{Store::open(folder.path("seen.lmdb"), rare, {.map_bytes = 128 << 10}).or_throw()};
  std::vector<Event> events;
  for (std::uint64_t n = 0; n < 20'000; ++n) events.push_back({n % 5'000, n, {}, {}});
  filter.record_many(events).or_throw();
  std::size_t lost = 0;
  for (const Event& event : events) lost += filter.ask(event.user, event.item) == Answer::seen ? 0U : 1U;
  CHECK(lost == 0);
}

TEST_CASE("batches from two processes at once lose nothing", "[lmdb][many]") {
  const TemporaryFolder folder;
  const auto write = [&](std::uint64_t first) {
    SeenFilter filter{open(folder, false)};
    for (std::uint64_t n = 0; n < 60; ++n) {
      std::vector<Event> events;
      for (std::uint64_t user = 0; user < 50; ++user) events.push_back({user, first + n, {}, {}});
      filter.record_many(events).or_throw();
    }
  };
  const pid_t child = ::fork();
  if (child == 0) {
    write(10'000);
    ::_exit(0);
  }
  write(20'000);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  SeenFilter filter{open(folder)};
  std::size_t lost = 0;
  for (std::uint64_t user = 0; user < 50; ++user) {
    for (std::uint64_t n = 0; n < 60; ++n) {
      lost += filter.ask(user, 10'000 + n) == Answer::seen ? 0U : 1U;
      lost += filter.ask(user, 20'000 + n) == Answer::seen ? 0U : 1U;
    }
  }
  CHECK(lost == 0);
}

TEST_CASE("a merge in LMDB is one sync, whole or not at all, whenever the process is killed", "[lmdb][merge]") {
  SEENBY_RANDOM(random);
  const TemporaryFolder folder;
  {
    SeenFilter filter{open(folder)};
    filter.record(alice, 1U).or_throw();
    filter.record(bob, 2U).or_throw();
    filter.hide(alice, 3U).or_throw();
    syncs = 0;
    filter.merge_users(alice, bob).or_throw();
    CHECK(syncs == 1);
    CHECK(filter.ask(bob, 1U) == Answer::seen);
    CHECK(filter.hidden(bob).value() == Ids{3});
    CHECK(filter.ask(alice, 1U) == Answer::unknown);
  }
  int whole = 0;
  for (int round = 0; round < 40; ++round) {
    const auto base = 1'000 + 10 * static_cast<std::uint64_t>(round);
    in_child([&] {
      SeenFilter filter{open(folder, false)};
      filter.record(base, 7U).or_throw();
      filter.record(base + 1, 8U).or_throw();
      const auto microseconds = random.below(400) + static_cast<std::uint64_t>(round);
      std::thread([microseconds] {
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
        ::kill(::getpid(), SIGKILL);
      }).detach();
      filter.merge_users(base, base + 1).or_throw();
      ::pause();
    });
    SeenFilter filter{open(folder, false)};
    const bool from = filter.ask(base, 7U) == Answer::seen;
    const bool into = filter.ask(base + 1, 7U) == Answer::seen;
    CHECK(from != into);
    CHECK(filter.ask(base + 1, 8U) == Answer::seen);
    whole += into ? 1 : 0;
    filter.merge_users(base, base + 1).or_throw();
    CHECK(filter.ask(base + 1, 7U) == Answer::seen);
  }
  UNSCOPED_INFO(whole << " of 40 merges were done before the kill");
}

TEST_CASE("what one process says is in flight, another hides with its next request, and after a kill",
          "[lmdb][in_flight]") {
  const TemporaryFolder folder;
  const auto status = in_child([&] {
    SeenFilter filter{open(folder)};
    for (const std::uint64_t user : {alice, bob}) filter.create(user).or_throw();
    filter.share_in_flight(alice, Ids{1, 3}, std::chrono::hours(1)).or_throw();
    filter.share_in_flight(bob, Ids{2}, std::chrono::seconds(0)).or_throw();
    ::kill(::getpid(), SIGKILL);
  });
  CHECK(WIFSIGNALED(status));
  SeenFilter filter{open(folder)};
  const CandidatePool pool{Ids{1, 2, 3, 4}};
  CHECK(test::picked(filter.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{2, 4});
}

TEST_CASE("an LMDB file knows the kind of its items in another process too", "[lmdb]") {
  const TemporaryFolder folder;
  in_child([&] { SeenFilter{open(folder)}.record(alice, 42U).or_throw(); });
  SeenFilter filter{open(folder)};
  const auto refused = filter.record(alice, std::string("42"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::parameter_mismatch);
  CHECK(refused.error().message.find("integer") != std::string::npos);
  CHECK(refused.error().message.find("text") != std::string::npos);
}
