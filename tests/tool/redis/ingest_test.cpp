// SPDX-License-Identifier: MIT
// `seenby ingest`, `verify` and `repair` over a SQLite file and Redis.

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "seenby/redis/stream_queue.hpp"
#include "support/redis_server.hpp"
#include "support/running_command.hpp"
#include "support/wait_until.hpp"
#include "tool/ingest/ingest_fixture.hpp"

using seenby::test::event_line;
using seenby::test::event_lines;
using seenby::test::Place;
using seenby::test::RedisServer;
using seenby::test::RunningCommand;
using seenby::test::TemporaryFolder;
using seenby::test::wait_until;

namespace {

class Fixture {
 public:
  Fixture() {
    for (const char* program : {"redis-server", "valkey-server"}) {
      if (!server_ && RedisServer::installed(program)) server_.emplace(program);
    }
    if (!server_) SKIP("neither redis-server nor valkey-server is installed");
    if (seenby::test::run_seenby({"ingest", "--help"}).exit_code != 0) SKIP("the command has no seenby::ingest");
  }
  [[nodiscard]] RedisServer& server() { return *server_; }
  [[nodiscard]] Place place() const { return {"sqlite:" + folder_.path("seen.sqlite"), server_->socket_url()}; }

 private:
  TemporaryFolder folder_;
  std::optional<RedisServer> server_;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "what is ingested into Redis is verified, and repaired after a flush") {
  const std::string lines = event_lines(1'000);
  CHECK(place().figures("ingest", lines)["new"] == 1'000);
  CHECK(place().figures("ingest", lines)["duplicates"] == 1'000);
  const auto verified = place().figures("verify");
  CHECK(verified["users"] == 20);
  CHECK(verified["events"] == 1'000);
  CHECK(verified["false_negatives"] == 0);
  CHECK(place().select("user1", "item1\nitem2\n").out == "item2\n");
  server().call({"FLUSHALL"});
  CHECK(place().figures("verify")["unknown_users"] == 20);
  const auto repaired = place().figures("repair");
  CHECK(repaired["missing"] == 20);
  CHECK(repaired["repaired"] == 20);
  const auto mended = place().figures("verify");
  CHECK(mended["unknown_users"] == 0);
  CHECK(mended["false_negatives"] == 0);
}

TEST_CASE_METHOD(Fixture, "a server that is down holds the batch, and ingest goes on once it is back") {
  server().kill_at_once();
  auto words = place().words("ingest", {"--json"});
  words.insert(words.begin(), SEENBY_COMMAND);
  RunningCommand worker(words);
  REQUIRE(worker.feed(event_line("1", "ann", "q1")));
  worker.end_input();
  REQUIRE(wait_until([&] { return worker.said().find("the batch is held") != std::string::npos; }));
  server().start();
  const auto result = worker.wait();
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("the batch is held and tried again") != std::string::npos);
  CHECK(nlohmann::json::parse(result.out)["recorded"] == 1);
  CHECK(place().figures("verify")["false_negatives"] == 0);
}

TEST_CASE_METHOD(Fixture, "after SIGTERM with a server that stays down, what was given up is told") {
  server().kill_at_once();
  auto words = place().words("ingest", {"--json"});
  words.insert(words.begin(), SEENBY_COMMAND);
  RunningCommand worker(words);
  REQUIRE(worker.feed(event_line("1", "ann", "q1")));
  worker.end_input();
  REQUIRE(wait_until([&] { return worker.said().find("the batch is held") != std::string::npos; }));
  worker.send(SIGTERM);
  const auto result = worker.wait();
  CHECK(result.exit_code == 1);
  CHECK(nlohmann::json::parse(result.out)["given_up"] == 1);
}

namespace {

/// Adds lines to the stream "events".
void add(const RedisServer& server, const std::vector<std::string>& events) {
  seenby::redis::StreamQueue(seenby::redis::make_executor(server.socket_url()).or_throw(), "events")
      .push(events)
      .or_throw();
}
std::vector<std::string> numbered(std::size_t first, std::size_t count) {
  std::vector<std::string> events;
  for (std::size_t n = first; n < first + count; ++n) {
    const std::string number = std::to_string(n);
    events.push_back(event_line("e" + number, "user" + std::to_string(n % 20), "item" + number));
  }
  return events;
}
std::string from(const RedisServer& server) { return server.socket_url() + "#events"; }

/// Events that workers of the stream hold, as its group says.
std::int64_t held(const RedisServer& server) {
  return *(*server.call({"XPENDING", "events", "seenby"}).array())[0].integer();
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a stream is ingested until it is empty, and its dead letters are counted and kept") {
  add(server(), numbered(0, 500));
  add(server(), {"no json", R"({"user":"ann"})"});
  add(server(), numbered(500, 500));
  const auto told = place().run("ingest", {}, {"--from", from(server()), "--until-empty"});
  CHECK(told.exit_code == 1);
  CHECK(told.err.find("seenby: dead letters are in the stream '{events}:dead'\n") != std::string::npos);
  CHECK(told.err.find("not all was ingested: 2 dead letters") != std::string::npos);
  CHECK(server().call_integer({"XLEN", "{events}:dead"}) == 2);
  CHECK(held(server()) == 0);
  const auto verified = place().figures("verify");
  CHECK(verified["events"] == 1'000);
  CHECK(verified["false_negatives"] == 0);
  const auto again = place().run("ingest", {}, {"--from", from(server()), "--until-empty", "--json"});
  CHECK(again.exit_code == 0);
  CHECK(nlohmann::json::parse(again.out)["lines"] == 0);
  // Another group reads it all again, and finds it known.
  const auto other = place().figures("ingest", {}, {"--from", from(server()), "--until-empty", "--group", "other"});
  CHECK(other["lines"] == 1'002);
  CHECK(other["duplicates"] == 1'000);
  CHECK(other["dead_letters"] == 2);
}

TEST_CASE_METHOD(Fixture, "SIGTERM stops a stream's worker with all that it read ingested and acknowledged") {
  auto words = place().words("ingest", {"--from", from(server()), "--batch", "50", "--json", "--log-every", "1s"});
  words.insert(words.begin(), SEENBY_COMMAND);
  add(server(), numbered(0, 1));
  RunningCommand worker(words);
  REQUIRE(
      wait_until([&] { return place().select("user0", "item0\nother\n").out == "other\n"; }, std::chrono::seconds{60}));
  REQUIRE(wait_until([&] { return worker.said().find("1 new events") != std::string::npos; }));
  add(server(), numbered(1, 20'000));
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  worker.send(SIGTERM);
  const auto stopped = worker.wait();
  INFO(stopped.err);
  CHECK(stopped.exit_code == 0);
  CHECK(stopped.err.find("takes events from 'events' until SIGTERM") != std::string::npos);
  CHECK(stopped.err.find("1 new events in 1s, 0 dead letters; 0 to read") != std::string::npos);
  const auto figures = nlohmann::json::parse(stopped.out);
  CHECK(figures["lines"] == figures["new"]);
  CHECK(figures["new"] == figures["recorded"]);
  CHECK(held(server()) == 0);
  const auto rest = place().figures("ingest", {}, {"--from", from(server()), "--until-empty"});
  CHECK(rest["new"].get<int>() + figures["new"].get<int>() == 20'001);
  CHECK(place().figures("verify")["false_negatives"] == 0);
}

TEST_CASE_METHOD(Fixture, "what a killed worker of a stream held, the next one ingests, nothing twice") {
  add(server(), numbered(0, 2'000));
  for (int kill = 0; kill < 5; ++kill) {
    auto words = place().words("ingest", {"--from", from(server()), "--batch", "50", "--worker", "one"});
    words.insert(words.begin(), SEENBY_COMMAND);
    RunningCommand worker(words);
    std::this_thread::sleep_for(std::chrono::milliseconds{20 + 20 * kill});
    worker.send(SIGKILL);
    worker.wait();
  }
  const auto result =
      place().run("ingest", {}, {"--from", from(server()), "--until-empty", "--worker", "one", "--deliveries", "100"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(held(server()) == 0);
  CHECK(place().figures("verify")["events"] == 2'000);
  CHECK(place().figures("verify")["false_negatives"] == 0);
}

TEST_CASE_METHOD(Fixture, "events that were trimmed before they were ingested are told by the exit code") {
  add(server(), numbered(0, 10));
  CHECK(place().figures("ingest", {}, {"--from", from(server()), "--until-empty"})["new"] == 10);
  add(server(), numbered(10, 1'000));
  server().call({"XTRIM", "events", "MAXLEN", "100"});
  const auto result = place().run("ingest", {}, {"--from", from(server()), "--until-empty", "--json"});
  CHECK(result.exit_code == 1);
  CHECK(result.err.find("the stream was trimmed of events before they were ingested") != std::string::npos);
  CHECK(nlohmann::json::parse(result.out)["overruns"] == 1);
  CHECK(nlohmann::json::parse(result.out)["new"] == 100);
}

TEST_CASE_METHOD(Fixture, "An option --from names a server and a stream") {
  const auto run = [&](const std::string& url) { return place().run("ingest", {}, {"--from", url, "--until-empty"}); };
  CHECK(
      seenby::test::refused(run(server().socket_url()),
                            "--from: expected a server and a stream (redis://HOST#STREAM), got no stream behind '#'"));
  CHECK(run("http://h#events").exit_code == 2);
  CHECK(run(server().socket_url() + "#").exit_code == 2);
  CHECK(place().run("ingest", {}, {"--until-empty"}).exit_code == 2);  // of standard input there is an end
}

TEST_CASE_METHOD(Fixture, "a history in Redis is the truth of a store in Redis, and refuses items of another kind") {
  const Place in_redis(server().socket_url(), server().socket_url());
  CHECK(in_redis.figures("ingest", event_lines(500))["new"] == 500);
  CHECK(in_redis.figures("ingest", event_lines(500))["duplicates"] == 500);
  CHECK(in_redis.figures("verify")["false_negatives"] == 0);
  CHECK(in_redis.figures("verify")["users"] == 20);
  CHECK(server().call_integer({"ZCARD", "seenby:history:{user3}"}) == 25);
  server().call({"DEL", "seenby:{user3}"});
  CHECK(in_redis.figures("verify")["unknown_users"] == 1);
  CHECK(in_redis.figures("repair")["repaired"] == 1);
  CHECK(in_redis.figures("verify")["unknown_users"] == 0);
  CHECK(seenby::test::refused(in_redis.run("verify", {}, {"--items", "integer"}),
                              "expected a history of users and items of kinds text text, which it holds"));
}
