// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "seenby/lmdb/store.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/random.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace seenby;
using test::TemporaryFolder;
using Store = LmdbStore<std::uint64_t>;

Blob bytes_of(std::string_view text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// Runs `work` in a child process; its exit code, or minus the signal that ended it.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

bool has_seen(const Store& store, std::uint64_t user, std::uint64_t item) {
  const Digest digest = store.hasher()(item);
  std::uint8_t seen_by = 0;
  UserStatus status;
  store.check(std::span(&user, 1), ItemBatch<std::uint64_t>{std::span(&item, 1), std::span(&digest, 1)},
              std::span(&seen_by, 1), std::span(&status, 1));
  return status.state == UserState::known && seen_by == 1;
}

Result<RecordOutcome> record(Store& store, std::uint64_t user, std::uint64_t item) {
  const Digest digest = store.hasher()(item);
  return store.record(user, ItemBatch<std::uint64_t>{std::span(&item, 1), std::span(&digest, 1)});
}

}  // namespace

TEST_CASE("What one LmdbStore recorded, the next that opens the file knows", "[lmdb]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("seen.lmdb");
  const CandidatePool<std::uint64_t> pool{1, 2, 3, 4};
  {
    SeenFilter filter{Store::open(path, {}).value()};
    REQUIRE(filter.record_all(7, std::vector<std::uint64_t>{1, 3}));
  }
  const SeenFilter reopened{Store::open(path, {}).value()};
  const auto page = reopened.select_unseen(pool, {7});
  REQUIRE(page.size() == 2);
  CHECK(pool[page[0].index] == 2);
  CHECK(pool[page[1].index] == 4);
  CHECK(reopened.select_unseen(pool, {8}).unknown_users().size() == 1);
}

TEST_CASE("Keys of any length and any bytes are kept apart", "[lmdb]") {
  const TemporaryFolder folder;
  auto environment = lmdb::Environment::open(folder.path("keys.lmdb")).value();
  const std::string nul("a\0b", 3);
  const std::string long_one(1 << 20, 'x');
  std::string long_other = long_one;
  long_other.back() = 'y';
  const std::vector<std::string> keys{
      "", "a", nul, "\xff\xfe", std::string(400, 'z'), std::string(401, 'z'), long_one, long_other};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    REQUIRE(environment.compare_and_swap(keys[i], std::nullopt, bytes_of(std::to_string(i))).value());
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CHECK(environment.load(keys[i]).value() == bytes_of(std::to_string(i)));
    CHECK_FALSE(environment.compare_and_swap(keys[i], std::nullopt, bytes_of("late")).value());
  }
  CHECK(environment.erase(nul).value());
  CHECK_FALSE(environment.erase(nul).value());
  CHECK(environment.load("a").value());
  CHECK(environment.keys("", "", 2).value() == std::vector<std::string>{"", "a"});
  CHECK(environment.keys("", "a", 9).value().size() == 2);
}

TEST_CASE("The map grows by itself, under readers and in another process", "[lmdb]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("grows.lmdb");
  auto environment = lmdb::Environment::open(path, {.map_bytes = 1 << 16, .durable = false}).value();
  REQUIRE(environment.compare_and_swap("first", std::nullopt, bytes_of("here")).value());
  const Blob large(100'000, std::byte{1});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto value = environment.load("first");
        if (!value || !*value || **value != bytes_of("here")) ++wrong;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    REQUIRE(environment.compare_and_swap("here " + std::to_string(i), std::nullopt, large).value());
  }
  // The child's map has the size of its opening; this process makes the file outgrow it, and the other way round.
  int to_child[2];
  int to_parent[2];
  REQUIRE(::pipe(to_child) == 0);
  REQUIRE(::pipe(to_parent) == 0);
  stop = true;
  readers.clear();
  CHECK(wrong == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char go = 0;
    auto theirs = lmdb::Environment::open(path, {.map_bytes = 1 << 16, .durable = false});
    if (!theirs || ::write(to_parent[1], "o", 1) != 1 || ::read(to_child[0], &go, 1) != 1) ::_exit(1);
    const auto value = theirs->load("after the fork 49");
    if (!value || !*value) ::_exit(2);
    for (int i = 0; i < 200; ++i) {
      const auto swapped = theirs->compare_and_swap("there " + std::to_string(i), std::nullopt, large);
      if (!swapped || !*swapped) ::_exit(3);
    }
    ::_exit(0);
  }
  char opened = 0;
  REQUIRE(::read(to_parent[0], &opened, 1) == 1);
  for (int i = 0; i < 50; ++i) {
    REQUIRE(environment.compare_and_swap("after the fork " + std::to_string(i), std::nullopt, large).value());
  }
  REQUIRE(::write(to_child[1], "g", 1) == 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(environment.load("there 199").value() == large);
  for (const int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(end);
}

TEST_CASE("A limit on the map refuses the write that needs more, and the rest goes on", "[lmdb]") {
  const TemporaryFolder folder;
  auto environment = lmdb::Environment::open(folder.path("limit.lmdb"),
                                             {.map_bytes = 1 << 17, .max_map_bytes = 1 << 18, .durable = false})
                         .value();
  const auto refused = environment.compare_and_swap("large", std::nullopt, Blob(1 << 19));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::too_large);
  CHECK_FALSE(environment.load("large").value());
  CHECK(environment.compare_and_swap("small", std::nullopt, Blob(10)).value());
}

TEST_CASE("A kill -9 at any moment loses no acknowledged record, and the file opens without repair", "[lmdb]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("killed.lmdb");
  SEENBY_RANDOM(random);
  std::uint64_t next = 0;
  std::vector<std::uint64_t> acknowledged;
  for (int round = 0; round < 25; ++round) {
    int acknowledgements[2];
    REQUIRE(::pipe(acknowledgements) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = Store::open(path, {}, {.map_bytes = 1 << 16});
      for (std::uint64_t item = next; store; ++item) {
        if (!record(*store, item % 5, item)) ::_exit(1);
        if (::write(acknowledgements[1], &item, sizeof item) != sizeof item) ::_exit(2);
      }
      ::_exit(3);
    }
    ::close(acknowledgements[1]);
    const std::uint64_t before_kill = 1 + random.below(20);
    std::uint64_t item = 0;
    for (std::uint64_t i = 0; ::read(acknowledgements[0], &item, sizeof item) == sizeof item; ++i) {
      acknowledged.push_back(item);
      next = item + 1;
      if (i + 1 != before_kill) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(2'000)));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    ::close(acknowledgements[0]);
    next += 1;  // the one under way when it was killed may be there or not
    const int lost = in_child([&] {
      const auto store = Store::open(path, {});
      if (!store) return 2;
      for (const std::uint64_t known : acknowledged) {
        if (!has_seen(*store, known % 5, known)) return 1;
      }
      return 0;
    });
    REQUIRE(lost == 0);
  }
  CHECK(acknowledged.size() >= 25);
}

TEST_CASE("What one process hides, another that has the file open hides with its next request", "[lmdb][003-07]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("hides.lmdb");
  const std::uint64_t alice = 1;
  const std::uint64_t bob = 2;
  const CandidatePool<std::uint64_t> pool{1, 2, 3, 4};
  int to_child[2];
  int to_parent[2];
  REQUIRE(::pipe(to_child) == 0);
  REQUIRE(::pipe(to_parent) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char go = 0;
    const SeenFilter theirs{Store::open(path, {}).value()};
    const std::size_t before = theirs.select_unseen(pool, {alice, bob}).size();
    if (before != 4 || ::write(to_parent[1], "o", 1) != 1 || ::read(to_child[0], &go, 1) != 1) ::_exit(1);
    const auto page = theirs.select_unseen(pool, {alice, bob}, {.limit = 4, .relax = {SeenByAtMost{2}}});
    ::_exit(page.size() == 2 && page[0].item == 1 && page[1].item == 4 ? 0 : 2);
  }
  char open = 0;
  REQUIRE(::read(to_parent[0], &open, 1) == 1);
  SeenFilter filter{Store::open(path, {}).value()};
  REQUIRE(filter.hide(alice, std::uint64_t{2}));
  REQUIRE(filter.hide(bob, std::uint64_t{3}));
  REQUIRE(::write(to_child[1], "g", 1) == 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  for (const int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(end);
}

TEST_CASE("A kill -9 at any moment loses no acknowledged hide and none of the last items", "[lmdb][003-07]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("killed.lmdb");
  SEENBY_RANDOM(random);
  std::vector<std::uint64_t> hidden;
  for (int round = 0; round < 10; ++round) {
    int acknowledgements[2];
    REQUIRE(::pipe(acknowledgements) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = Store::open(path, {}, {.map_bytes = 1 << 16});
      if (!store) ::_exit(3);
      SeenFilter filter{*std::move(store)};
      filter.keep_last(3);
      for (std::uint64_t item = static_cast<std::uint64_t>(round) * 1'000;; ++item) {
        const std::uint64_t last = 100'000 + item;
        if (!filter.record(item % 3, last) || !filter.hide(item % 3, item)) ::_exit(1);
        if (::write(acknowledgements[1], &item, sizeof item) != sizeof item) ::_exit(2);
      }
    }
    ::close(acknowledgements[1]);
    const std::uint64_t before_kill = 1 + random.below(10);
    std::uint64_t item = 0;
    for (std::uint64_t i = 0; ::read(acknowledgements[0], &item, sizeof item) == sizeof item; ++i) {
      hidden.push_back(item);
      if (i + 1 == before_kill) ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    ::close(acknowledgements[0]);
    const int lost = in_child([&] {
      auto store = Store::open(path, {});
      if (!store) return 2;
      const SeenFilter filter{*std::move(store)};
      for (const std::uint64_t known : hidden) {
        const auto listed = filter.hidden(known % 3);
        if (!listed || std::find(listed->begin(), listed->end(), known) == listed->end()) return 1;
        if (filter.ask(known % 3, known) != Answer::seen) return 3;
      }
      const CandidatePool<std::uint64_t> last{100'000 + hidden.back()};
      return filter.select_unseen(last, {hidden.back() % 3}, {.limit = 1, .relax = {SeenByAtMost{1}}}).empty() ? 0 : 4;
    });
    REQUIRE(lost == 0);
  }
  CHECK(hidden.size() >= 10);
}

TEST_CASE("After fork() the parent's environment refuses, and one of the child's own works", "[lmdb]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("fork.lmdb");
  auto store = Store::open(path, {}).value();
  REQUIRE(record(store, 1, 10));
  const int child = in_child([&] {
    const auto inherited = record(store, 1, 11);
    if (inherited || inherited.error().code != ErrorCode::unavailable) return 1;
    auto own = Store::open(path, {});
    return own && has_seen(*own, 1, 10) && record(*own, 1, 12) ? 0 : 2;
  });
  CHECK(child == 0);
  CHECK(has_seen(store, 1, 12));
  CHECK(record(store, 1, 13));
}

TEST_CASE("A backup taken under writers is a consistent store of its own", "[lmdb]") {
  const TemporaryFolder folder;
  auto store = Store::open(folder.path("live.lmdb"), {}, {.durable = false}).value();
  for (std::uint64_t item = 0; item < 200; ++item) REQUIRE(record(store, item % 3, item));
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::uint64_t item = 200; !stop.stop_requested(); ++item) (void)record(store, item % 3, item);
  });
  const std::string copy = folder.path("copy.lmdb");
  REQUIRE(store.backup(copy));
  writer.request_stop();
  CHECK((std::filesystem::status(copy).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
  const auto copied = Store::open(copy, {}).value();
  for (std::uint64_t item = 0; item < 200; ++item) REQUIRE(has_seen(copied, item % 3, item));
  const auto again = store.backup(copy);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::io);
  CHECK(std::filesystem::exists(copy));
}

TEST_CASE("A file that is none of LMDB's, and a folder that is not there, are typed errors", "[lmdb]") {
  const TemporaryFolder folder;
  const std::string text = folder.path("text");
  std::ofstream(text) << std::string(10'000, 'x');
  const auto wrong = lmdb::Environment::open(text);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::wrong_type);
  CHECK(wrong.error().message.find(text) != std::string::npos);
  const auto nowhere = lmdb::Environment::open(folder.path("no/such.lmdb"));
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code == ErrorCode::io);
}

TEST_CASE("A write that finds the disk full is refused whole, and what was there stays", "[lmdb]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("full.lmdb");
  const int outcome = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 18, 1 << 18};  // stands for the disk's end
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto environment = lmdb::Environment::open(path);
    if (!environment || !*environment->compare_and_swap("kept", std::nullopt, Blob(1000))) return 1;
    const auto refused = environment->compare_and_swap("large", std::nullopt, Blob(1 << 20));
    if (refused || refused.error().code != ErrorCode::io) return 2;
    if (*environment->load("large") || !*environment->load("kept")) return 3;
    return *environment->compare_and_swap("small", std::nullopt, Blob(10)) ? 0 : 4;
  });
  CHECK(outcome == 0);
}

TEST_CASE("A transaction is written whole or not at all", "[lmdb]") {
  const TemporaryFolder folder;
  auto environment = lmdb::Environment::open(folder.path("all.lmdb"), {.map_bytes = 1 << 16}).value();
  const auto failed = environment.transact([](lmdb::Transaction& transaction) -> Result<void> {
    (void)transaction.compare_and_swap("a", std::nullopt, Blob(10)).value();
    return Error{ErrorCode::conflict, "changed its mind"};
  });
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::conflict);
  CHECK_FALSE(environment.load("a").value());
  int runs = 0;
  REQUIRE(environment.transact([&](lmdb::Transaction& transaction) -> Result<void> {
    ++runs;
    for (int i = 0; i < 10; ++i) {
      if (auto done = transaction.compare_and_swap(std::to_string(i), std::nullopt, Blob(50'000)); !done) {
        return std::move(done).error();
      }
    }
    return {};
  }));
  CHECK(runs > 1);  // the map grew
  for (int i = 0; i < 10; ++i) CHECK(environment.load(std::to_string(i)).value());
}
