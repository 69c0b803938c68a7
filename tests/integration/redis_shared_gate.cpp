// SPDX-License-Identifier: MIT
// SharedGate: what one server adds is never absent at another, and what one did not find no other looks for.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "seenby/gates/read_path.hpp"
#include "seenby/metrics.hpp"
#include "seenby/redis/shared_gate.hpp"
#include "support/instrumented.hpp"
#include "support/random.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace std::chrono_literals;
using redis::SharedGate;
using test::RedisServer;
using test::sequence;
using Gate = SharedGate<std::uint64_t>;
using Record = std::optional<std::string>;

Gate open_gate(const RedisServer& server, std::uint64_t items = 1'000,
               redis::SharedGateOptions<std::uint64_t> options = {}) {
  return Gate(redis::make_executor(server.socket_url()).value(), "products", {.expected_items = items, .grace = 200ms},
              std::move(options));
}

redis::Reply run(const RedisServer& server, const redis::Command& command) {
  const auto executor = redis::make_executor(server.socket_url()).value();
  return redis::execute_one(*executor, command, redis::Deadline::after(1s)).value();
}

/// The first of the ids from `id` on that a gate gives this answer for.
std::uint64_t first_with(const Gate& gate, Existence answer, std::uint64_t id) {
  for (const std::uint64_t end = id + 100'000; id < end && gate.check(id) != answer;) ++id;
  REQUIRE(gate.check(id) == answer);
  return id;
}

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
  REQUIRE(rebuild->add(sequence(7, 1)));
  CHECK(second.check(7) == Existence::unknown);
  REQUIRE(rebuild->commit());
  CHECK(asleep.check(7) == Existence::maybe);
  CHECK(second.check(7) == Existence::maybe);
  CHECK(second.check(8) == Existence::absent);
  CHECK(first.add(9));
  CHECK(second.check(9) == Existence::maybe);
}

namespace {

/// A process that rebuilds the gate once, and dies in the middle of it where it is told to. Returns how it ended.
int rebuild_in_a_process(const RedisServer& server, std::uint64_t scanned, std::optional<std::uint64_t> dies_after) {
  const pid_t child = ::fork();
  if (child == 0) {
    Gate gate = open_gate(server, 20'000);
    auto rebuild = gate.begin_rebuild(20'000);
    if (!rebuild) ::_exit(1);
    for (std::uint64_t at = 0, batches = 0; at < scanned; at += 500, ++batches) {
      if (batches == dies_after) ::kill(::getpid(), SIGKILL);
      if (!rebuild->add(sequence(at, std::min<std::uint64_t>(500, scanned - at)))) ::_exit(2);
    }
    if (dies_after) ::kill(::getpid(), SIGKILL);
    ::_exit(rebuild->commit() ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// A thousand rebuilds instead of three seconds of them: SEENBY_SOAK=1, and SEENBY_CI=full without a sanitizer.
bool soaks() {
  const char* const ci = std::getenv("SEENBY_CI");
  const bool full = ci != nullptr && std::string_view(ci) == "full" && !test::instrumented;
  return full || std::getenv("SEENBY_SOAK") != nullptr;
}

}  // namespace

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
  std::thread writer([&] {
    Gate gate = open_gate(server, 20'000);
    for (std::uint64_t id = 0; !stop; ++id) {
      if (!gate.add(id)) continue;  // the writer fails with it
      visible.store(id + 1, std::memory_order_release);
      // A thousand rebuilds would scan ever more.
      if (id > 20'000) std::this_thread::sleep_for(20ms);
    }
  });
  std::vector<std::thread> readers;
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
  const bool soak = soaks();
  int commits = 0;
  int kills = 0;
  int failures = 0;
  const auto end = std::chrono::steady_clock::now() + 3s;
  while (failures == 0 && (soak ? commits + kills < 1'000 : std::chrono::steady_clock::now() < end)) {
    const bool dies = (commits + kills) % 3 == 2;
    const std::uint64_t scanned = visible.load(std::memory_order_acquire);
    const int status =
        rebuild_in_a_process(server, scanned, dies ? std::optional(random.below(8)) : std::optional<std::uint64_t>());
    if (WIFSIGNALED(status)) {
      // Its lease lasts ten minutes: an operator drops it, as its expiry would.
      run(server, redis::Command::with_key(1, "DEL", "seenby:set:{products}:building"));
      ++kills;
    } else {
      ++(WEXITSTATUS(status) == 0 ? commits : failures);  // whoever was not killed has switched
    }
  }
  stop = true;
  writer.join();
  for (std::thread& reader : readers) reader.join();
  WARN(asked << " checks, " << commits << " switches, " << kills << " kills, " << visible << " ids");
  CHECK(failures == 0);
  CHECK(absent == 0);
  CHECK(unknown == 0);
  CHECK(asked > 0);
  CHECK(commits > 2);
  CHECK(kills > 0);
  REQUIRE(visible > 0);
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
      REQUIRE(rebuild.add(sequence(at, std::min<std::uint64_t>(500, scanned - at))));
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
  CHECK(asked > 0);
  CHECK(switches >= 4);
  CHECK(kills >= 1);
  const std::uint64_t visible = writer.visible();
  for (std::uint64_t id = 0; id < visible; ++id) REQUIRE(gate.check(id) == Existence::maybe);
}

TEST_CASE("After a switch the old version stays for the lookups under way, and is dropped after the grace period",
          "[redis][004-10][004-16]") {
  const RedisServer server;
  Gate gate = open_gate(server);  // with a grace period of 200 ms
  REQUIRE(gate.create());
  const auto bits = [](std::uint64_t version) {
    return std::string("seenby:set:{products}:").append(std::to_string(version)).append(":0");
  };
  const std::string old = bits(gate.status().version);
  const auto left = [&](const std::string& key) {
    return *run(server, redis::Command::with_key(1, "PTTL", key)).integer();
  };
  CHECK(left(old) == -1);  // it does not expire
  REQUIRE(gate.begin_rebuild(1'000)->commit());
  const std::int64_t milliseconds = left(old);
  CHECK(milliseconds > 0);
  CHECK(milliseconds <= 200);
  CHECK(left(bits(gate.status().version)) == -1);
  CHECK(test::wait_until([&] { return left(old) == -2; }));  // there is no such key
  CHECK(gate.check(5) == Existence::absent);
}

TEST_CASE("One builder at a time; the one that lost its place is told", "[redis][004-10]") {
  const RedisServer server;
  Gate gate = open_gate(server);
  REQUIRE(gate.create());
  auto rebuild = gate.begin_rebuild(100).value();
  CHECK(gate.begin_rebuild(100).error().code == ErrorCode::conflict);
  CHECK(gate.info().value().next == rebuild.version());
  REQUIRE(rebuild.add(sequence(0, 10)));
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
  int reads = 0;
  ReadPath<std::uint64_t, std::string, Gate> path(here, {.database = [&](const std::uint64_t& id) {
                                                    ++reads;
                                                    return Result<Record>(id == 7 ? Record("seven") : std::nullopt);
                                                  }});
  CHECK(path.find(7).value() == "seven");
  CHECK(path.find(8).value() == std::nullopt);
  CHECK(reads == 1);
}

TEST_CASE("Concurrent misses of one id share one read, whether it exists or not, and of two ids they do not",
          "[redis][concurrent][004-13]") {
  const RedisServer server;
  Gate gate = open_gate(server);
  REQUIRE(gate.begin_rebuild(1'000)->commit());
  Gate elsewhere = open_gate(server, 1'000);
  // What has been deleted since: the gate passes it, the database has it not.
  auto rebuild = elsewhere.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(sequence(1, 2)));
  REQUIRE(rebuild.commit());
  std::atomic<int> reads{0};
  std::atomic<bool> together{false};  // once all six others wait
  const ReadPath<std::uint64_t, std::string, Gate>* waited = nullptr;
  ReadPath<std::uint64_t, std::string, Gate> path(
      gate, {.database = [&](const std::uint64_t& id) -> Result<Record> {
        ++reads;
        if (!test::wait_until([&] { return together || (together = waited->waiting() == 6); }))
          return Record("not shared");
        return id == 1 ? Record("one") : std::nullopt;
      }});
  waited = &path;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, id = static_cast<std::uint64_t>(1 + i % 2)] {
      const auto record = path.find(id);
      if (!record || *record != (id == 1 ? Record("one") : std::nullopt)) ++wrong;
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
  CHECK(reads == 2);
  CHECK(path.counters().shared == 6);
}

TEST_CASE("A record that became visible at another server while this one read is not taken for absent",
          "[redis][concurrent][004-09]") {
  const RedisServer server;
  Gate here = open_gate(server);
  Gate there = open_gate(server);
  auto rebuild = here.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(sequence(7, 1)));  // deleted once, and made again below
  REQUIRE(rebuild.commit());
  std::atomic<bool> exists{false};
  std::atomic<int> reads{0};
  std::latch looked{1};
  const ReadPath<std::uint64_t, std::string, Gate>* waited = nullptr;
  ReadPath<std::uint64_t, std::string, Gate> path(here, {.database = [&](const std::uint64_t&) -> Result<Record> {
                                                    const bool there_is = exists;
                                                    if (++reads > 1) return Record("made");
                                                    looked.count_down();
                                                    (void)test::wait_until([&] { return waited->waiting() == 1; });
                                                    return there_is ? Record("made") : std::nullopt;
                                                  }});
  waited = &path;
  std::thread early([&] { (void)path.find(7); });
  looked.wait();
  const bool added = there.add(7).has_value();
  exists = true;
  const auto late = path.find(7);
  early.join();
  REQUIRE(added);
  CHECK(late.value() == "made");
  CHECK(path.find(7).value() == "made");  // nor was it remembered as absent
}

TEST_CASE("What one server did not find none looks for again, until one adds it or the memory ends",
          "[redis][004-12][004-13][004-16]") {
  const RedisServer server;
  Gate here = open_gate(server, 1'000, {.negative_ttl = 2s});
  Gate there = open_gate(server);
  auto rebuild = here.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(sequence(1, 4)));
  REQUIRE(rebuild.commit());
  int loads = 0;
  bool exists = false;
  const auto load = [&](const std::uint64_t&) -> Result<Record> {
    ++loads;
    return exists ? Record("made") : std::nullopt;
  };
  for (int i = 0; i < 100; ++i) {
    REQUIRE(here.find(1, load).value() == std::nullopt);
    REQUIRE(there.find(1, load).value() == std::nullopt);
  }
  CHECK(loads == 1);
  CHECK(here.counters().negative_cache_hits == 99);
  CHECK(there.counters().negative_cache_hits == 100);
  CHECK(there.find(2, load).value() == std::nullopt);  // another id is not what was remembered
  CHECK(loads == 2);
  CHECK(test::wait_until([&] { return there.find(1, load).has_value() && loads == 3; }));  // its memory is short
  REQUIRE(there.add(1));
  exists = true;
  CHECK(here.find(1, load).value() == "made");
  CHECK(there.find(1, load).value() == "made");
  Gate forgetful = open_gate(server, 1'000, {.negative_ttl = 0s});
  exists = false;
  loads = 0;
  for (int i = 0; i < 3; ++i) REQUIRE(forgetful.find(3, load).value() == std::nullopt);
  CHECK(loads == 3);
  CHECK(forgetful.counters().negative_cache_hits == 0);
  CHECK_THROWS_AS(open_gate(server, 1'000, {.negative_ttl = -1s}), std::invalid_argument);
}

TEST_CASE("A lookup that began before another server added the id cannot remember it as absent",
          "[redis][004-09][004-12]") {
  const RedisServer server;
  Gate here = open_gate(server);
  Gate there = open_gate(server);
  auto rebuild = here.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(sequence(1, 2)));
  REQUIRE(rebuild.commit());
  bool exists = false;
  SECTION("added while it read, long past the lag") {
    const auto slow = [&](const std::uint64_t& id) -> Result<Record> {
      const bool added = there.add(id).has_value();
      run(server, redis::Command::with_key(1, "DEL", "seenby:set:{products}:recent"));  // as its expiry does
      return added ? Record() : Record("not added");
    };
    CHECK(here.find(1, slow).value() == std::nullopt);
    exists = true;
  }
  SECTION("added before it, and visible after it") {
    REQUIRE(there.add(1));
    CHECK(here.recently_added(1));
    CHECK_FALSE(here.recently_added(2));
    CHECK(here.find(1, [](const std::uint64_t&) -> Result<Record> { return Record(); }).value() == std::nullopt);
    exists = true;
  }
  for (Gate* const gate : {&here, &there}) {
    CHECK(gate->find(1, [&](const std::uint64_t&) -> Result<Record> { return exists ? Record("made") : Record(); })
              .value() == "made");
  }
}

TEST_CASE("The states of a shared gate can be read, and every server goes by them", "[redis][004-03][004-14]") {
  RedisServer server;
  Gate here = open_gate(server);
  const Gate there = open_gate(server);
  const auto absent = [&] { return there.check(99) == Existence::absent; };
  CHECK(there.status().state == GateState::empty);
  CHECK(here.advance(1).error().code == ErrorCode::unavailable);
  CHECK(here.caught_up().error().code == ErrorCode::unavailable);
  std::uint64_t version = 0;
  {
    auto rebuild = here.begin_rebuild(1'000).value();
    REQUIRE(rebuild.add(sequence(0, 10)));
    CHECK(there.status().state == GateState::empty);
    REQUIRE(rebuild.commit());
    version = rebuild.version();
  }
  CHECK(there.status().state == GateState::ready);
  CHECK(there.status().version == version);
  CHECK(absent());
  {
    const auto rebuild = here.begin_rebuild(1'000).value();
    CHECK(there.status().state == GateState::rebuilding);
    CHECK(absent());
  }
  CHECK(there.status().state == GateState::ready);

  REQUIRE(here.begin_loading());
  CHECK(there.status().state == GateState::loading);
  CHECK(there.check(99) == Existence::unknown);
  CHECK(there.check(5) == Existence::unknown);
  REQUIRE(here.add(1'000));  // is taken meanwhile
  CHECK(here.caught_up().value());
  CHECK_FALSE(here.caught_up().value());
  CHECK(there.check(1'000) == Existence::maybe);
  CHECK(absent());

  REQUIRE(here.distrust());
  CHECK(there.status().state == GateState::distrusted);
  CHECK(there.check(99) == Existence::unknown);
  REQUIRE(here.begin_loading());
  CHECK_FALSE(here.caught_up().value());
  CHECK(there.status().state == GateState::distrusted);  // only a rebuild ends it
  REQUIRE(here.begin_rebuild(1'000)->commit());
  CHECK(there.status().state == GateState::ready);
  CHECK(absent());

  run(server,
      redis::Command::with_key(
          1, "DEL", std::string("seenby:set:{products}:").append(std::to_string(here.status().version)) + ":0"));
  CHECK(there.status().state == GateState::distrusted);
  CHECK(there.check(99) == Existence::unknown);
  CHECK(here.add(99).error().code == ErrorCode::unavailable);
  run(server, redis::Command().add("FLUSHALL"));
  CHECK(there.status().state == GateState::empty);
  server.kill_at_once();
  CHECK(there.status().state == GateState::distrusted);
}

TEST_CASE("Position, age, lag and size of a shared gate can be read, and a position never goes back",
          "[redis][004-14]") {
  const RedisServer server;
  Gate here = open_gate(server, 100);
  const Gate there = open_gate(server, 100);
  REQUIRE(here.create());
  CHECK(there.status().position == 0);
  REQUIRE(here.advance(9));
  REQUIRE(here.advance(10));  // as a number, not as text
  REQUIRE(here.advance(7));
  CHECK(there.status().position == 10);
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  REQUIRE(here.advance(last - 1));
  REQUIRE(here.advance(last));  // one more, which a double does not tell
  REQUIRE(here.advance(last - 1));
  CHECK(there.status().position == last);
  const auto an_hour_ago = [&](const char* what) {
    run(server, redis::Command::with_key(1, "HINCRBY", "seenby:set:{products}", what, "-3600000"));
  };
  CHECK(there.status().age < 60s);
  an_hour_ago("since");
  an_hour_ago("changed");
  CHECK(there.status().age >= 1h);
  CHECK(there.status().lag >= 1h);
  REQUIRE(here.add(1));
  CHECK(there.status().lag < 60s);
  CHECK(there.status().age >= 1h);
  an_hour_ago("changed");
  REQUIRE(here.advance(last));
  CHECK(there.status().lag < 60s);
  REQUIRE(here.begin_rebuild(100)->commit());
  CHECK(there.status().age < 60s);
  CHECK(there.status().position == last);

  CHECK(there.status().capacity == 100);
  for (std::uint64_t id = 0; id < 150; ++id) REQUIRE(here.add(id));
  CHECK(there.status().items > 130);
  CHECK(there.status().expected_fpr > 0.01);
  CHECK(here.counters().over_capacity > 30);
  CHECK(here.counters().over_capacity <= 50);
}

TEST_CASE("What a shared gate does is counted, and on the page of metrics", "[redis][004-14][004-15]") {
  const RedisServer server;
  Gate gate = open_gate(server);
  const auto load = [](const std::uint64_t& id) -> Result<Record> {
    std::this_thread::sleep_for(1ms);
    if (id == 3) return Error{ErrorCode::unreachable, "the database is down"};
    return id == 1 ? Record("one") : std::nullopt;
  };
  CHECK(gate.find(1, load).value() == "one");  // no gate yet
  auto rebuild = gate.begin_rebuild(1'000).value();
  REQUIRE(rebuild.add(sequence(1, 3)));
  REQUIRE(rebuild.commit());
  REQUIRE(gate.add(4));
  CHECK(gate.find(1, load).value() == "one");
  CHECK(gate.find(2, load).value() == std::nullopt);
  CHECK(gate.find(2, load).value() == std::nullopt);
  CHECK_FALSE(gate.find(3, load).has_value());
  const std::uint64_t absent = first_with(gate, Existence::absent, 1'000);
  CHECK(gate.find(absent, load).value() == std::nullopt);
  const GateCounters counted = gate.counters();
  CHECK(counted.checks >= 8);
  CHECK(counted.negatives >= 3);
  CHECK(counted.bypassed == 1);
  CHECK(counted.negative_cache_hits == 1);
  CHECK(counted.loads == 4);
  CHECK(counted.positive_but_absent == 1);
  CHECK(counted.load_failures == 1);
  CHECK(counted.adds == 1);
  CHECK(counted.rebuilds == 1);
  CHECK(counted.load_ns >= 4'000'000);
  CHECK(counted.saved_ns_per_check(0ns) > 0);
  CHECK(counted.saved_ns_per_check(1h) < 0);
  Metrics metrics;
  metrics.watch(gate, {{"gate", "products"}});
  const std::string page = metrics.text();
  for (const char* const line :
       {"seenby_gate_loads_total{gate=\"products\"} 4", "seenby_gate_state{gate=\"products\",state=\"ready\"} 1",
        "seenby_gate_capacity_items{gate=\"products\"} 1000"}) {
    CAPTURE(line);
    CHECK(page.find(line) != std::string::npos);
  }
}

TEST_CASE("The gate of one type of resource says nothing of another's, of whatever id", "[redis][004-06]") {
  const RedisServer server;
  const auto executor = redis::make_executor(server.socket_url()).value();
  Gate products(executor, "products", {.expected_items = 1'000});
  Gate posts(executor, "posts", {.expected_items = 1'000});
  REQUIRE(products.create().value());
  CHECK(posts.check(7) == Existence::unknown);
  REQUIRE(posts.create().value());
  REQUIRE(products.add(7));
  CHECK(products.check(7) == Existence::maybe);
  CHECK(posts.check(7) == Existence::absent);
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
