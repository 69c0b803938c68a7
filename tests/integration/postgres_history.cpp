// SPDX-License-Identifier: MIT
// PostgresHistory: what every history promises, against a server of the test's own that is stopped, crashed and
// misused.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "seenby/postgres/history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/history_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/history_contract.hpp"
#include "support/postgres_server.hpp"
#include "support/test_clock.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using Integers = PostgresHistory<std::uint64_t, std::uint64_t>;
using Texts = PostgresHistory<std::string, std::string>;

static_assert(EventHistory<Integers>);
static_assert(EventHistory<Texts>);

std::uint64_t number(int n) { return static_cast<std::uint64_t>(n); }
std::string text(int n) { return std::string("'; DROP TABLE events; -- \0 \xff\xfe ", 33).append(std::to_string(n)); }

Time date(int year, unsigned month, unsigned day) {
  return Time{std::chrono::sys_days{std::chrono::year{year} / static_cast<int>(month) / static_cast<int>(day)}};
}

TEST_CASE("PostgresHistory keeps the contract of a history, and hides", "[postgres][002-21][003-07]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  auto integers = Integers::open(server.address(), {.schema = "integers"}).or_throw();
  check_history(integers, number, number);
  check_history(
      integers, [](int n) { return ~number(n); }, [](int n) { return ~number(n) - 7; });
  auto texts = Texts::open(server.address(), {.schema = "texts"}).or_throw();
  check_history(texts, text, text);
  auto same_integers = Integers::open(server.address(), {.schema = "integers"}).or_throw();
  check_hides(integers, same_integers, number, number);
  auto same_texts = Texts::open(server.address(), {.schema = "texts"}).or_throw();
  check_hides(texts, same_texts, text, text);
  CHECK(server.sql("SELECT count(*) FROM texts.events") == "0");
  check_history_under_merges(integers, number, number, 200);

  // Merges of two users into each other at once, which lock each other out, lose nothing either.
  for (int n = 0; n < 50; ++n) {
    integers.append(number(n % 2), std::vector<std::uint64_t>{number(n)}, at(n)).or_throw();
  }
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      for (int n = 0; n < 50; ++n) {
        if (!integers.merge(number(thread), number(1 - thread))) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(integers.item_count(0).or_throw() + integers.item_count(1).or_throw() == 50);
}

TEST_CASE("Events stand in their month's partition, and old months are dropped as tables", "[postgres]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  auto history = Texts::open(server.address()).or_throw();
  const auto append = [&](const std::string& item, Time when) {
    history.append("alice", std::vector<std::string>{item}, when).or_throw();
  };
  append("may", date(2024, 5, 31) + std::chrono::hours{23});
  append("june", date(2024, 6, 1));
  append("july", date(2024, 7, 15));
  append("long ago", date(1969, 1, 1));
  append("far ahead", Time::max());
  append("before all", Time::min());
  CHECK(server.sql("SELECT user_key || ' ' || item || ' ' || seen_at FROM seenby.impressions WHERE item = 'june'") ==
        "alice june 2024-06-01 00:00:00+00");
  CHECK(server.sql("SELECT string_agg(tableoid::regclass::text || ' ' || encode(item, 'escape'), ', ' ORDER BY at) "
                   "FROM seenby.events") ==
        "events_other before all, events_other long ago, events_2024_05 may, "
        "events_2024_06 june, events_2024_07 july, events_other far ahead");
  CHECK(seen(history, "alice").size() == 6);
  CHECK(seen(history, "alice", date(2024, 6, 1)).size() == 3);

  CHECK(history.drop_months_before(date(2024, 7, 1) - std::chrono::seconds{1}).or_throw() == 1);
  CHECK(contained(history, "alice", {"may", "june", "july"}) == std::vector<std::uint8_t>{0, 1, 1});
  CHECK(history.drop_months_before(date(2024, 7, 1)).or_throw() == 1);
  CHECK(history.drop_months_before(date(2024, 7, 1)).or_throw() == 0);
  CHECK(contained(history, "alice", {"may", "june", "july"}) == std::vector<std::uint8_t>{0, 0, 1});
  append("june", date(2024, 6, 2));  // a late one makes its month anew
  CHECK(contained(history, "alice", {"june"}) == std::vector<std::uint8_t>{1});
}

TEST_CASE("A question about the window reads the window's months only", "[postgres][002-19]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  // How often a month's table was read. A session tells the server when it ends.
  const auto reads = [&](const std::string& month) {
    REQUIRE(wait_until([&] {
      return server.sql(
                 "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
                 "pid <> pg_backend_pid()") == "0";
    }));
    return server.sql("SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'events_2024_" + month +
                      "'");
  };
  {
    auto history = Integers::open(server.address()).or_throw();
    for (unsigned month = 1; month <= 12; ++month) {
      history.append(1, std::vector<std::uint64_t>{month}, date(2024, month, 10)).or_throw();
    }
  }
  const std::vector<std::string> before{reads("01"), reads("10"), reads("12")};
  const std::vector<std::uint64_t> items{1, 12};
  {
    auto history = Integers::open(server.address()).or_throw();
    CHECK(seen(history, 1, date(2024, 11, 5)).size() == 2);
    CHECK(contained(history, 1, items, date(2024, 11, 5)) == std::vector<std::uint8_t>{0, 1});
    CHECK(history.item_count(1, date(2024, 11, 5)).or_throw() == 2);
  }
  CHECK(reads("01") == before[0]);
  CHECK(reads("10") == before[1]);
  CHECK(reads("12") != before[2]);
}

TEST_CASE("Many writers and processes share the tables, from their creation on", "[postgres][concurrent]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      // Each opens its own, as a process would; two threads' batches overlap, in opposite orders.
      auto history = Integers::open(server.address(), {.connections = 1});
      if (!history) {
        UNSCOPED_INFO(history.error().message);
        ++failed;
        return;
      }
      for (int n = 0; n < 20; ++n) {
        std::vector<Integers::Event> events;
        for (int i = 0; i < 50; ++i) events.push_back({number(i % 5), number(n * 50 + i), date(2024, 3, 1), "e"});
        if (thread % 2 == 0) std::reverse(events.begin(), events.end());
        if (!history->append(events)) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(server.sql("SELECT count(*) FROM seenby.events") == "1000");
}

TEST_CASE("A server that stops, crashes or does not answer is a typed error, and is used again when it is back",
          "[postgres]") {
  SEENBY_NEED_POSTGRES();
  PostgresServer server;
  auto history = Integers::open(server.address(), {.timeout = std::chrono::milliseconds(700)}).or_throw();
  const std::vector<std::uint64_t> items{1, 2};
  history.append(1, items, at(1)).or_throw();

  server.pause();
  const auto begin = std::chrono::steady_clock::now();
  const auto unanswered = history.append(1, items, at(2));
  REQUIRE_FALSE(unanswered);
  CHECK(unanswered.error().code == ErrorCode::timed_out);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2'000));
  server.resume();
  history.append(1, items, at(2)).or_throw();  // sent again: once all the same
  CHECK(history.event_count(1).or_throw() == 2);

  server.crash();
  std::vector<std::uint8_t> out(2);
  CHECK(history.contains(1, items, out).error().code == ErrorCode::unreachable);
  CHECK(Integers::open(server.address()).error().code == ErrorCode::unreachable);
  server.start();
  // The pool's idle connections died with the server: not the caller's concern.
  CHECK(contained(history, 1, items) == std::vector<std::uint8_t>{1, 1});
  server.crash();
  server.start();
  history.append(1, items, at(3)).or_throw();
  CHECK(history.event_count(1).or_throw() == 3);
}

TEST_CASE("The longest timeout there is can be kept, and one that leaves no time is refused", "[postgres]") {
  SEENBY_NEED_POSTGRES();
  PostgresServer server;
  auto history = Integers::open(server.address(), {.timeout = std::chrono::milliseconds::max()}).or_throw();
  const std::vector<std::uint64_t> items{1};
  history.append(1, items, at(1)).or_throw();
  CHECK(contained(history, 1, items) == std::vector<std::uint8_t>{1});
  for (const int wrong : {0, -1}) {
    const auto refused = Integers::open(server.address(), {.timeout = std::chrono::milliseconds(wrong)});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
    CHECK(refused.error().message.find(std::to_string(wrong) + " ms") != std::string::npos);
  }
}

TEST_CASE("An append that waits for new months holds no other append up, and has one deadline for all of them",
          "[postgres][concurrent]") {
  SEENBY_NEED_POSTGRES();
  PostgresServer server;
  auto history = Integers::open(server.address(), {.timeout = 2s}).or_throw();
  const Time now = system_time();
  const std::vector<SeenEvent<std::uint64_t, std::uint64_t>> known{{1, 1, now, {}}};
  history.append(known).or_throw();
  std::vector<SeenEvent<std::uint64_t, std::uint64_t>> old;
  for (int month = 2; month < 8; ++month) old.push_back({1, 2, now - month * 31 * day, {}});
  // Half a second for each table: six of them are more than the timeout.
  server.sql(
      "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); END $$; "
      "CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION slow()");
  std::atomic<bool> waited{false};
  std::optional<Error> failure;
  std::thread waiting([&] {
    if (auto done = history.append(old); !done) failure = std::move(done).error();
    waited = true;
  });
  const bool began = wait_until(
      [&] { return server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"; });
  const auto done = history.append(std::vector{known[0], {2, 1, now, {}}});
  const bool first = !waited;
  waiting.join();
  CHECK(began);
  CHECK(done.or_throw() == 1);
  CHECK(first);
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::timed_out);
  server.sql("DROP EVENT TRIGGER slow");
  CHECK(wait_until([&] { return history.append(old).has_value(); }));
  CHECK(history.event_count(2).or_throw() == old.size());
}

TEST_CASE("Tables of the first version are brought up to date with their events, whoever opens them at once",
          "[postgres][concurrent]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  for (int round = 0; round < 5; ++round) {
    Integers::open(server.address()).or_throw().append(7, std::vector<std::uint64_t>{1, 2}, at(5)).or_throw();
    server.sql("DROP TABLE seenby.hides");
    server.sql("UPDATE seenby.meta SET value = 1 WHERE name = 'version'");
    std::atomic<int> failed{0};
    std::vector<std::thread> clients;
    for (std::uint64_t i = 0; i < 3; ++i) {
      clients.emplace_back([&, i] {
        auto history = Integers::open(server.address());
        const Hide<std::uint64_t> hide{i, at(9)};
        if (!history || !history->hide(7, {&hide, 1})) ++failed;
      });
    }
    for (std::thread& client : clients) client.join();
    CHECK(failed == 0);
    auto history = Integers::open(server.address()).or_throw();
    CHECK(history.item_count(7).or_throw() == 2);
    CHECK(history.hidden(7).or_throw().size() == 3);
    CHECK(server.sql("SELECT value FROM seenby.meta WHERE name = 'version'") == "2");
  }
}

TEST_CASE("Tables of another kind or a newer version are refused, and so are keys that are too long", "[postgres]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  auto history = Texts::open(server.address()).or_throw();
  const auto other = PostgresHistory<std::string, std::uint64_t>::open(server.address());
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::parameter_mismatch);
  CHECK(other.error().message.find("items of kind text") != std::string::npos);

  // The longest keys fit into an index row; longer ones take their batch along.
  std::string longest(max_key_bytes, '\0');
  for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = static_cast<char>(i * 131 + i / 7);  // compresses badly
  history.append(longest, std::vector<std::string>{longest}, at(1)).or_throw();
  CHECK(contained(history, longest, {longest}) == std::vector<std::uint8_t>{1});
  const std::string huge(1'000'000, 'x');
  CHECK(history.append("alice", std::vector<std::string>{"a", huge}, at(1)).error().code == ErrorCode::too_large);
  CHECK(seen(history, "alice").empty());
  const std::vector<Hide<std::string>> hides{{longest, at(1)}, {huge, at(1)}};
  CHECK(history.hide(longest, std::span(hides).first(1)).or_throw() == 1);
  CHECK(history.hide(longest, hides).error().code == ErrorCode::too_large);
  CHECK(history.unhide(longest, std::vector<std::string>{huge, longest}).or_throw() == 1);

  server.sql("UPDATE seenby.meta SET value = 99 WHERE name = 'version'");
  CHECK(Texts::open(server.address()).error().code == ErrorCode::unsupported_version);
  CHECK(Texts::open(server.address(), {.schema = "x; DROP TABLE"}).error().code == ErrorCode::invalid_argument);
  CHECK(Texts::open(server.address(), {.connections = 0}).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("A lost filter is rebuilt from PostgreSQL, and PostgreSQL answers exactly itself",
          "[postgres][002-12][003-10]") {
  SEENBY_NEED_POSTGRES();
  const PostgresServer server;
  auto history = Texts::open(server.address()).or_throw();
  SeenFilter filter{MemoryStore<std::string>{{.wrong_hide_rate = 0.001}}, history};
  filter.record_all("alice", std::vector<std::string>{"a", "b"}).or_throw();
  SeenFilter restarted{MemoryStore<std::string>{{.wrong_hide_rate = 0.001}}, history};
  CHECK(restarted.ask(std::string("alice"), "a") == Answer::unknown);
  restarted.record("alice", "c").or_throw();
  for (const char* item : {"a", "b", "c"}) CHECK(restarted.ask(std::string("alice"), item) == Answer::seen);

  SeenFilter exact{HistoryStore{history}};
  CHECK(exact.ask(std::string("alice"), "b") == Answer::seen);
  CHECK(exact.ask(std::string("alice"), "d") == Answer::unseen);
  const CandidatePool<std::string> pool(std::vector<std::string>{"d", "b", "e", "a"});
  std::vector<std::string> page;
  for (const auto& pick : exact.select_unseen(pool, {"alice"})) page.push_back(pick.item);
  CHECK(page == std::vector<std::string>{"d", "e"});
  auto elsewhere = Texts::open(server.address()).or_throw();
  SeenFilter other{HistoryStore{elsewhere}};
  CHECK(other.hide("alice", std::string("d")).or_throw());
  CHECK(exact.ask(std::string("alice"), "d") == Answer::seen);
  CHECK(exact.hidden("alice").or_throw() == std::vector<std::string>{"d"});
}

}  // namespace
