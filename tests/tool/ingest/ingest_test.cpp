// SPDX-License-Identifier: MIT
// `seenby ingest`: lines of JSON into a SQLite file, then into an LMDB file.

#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "seenby/lmdb/store.hpp"
#include "seenby/sqlite/history.hpp"
#include "support/random.hpp"
#include "support/running_command.hpp"
#include "tool/ingest/ingest_fixture.hpp"

using seenby::test::content_of;
using seenby::test::event_line;
using seenby::test::event_lines;
using seenby::test::Files;
using seenby::test::Place;
using seenby::test::refused;
using seenby::test::RunningCommand;
using seenby::test::TemporaryFolder;

namespace {

class Fixture : public Files, public Place {
 public:
  Fixture() : Place("sqlite:" + sqlite, "lmdb:" + lmdb) {}

  /// The events there are of a user's items.
  [[nodiscard]] std::size_t history_size() const {
    const auto history = seenby::SqliteHistory<std::string, std::string>::open(sqlite).value();
    std::size_t size = 0;
    const auto users = history.users({}, 1'000).value();
    for (const std::string& user : users) size += history.seen_since(user).value().size();
    return size;
  }
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> more = {}) const {
    auto all = words("ingest", std::move(more));
    all.insert(all.begin(), SEENBY_COMMAND);
    return all;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "what is ingested is in the history and in the filters") {
  const auto ingested = figures("ingest", event_lines(1'000));
  CHECK(ingested["lines"] == 1'000);
  CHECK(ingested["new"] == 1'000);
  CHECK(ingested["recorded"] == 1'000);
  CHECK(ingested["dead_letters"] == 0);
  const auto verified = figures("verify");
  CHECK(verified["users"] == 20);
  CHECK(verified["events"] == 1'000);
  CHECK(verified["false_negatives"] == 0);
  CHECK(verified["unknown_users"] == 0);
  CHECK(verified["probes"] == 20'000);
  CHECK(verified["wrong_hide_rate"] < 0.015);
  CHECK(select("user1", "item0\nitem1\nitem21\nitem22\n").out == "item0\nitem22\n");
  CHECK(figures("verify", {}, {"--sample", "5"})["users"] == 5);
}

TEST_CASE_METHOD(Fixture, "an event that comes twice counts once") {
  const std::string line = event_line("e1", "ann", "q1");
  CHECK(figures("ingest", line + line)["new"] == 1);
  const auto again = figures("ingest", line);
  CHECK(again["new"] == 0);
  CHECK(again["duplicates"] == 1);
  CHECK(figures("verify")["events"] == 1);
}

TEST_CASE_METHOD(Fixture, "what was not visible, and who is anonymous, is not seen") {
  const std::string lines = R"({"id":"1","user":"ann","item":"q1","at":1700000000,"visible":false})"
                            "\n"
                            R"({"id":"2","user":"s7","anonymous":true,"item":"q2","at":1700000000})"
                            "\n"
                            R"({"id":"3","user":"ann","item":"q3","at":1700000000,"visible":true,"anonymous":false})"
                            "\n";
  const auto ingested = figures("ingest", lines);
  CHECK(ingested["not_seen"] == 1);
  CHECK(ingested["anonymous"] == 1);
  CHECK(ingested["new"] == 1);
  CHECK(select("ann", "q1\nq2\nq3\n").out == "q1\nq2\n");
}

TEST_CASE_METHOD(Fixture, "a line that is no event is a dead letter, and the exit code tells") {
  const std::string bad = "{\"id\":\"x\"}";
  const std::string lines = event_line("e1", "ann", "q1") + bad + "\n\nno json\n\xff\n" + event_line("e2", "ann", "q2");
  const auto told = run("ingest", lines);
  CHECK(told.exit_code == 1);
  CHECK(told.err.find("seenby: line 2: expected ") != std::string::npos);
  CHECK(told.err.find("seenby: line 4: ") != std::string::npos);
  CHECK(told.err.find("seenby: line 5: expected UTF-8 text, got byte 0xFF at byte 1\n") != std::string::npos);
  CHECK(told.err.find("not all was ingested: 3 dead letters") != std::string::npos);
  CHECK(select("ann", "q1\nq2\nq3\n").out == "q3\n");  // the rest is not held up
  const std::string file = folder.path("dead");
  CHECK(run("ingest", lines, {"--dead-letters", file}).exit_code == 1);
  const std::string letters = content_of(file);
  CHECK(std::count(letters.begin(), letters.end(), '\n') == 3);
  const std::size_t second = letters.find('\n') + 1;  // behind the one that is no text
  const auto first = nlohmann::json::parse(letters.substr(second, letters.find('\n', second) - second));
  CHECK(first["line"] == 2);
  CHECK(first["event"] == bad);
  CHECK_FALSE(first["error"].get<std::string>().empty());
}

TEST_CASE_METHOD(Fixture, "late events belong to the slice of their own time") {
  const long now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  constexpr long day = 86'400;
  const std::vector<std::string> window{"--window", "30d", "--slices", "30"};
  const std::string lines = event_line("1", "ann", "today", now) + event_line("2", "ann", "late", now - 10 * day) +
                            event_line("3", "ann", "too late", now - 40 * day);
  CHECK(run("ingest", lines, window).exit_code == 0);
  CHECK(select("ann", "today\nlate\ntoo late\n", window).out == "too late\n");
  const auto verified = figures("verify", {}, window);
  CHECK(verified["events"] == 2);
  CHECK(verified["false_negatives"] == 0);
  auto store =
      seenby::LmdbStore<std::string>::open(lmdb, {.window = std::chrono::hours{24 * 30}, .slices = 30}).value();
  const std::vector<std::string> items{"today", "late"};
  const std::vector<seenby::Digest> digests{store.hasher()(items[0]), store.hasher()(items[1])};
  std::vector<std::uint8_t> ages(2);
  store.age("ann", seenby::ItemBatch<std::string>{items, digests}, ages);
  CHECK(ages[0] == 0);
  CHECK(ages[1] == 10);
}

TEST_CASE_METHOD(Fixture, "items are text unless --items says integer") {
  CHECK(run("ingest", event_line("1", "ann", "42")).exit_code == 0);
  CHECK(select("ann", "42\n43\n").out == "43\n");
  const auto other = run("verify", {}, {"--items", "integer"});
  CHECK(other.exit_code == 2);
  CHECK(other.err.find("without --items integer it is read as text") != std::string::npos);
  const Files files;
  const Place integers("sqlite:" + files.sqlite, "lmdb:" + files.lmdb);
  CHECK(integers.run("ingest", event_line("1", "ann", "42"), {"--items", "integer"}).exit_code == 0);
  CHECK(integers.figures("verify", {}, {"--items", "integer"})["false_negatives"] == 0);
  CHECK(integers.select("ann", "42\n43\n", {"--items", "integer"}).out == "43\n");
  const auto text = integers.run("verify");
  CHECK(text.exit_code == 2);
  CHECK(text.err.find("--items integer reads one of integers") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "SIGTERM ends ingest cleanly, and the same input again brings the rest, nothing twice") {
  constexpr std::size_t count = 2'000;
  const std::string lines = event_lines(count);
  RunningCommand worker(command({"--batch", "100", "--json"}));
  const std::size_t half = lines.find("\n", lines.size() / 2) + 1;
  REQUIRE(worker.feed(lines.substr(0, half)));
  // It takes what comes although the input is still open.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (std::chrono::steady_clock::now() < give_up && (!std::ifstream(lmdb) || history_size() == 0)) {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  worker.send(SIGTERM);
  const auto stopped = worker.wait();
  INFO(stopped.err);
  CHECK(stopped.exit_code == 0);
  CHECK(stopped.err.find("stopped by a signal after line ") != std::string::npos);
  const auto first = nlohmann::json::parse(stopped.out);
  CHECK(first["new"] > 0);
  CHECK(first["lines"] == first["new"]);
  CHECK(first["lines"] == first["recorded"]);  // what was read is in the store too
  CHECK(history_size() == first["new"]);
  CHECK(figures("verify")["false_negatives"] == 0);
  const auto second = figures("ingest", lines);
  CHECK(second["new"].get<std::size_t>() + first["new"].get<std::size_t>() == count);
  CHECK(history_size() == count);
}

TEST_CASE_METHOD(Fixture, "after kill -9 in the middle the same input again leaves nothing out and nothing twice") {
  constexpr std::size_t count = 1'000;
  const std::string lines = event_lines(count);
  SEENBY_RANDOM(random);
  for (int kill = 0; kill < 5; ++kill) {
    RunningCommand worker(command({"--batch", "50"}));
    worker.feed(lines);  // smaller than the pipe takes, or the worker reads along
    worker.end_input();
    std::this_thread::sleep_for(std::chrono::milliseconds{random.below(100)});
    worker.send(SIGKILL);
    worker.wait();
  }
  CHECK(figures("ingest", lines)["lines"] == count);
  CHECK(history_size() == count);
  const auto verified = figures("verify");
  CHECK(verified["events"] == count);
  CHECK(verified["false_negatives"] == 0);
  CHECK(verified["unknown_users"] == 0);
}

TEST_CASE_METHOD(Fixture, "URLs that name nothing say what is expected") {
  const auto fails = [](const std::string& history, const std::string& store, const std::string& message) {
    for (const char* command : {"ingest", "verify", "repair"}) {
      const auto result = Place(history, store).run(command);
      INFO(command << ": " << result.err);
      CHECK(refused(result, message));
    }
  };
  const std::string here = "sqlite:" + sqlite;
  REQUIRE(run("ingest", event_line("1", "ann", "q1")).exit_code == 0);
  fails(here, "http://h/", "expected a URL of a store (lmdb:PATH, redis://HOST, ");
  fails(here, lmdb, "expected a URL of a store (lmdb:PATH, redis://HOST, ");
  fails("mysql://u:secret@h/", "lmdb:" + lmdb,
        "expected a URL of a history (sqlite:PATH, postgres://HOST/DATABASE or redis://HOST), got one of 'mysql'");
  fails(here, "lmdb:", "expected a path behind 'lmdb:', got none");
  // Who only reads makes no file.
  const Files none;
  CHECK(refused(Place("sqlite:" + none.sqlite, "lmdb:" + lmdb).run("verify"), "'sqlite:" + none.sqlite));
  CHECK(refused(Place(here, "lmdb:" + none.lmdb).run("verify"), "'lmdb:" + none.lmdb));
  CHECK(refused(Place(here, "lmdb:" + none.lmdb).select("ann", "q1\n"), "'lmdb:" + none.lmdb));
  CHECK_FALSE(std::ifstream(none.lmdb).good());
}
