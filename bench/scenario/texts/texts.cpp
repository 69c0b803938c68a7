// SPDX-License-Identifier: MIT
// What two texts say of a gate and of a membership join, counted and timed against real servers.
//   seenby_scenario_texts [LOOKUPS]     1,000,000 look-ups unless another number is given
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "seenby/gates/read_path.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/seenby.hpp"
#include "support/binomial.hpp"
#include "support/postgres_server.hpp"
#include "support/redis_server.hpp"

namespace {

using namespace seenby;
using Clock = std::chrono::steady_clock;

struct Finish {
  void operator()(PGconn* connection) const { PQfinish(connection); }
  void operator()(PGresult* result) const { PQclear(result); }
};
using Rows = std::unique_ptr<PGresult, Finish>;

/// One connection; throws where PostgreSQL refuses.
class Database {
 public:
  explicit Database(const std::string& address) : connection_(PQconnectdb(address.c_str())) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  Rows run(const char* statement) { return checked(PQexec(connection_.get(), statement)); }
  void prepare(const char* name, const char* statement) {
    checked(PQprepare(connection_.get(), name, statement, 0, nullptr));
  }
  Rows ask(const char* name, const std::vector<std::string>& arguments) {
    std::vector<const char*> values;
    for (const std::string& argument : arguments) values.push_back(argument.c_str());
    ++queries;
    return checked(
        PQexecPrepared(connection_.get(), name, static_cast<int>(values.size()), values.data(), nullptr, nullptr, 0));
  }
  std::uint64_t queries = 0;

 private:
  Rows checked(PGresult* result) {
    Rows rows(result);
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return rows;
    throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  std::unique_ptr<PGconn, Finish> connection_;
};

using Record = std::string;
using Gate = ExistenceGate<std::uint64_t>;

/// Products with ids 0, 2, 4, ...; nine in ten of them cached. Odd ids do not exist.
class Shop {
 public:
  Shop(const std::string& postgres, const std::string& redis_url, std::uint64_t products)
      : database_(postgres), cache_(redis::make_executor(redis_url).value()) {
    const std::string count = std::to_string(products);
    database_.run("CREATE TABLE products (id bigint PRIMARY KEY, name text NOT NULL)");
    database_.run(
        ("INSERT INTO products SELECT 2 * n, 'product ' || n FROM generate_series(0, " + count + " - 1) n").c_str());
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
              auto reply = redis::execute_one(*cache_, redis::Command::with_key(1, "GET", std::to_string(id)),
                                              redis::Deadline::after(std::chrono::seconds{1}));
              if (!reply) return std::move(reply).error();
              return reply->string() == nullptr ? std::nullopt : std::optional<Record>(*reply->string());
            },
            .database = [this](const std::uint64_t& id) -> Result<std::optional<Record>> {
              const Rows rows = database_.ask("find", {std::to_string(id)});
              if (PQntuples(rows.get()) == 0) return std::optional<Record>{};
              return std::optional<Record>(PQgetvalue(rows.get(), 0, 0));
            }};
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
  ReadPath<std::uint64_t, Record> path(gate, shop.stages());
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

int gate_for_real(const std::string& postgres, const std::string& redis_url, std::uint64_t lookups) {
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

  const std::uint64_t absent = lookups - products;
  const std::uint64_t misses = products / 10;
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
  const double passed = static_cast<double>(with.database_queries - misses) / static_cast<double>(absent);
  std::printf(
      "10,000 requests a second for absent ids leave %.0f; 40,000 beside 1,000 cache misses leave %.0f queries\n",
      10'000 * passed, 40'000 * passed + 1'000);
  std::printf("wrong answers: %llu\n", static_cast<unsigned long long>(without.wrong + with.wrong));
  const bool holds = without.database_queries == absent + misses && without.wrong + with.wrong == 0 &&
                     with.database_queries <= misses + test::most_hits(absent, 0.01);
  return holds ? 0 : 1;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Ten questions that neither of two learners has attempted, out of a cached pool of a hundred.
int questions_for_real(const std::string& postgres, const std::string& redis_url, std::uint64_t learners) {
  constexpr std::uint64_t attempts = 1'000;
  constexpr std::uint64_t catalogue = 20'000;
  Database database(postgres);
  database.run("CREATE TABLE attempts (learner bigint, question bigint, PRIMARY KEY (learner, question))");
  database.run(("INSERT INTO attempts SELECT l, (l * 7919 + n * 13) % 20000 FROM generate_series(0, " +
                std::to_string(learners) + " - 1) l, generate_series(0, 999) n ON CONFLICT DO NOTHING")
                   .c_str());
  database.run("VACUUM ANALYZE attempts");
  database.prepare("unseen",
                   "SELECT q.id FROM unnest($1::bigint[]) WITH ORDINALITY q(id, place) WHERE NOT EXISTS (SELECT 1 FROM "
                   "attempts a WHERE a.learner IN ($2, $3) AND a.question = q.id) ORDER BY q.place LIMIT 10");
  SeenFilter remote{redis::RedisStore<std::uint64_t>(redis_url, {.wrong_hide_rate = 0.01, .users_per_request = 2})};
  SeenFilter local{MemoryStore{{.wrong_hide_rate = 0.01, .users_per_request = 2}}};
  for (std::uint64_t learner = 0; learner < learners; ++learner) {
    std::vector<std::uint64_t> seen;
    for (std::uint64_t n = 0; n < attempts; ++n) seen.push_back((learner * 7'919 + n * 13) % catalogue);
    remote.record_all(learner, seen).or_throw();
    local.record_all(learner, seen).or_throw();
  }
  std::vector<std::uint64_t> questions;
  std::string array = "{";
  for (std::uint64_t i = 0; i < 100; ++i) {
    questions.push_back((i * 6'151) % catalogue);
    array.append(i == 0 ? "" : ",").append(std::to_string(questions.back()));
  }
  array.append("}");
  const CandidatePool<std::uint64_t> pool(questions);

  std::vector<double> sql;
  std::vector<double> redis_times;
  std::vector<double> memory;
  std::uint64_t shown_twice = 0;
  const auto timed = [](std::vector<double>& into, const auto& work) {
    const auto start = Clock::now();
    work();
    into.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  };
  for (std::uint64_t round = 0; round < 2'000; ++round) {
    const std::uint64_t a = (round * 31) % learners;
    const std::uint64_t b = (round * 17 + 1) % learners;
    Rows rows;
    timed(sql, [&] { rows = database.ask("unseen", {array, std::to_string(a), std::to_string(b)}); });
    timed(redis_times, [&] {
      for (const auto& pick : remote.select_unseen(pool, {a, b}, {.limit = 10})) {
        // The truth: an attempt of learner l at n has question (7919 l + 13 n) mod 20000.
        for (const std::uint64_t learner : {a, b}) {
          const std::uint64_t offset = (pick.item + catalogue * 7'919 - learner * 7'919 % catalogue) % catalogue;
          for (std::uint64_t n = offset % 13 == 0 ? offset / 13 : attempts; n < attempts; n += catalogue) {
            shown_twice += n * 13 == offset ? 1U : 0U;
          }
        }
      }
    });
    timed(memory, [&] { (void)local.select_unseen(pool, {a, b}, {.limit = 10}); });
  }
  std::printf("\nten unseen questions for two learners of 1,000 attempts each, out of 100; medians of 2,000\n");
  std::printf("%-34s %10.1f us\n", "SQL membership join", median(sql));
  std::printf("%-34s %10.1f us  (%.2f of the join)\n", "seenby, filters in Redis", median(redis_times),
              median(redis_times) / median(sql));
  std::printf("%-34s %10.1f us  (%.3f of the join)\n", "seenby, filters in memory", median(memory),
              median(memory) / median(sql));
  std::printf("attempted questions shown: %llu\n", static_cast<unsigned long long>(shown_twice));
  return shown_twice == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t lookups = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1'000'000;
  if (lookups < 1'000) {
    std::fputs("expected at least 1,000 look-ups\n", stderr);
    return 2;
  }
  const test::PostgresServer postgres;
  const test::RedisServer server;
  const int gate = gate_for_real(postgres.address(), server.socket_url(), lookups);
  return gate + questions_for_real(postgres.address(), server.socket_url(), lookups >= 1'000'000 ? 2'000 : 100);
}
