// SPDX-License-Identifier: MIT
// ReadPath: gate, negative cache, cache and database in order, one read for concurrent misses of one id.

#include "seenby/gates/read_path.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "seenby/select/namespace.hpp"
#include "support/test_clock.hpp"
#include "support/wait_until.hpp"

namespace {

using seenby::Error;
using seenby::ErrorCode;
using seenby::Result;
using seenby::test::TestClock;
using seenby::test::wait_until;
using Path = seenby::ReadPath<std::string, std::string>;
using Gate = seenby::ExistenceGate<std::string>;

/// A cache and a database that count their reads.
struct Backend {
  std::mutex mutex;
  std::map<std::string, std::string> cached;
  std::map<std::string, std::string> rows;
  std::atomic<int> cache_reads{0};
  std::atomic<int> database_reads{0};
  std::atomic<bool> cache_down{false};
  std::function<void()> before_answer{};  // once the row is read

  [[nodiscard]] seenby::ReadStages<std::string, std::string> stages() {
    return {.cache = [this](const std::string& id) -> Result<std::optional<std::string>> {
              ++cache_reads;
              if (cache_down) return Error{ErrorCode::unreachable, "the cache is down"};
              const std::lock_guard lock(mutex);
              const auto found = cached.find(id);
              return found == cached.end() ? std::nullopt : std::optional(found->second);
            },
            .database = [this](const std::string& id) -> Result<std::optional<std::string>> {
              ++database_reads;
              std::optional<std::string> row;
              {
                const std::lock_guard lock(mutex);
                if (const auto found = rows.find(id); found != rows.end()) row = found->second;
              }
              if (before_answer) before_answer();
              return row;
            },
            .fill_cache =
                [this](const std::string& id, const std::string& record) {
                  const std::lock_guard lock(mutex);
                  cached[id] = record;
                }};
  }
};

seenby::ExistenceGateOptions<std::string> options(const TestClock& clock) {
  seenby::ExistenceGateOptions<std::string> made;
  made.partitions = 1;
  made.clock = clock.clock();
  return made;
}

}  // namespace

TEST_CASE("A record comes from the first stage that has it, and the cache is filled", "[gate][004-02]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  backend.rows["a"] = "A";
  Path path(gate, backend.stages());
  auto rebuild = gate.begin_rebuild(100);
  rebuild.add("a");
  rebuild.commit();

  CHECK(path.find("a").value() == "A");
  CHECK(path.find("a").value() == "A");
  CHECK(backend.database_reads == 1);
  CHECK(path.counters().cache_hits == 1);
  REQUIRE(gate.check("nobody") == seenby::Existence::absent);
  const int cache_reads = backend.cache_reads;
  CHECK(path.find("nobody").value() == std::nullopt);
  CHECK(backend.cache_reads == cache_reads);
  CHECK(path.cache_latency().snapshot().count == 2);
  CHECK(path.database_latency().snapshot().count == 1);
}

TEST_CASE("A cache that is down costs a count, not the record", "[gate]") {
  const TestClock clock;
  Gate gate(options(clock));  // untrusted: everything goes the normal way
  Backend backend;
  backend.rows["a"] = "A";
  backend.cache_down = true;
  Path path(gate, backend.stages());
  CHECK(path.find("a").value() == "A");
  CHECK(path.counters().cache_failures == 1);
  CHECK(path.counters().database_reads == 1);
}

TEST_CASE("Concurrent misses of one id share one database read, of two ids they do not", "[gate][concurrent]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  backend.rows["a"] = "A";
  backend.rows["b"] = "B";
  Path path(gate, backend.stages());
  std::atomic<bool> together{false};
  std::atomic<bool> alone{false};
  // Neither read ends before all six others wait for one of them.
  backend.before_answer = [&] {
    if (!wait_until([&] { return together || (together = path.waiting() == 6); })) alone = true;
  };
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      const std::string id = i % 2 == 0 ? "a" : "b";
      const auto record = path.find(id);
      if (!record || *record != (i % 2 == 0 ? "A" : "B")) ++wrong;
    });
  }
  for (std::thread& caller : callers) caller.join();
  REQUIRE_FALSE(alone);
  CHECK(wrong == 0);
  CHECK(backend.database_reads == 2);
  CHECK(path.counters().shared == 6);
  CHECK(path.waiting() == 0);
}

TEST_CASE("A record that became visible while another call read is not taken for absent",
          "[gate][concurrent][004-09]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  Path path(gate, backend.stages());
  std::latch looked{1};
  std::atomic<bool> joined{true};
  backend.before_answer = [&] {
    if (backend.database_reads > 1) return;
    looked.count_down();
    joined = wait_until([&] { return path.waiting() == 1; });
  };
  std::thread early([&] { (void)path.find("new"); });
  looked.wait();
  gate.add("new");
  {
    const std::lock_guard lock(backend.mutex);
    backend.rows["new"] = "here";
  }
  const auto late = path.find("new");
  early.join();
  REQUIRE(joined);
  CHECK(late.value() == "here");
}

TEST_CASE("What the database throws reaches every caller, and the next call asks again", "[gate]") {
  const TestClock clock;
  Gate gate(options(clock));
  int reads = 0;
  Path path(gate, {.database = [&](const std::string&) -> Result<std::optional<std::string>> {
              if (++reads == 1) throw std::runtime_error("lost");
              return std::optional<std::string>{"found"};
            }});
  CHECK_THROWS_AS(path.find("a"), std::runtime_error);
  CHECK(path.find("a").value() == "found");
  CHECK_THROWS_AS(Path(gate, {}), std::invalid_argument);
}

TEST_CASE("One tenant's id says nothing of another's, and a positive grants no access", "[gate][004-06]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  const seenby::Namespace acme{"acme"};
  const seenby::Namespace rival{"rival"};
  backend.rows[acme("report")] = "acme's";
  auto rebuild = gate.begin_rebuild(100);
  rebuild.add(acme("report"));
  rebuild.commit();
  Path path(gate, backend.stages());
  CHECK(path.find(acme("report")).value() == "acme's");
  CHECK(gate.check(rival("report")) == seenby::Existence::absent);
  CHECK(path.find(rival("report")).value() == std::nullopt);
  // A bit in the gate is no record: what passes still has to be found.
  gate.add(rival("secret"));
  CHECK(gate.check(rival("secret")) == seenby::Existence::maybe);
  CHECK(path.find(rival("secret")).value() == std::nullopt);
}

TEST_CASE("One type of resource says nothing of another, in gates apart or by the type in the key", "[gate][004-06]") {
  const TestClock clock;
  Gate posts(options(clock));
  Gate products(options(clock));
  for (Gate* const gate : {&posts, &products}) gate->begin_rebuild(100).commit();
  products.add("7");
  CHECK(products.check("7") == seenby::Existence::maybe);
  CHECK(posts.check("7") == seenby::Existence::absent);

  Gate all(options(clock));
  Backend backend;
  const seenby::Namespace post{"post"};
  const seenby::Namespace product{"product"};
  all.begin_rebuild(100).commit();
  all.add(product("7"));
  backend.rows[product("7")] = "a chair";
  Path path(all, backend.stages());
  CHECK(path.find(product("7")).value() == "a chair");
  CHECK(all.check(post("7")) == seenby::Existence::absent);
  CHECK(path.find(post("7")).value() == std::nullopt);
  CHECK(backend.database_reads == 1);
}

TEST_CASE("A file is given out after gate, metadata and permission, in this order", "[gate][004-06][004-20]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend metadata;  // id -> owner
  metadata.rows["plan.pdf"] = "ada";
  auto rebuild = gate.begin_rebuild(100);
  for (const char* const id : {"plan.pdf", "deleted.pdf"}) rebuild.add(id);
  rebuild.commit();
  Path path(gate, metadata.stages());
  int permissions = 0;
  int storage_reads = 0;
  const auto give = [&](const std::string& id, const std::string& user) -> std::string {
    const auto owner = path.find(id).value();
    if (!owner) return "no such file";
    ++permissions;
    if (*owner != user) return "not yours";
    ++storage_reads;
    return "the bytes";
  };
  REQUIRE(gate.check("guessed.pdf") == seenby::Existence::absent);
  CHECK(give("guessed.pdf", "ada") == "no such file");
  CHECK(metadata.cache_reads + metadata.database_reads == 0);
  CHECK(give("deleted.pdf", "ada") == "no such file");  // the gate passes it, the metadata do not
  CHECK(metadata.database_reads == 1);
  CHECK(permissions == 0);
  CHECK(give("plan.pdf", "bob") == "not yours");  // a positive grants nothing
  CHECK(storage_reads == 0);
  CHECK(give("plan.pdf", "ada") == "the bytes");
  CHECK(permissions == 2);
  CHECK(storage_reads == 1);
}
