// SPDX-License-Identifier: MIT
// SharedSet, SharedBloomSet and SharedGate: many clients, one set, on real servers.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "seenby/gates/read_path.hpp"
#include "seenby/redis/shared_bloom_set.hpp"
#include "seenby/redis/shared_gate.hpp"
#include "seenby/redis/shared_set.hpp"
#include "support/binomial.hpp"
#include "support/random.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

/// `module` is the path of RedisBloom; skips the test aloud where none is given.
#define SEENBY_NEED_REDISBLOOM(module)                                \
  const char* const module = std::getenv("SEENBY_REDISBLOOM_MODULE"); \
  if (module == nullptr) SKIP("SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so (2.8)")

namespace {

using namespace seenby;
using namespace std::chrono_literals;
using redis::SharedGate;
using redis::SharedSet;
using test::RedisServer;
using Set = SharedSet<std::uint64_t>;
using Gate = SharedGate<std::uint64_t>;

Set open_set(const RedisServer& server, std::uint64_t items = 1'000, std::string name = "crawled") {
  return Set(redis::make_executor(server.socket_url()).value(), std::move(name), {.expected_items = items});
}
Gate open_gate(const RedisServer& server, std::uint64_t items = 1'000) {
  return Gate(redis::make_executor(server.socket_url()).value(), "products",
              {.expected_items = items, .grace = std::chrono::milliseconds{200}});
}

std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) { return test::sequence(first, count); }

/// A process that adds 0, 1, 2, ... to a gate and makes each visible by writing it to a pipe.
class Writer {
 public:
  explicit Writer(std::function<Gate()> open) : open_(std::move(open)) {
    REQUIRE(::pipe2(pipe_, O_NONBLOCK) == 0);
    start();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    kill();
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  /// Ids below this are visible; waits for the first.
  std::uint64_t visible() {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    do {
      std::uint64_t id = 0;
      while (::read(pipe_[0], &id, sizeof id) == sizeof id) visible_ = id + 1;
    } while (visible_ == 0 && std::chrono::steady_clock::now() < deadline);
    REQUIRE(visible_ > 0);
    return visible_;
  }
  void kill_and_restart() {
    kill();
    (void)visible();
    start();
  }

 private:
  void start() {
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Gate gate = open_();
    for (std::uint64_t id = visible_;; ++id) {
      if (!gate.add(id)) ::_exit(1);
      while (::write(pipe_[1], &id, sizeof id) != sizeof id) std::this_thread::yield();  // the pipe is full
    }
  }
  void kill() const {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  std::function<Gate()> open_;
  int pipe_[2] = {-1, -1};
  pid_t child_ = -1;
  std::uint64_t visible_ = 0;
};

}  // namespace

TEST_CASE("What one client added another finds, and only the first is told that it is new", "[redis][001-08]") {
  for (const std::string& program : test::installed_servers()) {
    const RedisServer server(program);
    Set first = open_set(server);
    Set second = open_set(server);
    REQUIRE(first.create().value());
    CHECK_FALSE(second.create().value());
    CHECK(first.add(7).value());
    CHECK_FALSE(second.add(7).value());
    CHECK(second.may_contain(7).value());
    const auto items = numbers(100, 900);
    std::vector<std::uint8_t> fresh(items.size());
    REQUIRE(second.add(items, fresh));
    std::vector<std::uint8_t> found(items.size());
    REQUIRE(first.may_contain(items, found));
    for (const std::uint8_t one : found) REQUIRE(one == 1);
    const auto others = numbers(1'000'000, 10'000);
    std::vector<std::uint8_t> wrong(others.size());
    REQUIRE(first.may_contain(others, wrong));
    std::uint64_t errors = 0;
    for (const std::uint8_t one : wrong) errors += one;
    CHECK(errors <= test::most_hits(others.size(), 0.01));
    CHECK(first.info().value().items > 890);
    CHECK(first.drop().value());
    CHECK_FALSE(second.drop().value());
  }
}

TEST_CASE("Of clients that race for one item exactly one is told that it is new", "[redis][concurrent][001-08]") {
  const RedisServer server;
  REQUIRE(open_set(server, 10'000).create().value());
  std::atomic<std::uint64_t> told{0};
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        Set set = open_set(server, 10'000);
        for (std::uint64_t item = 0; item < 500; ++item) told += set.add(item).value() ? 1U : 0U;
      });
    }
  }
  CHECK(told <= 500);
  CHECK(told >= 500 - test::most_hits(500, 0.01));
}

TEST_CASE("A set that is not there, of another seed, or lost a part is an error and never absent", "[redis][001-06]") {
  const RedisServer server;
  const auto executor = redis::make_executor(server.socket_url()).value();
  Set set = open_set(server, 2'000'000);  // three strings
  CHECK(set.may_contain(1).error().code == ErrorCode::unavailable);
  CHECK(set.add(1).error().code == ErrorCode::unavailable);
  REQUIRE(set.create());
  SharedSet<std::uint64_t> other(executor, "crawled", {.expected_items = 10}, Xxh3Hash{42});
  CHECK(other.may_contain(1).error().code == ErrorCode::parameter_mismatch);
  const auto deadline = redis::Deadline::after(std::chrono::seconds{1});
  const std::string lost_part = "seenby:set:{crawled}:" + std::to_string(set.info().value().version) + ":1";
  REQUIRE(redis::execute_one(*executor, redis::Command::with_key(1, "DEL", lost_part), deadline));
  std::uint64_t lost = 0;
  for (std::uint64_t item = 0; item < 50; ++item) {
    const auto found = set.may_contain(item);
    if (!found) CHECK(found.error().code == ErrorCode::unavailable);
    lost += found ? 0U : 1U;
    const auto added = set.add(item);
    CHECK(added.has_value() == found.has_value());
  }
  CHECK(lost > 5);
  CHECK_THROWS_AS(Set(executor, "a{b}", {.expected_items = 10}), std::invalid_argument);
}

TEST_CASE("Growth past what a set was sized for can be read, loses nothing, and ends with a rebuild",
          "[redis][001-08]") {
  const RedisServer server;
  Set set = open_set(server, 100);
  REQUIRE(set.create());
  const auto items = numbers(0, 400);
  REQUIRE(set.add(items, {}));
  const auto grown = set.info().value();
  CHECK(grown.expected_items == 100);
  CHECK(grown.items > 200);
  CHECK(grown.over_capacity());
  std::vector<std::uint8_t> found(items.size());
  REQUIRE(set.may_contain(items, found));
  CHECK(std::count(found.begin(), found.end(), 1) == 400);
  auto rebuild = set.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(items));
  REQUIRE(rebuild.commit());
  CHECK(set.info().value().expected_items == 1'000);
  CHECK_FALSE(set.info().value().over_capacity());
  REQUIRE(set.may_contain(items, found));
  CHECK(std::count(found.begin(), found.end(), 1) == 400);
}

TEST_CASE("What a rebuild scans again, or finds added already, is counted once", "[redis][001-08]") {
  const RedisServer server;
  Set set(redis::make_executor(server.socket_url()).value(), "crawled",
          {.expected_items = 10'000, .write_lag = std::chrono::seconds{60}});
  REQUIRE(set.create());
  REQUIRE(set.add(numbers(0, 200), {}));  // carried into the rebuild
  auto rebuild = set.begin_rebuild(10'000).value();
  REQUIRE(set.add(numbers(200, 200), {}));  // to both versions
  for (int scan = 0; scan < 3; ++scan) REQUIRE(rebuild.add(numbers(0, 1'000)));
  REQUIRE(set.add(numbers(900, 200), {}));  // half of them are new to it
  REQUIRE(rebuild.commit());
  const auto info = set.info().value();
  CHECK(info.items <= 1'100);
  CHECK(info.items >= 1'100 - test::most_hits(1'100, 0.01));
  CHECK_FALSE(info.over_capacity());
}

TEST_CASE("A server that came back empty makes nothing absent: unknown until the set is filled again",
          "[redis][001-06][004-03]") {
  const RedisServer server;
  Gate first = open_gate(server);
  const Gate second = open_gate(server);
  REQUIRE(first.create());
  REQUIRE(first.add(7));
  CHECK(second.check(7) == Existence::maybe);
  CHECK(second.check(8) == Existence::absent);
  const Gate asleep = open_gate(server);  // knows the old version, and does not notice that it is lost
  CHECK(asleep.check(7) == Existence::maybe);
  const auto executor = redis::make_executor(server.socket_url()).value();
  redis::Command lose;
  SECTION("all of it is gone") { lose.add("FLUSHALL"); }
  SECTION("the versions' names are gone and the bits are not") {
    lose = redis::Command::with_key(1, "DEL", "seenby:set:{products}");
  }
  REQUIRE(redis::execute_one(*executor, lose, redis::Deadline::after(std::chrono::seconds{1})));
  for (const std::uint64_t id : {7U, 8U}) {
    CHECK(first.check(id) == Existence::unknown);
    CHECK(second.check(id) == Existence::unknown);
    CHECK(second.available(id) == Availability::ask_database);
  }
  CHECK(first.add(9).error().code == ErrorCode::unavailable);  // and the writer fails with it
  auto rebuild = first.begin_rebuild(100'000);                 // of another size
  REQUIRE(rebuild);
  CHECK_FALSE(first.create().value());  // which would make everything absent
  REQUIRE(rebuild->add(numbers(7, 1)));
  CHECK(second.check(7) == Existence::unknown);
  REQUIRE(rebuild->commit());
  CHECK(asleep.check(7) == Existence::maybe);
  CHECK(second.check(7) == Existence::maybe);
  CHECK(second.check(8) == Existence::absent);
  CHECK(first.add(9));
  CHECK(second.check(9) == Existence::maybe);
}

TEST_CASE("As many as a server writes in a minute are added at once and carried into a rebuild",
          "[redis][001-08][004-10]") {
  const RedisServer server;
  Set set(redis::make_executor(server.socket_url()).value(), "crawled",
          {.expected_items = 20'000, .write_lag = std::chrono::seconds{60}});
  REQUIRE(set.create());
  const auto items = numbers(0, 10'000);
  std::vector<std::uint8_t> fresh(items.size());
  REQUIRE(set.add(items, fresh));
  CHECK(std::count(fresh.begin(), fresh.end(), 1) > 9'800);
  auto rebuild = set.begin_rebuild(20'000);
  REQUIRE(rebuild);
  REQUIRE(rebuild->commit());
  std::vector<std::uint8_t> found(items.size());
  REQUIRE(set.may_contain(items, found));
  CHECK(std::count(found.begin(), found.end(), 1) == 10'000);
}

namespace {

/// Gives out codes, every fourth of which was given out before: a code that the set calls new is free without a look
/// into storage.
template <class Set>
void give_out_codes(Set& codes) {
  std::vector<std::string> storage;
  std::uint64_t storage_reads = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string code = "c" + std::to_string(i % 300);
    if (codes.may_contain(code).value()) {
      ++storage_reads;
      if (std::find(storage.begin(), storage.end(), code) != storage.end()) continue;
    }
    REQUIRE(codes.add(code).has_value());
    storage.push_back(code);
  }
  CHECK(storage.size() == 300);
  CHECK(storage_reads >= 100);
  CHECK(storage_reads <= 100 + test::most_hits(300, 0.01));
}

/// Crawlers of their own connections take links off one list, each link twice: what the set calls new is fetched, what
/// it may hold is confirmed by the pages that are stored. Each link is fetched once.
template <class Open>
void crawl(const Open& open) {
  constexpr std::uint64_t links = 300;
  std::mutex storing;
  std::map<std::string, int> pages;
  std::atomic<std::uint64_t> confirmed{0};
  {
    std::vector<std::jthread> crawlers;
    for (std::uint64_t crawler = 0; crawler < 3; ++crawler) {
      crawlers.emplace_back([&, crawler] {
        auto seen = open();
        for (std::uint64_t i = 0; i < 2 * links; ++i) {
          const std::string link = "https://example.org/" + std::to_string((i + crawler * 100) % links);
          if (!seen.add(link).value()) {
            ++confirmed;
            const std::lock_guard lock(storing);
            if (pages.contains(link)) continue;
            // Another crawler was told "new" and has not stored it yet, or the filter errs: storage's key decides.
          }
          const std::lock_guard lock(storing);
          pages.try_emplace(link, 0).first->second += 1;
        }
      });
    }
  }
  CHECK(pages.size() == links);
  CHECK(confirmed >= 5 * links);  // of 6 links each, at most one is new
  CHECK(confirmed <= 5 * links + test::most_hits(links, 0.01));
}

}  // namespace

TEST_CASE("The shortener's codes: free is certain, a positive asks storage", "[redis][001-09]") {
  const RedisServer server;
  SharedSet<std::string> codes(redis::make_executor(server.socket_url()).value(), "codes", {.expected_items = 1'000});
  REQUIRE(codes.create());
  give_out_codes(codes);
}

TEST_CASE("The shortener's codes in a set of the module", "[redis][001-09]") {
  SEENBY_NEED_REDISBLOOM(module);
  const RedisServer server("redis-server", {"--loadmodule", module});
  redis::SharedBloomSet<std::string> codes(redis::make_executor(server.socket_url()).value(), "codes",
                                           {.capacity = 1'000});
  REQUIRE(codes.create());
  give_out_codes(codes);
}

TEST_CASE("Crawlers that share a set fetch every link, and a positive is confirmed", "[redis][concurrent][001-08]") {
  const RedisServer server;
  const auto open = [&] {
    return SharedSet<std::string>(redis::make_executor(server.socket_url()).value(), "links",
                                  {.expected_items = 1'000});
  };
  REQUIRE(open().create().value());
  crawl(open);
}

TEST_CASE("Crawlers that share a set of the module fetch every link", "[redis][concurrent][001-08]") {
  SEENBY_NEED_REDISBLOOM(module);
  const RedisServer server("redis-server", {"--loadmodule", module});
  const auto open = [&] {
    return redis::SharedBloomSet<std::string>(redis::make_executor(server.socket_url()).value(), "links",
                                              {.capacity = 1'000});
  };
  REQUIRE(open().create());
  crawl(open);
}

TEST_CASE("An id added at one server is never absent at another while versions switch and builders die",
          "[redis][concurrent][004-10][004-16]") {
  const RedisServer server;
  SEENBY_RANDOM(random);
  REQUIRE(open_gate(server, 20'000).create().value());
  std::atomic<std::uint64_t> visible{0};
  std::atomic<std::uint64_t> absent{0};
  std::atomic<std::uint64_t> unknown{0};
  std::atomic<std::uint64_t> asked{0};
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    Gate gate = open_gate(server, 20'000);
    for (std::uint64_t id = 0; !stop; ++id) {
      if (!gate.add(id)) continue;  // the writer fails with it
      visible.store(id + 1, std::memory_order_release);
      // A thousand rebuilds would scan ever more.
      if (id > 20'000) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
  });
  std::vector<std::jthread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] {
      const Gate gate = open_gate(server, 20'000);
      for (std::uint64_t step = static_cast<std::uint64_t>(i); !stop; step += 7'919) {
        const std::uint64_t known = visible.load(std::memory_order_acquire);
        if (known == 0) continue;
        const Existence answer = gate.check(step % 3 == 0 ? known - 1 : step % known);
        ++asked;
        if (answer == Existence::absent) ++absent;
        if (answer == Existence::unknown) ++unknown;
      }
    });
  }
  // SEENBY_SOAK=1: a thousand rebuilds instead of three seconds of them.
  const bool soak = std::getenv("SEENBY_SOAK") != nullptr;
  int commits = 0;
  int rebuilds = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{3};
  while (soak ? rebuilds < 1'000 : std::chrono::steady_clock::now() < end) {
    ++rebuilds;
    const bool dies = random.below(3) == 0;
    const std::uint64_t dies_after = random.below(8);
    const pid_t child = ::fork();
    if (child == 0) {
      Gate gate = open_gate(server, 20'000);
      auto rebuild = gate.begin_rebuild(20'000);
      if (!rebuild) ::_exit(1);
      const std::uint64_t scanned = visible.load(std::memory_order_acquire);
      for (std::uint64_t at = 0, batches = 0; at < scanned; at += 500, ++batches) {
        if (dies && batches == dies_after) ::kill(::getpid(), SIGKILL);
        if (!rebuild->add(numbers(at, std::min<std::uint64_t>(500, scanned - at)))) ::_exit(2);
      }
      if (dies) ::kill(::getpid(), SIGKILL);
      ::_exit(rebuild->commit() ? 0 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      REQUIRE(WEXITSTATUS(status) == 0);  // whoever was not killed has switched
      ++commits;
    }
    if (WIFSIGNALED(status)) {
      // Its lease stands for ten minutes: an operator drops it, as its expiry would.
      const auto executor = redis::make_executor(server.socket_url()).value();
      REQUIRE(redis::execute_one(*executor, redis::Command::with_key(1, "DEL", "seenby:set:{products}:building"),
                                 redis::Deadline::after(std::chrono::seconds{1})));
    }
  }
  stop = true;
  writer.join();
  readers.clear();
  INFO(asked << " checks, " << rebuilds << " rebuilds, " << commits << " switches, " << visible << " ids");
  if (soak) WARN(asked << " checks, " << rebuilds << " rebuilds, " << commits << " switches, " << visible << " ids");
  CHECK(absent == 0);
  CHECK(unknown == 0);
  CHECK(commits > 2);
  const Gate gate = open_gate(server, 20'000);
  for (std::uint64_t id = 0; id < visible; ++id) REQUIRE(gate.check(id) == Existence::maybe);
}

TEST_CASE("An id that one process added is never absent at another, though it is killed and versions switch",
          "[redis][004-10][004-16]") {
  const RedisServer server;
  SEENBY_RANDOM(random);
  // Longer than a record takes from add() to the pipe; much shorter than the test, so that scans are needed too.
  const auto open = [&] {
    return Gate(redis::make_executor(server.socket_url()).value(), "products",
                {.expected_items = 50'000, .write_lag = 1'000ms, .grace = 200ms});
  };
  Gate gate = open();
  REQUIRE(gate.create().value());
  Writer writer(open);
  std::uint64_t absent = 0;
  std::uint64_t unknown = 0;
  std::uint64_t asked = 0;
  int kills = 0;
  int switches = 0;
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < start + 4s) {
    auto rebuild = gate.begin_rebuild(50'000).value();
    const std::uint64_t scanned = writer.visible();
    for (std::uint64_t at = 0; at < scanned; at += 500) {
      REQUIRE(rebuild.add(numbers(at, std::min<std::uint64_t>(500, scanned - at))));
      const std::uint64_t known = writer.visible();
      for (const std::uint64_t id : {known - 1, random.below(known)}) {
        const Existence answer = gate.check(id);
        absent += answer == Existence::absent ? 1U : 0U;
        unknown += answer == Existence::unknown ? 1U : 0U;
        ++asked;
      }
    }
    REQUIRE(rebuild.commit());
    ++switches;
    if (switches % 4 == 0) writer.kill_and_restart(), ++kills;
  }
  INFO(asked << " checks, " << switches << " switches, " << kills << " kills, " << writer.visible() << " ids");
  CHECK(absent == 0);
  CHECK(unknown == 0);
  CHECK(switches >= 4);
  CHECK(kills >= 1);
  const std::uint64_t visible = writer.visible();
  for (std::uint64_t id = 0; id < visible; ++id) REQUIRE(gate.check(id) == Existence::maybe);
}

TEST_CASE("One builder at a time; the one that lost its place is told", "[redis][004-10]") {
  const RedisServer server;
  Gate gate = open_gate(server);
  REQUIRE(gate.create());
  auto rebuild = gate.begin_rebuild(100).value();
  CHECK(gate.begin_rebuild(100).error().code == ErrorCode::conflict);
  CHECK(gate.info().value().next == rebuild.version());
  REQUIRE(rebuild.add(numbers(0, 10)));
  REQUIRE(rebuild.commit());
  CHECK(gate.info().value().next == 0);
  {
    const auto given_up = gate.begin_rebuild(100).value();
    CHECK(gate.info().value().next == given_up.version());
  }
  CHECK(gate.info().value().next == 0);
  CHECK(gate.check(5) == Existence::maybe);
}

TEST_CASE("A gate of names finds every spelling, and is unknown to servers with other rules",
          "[redis][004-07][004-16]") {
  const RedisServer server;
  using Names = SharedGate<std::string>;
  const auto open = [&](std::string rules) {
    const auto lower = [](const std::string& name) {
      std::string made = name;
      std::transform(made.begin(), made.end(), made.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return made;
    };
    return Names(redis::make_executor(server.socket_url()).value(), "names", {.expected_items = 1'000},
                 {.normalise = lower, .normaliser_name = std::move(rules)});
  };
  Names first = open("lower/1");
  const Names second = open("lower/1");
  auto rebuild = first.begin_rebuild(1'000).value();
  const std::vector<std::string> stored{"Ada", "GRACE"};
  REQUIRE(rebuild.add(stored));
  REQUIRE(rebuild.commit());
  REQUIRE(first.add("Mary"));
  for (const char* name : {"ada", "ADA", "grace", "mary", "MARY"}) {
    CHECK(second.check(name) == Existence::maybe);
    CHECK(second.available(name) == Availability::ask_database);
  }
  CHECK(second.available("edsger") == Availability::free);
  CHECK(open("lower/2").check("ada") == Existence::unknown);
  CHECK_THROWS_AS(open(""), std::invalid_argument);
}

TEST_CASE("A read path over a shared gate spares cache and database what another server knows to be absent",
          "[redis][004-01][004-16]") {
  const RedisServer server;
  Gate here = open_gate(server);
  Gate there = open_gate(server);
  REQUIRE(here.create());
  REQUIRE(there.add(7));
  std::atomic<int> reads{0};
  ReadPath<std::uint64_t, std::string, Gate> path(
      here, {.database = [&](const std::uint64_t& id) {
        ++reads;
        return Result<std::optional<std::string>>(id == 7 ? std::optional<std::string>("seven") : std::nullopt);
      }});
  CHECK(path.find(7).value() == "seven");
  CHECK(path.find(8).value() == std::nullopt);
  CHECK(reads == 1);
}

TEST_CASE("A gate whose server is gone says unknown, and everything goes the normal way", "[redis][004-03]") {
  RedisServer server;
  Gate gate = open_gate(server);
  REQUIRE(gate.create());
  CHECK(gate.check(1) == Existence::absent);
  server.kill_at_once();
  CHECK(gate.check(1) == Existence::unknown);
  CHECK(gate.available(1) == Availability::ask_database);
  CHECK_FALSE(gate.add(1));
}

TEST_CASE("A set under the module's key is shared with its other clients", "[redis][001-05][001-06][001-08]") {
  SEENBY_NEED_REDISBLOOM(module);
  const RedisServer server("redis-server", {"--loadmodule", module});
  const auto executor = redis::make_executor(server.socket_url()).value();
  redis::SharedBloomSet<std::string> filter(executor, "myfilter", {.capacity = 1'000});
  CHECK(filter.may_contain("a").error().code == ErrorCode::unavailable);
  REQUIRE(filter.create());
  REQUIRE(filter.create());
  CHECK(filter.add("a").value());
  CHECK_FALSE(filter.add("a").value());
  CHECK(filter.may_contain("a").value());
  const auto theirs = redis::execute_one(*executor, redis::Command::with_key(1, "BF.EXISTS", "myfilter", "a"),
                                         redis::Deadline::after(std::chrono::seconds{1}));
  CHECK(*theirs.value().integer() == 1);
}
