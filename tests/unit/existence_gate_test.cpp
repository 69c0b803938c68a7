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

#include "seenby/gates/erasable_gate.hpp"
#include "support/binomial.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_clock.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Error;
using seenby::ErrorCode;
using seenby::Existence;
using seenby::ExistenceGateOptions;
using seenby::Result;
using seenby::test::TestClock;
using seenby::test::wait_until;
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
  void cache_only(std::uint64_t id) { cached_.insert(id); }
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

/// The first id from `id` on that a gate gives this answer for.
std::uint64_t first_with(const Gate& gate, Existence answer, std::uint64_t id) {
  for (const std::uint64_t end = id + 100'000; id < end && gate.check(id) != answer;) ++id;
  REQUIRE(gate.check(id) == answer);
  return id;
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
  const std::uint64_t absent = first_with(gate, Existence::absent, 1'000);
  const std::uint64_t cache_reads = backend.cache_reads;
  CHECK(gate.find(absent, backend.load()).value() == std::nullopt);
  CHECK(backend.cache_reads == cache_reads);
  // Does not exist, but the filter errs: both are read, and nothing is made up.
  const std::uint64_t wrong = first_with(gate, Existence::maybe, 1'000);
  CHECK(gate.find(wrong, backend.load()).value() == std::nullopt);
  CHECK(backend.database_reads == 3);
  CHECK(gate.counters().positive_but_absent == 1);
}

/// What reached cache and database.
struct Reads {
  std::uint64_t cache = 0;
  std::uint64_t database = 0;
  std::uint64_t wrong = 0;  // records made up, or hidden
};

/// Looks `existing` ids of a backend up, of which each tenth is not cached, and as many `absent` ones.
Reads look_up(Gate& gate, Backend& backend, std::uint64_t existing, std::uint64_t absent, std::uint64_t step = 1) {
  const std::uint64_t cache = backend.cache_reads;
  const std::uint64_t database = backend.database_reads;
  Reads reads;
  for (std::uint64_t n = 0; n < existing; ++n) {
    reads.wrong += gate.find(n * step, backend.load()).value().has_value() ? 0U : 1U;
    if (n * step % 10 == 0) backend.evict(n * step);  // so that the next run meets the same cache
  }
  for (std::uint64_t n = 0; n < absent; ++n) {
    reads.wrong += gate.find(n + 1'000'000, backend.load()).value().has_value() ? 1U : 0U;
  }
  reads.cache = backend.cache_reads - cache;
  reads.database = backend.database_reads - database;
  return reads;
}

TEST_CASE("half a million misses at 1% leave five thousand, 550,000 queries become 55,000", "[gate][004-05][004-17]") {
  // A fifth of the article's size: 100,000 ids that do not exist, and as many that do, 90% of them cached.
  constexpr std::uint64_t ids = 100'000;
  const TestClock clock;
  Backend backend;
  auto made = options(clock);
  made.negative_ttl = 0s;  // each run asks for the same ids
  Gate none(made);         // never built: everything goes the normal way
  Gate gate(made);
  build(gate, backend, ids);
  for (std::uint64_t id = 0; id < ids; ++id) {
    if (id % 10 != 0) REQUIRE(backend.load()(id).has_value());
  }
  const auto most = [](std::uint64_t absent) { return seenby::test::most_hits(absent, 0.01); };

  const Reads without = look_up(none, backend, ids, ids);
  CHECK(without.wrong == 0);
  CHECK(without.cache == 2 * ids);
  CHECK(without.database == ids + ids / 10);  // 550,000
  const Reads with = look_up(gate, backend, ids, ids);
  CHECK(with.wrong == 0);
  CHECK(with.database <= ids / 10 + most(ids));           // 55,000
  CHECK(with.database >= ids / 10 + ids / 200);           // a filter that passes nothing is not the one asked for
  CHECK(with.cache == ids + (with.database - ids / 10));  // what is spared is spared of the cache, too
  CHECK(with.database * 10 <= without.database + 10 * (most(ids) - ids / 100));  // 90% less
  const auto counted = gate.counters();
  CHECK(counted.checks == 2 * ids);
  CHECK(counted.negatives >= ids - most(ids));                                      // 99% of those that do not exist
  CHECK(counted.negatives * 2 == counted.checks - 2 * (with.database - ids / 10));  // 49.5% of all

  // 10,000 requests a second for ids that do not exist become 100 queries.
  CHECK(look_up(none, backend, 0, 10'000).database == 10'000);
  CHECK(look_up(gate, backend, 0, 10'000).database <= most(10'000));
  // 40,000 of them beside 1,000 that miss the cache: 41,000 queries a second become 1,400, 96.6% less.
  CHECK(look_up(none, backend, 1'000, 40'000, 10).database == 41'000);
  const Reads mixed = look_up(gate, backend, 1'000, 40'000, 10);
  CHECK(mixed.wrong == 0);
  CHECK(mixed.database >= 1'000);
  CHECK(mixed.database <= 1'000 + most(40'000));
  // 500,000 reads of the cache's payloads, of ids that do not exist, become 5,000.
  CHECK(look_up(none, backend, 0, ids).cache == ids);
  CHECK(look_up(gate, backend, 0, ids).cache <= most(ids));
}

TEST_CASE("the gate knows the database's ids, whatever is cached", "[gate][004-04]") {
  const TestClock clock;
  Gate gate(options(clock));
  Backend backend;
  build(gate, backend, 1'000);
  for (std::uint64_t id = 0; id < 1'000; ++id) {
    // Never cached, cached, and dropped from the cache: it is the same to the gate.
    REQUIRE(gate.check(id) == Existence::maybe);
    REQUIRE(gate.find(id, backend.load()).value().has_value());
    REQUIRE(gate.check(id) == Existence::maybe);
    backend.evict(id);
    REQUIRE(gate.find(id, backend.load()).value().has_value());
  }
  CHECK(backend.database_reads == 2'000);
  CHECK(gate.filter()->size() <= 1'000);  // what passed through the cache added nothing
  // What is only cached, its record never written, is not let in by the cache.
  const std::uint64_t absent = first_with(gate, Existence::absent, 1'000);
  backend.cache_only(absent);
  CHECK(gate.find(absent, backend.load()).value() == std::nullopt);
  // Nor is it taken into a filter in the making, though it was found while nothing was trusted yet.
  Gate young(options(clock));
  auto rebuild = young.begin_rebuild(1'000);
  CHECK(young.find(absent, backend.load()).value().has_value());
  rebuild.commit();
  CHECK(young.check(absent) == Existence::absent);
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

TEST_CASE("the absence of a young id is not remembered", "[gate][004-09]") {
  TestClock clock;
  auto made = options(clock);
  made.made_at = [](const std::uint64_t& id) -> std::optional<seenby::Time> {
    return seenby::Time{std::chrono::seconds{static_cast<std::int64_t>(id)}};
  };
  made.write_lag = 10s;
  made.negative_ttl = 60s;
  Gate gate(made);
  Backend backend;
  build(gate, backend, 100);
  // Made a second ago; its record is written now, and its add() was lost.
  const auto id = static_cast<std::uint64_t>(clock.now().time_since_epoch().count()) - 1;
  CHECK(gate.find(id, backend.load()).value() == std::nullopt);
  backend.create(id);
  CHECK(gate.find(id, backend.load()).value() == std::to_string(id));
}

TEST_CASE("an absence is remembered under the name that add() forgets", "[gate]") {
  TestClock clock;
  seenby::ExistenceGateOptions<std::string> made;
  made.partitions = 4;
  made.negative_ttl = 60s;
  made.clock = clock.clock();
  made.normalise = [](const std::string& name) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
  };
  seenby::ExistenceGate<std::string> gate(made);
  bool exists = false;
  int loads = 0;
  const auto load = [&](const std::string& name) -> seenby::Result<std::optional<std::string>> {
    ++loads;
    return exists ? std::optional<std::string>(name) : std::nullopt;
  };
  CHECK(gate.find("Alice", load).value() == std::nullopt);
  CHECK(gate.find("ALICE", load).value() == std::nullopt);  // the same name: not loaded again
  CHECK(loads == 1);
  exists = true;
  gate.add("alice");
  CHECK(gate.find("Alice", load).value() == "Alice");
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
  const std::uint64_t wrong = first_with(gate, Existence::maybe, 1'000);
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
  const std::uint64_t wrong = first_with(gate, Existence::maybe, 1'000);
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
  CHECK(gate.counters().saved_ns_per_check(100ns) == 0);  // nothing measured yet
  for (std::uint64_t id = 0; id < 20; ++id) REQUIRE(gate.find(id, slow).has_value());
  CHECK(gate.counters().saved_ns_per_check(100ns) == -100);  // every id exists: the gate only costs
  for (std::uint64_t id = 0; id < 80; ++id) REQUIRE(gate.find(id + 100'000, slow).has_value());
  CHECK(gate.counters().saved_ns_per_check(100ns) > 0.7 * 1e6 - 100);
  CHECK(gate.counters().saved_ns_per_check(10ms) < 0);  // a check that costs more than the look-up it spares
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
  std::uint64_t hidden = 0;
  std::uint64_t asked = 0;
  bool rebuilt = false;
  std::thread writer([&] {
    for (std::uint64_t id = 100; id < last; ++id) {
      gate.add(id);
      backend.create(id);
      visible.store(id + 1, std::memory_order_release);
      if (id == last / 2) rebuilt = wait_until([&] { return gate.counters().rebuilds >= 4; });
    }
  });
  std::thread rebuilder([&] {
    while (visible.load(std::memory_order_acquire) < last) {
      auto rebuild = gate.begin_rebuild(last);
      const std::uint64_t scanned = visible.load(std::memory_order_acquire);
      for (std::uint64_t id = 0; id < scanned; ++id) rebuild.add(id);
      rebuild.commit();
    }
  });
  for (std::uint64_t next = 0; visible.load(std::memory_order_acquire) < last; ++asked) {
    const std::uint64_t known = visible.load(std::memory_order_acquire);
    next = (next + 7'919) % known;
    if (gate.check(next) == Existence::absent) ++hidden;
    const auto found = gate.find(next, backend.load());
    if (!found || !found->has_value()) ++hidden;
  }
  writer.join();
  rebuilder.join();
  REQUIRE(rebuilt);
  CHECK(hidden == 0);
  CHECK(asked > 0);
}

TEST_CASE("a saved gate opens elsewhere, and is believed once it has caught up with the changes since",
          "[gate][004-10][004-16]") {
  TestClock clock;
  const seenby::test::TemporaryFolder folder;
  const std::string path = folder.path("products.gate");
  Backend backend;
  std::vector<std::uint64_t> feed;  // position n is the n-th id
  {
    Gate gate(options(clock));
    CHECK(gate.save(path).error().code == ErrorCode::unavailable);
    build(gate, backend, 1'000);
    for (std::uint64_t id = 2'000; id < 2'010; ++id) {
      feed.push_back(id);
      gate.add(id);
      gate.advance(feed.size());
    }
    REQUIRE(gate.save(path));
    CHECK(gate.status().version == 1);
  }
  feed.push_back(3'000);  // while no gate was there
  Gate reopened(options(clock));
  CHECK(reopened.status().state == seenby::GateState::empty);
  CHECK_FALSE(reopened.caught_up());
  reopened.add(4'000);  // before the file is opened: it knows nothing of it
  REQUIRE(reopened.open(path));
  CHECK(reopened.status().state == seenby::GateState::loading);
  CHECK(reopened.check(99'999) == Existence::unknown);
  REQUIRE(reopened.position() == 10);
  for (std::uint64_t at = reopened.position(); at < feed.size(); ++at) {
    reopened.add(feed[at]);
    reopened.advance(at + 1);
  }
  REQUIRE(reopened.caught_up());
  CHECK(reopened.status().state == seenby::GateState::ready);
  CHECK(reopened.status().version == 1);
  CHECK(reopened.check(99'999) == Existence::absent);
  for (const std::uint64_t id : feed) CHECK(reopened.check(id) == Existence::maybe);
  for (std::uint64_t id = 0; id < 1'000; ++id) REQUIRE(reopened.check(id) == Existence::maybe);
  CHECK(reopened.check(4'000) == Existence::maybe);
  CHECK(reopened.open(path).error().code == ErrorCode::conflict);
}

TEST_CASE("a gate of another normaliser, a damaged one and a plain filter are refused", "[gate]") {
  const TestClock clock;
  const seenby::test::TemporaryFolder folder;
  auto made = options(clock);
  made.normaliser_name = "decimal/1";
  Gate gate(made);
  Backend backend;
  build(gate, backend, 10);
  REQUIRE(gate.save(folder.path("gate")));
  Gate other(options(clock));
  const auto refused = other.open(folder.path("gate"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::parameter_mismatch);
  CHECK(refused.error().message.find("decimal/1") != std::string::npos);
  seenby::PartitionedFilter<std::uint64_t> plain({.expected_items = 10, .partitions = 1});
  REQUIRE(plain.save(folder.path("plain")));
  CHECK(other.open(folder.path("plain")).error().code == ErrorCode::wrong_type);
  CHECK(other.open(folder.path("nothing")).error().code == ErrorCode::io);
  CHECK(other.status().state == seenby::GateState::empty);
}

TEST_CASE("a file of another type of resource is refused, with both names", "[gate][004-06]") {
  const TestClock clock;
  const seenby::test::TemporaryFolder folder;
  auto posts = options(clock);
  posts.resource = "posts";
  posts.normaliser_name = "decimal/1";
  Gate gate(posts);
  Backend backend;
  build(gate, backend, 10);
  REQUIRE(gate.save(folder.path("gate")));
  auto products = posts;
  products.resource = "products";
  auto shifted = posts;  // the same letters, cut elsewhere
  shifted.resource = "postsdecimal";
  shifted.normaliser_name = "/1";
  for (const auto& wrong : {products, shifted, options(clock)}) {
    Gate other(wrong);
    const auto refused = other.open(folder.path("gate"));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::parameter_mismatch);
    CHECK(refused.error().message.find("resource \"posts\"") != std::string::npos);
  }
  CHECK(Gate(posts).open(folder.path("gate")));
}

TEST_CASE("the state, age and lag of a gate can be read, and growth past its capacity is counted", "[gate][004-14]") {
  TestClock clock;
  Gate gate(options(clock));
  CHECK(gate.status().state == seenby::GateState::empty);
  Backend backend;
  build(gate, backend, 100);
  clock.advance(30s);
  CHECK(gate.status().age == 30s);
  CHECK(gate.status().lag == 30s);
  gate.advance(7);
  CHECK(gate.status().lag == 0s);
  CHECK(gate.status().age == 30s);
  CHECK(gate.status().position == 7);
  {
    const auto rebuild = gate.begin_rebuild(100);
    CHECK(gate.status().state == seenby::GateState::rebuilding);
    CHECK(gate.check(1) == Existence::maybe);
  }
  CHECK(gate.status().state == seenby::GateState::ready);
  const double rate = gate.status().expected_fpr;
  for (std::uint64_t id = 1'000; id < 1'200; ++id) gate.add(id);
  CHECK(gate.counters().over_capacity > 190);
  CHECK(gate.status().items > gate.status().capacity);
  CHECK(gate.status().expected_fpr > rate);
  gate.distrust();
  CHECK(gate.status().state == seenby::GateState::distrusted);
}

TEST_CASE("a rebuild is committed once", "[gate]") {
  const TestClock clock;
  Gate gate(options(clock));
  auto rebuild = gate.begin_rebuild(10);
  rebuild.commit();
  CHECK_THROWS_AS(rebuild.commit(), std::logic_error);
  CHECK(gate.trusted());
}

TEST_CASE("a free name is certain, a taken one is the database's to say", "[gate][004-07][004-19]") {
  const TestClock clock;
  Gate gate(options(clock));
  CHECK(gate.available(5) == seenby::Availability::ask_database);  // nothing trusted yet
  Backend backend;
  build(gate, backend, 1'000);
  std::uint64_t free_ones = 0;
  for (std::uint64_t id = 0; id < 1'000; ++id) CHECK(gate.available(id) == seenby::Availability::ask_database);
  for (std::uint64_t id = 1'000; id < 2'000; ++id)
    free_ones += gate.available(id) == seenby::Availability::free ? 1U : 0U;
  CHECK(free_ones >= 1'000 - seenby::test::most_hits(1'000, 0.01));
}

TEST_CASE("ids can be taken out of an erasable gate, and all others stay", "[gate][004-18]") {
  const TestClock clock;
  seenby::ErasableGate<std::uint64_t> gate(options(clock));
  auto rebuild = gate.begin_rebuild(2'000);
  for (std::uint64_t id = 0; id < 1'000; ++id) rebuild.add(id);
  rebuild.commit();
  for (std::uint64_t id = 1'000; id < 2'000; ++id) gate.add(id);
  for (std::uint64_t id = 0; id < 2'000; id += 2) gate.erase(id);
  std::uint64_t passed = 0;
  for (std::uint64_t id = 0; id < 2'000; id += 2) passed += gate.check(id) == Existence::maybe ? 1U : 0U;
  for (std::uint64_t id = 1; id < 2'000; id += 2) REQUIRE(gate.check(id) == Existence::maybe);
  CHECK(passed <= seenby::test::most_hits(1'000, 0.01));
}

}  // namespace
