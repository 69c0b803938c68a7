// SPDX-License-Identifier: MIT
// ExistenceGate: a trusted negative spares the look-up, everything else goes the normal way, and nothing that exists is
// ever answered "not found".

#include "seenby/gates/existence_gate.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "support/binomial.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Error;
using seenby::ErrorCode;
using seenby::Existence;
using seenby::ExistenceGateOptions;
using seenby::Result;
using seenby::test::TestClock;
using Gate = seenby::ExistenceGate<std::uint64_t>;
using Record = std::optional<std::string>;

/// A cache before a database, both counting what reaches them.
class Backend {
 public:
  void create(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    rows_.insert(id);
  }
  void remove(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    rows_.erase(id);
    cached_.erase(id);
  }
  void evict(std::uint64_t id) { cached_.erase(id); }
  [[nodiscard]] auto load() {
    return [this](const std::uint64_t& id) -> Result<Record> {
      const std::lock_guard lock(mutex_);
      ++cache_reads;
      if (cached_.contains(id)) return Record{std::to_string(id)};
      ++database_reads;
      if (down) return Error{ErrorCode::unreachable, "the database is down"};
      if (!rows_.contains(id)) return Record{};
      cached_.insert(id);
      return Record{std::to_string(id)};
    };
  }
  std::uint64_t cache_reads = 0;
  std::uint64_t database_reads = 0;
  bool down = false;

 private:
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> rows_;
  std::unordered_set<std::uint64_t> cached_;
};

ExistenceGateOptions<std::uint64_t> options(const TestClock& clock) {
  ExistenceGateOptions<std::uint64_t> made;
  made.partitions = 4;
  made.clock = clock.clock();
  return made;
}

/// A gate that has been built over ids 0 to count - 1, which the backend holds.
void build(Gate& gate, Backend& backend, std::uint64_t count) {
  auto rebuild = gate.begin_rebuild(count);
  for (std::uint64_t id = 0; id < count; ++id) {
    backend.create(id);
    rebuild.add(id);
  }
  rebuild.commit();
}

TEST_CASE("the article's four scenarios hold", "[gate][004-01][004-02]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 1'000);

  // Exists, not cached: positive, cache miss, the database finds it.
  CHECK(gate.find(7, backend.load()).value() == "7");
  CHECK(backend.database_reads == 1);
  // Exists and cached: the database is not asked.
  CHECK(gate.find(7, backend.load()).value() == "7");
  CHECK(backend.database_reads == 1);
  // Exists, the cache entry expired.
  backend.evict(7);
  CHECK(gate.find(7, backend.load()).value() == "7");
  CHECK(backend.database_reads == 2);
  // Does not exist: neither cache nor database is read.
  std::uint64_t absent = 1'000;
  while (gate.check(absent) != Existence::absent) ++absent;
  const std::uint64_t cache_reads = backend.cache_reads;
  CHECK(gate.find(absent, backend.load()).value() == std::nullopt);
  CHECK(backend.cache_reads == cache_reads);
  // Does not exist, but the filter errs: both are read, and nothing is made up.
  std::uint64_t wrong = 1'000;
  while (gate.check(wrong) != Existence::maybe) ++wrong;
  CHECK(gate.find(wrong, backend.load()).value() == std::nullopt);
  CHECK(backend.database_reads == 3);
  CHECK(gate.counters().positive_but_absent == 1);
}

TEST_CASE("half a million misses at 1% leave five thousand, 550,000 queries become 55,000", "[gate][004-05]") {
  // A fifth of the article's size: 100,000 ids that do not exist, and as many that do, 90% of them cached.
  constexpr std::uint64_t ids = 100'000;
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, ids);
  for (std::uint64_t id = 0; id < ids; ++id) {
    if (id % 10 != 0) REQUIRE(backend.load()(id).has_value());
  }
  backend.database_reads = 0;
  std::uint64_t wrong = 0;
  for (std::uint64_t id = 0; id < ids; ++id) {
    wrong += gate.find(id, backend.load()).value().has_value() ? 0U : 1U;
    wrong += gate.find(id + 1'000'000, backend.load()).value().has_value() ? 1U : 0U;
  }
  CHECK(wrong == 0);
  CHECK(backend.database_reads <= ids / 10 + seenby::test::most_hits(ids, 0.01));
  CHECK(gate.counters().negatives >= ids - seenby::test::most_hits(ids, 0.01));
  // 40,000 misses and 1,000 cache misses a second leave 1,400.
  const double passed = 1 - static_cast<double>(gate.counters().negatives) / static_cast<double>(ids);
  CHECK(40'000 * passed + 1'000 < 1'450);
}

TEST_CASE("without a trusted filter everything goes the normal way", "[gate][004-03]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  backend.create(1);
  CHECK(gate.check(1) == Existence::unknown);
  CHECK(gate.find(1, backend.load()).value() == "1");
  {
    // Partly loaded, it answers nothing yet; given up, it never will.
    auto rebuild = gate.begin_rebuild(10);
    rebuild.add(2);
    CHECK(gate.check(99) == Existence::unknown);
    CHECK_THROWS_AS(gate.begin_rebuild(10), std::logic_error);
  }
  CHECK_FALSE(gate.trusted());
  build(gate, backend, 10);
  CHECK(gate.trusted());
  CHECK(gate.check(99) == Existence::absent);
  gate.distrust();
  CHECK(gate.check(99) == Existence::unknown);
  CHECK(gate.find(99, backend.load()).value() == std::nullopt);
  CHECK(gate.counters().bypassed == 5);
}

TEST_CASE("an id added before its record is visible passes from then on, a roll-back is harmless", "[gate][004-09]") {
  TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 100);
  REQUIRE(gate.check(5'000) == Existence::absent);
  gate.add(5'000);
  CHECK(gate.find(5'000, backend.load()).value() == std::nullopt);  // not visible yet
  backend.create(5'000);
  CHECK(gate.find(5'000, backend.load()).value() == "5000");  // and its absence was not remembered
  gate.add(6'000);                                            // rolled back
  CHECK(gate.find(6'000, backend.load()).value() == std::nullopt);
}

TEST_CASE("ids younger than the lag bypass the gate", "[gate][004-09]") {
  TestClock clock;
  auto made = options(clock);
  // Ids are the second they were made in.
  made.made_at = [](const std::uint64_t& id) -> std::optional<seenby::Time> {
    return seenby::Time{std::chrono::seconds{static_cast<std::int64_t>(id)}};
  };
  made.write_lag = 10s;
  Gate gate(made);
  Backend backend;
  build(gate, backend, 100);
  const auto now = static_cast<std::uint64_t>(clock.now().time_since_epoch().count());
  CHECK(gate.check(now - 5) == Existence::unknown);
  CHECK(gate.check(now - 10) == Existence::absent);
  clock.advance(5s);
  CHECK(gate.check(now - 5) == Existence::absent);
}

TEST_CASE("a rebuild carries what is written meanwhile and just before", "[gate][004-10]") {
  TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 100);
  gate.add(1'001);  // its transaction commits only after the scan has passed
  clock.advance(61s);
  gate.add(1'002);
  auto rebuild = gate.begin_rebuild(200);
  gate.add(1'003);
  for (std::uint64_t id = 0; id < 100; ++id) rebuild.add(id);
  CHECK(gate.check(1'001) == Existence::maybe);  // the old filter serves
  rebuild.commit();
  CHECK(gate.check(1'002) == Existence::maybe);
  CHECK(gate.check(1'003) == Existence::maybe);
  CHECK(gate.check(1'001) == Existence::absent);  // longer ago than write_lag, and the scan did not find it
  for (std::uint64_t id = 0; id < 100; ++id) CHECK(gate.check(id) == Existence::maybe);
  CHECK(gate.counters().rebuilds == 2);
}

TEST_CASE("deleted ids stay positive until the rebuild", "[gate][004-11]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 100);
  backend.remove(5);
  CHECK(gate.check(5) == Existence::maybe);
  CHECK(gate.find(5, backend.load()).value() == std::nullopt);
  auto rebuild = gate.begin_rebuild(100);
  for (std::uint64_t id = 0; id < 100; ++id) {
    if (id != 5) rebuild.add(id);
  }
  rebuild.commit();
  CHECK(gate.check(5) == Existence::absent);
}

TEST_CASE("an id that passes by chance does not reach the database for ever", "[gate][004-12][004-13]") {
  TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 1'000);
  std::uint64_t wrong = 1'000;
  while (gate.check(wrong) != Existence::maybe) ++wrong;
  for (int i = 0; i < 1'000; ++i) CHECK(gate.find(wrong, backend.load()).value() == std::nullopt);
  CHECK(backend.database_reads == 1);
  CHECK(gate.counters().negative_cache_hits == 999);
  // Its memory is short, and gone at once when the id is created.
  clock.advance(6s);
  CHECK(gate.find(wrong, backend.load()).value() == std::nullopt);
  CHECK(backend.database_reads == 2);
  gate.add(wrong);
  backend.create(wrong);
  CHECK(gate.find(wrong, backend.load()).value().has_value());
}

TEST_CASE("a look-up that began before an id was created cannot remember it as absent", "[gate][004-12]") {
  TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 1'000);
  std::uint64_t wrong = 1'000;
  while (gate.check(wrong) != Existence::maybe) ++wrong;
  const auto slow = [&](const std::uint64_t& id) -> Result<Record> {
    auto before = backend.load()(id);
    gate.add(id);
    backend.create(id);
    clock.advance(120s);  // long past the lag: only the order of events can tell
    return before;
  };
  CHECK(gate.find(wrong, slow).value() == std::nullopt);
  CHECK(gate.find(wrong, backend.load()).value().has_value());
}

TEST_CASE("a failed look-up is passed on and remembered as nothing", "[gate]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 10);
  backend.down = true;
  CHECK(gate.find(3, backend.load()).error().code == ErrorCode::unreachable);
  backend.down = false;
  CHECK(gate.find(3, backend.load()).value() == "3");
  CHECK(gate.counters().load_failures == 1);
}

TEST_CASE("usernames are one whatever their case, on add and on check", "[gate][004-07]") {
  const TestClock clock;
  ExistenceGateOptions<std::string> made;
  made.normalise = [](const std::string& name) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
  };
  made.clock = clock.clock();
  seenby::ExistenceGate<std::string> gate(made);
  auto rebuild = gate.begin_rebuild(10);
  rebuild.add("Alice");
  rebuild.commit();
  gate.add("BOB");
  for (const char* name : {"alice", "ALICE", "bob", "Bob"}) CHECK(gate.check(name) == Existence::maybe);
  CHECK(gate.check("carol") == Existence::absent);
}

TEST_CASE("whether the gate pays is measured", "[gate][004-14][004-15]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 1'000);
  const auto slow = [&](const std::uint64_t& id) {
    std::this_thread::sleep_for(1ms);
    return backend.load()(id);
  };
  CHECK_FALSE(gate.worth(100ns).pays());  // nothing measured yet
  for (std::uint64_t id = 0; id < 20; ++id) REQUIRE(gate.find(id, slow).has_value());
  CHECK_FALSE(gate.worth(100ns).pays());  // every id exists: the gate only costs
  for (std::uint64_t id = 0; id < 80; ++id) REQUIRE(gate.find(id + 100'000, slow).has_value());
  const auto worth = gate.worth(100ns);
  CHECK(worth.pays());
  CHECK(worth.negative_rate > 0.7);
  CHECK(worth.mean_load_ns >= 1e6);
  CHECK(worth.saved_ns_per_check > 0.7 * 1e6 - 100);
  CHECK_FALSE(gate.worth(10ms).pays());  // a check that costs more than the look-up it spares
  CHECK(gate.filter()->size() <= 1'000);
}

TEST_CASE("a gate refuses options that cannot be", "[gate]") {
  ExistenceGateOptions<std::uint64_t> made;
  made.target_fpr = 0;
  CHECK_THROWS_AS(Gate(made), std::invalid_argument);
  made.target_fpr = 0.01;
  made.write_lag = 0s;
  CHECK_THROWS_AS(Gate(made), std::invalid_argument);
}

TEST_CASE("nothing that exists is answered absent, while ids are added and filters switched",
          "[gate][concurrent][004-10]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 100);
  constexpr std::uint64_t last = 6'000;
  std::atomic<std::uint64_t> visible{100};
  std::atomic<std::uint64_t> hidden{0};
  {
    const std::jthread writer([&] {
      for (std::uint64_t id = 100; id < last; ++id) {
        gate.add(id);
        backend.create(id);
        visible.store(id + 1, std::memory_order_release);
        while (id == last / 2 && gate.counters().rebuilds < 4) std::this_thread::yield();
      }
    });
    const std::jthread rebuilder([&] {
      while (visible.load(std::memory_order_acquire) < last) {
        auto rebuild = gate.begin_rebuild(last);
        const std::uint64_t scanned = visible.load(std::memory_order_acquire);
        for (std::uint64_t id = 0; id < scanned; ++id) rebuild.add(id);
        rebuild.commit();
      }
    });
    std::uint64_t next = 0;
    while (visible.load(std::memory_order_acquire) < last) {
      const std::uint64_t known = visible.load(std::memory_order_acquire);
      next = (next + 7'919) % known;
      if (gate.check(next) == Existence::absent) ++hidden;
      if (!gate.find(next, backend.load()).value().has_value()) ++hidden;
    }
  }
  CHECK(hidden == 0);
  CHECK(gate.counters().rebuilds >= 4);
}

}  // namespace
