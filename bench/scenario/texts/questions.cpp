// SPDX-License-Identifier: MIT
// The SQL membership join and what replaces it: a pool of candidates that is cached with its questions, and the two
// learners' filters, embedded or in Redis.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "database.hpp"
#include "scenarios.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/seenby.hpp"

namespace scenario {
namespace {

using namespace seenby;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t catalogue = 2'000;
constexpr std::uint64_t topics = 20;  // of 100 questions each
constexpr std::uint64_t attempts = 1'000;
constexpr std::size_t wanted = 10;

/// Learner l's n-th attempt is question (7919 l + 13 n) mod 2000: 1,000 different ones, as 13 * 1077 = 1 mod 2000.
std::uint64_t attempt(std::uint64_t learner, std::uint64_t n) { return (learner * 7'919 + n * 13) % catalogue; }
bool attempted(std::uint64_t learner, std::uint64_t question) {
  const std::uint64_t offset = (question + catalogue - learner * 7'919 % catalogue) % catalogue;
  return offset * 1'077 % catalogue < attempts;
}

/// A learner from `b` on beside whom a topic has twice what a page takes that neither attempted: so every page can be
/// filled, whatever a filter hides by chance.
std::uint64_t partner(std::uint64_t a, std::uint64_t b, std::uint64_t topic, std::uint64_t learners) {
  const auto unseen = [&](std::uint64_t other) {
    std::size_t count = 0;
    for (std::uint64_t q = topic; q < catalogue; q += topics)
      count += !attempted(a, q) && !attempted(other, q) ? 1U : 0U;
    return count;
  };
  while (unseen(b) < 2 * wanted) b = (b + 1) % learners;
  return b;
}

void fill(Database& database, std::uint64_t learners) {
  database.run("CREATE TABLE questions (id bigint PRIMARY KEY, topic int, rank int, body text)");
  database.run(
      "INSERT INTO questions SELECT q, q % 20, q * 7 % 1999, 'question ' || q || repeat(' and more', 20) FROM "
      "generate_series(0, 1999) q");
  database.run("CREATE INDEX by_topic ON questions (topic, rank)");
  database.run("CREATE TABLE attempts (learner bigint, question bigint, PRIMARY KEY (learner, question))");
  database.run("INSERT INTO attempts SELECT l, (l * 7919 + n * 13) % 2000 FROM generate_series(0, " +
               std::to_string(learners - 1) + ") l, generate_series(0, 999) n");
  database.run("VACUUM ANALYZE questions");
  database.run("VACUUM ANALYZE attempts");
  // The same question in two forms: PostgreSQL plans them differently, and the faster one is the join to compare with.
  database.prepare("join",
                   "SELECT q.id, q.body FROM questions q WHERE q.topic = $1 AND NOT EXISTS (SELECT 1 FROM attempts a "
                   "WHERE a.learner IN ($2, $3) AND a.question = q.id) ORDER BY q.rank LIMIT 10");
  database.prepare("joins",
                   "SELECT q.id, q.body FROM questions q WHERE q.topic = $1 AND NOT EXISTS (SELECT 1 FROM attempts a "
                   "WHERE a.learner = $2 AND a.question = q.id) AND NOT EXISTS (SELECT 1 FROM attempts b WHERE "
                   "b.learner = $3 AND b.question = q.id) ORDER BY q.rank LIMIT 10");
  database.prepare("candidates", "SELECT id, body FROM questions WHERE topic = $1 ORDER BY rank");
  database.prepare("bodies", "SELECT id, body FROM questions WHERE id = ANY($1::bigint[])");
}

/// A topic's candidates, read once, and their questions.
struct Topic {
  CandidatePool<std::uint64_t> pool;
  std::vector<std::string> bodies;
};

std::vector<Topic> read_topics(Database& database) {
  std::vector<Topic> read;
  for (std::uint64_t topic = 0; topic < topics; ++topic) {
    const Rows rows = database.ask("candidates", {std::to_string(topic)});
    std::vector<std::uint64_t> ids;
    std::vector<std::string> bodies;
    for (int row = 0; row < PQntuples(rows.get()); ++row) {
      ids.push_back(std::strtoull(PQgetvalue(rows.get(), row, 0), nullptr, 10));
      bodies.emplace_back(PQgetvalue(rows.get(), row, 1));
    }
    read.push_back({CandidatePool<std::uint64_t>(ids), std::move(bodies)});
  }
  return read;
}

/// What a request shows, by either way.
using Questions = std::vector<std::pair<std::uint64_t, std::string>>;

Questions questions_of(const Rows& rows) {
  Questions questions;
  for (int row = 0; row < PQntuples(rows.get()); ++row) {
    questions.emplace_back(std::strtoull(PQgetvalue(rows.get(), row, 0), nullptr, 10), PQgetvalue(rows.get(), row, 1));
  }
  return questions;
}

template <class Filter>
Questions fetch(const Filter& filter, const Topic& topic, std::uint64_t a, std::uint64_t b) {
  Questions questions;
  for (const auto& pick : filter.select_unseen(topic.pool, {a, b}, {.limit = wanted})) {
    questions.emplace_back(pick.item, topic.bodies[pick.index]);
  }
  return questions;
}

/// The pool without its questions: their rows are read by id.
template <class Filter>
Questions fetch_rows(Database& database, const Filter& filter, const Topic& topic, std::uint64_t a, std::uint64_t b) {
  std::string ids = "{";
  for (const auto& pick : filter.select_unseen(topic.pool, {a, b}, {.limit = wanted})) {
    ids.append(ids.size() == 1 ? "" : ",").append(std::to_string(pick.item));
  }
  return questions_of(database.ask("bodies", {ids.append("}")}));
}

/// One way of fetching: its times, and what it got wrong.
struct Way {
  const char* name;
  std::vector<double> microseconds{};
  std::uint64_t shown_twice = 0;
  std::uint64_t thin = 0;

  template <class Fetch>
  void run(std::uint64_t a, std::uint64_t b, const Fetch& work) {
    const auto start = Clock::now();
    const Questions questions = work();
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    for (const auto& [id, body] : questions) shown_twice += attempted(a, id) || attempted(b, id) || body.empty();
    thin += questions.size() < wanted ? 1U : 0U;
  }
  [[nodiscard]] double at(double share) const {
    std::vector<double> sorted = microseconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size()))];
  }
};

struct Outcome {
  bool right = true;  // every page was full, of questions that neither had attempted
  bool fast = true;   // each way that replaces the join takes at most a third of it
};

/// Fetches every way, and prints what each took.
template <class Remote, class Local>
Outcome measure(Database& database, const Remote& remote, const Local& local, const std::vector<Topic>& cached,
                std::uint64_t learners) {
  std::array<Way, 6> ways{Way{"SQL membership join"},          Way{"SQL join, learner by learner"},
                          Way{"seenby, filters in Redis"},     Way{"seenby, filters in memory"},
                          Way{"filters in Redis, rows by id"}, Way{"filters in memory, rows by id"}};
  for (std::uint64_t round = 0; round < 2'000; ++round) {
    const std::uint64_t a = (round * 31) % learners;
    const std::uint64_t b = partner(a, (round * 17 + 1) % learners, round % topics, learners);
    const Topic& topic = cached[round % topics];
    const std::vector<std::string> arguments{std::to_string(round % topics), std::to_string(a), std::to_string(b)};
    ways[0].run(a, b, [&] { return questions_of(database.ask("join", arguments)); });
    ways[1].run(a, b, [&] { return questions_of(database.ask("joins", arguments)); });
    ways[2].run(a, b, [&] { return fetch(remote, topic, a, b); });
    ways[3].run(a, b, [&] { return fetch(local, topic, a, b); });
    ways[4].run(a, b, [&] { return fetch_rows(database, remote, topic, a, b); });
    ways[5].run(a, b, [&] { return fetch_rows(database, local, topic, a, b); });
  }
  std::printf("\nten unseen questions of a topic's 100 for two learners of 1,000 attempts each, %llu learners; 2,000\n",
              static_cast<unsigned long long>(learners));
  std::printf("%-32s %10s %10s %10s %16s\n", "microseconds", "1st decile", "median", "p90", "of the join");
  const Way& join = ways[0].at(0.5) < ways[1].at(0.5) ? ways[0] : ways[1];
  Outcome outcome;
  std::uint64_t thin = 0;
  for (const Way& way : ways) {
    std::printf("%-32s %10.1f %10.1f %10.1f %8.3f %7.3f\n", way.name, way.at(0.1), way.at(0.5), way.at(0.9),
                way.at(0.1) / join.at(0.1), way.at(0.5) / join.at(0.5));
    const bool replaces = &way != &ways[0] && &way != &ways[1];
    // Two servers one after the other: the first decile, where neither call waits for a processor.
    const double share = &way == &ways[4] ? 0.1 : 0.5;
    outcome.right = outcome.right && way.shown_twice == 0 && way.thin == 0;
    outcome.fast = outcome.fast && (!replaces || way.at(share) <= join.at(share) / 3);
    thin += way.thin;
  }
  std::printf("pages that were not filled: %llu of %zu\n", static_cast<unsigned long long>(thin),
              ways.size() * join.microseconds.size());
  return outcome;
}

}  // namespace

bool questions_hold(const std::string& postgres, const std::string& redis_url, std::uint64_t learners) {
  Database database(postgres);
  fill(database, learners);
  SeenFilter remote{redis::RedisStore<std::uint64_t>(redis_url, {.wrong_hide_rate = 0.01, .users_per_request = 2})};
  SeenFilter local{MemoryStore{{.wrong_hide_rate = 0.01, .users_per_request = 2}}};
  for (std::uint64_t learner = 0; learner < learners; ++learner) {
    std::vector<std::uint64_t> seen;
    for (std::uint64_t n = 0; n < attempts; ++n) seen.push_back(attempt(learner, n));
    remote.record_all(learner, seen).or_throw();
    local.record_all(learner, seen).or_throw();
  }
  const std::vector<Topic> cached = read_topics(database);
  // A machine that does something else at the same time may miss a bound: only what misses it three times fails.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Outcome outcome = measure(database, remote, local, cached, learners);
    if (!outcome.right || outcome.fast) return outcome.right;
  }
  return false;
}

}  // namespace scenario
