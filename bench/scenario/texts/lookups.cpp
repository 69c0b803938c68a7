// SPDX-License-Identifier: MIT
// A gate before a cache and a database, counted: products in PostgreSQL, nine in ten of them cached in Redis.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "database.hpp"
#include "scenarios.hpp"
#include "seenby/gates/read_path.hpp"
#include "seenby/redis/executor.hpp"
#include "support/binomial.hpp"

namespace scenario {
namespace {

using namespace seenby;
using Record = std::string;
using Gate = ExistenceGate<std::uint64_t>;
using Path = ReadPath<std::uint64_t, Record>;
using Clock = std::chrono::steady_clock;

/// Products with ids 0, 2, 4, ...; nine in ten of them cached. Odd ids do not exist.
class Shop {
 public:
  Shop(const std::string& postgres, const std::string& redis_url, std::uint64_t products)
      : database_(postgres), cache_(redis::make_executor(redis_url).value()) {
    database_.run("CREATE TABLE products (id bigint PRIMARY KEY, name text NOT NULL)");
    database_.run("INSERT INTO products SELECT 2 * n, 'product ' || n FROM generate_series(0, " +
                  std::to_string(products - 1) + ") n");
    database_.run("ANALYZE products");
    database_.prepare("find", "SELECT name FROM products WHERE id = $1");
    std::vector<redis::Command> batch;
    for (std::uint64_t n = 0; n < products; ++n) {
      if (n % 10 != 0) batch.push_back(redis::Command::with_key(1, "SET", std::to_string(2 * n), "cached"));
      if (batch.size() < 1'000 && n + 1 < products) continue;
      (void)cache_->execute(batch, redis::Deadline::after(std::chrono::seconds{10})).value();
      batch.clear();
    }
  }

  [[nodiscard]] ReadStages<std::uint64_t, Record> stages() {
    return {.cache = [this](const std::uint64_t& id) -> Result<std::optional<Record>> {
              ++cache_reads;
              auto reply = in_cache(redis::Command::with_key(1, "GET", std::to_string(id)));
              return reply.string() == nullptr ? std::nullopt : std::optional<Record>(*reply.string());
            },
            .database = [this](const std::uint64_t& id) -> Result<std::optional<Record>> {
              const Rows rows = database_.ask("find", {std::to_string(id)});
              if (PQntuples(rows.get()) == 0) return std::optional<Record>{};
              return std::optional<Record>(PQgetvalue(rows.get(), 0, 0));
            }};
  }
  redis::Reply in_cache(const redis::Command& command) {
    return redis::execute_one(*cache_, command, redis::Deadline::after(std::chrono::seconds{10})).value();
  }
  [[nodiscard]] std::uint64_t rows() {
    const Rows counted = database_.run("SELECT count(*) FROM products");
    return std::strtoull(PQgetvalue(counted.get(), 0, 0), nullptr, 10);
  }
  [[nodiscard]] std::uint64_t database_queries() const noexcept { return database_.queries; }
  std::uint64_t cache_reads = 0;

 private:
  Database database_;
  std::shared_ptr<redis::Executor> cache_;
};

struct Run {
  std::uint64_t cache_reads = 0;
  std::uint64_t database_queries = 0;
  std::uint64_t wrong = 0;
  double seconds = 0;
};

/// Every product once and every id between them once.
Run look_up_all(Shop& shop, Gate& gate, std::uint64_t lookups) {
  Path path(gate, shop.stages());
  const std::uint64_t cache_before = shop.cache_reads;
  const std::uint64_t database_before = shop.database_queries();
  Run run;
  const auto start = Clock::now();
  for (std::uint64_t id = 0; id < lookups; ++id) {
    const bool found = path.find(id).value().has_value();
    if (found != (id % 2 == 0)) ++run.wrong;
  }
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.cache_reads = shop.cache_reads - cache_before;
  run.database_queries = shop.database_queries() - database_before;
  return run;
}

void print(const Run& without, const Run& with, std::uint64_t lookups) {
  const std::uint64_t misses = lookups / 2 / 10;
  std::printf("\n%llu look-ups, half of ids that do not exist, nine in ten of the others cached\n",
              static_cast<unsigned long long>(lookups));
  std::printf("%-28s %14s %14s %12s\n", "", "without gate", "with gate", "reduction");
  const auto row = [](const char* what, std::uint64_t a, std::uint64_t b) {
    std::printf("%-28s %14llu %14llu %11.1f%%\n", what, static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b), 100 * (1 - static_cast<double>(b) / static_cast<double>(a)));
  };
  row("database queries", without.database_queries, with.database_queries);
  row("cache reads", without.cache_reads, with.cache_reads);
  row("queries for absent ids", without.database_queries - misses, with.database_queries - misses);
  std::printf("%-28s %12.1f s %12.1f s\n", "time", without.seconds, with.seconds);
  const double passed =
      static_cast<double>(with.database_queries - misses) / static_cast<double>(lookups - lookups / 2);
  std::printf(
      "10,000 requests a second for absent ids leave %.0f; 40,000 beside 1,000 cache misses leave %.0f queries\n",
      10'000 * passed, 40'000 * passed + 1'000);
  std::printf("wrong answers: %llu\n", static_cast<unsigned long long>(without.wrong + with.wrong));
}

/// The four ways a look-up goes: what each reads, and that none of them makes a product.
bool four_scenarios(Shop& shop, Gate& gate, std::uint64_t lookups) {
  auto stages = shop.stages();
  stages.fill_cache = [&shop](const std::uint64_t& id, const Record& record) {
    shop.in_cache(redis::Command::with_key(1, "SET", std::to_string(id), record));
  };
  Path path(gate, std::move(stages));
  const std::uint64_t rows = shop.rows();
  bool holds = true;
  const auto expect = [&](const char* what, std::uint64_t id, bool found, std::uint64_t cache, std::uint64_t database) {
    const std::uint64_t cache_before = shop.cache_reads;
    const std::uint64_t database_before = shop.database_queries();
    const bool answer = path.find(id).value().has_value();
    const bool as_said = answer == found && shop.cache_reads - cache_before == cache &&
                         shop.database_queries() - database_before == database;
    std::printf("  %-50s %llu cache reads, %llu queries, %s\n", what,
                static_cast<unsigned long long>(shop.cache_reads - cache_before),
                static_cast<unsigned long long>(shop.database_queries() - database_before), answer ? "200" : "404");
    holds = holds && as_said;
  };
  std::uint64_t absent = 1;
  while (gate.check(absent) != Existence::absent) absent += 2;
  std::uint64_t passes = lookups + 1;
  while (gate.check(passes) != Existence::maybe) passes += 2;
  expect("exists, cached:", 2, true, 1, 0);
  shop.in_cache(redis::Command::with_key(1, "DEL", "2"));
  expect("exists, its cache entry expired:", 2, true, 1, 1);
  expect("the same again, refreshed:", 2, true, 1, 0);
  expect("does not exist:", absent, false, 0, 0);
  expect("does not exist, and the filter errs:", passes, false, 1, 1);
  return holds && shop.rows() == rows;
}

/// Two callers find each of 50 names free at once; the database's constraint lets one of them have it.
bool race_for_names(const std::string& postgres) {
  constexpr int names = 50;
  ExistenceGate<std::string> gate({.target_fpr = 0.001});
  gate.begin_rebuild(1'000).commit();
  Database(postgres).run("CREATE TABLE names (name text PRIMARY KEY, owner int)");
  std::array<int, 2> got{};
  std::atomic<int> found_free{0};
  std::barrier together(2);
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 2; ++caller) {
      callers.emplace_back([&, caller] {
        Database database(postgres);
        database.prepare("take", "INSERT INTO names VALUES ($1, $2)");
        for (int n = 0; n < names; ++n) {
          const std::string name = "name " + std::to_string(n);
          const bool free = gate.available(name) == Availability::free;
          found_free += free ? 1 : 0;
          together.arrive_and_wait();
          gate.add(name);
          got[static_cast<std::size_t>(caller)] += database.insert("take", {name, std::to_string(caller)}) ? 1 : 0;
          together.arrive_and_wait();
        }
      });
    }
  }
  std::printf("%d names wanted by two callers, found free %d times: given out %d times\n", names, found_free.load(),
              got[0] + got[1]);
  return found_free > names && got[0] + got[1] == names;
}

}  // namespace

bool gate_holds(const std::string& postgres, const std::string& redis_url, std::uint64_t lookups) {
  const std::uint64_t products = lookups / 2;
  Shop shop(postgres, redis_url, products);
  ExistenceGateOptions<std::uint64_t> options;
  options.negative_ttl = std::chrono::seconds{0};  // every id is asked once
  Gate gate(options);
  const Run without = look_up_all(shop, gate, lookups);  // no filter yet: the normal way
  auto rebuild = gate.begin_rebuild(products);
  for (std::uint64_t n = 0; n < products; ++n) rebuild.add(2 * n);
  rebuild.commit();
  const Run with = look_up_all(shop, gate, lookups);
  print(without, with, lookups);

  const std::uint64_t absent = lookups - products;
  const std::uint64_t misses = (products + 9) / 10;
  const std::uint64_t most = test::most_hits(absent, options.target_fpr);
  std::printf("at most %llu queries by the binomial bound\n", static_cast<unsigned long long>(misses + most));
  const bool counted = without.database_queries == absent + misses && without.cache_reads == lookups &&
                       with.database_queries >= misses && with.database_queries <= misses + most &&
                       with.cache_reads == products + with.database_queries - misses;
  const bool scenarios = four_scenarios(shop, gate, lookups);
  const bool race = race_for_names(postgres);
  return without.wrong + with.wrong == 0 && counted && scenarios && race;
}

}  // namespace scenario
