// SPDX-License-Identifier: MIT
// `seenby ingest`, `verify` and `repair` over a SQLite file and Redis.

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "support/redis_server.hpp"
#include "support/running_command.hpp"
#include "tool/ingest/ingest_fixture.hpp"

using seenby::test::event_line;
using seenby::test::event_lines;
using seenby::test::Place;
using seenby::test::RedisServer;
using seenby::test::RunningCommand;
using seenby::test::TemporaryFolder;

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
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
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
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  worker.send(SIGTERM);
  const auto result = worker.wait();
  CHECK(result.exit_code == 1);
  CHECK(nlohmann::json::parse(result.out)["given_up"] == 1);
}
