// SPDX-License-Identifier: MIT
// The whole path embedded, under what is sent to hurt it, and on a disk that is full: a dead letter or a clear error,
// and nothing lost.

#include <sys/mount.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/ingest/ingestor.hpp"
#include "seenby/lmdb/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/sqlite/history.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using History = SqliteHistory<std::string, std::string>;
using Store = LmdbStore<std::string>;
using Queue = BoundedQueue<std::string>;

constexpr Time now{1'700'000'000s};

std::string line(const std::string& user, const std::string& item, Time when, const std::string& id = {}) {
  return format_impression({.id = id, .user = user, .item = item, .at = when}).or_throw();
}

/// A file system of its own, in memory.
class SmallDisk {
 public:
  SmallDisk() : mounted_(::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=512k") == 0) {}
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const noexcept { return mounted_; }
  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  [[nodiscard]] bool enlarge() const {
    return ::mount("tmpfs", folder_.path().c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0;
  }

 private:
  TemporaryFolder folder_;
  bool mounted_;
};

}  // namespace

TEST_CASE("Ids made to hurt are ids like others from the queue to the filter, and what is none is a dead letter",
          "[ingest][002-04]") {
  const TemporaryFolder folder;
  auto history = History::open(folder.path("history"), {.durable = false}).or_throw();
  auto store = Store::open(folder.path("filters"), {.wrong_hide_rate = 1e-6}, {.durable = false}).or_throw();
  Queue queue;
  const std::vector<std::string> names{"'; DROP TABLE events; --",
                                       "\" OR 1=1 --",
                                       std::string("nul\0nul", 7),
                                       std::string("\0items", 6),
                                       "a\nb\t\x01",
                                       "ann@slices",
                                       "%s%n{}\\",
                                       "\xe2\x80\xae\xf0\x9f\x98\x80",
                                       std::string(max_key_bytes, 'x')};
  for (const std::string& user : names) {
    for (const std::string& item : names) {
      for (int twice = 0; twice < 2; ++twice) queue.push(line(user, item, now, "e1")).or_throw();
    }
  }
  const std::string huge(1'000'000, 'x');
  queue.push(R"({"user":"u","item":")" + huge + R"(","at":1700000000})").or_throw();
  queue.push(R"({"user":")" + huge + R"(","item":"i","at":1700000000})").or_throw();
  queue.push(line("u", std::string(max_key_bytes + 1, 'x'), now)).or_throw();
  queue.push("{\"user\":\"u\",\"item\":\"\xff\xfe\",\"at\":1700000000}").or_throw();
  queue.push(line("u", "tomorrow", now + 24h)).or_throw();
  queue.push(line("u", "the end of time", Time::max())).or_throw();
  Ingestor ingestor(queue, history, store, {.batch = 50, .wait = 0ms, .clock = Clock::simulated([] { return now; })});
  while (ingestor.step().or_throw() != 0) {}
  CHECK(queue.backlog() == 0);

  const auto letters = queue.dead_letters();
  REQUIRE(letters.size() == 6);
  const auto told = [&](std::size_t letter, std::string_view part) {
    INFO(letters[letter].why.message);
    CHECK(letters[letter].why.message.find(part) != std::string::npos);
    CHECK(letters[letter].why.message.size() < 500);
  };
  told(0, "bytes");
  told(1, "bytes");
  told(2, "1024");
  told(3, "UTF-8");
  told(4, "ahead");
  told(5, "");
  CHECK(ingestor.counters().appended == names.size() * names.size());
  CHECK(ingestor.counters().duplicates == names.size() * names.size());
  SeenFilter filter{std::move(store)};
  std::size_t lost = 0;
  for (const std::string& user : names) {
    lost += history.item_count(user).or_throw() == names.size() ? 0U : 1U;
    for (const std::string& item : names) lost += filter.ask(user, item) == Answer::seen ? 0U : 1U;
    CHECK(filter.ask(user, std::string("never seen")) == Answer::unseen);
  }
  CHECK(lost == 0);
  CHECK(filter.ask("u", std::string("tomorrow")) == Answer::unknown);
}

TEST_CASE("On a full disk the batch is held with a clear error, and goes on when there is room", "[ingest]") {
  for (const bool history_is_full : {true, false}) {
    CAPTURE(history_is_full);
    const SmallDisk disk;
    if (!disk.mounted()) SKIP("SKIPPED: a small tmpfs needs the right to mount");
    const TemporaryFolder folder;
    auto history = History::open(history_is_full ? disk.path("history") : folder.path("history")).or_throw();
    auto store = Store::open(history_is_full ? folder.path("filters") : disk.path("filters"), {}).or_throw();
    Queue queue;
    constexpr int events = 12'000;
    for (int n = 0; n < events; ++n) {
      queue.push(line("user" + std::to_string(n % 3'000), "item" + std::to_string(n), now)).or_throw();
    }
    Ingestor ingestor(queue, history, store,
                      {.batch = 500, .wait = 0ms, .clock = Clock::simulated([] { return now; })});
    auto done = ingestor.step();
    while (done && *done != 0) done = ingestor.step();
    REQUIRE_FALSE(done);
    CHECK(done.error().code == ErrorCode::io);
    CHECK(ingestor.busy());
    CHECK(queue.backlog() >= 500);
    CHECK_FALSE(ingestor.step());
    REQUIRE(disk.enlarge());
    while (ingestor.step().or_throw() != 0) {}
    CHECK(queue.backlog() == 0);
    CHECK(ingestor.counters().appended == events);
    SeenFilter filter{std::move(store)};
    std::size_t lost = 0;
    for (int n = 0; n < events; ++n) {
      const std::string item = "item" + std::to_string(n);
      lost += history.event_count(item).or_throw() == 1 ? 0U : 1U;
      lost += filter.ask("user" + std::to_string(n % 3'000), item) == Answer::seen ? 0U : 1U;
    }
    CHECK(lost == 0);
  }
}
