// SPDX-License-Identifier: MIT
// The commands that talk to Redis, against a server of the test's own.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/random.hpp"
#include "support/redis_server.hpp"
#include "tool/seenby_command.hpp"

using seenby::test::CommandResult;
using seenby::test::json_of;
using seenby::test::RedisServer;
using seenby::test::refused;
using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

namespace {

/// Three events of a minute ago.
const std::string events = [] {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string time = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count() - 60);
  return "ann\tq1\t" + time + "\nann\tq3\t" + time + "\nben\tq4\t" + time + "\n";
}();
constexpr std::string_view candidates = "q1\nq2\nq3\nq4\nq5\n";

/// A server where there is one; the test says SKIPPED elsewhere.
class Fixture {
 public:
  Fixture() {
    for (const char* program : {"redis-server", "valkey-server"}) {
      if (!server_ && RedisServer::installed(program)) server_.emplace(program);
    }
    if (!server_) SKIP("neither redis-server nor valkey-server is installed");
  }
  [[nodiscard]] RedisServer& server() { return *server_; }
  [[nodiscard]] std::string url() const { return server_->socket_url(); }
  [[nodiscard]] CommandResult record(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"record", url(), "-"};
    words.insert(words.end(), more.begin(), more.end());
    return run_seenby(words, events);
  }
  [[nodiscard]] CommandResult select(const std::vector<std::string>& users, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"select", "--store", url(), "--candidates", "-"};
    for (const std::string& user : users) words.insert(words.end(), {"--user", user});
    words.insert(words.end(), more.begin(), more.end());
    return run_seenby(words, candidates);
  }

 private:
  std::optional<RedisServer> server_;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "what record writes to Redis, select reads", "[000-01]") {
  const auto recorded = record();
  CHECK(recorded.exit_code == 0);
  CHECK(recorded.out.rfind("recorded 3 events of 2 users, 20", 0) == 0);
  CHECK(recorded.out.find("; items are text\n") != std::string::npos);
  CHECK(select({"ann"}).out == "q2\nq4\nq5\n");
  CHECK(select({"ann", "ben"}).out == "q2\nq5\n");
  CHECK(select({"ann", "ben"}, {"--limit", "1"}).out == "q2\n");
  CHECK(record().exit_code == 0);  // again does no harm
  CHECK(select({"ann"}).out == "q2\nq4\nq5\n");
}

TEST_CASE_METHOD(Fixture, "a log of many batches is recorded whole") {
  constexpr int users = 3'000;
  constexpr int each = 7;
  std::string log;
  std::string all;
  for (int i = 0; i < each; ++i) {
    const std::string item = "q" + std::to_string(i);
    for (int user = 0; user < users; ++user) log.append("u" + std::to_string(user) + "," + item + ",1700000000\n");
    all.append(item + "\n");
  }
  REQUIRE(run_seenby({"record", url(), "-"}, log).exit_code == 0);
  for (const int user : {0, 1'427, 1'428, 1'429, 2'857, users - 1}) {  // on both sides of each batch's end
    const auto left = run_seenby(
        {"select", "--store", url(), "--candidates", "-", "--user", "u" + std::to_string(user)}, all + "q99\n");
    CHECK(left.out == "q99\n");
  }
}

TEST_CASE_METHOD(Fixture, "a user without a key is unknown, which is said", "[000-19]") {
  CHECK(record().exit_code == 0);
  const auto shown = select({"zoe"});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out == candidates);
  CHECK(shown.err == "seenby: nothing is known of user 'zoe', so nothing is hidden for them\n");
  CHECK(select({"ann", "zoe"}, {"--on-unknown", "hide"}).out.empty());
  const auto failed = select({"ann", "zoe"}, {"--on-unknown", "fail"});
  CHECK(failed.exit_code == 1);
  CHECK(failed.err ==
        "seenby: nothing is known of user 'zoe'; --on-unknown show prints what the others have not seen\n");
}

TEST_CASE_METHOD(Fixture, "a program whose items are integers reads what record wrote of integers") {
  const std::string log = "5,42,1700000000\n5,7,1700000001\n";
  const auto recorded = run_seenby({"record", url(), "-"}, log);
  CHECK(recorded.exit_code == 0);
  CHECK(recorded.out.find("items are integers\n") != std::string::npos);
  const seenby::SeenFilter filter{seenby::redis::RedisStore<std::uint64_t>(url(), {})};
  const seenby::CandidatePool<std::uint64_t> pool(std::vector<std::uint64_t>{7, 8, 42});
  const std::uint64_t user = 5;
  const auto page = filter.select_unseen(pool, std::span(&user, 1));
  CHECK(page.unknown_users().empty());
  REQUIRE(page.size() == 1);
  CHECK(page.picks().front().index == 1);
  // The command itself, which guesses by its candidates and says so.
  const auto selected = run_seenby({"select", "--store", url(), "--candidates", "-", "--user", "5"}, "7\n8\n42\n");
  CHECK(selected.out == "8\n");
  CHECK(selected.err == "seenby: items are integers (--items text takes them as text)\n");
}

TEST_CASE_METHOD(Fixture, "items are what --items says, and one that is no integer makes them text") {
  const auto kind = [&](const std::string& log, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"record", url(), "-", "--prefix", "other:"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run_seenby(words, log);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    server().call({"FLUSHALL"});
    return result.out.substr(result.out.find("; ") + 2);
  };
  CHECK(kind("a,42,1700000000\na,18446744073709551615,1700000000\n") == "items are integers\n");
  for (const char* item : {"042", "-1", "18446744073709551616", "4.0", "x"}) {
    INFO(item);
    const std::string log = std::string("a,42,1700000000\na,").append(item).append(",1700000000\n");
    CHECK(kind(log) == "items are text\n");
    CHECK(refused(
        run_seenby({"record", url(), "-", "--items", "integer"}, log),
        std::string("--items: expected integers from 0 to 2^64 - 1 without leading zeros, got '").append(item)));
  }
  CHECK(kind("a,42,1700000000\n", {"--items", "text"}) == "items are text\n");
  CHECK(run_seenby({"record", url(), "-"}, "a,42,1700000000\n").exit_code == 0);
  const std::vector<std::string> words{"select", "--store", url(), "--candidates", "-", "--user", "a", "--items"};
  auto as_integer = words;
  as_integer.emplace_back("integer");
  CHECK(run_seenby(as_integer, "42\n43\n").out == "43\n");
}

TEST_CASE_METHOD(Fixture, "a window's table is found, recorded and shown") {
  const std::vector<std::string> window{"--window", "30d", "--slices", "6"};
  CHECK(record(window).exit_code == 0);
  CHECK(select({"ann"}, window).out == "q2\nq4\nq5\n");
  const auto shown = json_of({"inspect", url(), "ann", "--window", "30d", "--slices", "6"});
  REQUIRE(shown["keys"].size() == 1);
  const auto& table = shown["keys"][0]["table"];
  CHECK(table["items"] == 2);
  CHECK(table["recent_items"] == 2);
  CHECK(table["slice_seconds"] == 5 * 86'400);
  CHECK(table["newest_slice"] > 0);
  CHECK(table["building"] == false);
  const auto page = run_seenby({"inspect", url(), "ann", "--window", "30d", "--slices", "6"});
  CHECK(page.out.find("items            2, 2 of them recent") != std::string::npos);
  // A window lives between the window and a slice more; here 30 to 35 days.
  CHECK(shown["keys"][0]["ttl_milliseconds"] > 29LL * 86'400'000);
  CHECK(shown["keys"][0]["ttl_milliseconds"] <= 36LL * 86'400'000);
}

TEST_CASE_METHOD(Fixture, "a log recorded in any order hides what its window holds, and no more") {
  SEENBY_RANDOM(random);
  const std::vector<std::string> window{"--window", "30d", "--slices", "30"};
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  std::vector<std::string> lines;
  std::string all;
  for (int age = 0; age < 40; ++age) {
    for (const char* user : {"ann", "ben"}) {
      lines.push_back(std::string(user) + "\t" + user + std::to_string(age) + "\t" +
                      std::to_string(now.count() - age * 86'400) + "\n");
    }
    all += "ann" + std::to_string(age) + "\nben" + std::to_string(age) + "\n";
  }
  std::shuffle(lines.begin(), lines.end(), random);
  for (std::size_t at = 0; at < lines.size(); at += 8) {
    std::string part;
    for (std::size_t i = at; i < at + 8; ++i) part += lines[i];
    std::vector<std::string> words{"record", url(), "-", "--fpr", "1e-6"};
    words.insert(words.end(), window.begin(), window.end());
    REQUIRE(run_seenby(words, part).exit_code == 0);
  }
  for (const std::string user : {"ann", "ben"}) {
    std::vector<std::string> words{"select", "--store", url(), "--candidates", "-", "--user", user, "--limit", "100"};
    words.insert(words.end(), window.begin(), window.end());
    const std::string shown = "\n" + run_seenby(words, all).out;
    const auto shows = [&](const std::string& item) { return shown.find("\n" + item + "\n") != std::string::npos; };
    for (int age = 0; age < 40; ++age) {
      INFO(user << ", " << age << " days");
      // The thirtieth day ago is in the oldest slice, of which a part is older than the window.
      CHECK(shows(user + std::to_string(age)) == (age > 30));
      CHECK(shows((user == "ann" ? "ben" : "ann") + std::to_string(age)));
    }
  }
}

TEST_CASE_METHOD(Fixture, "inspect shows what a filter holds") {
  CHECK(record({"--users-per-request", "2"}).exit_code == 0);
  const auto shown = json_of({"inspect", url(), "ann"});
  CHECK(shown["user"] == "ann");
  REQUIRE(shown["keys"].size() == 1);
  const auto& key = shown["keys"][0];
  CHECK(key["key"] == "seenby:{ann}");
  CHECK(key["bytes"] == server().call_integer({"STRLEN", "seenby:{ann}"}));
  CHECK(key["memory_bytes"] == server().call_integer({"MEMORY", "USAGE", "seenby:{ann}"}));
  CHECK(key["ttl_milliseconds"] == -1);
  REQUIRE(key["filters"].size() == 1);
  const auto& filter = key["filters"][0];
  CHECK(filter["layout"] == "split_block");
  CHECK(filter["hash_count"] == 8);
  CHECK(filter["items"] == 2);
  CHECK(filter["estimated_items"] > 1.5);
  CHECK(filter["estimated_items"] < 2.5);
  CHECK(filter["fill_ratio"] > 8.0 / 256);
  CHECK(filter["fill_ratio"] <= 16.0 / 256);
  // 1% over the two users of a request, and room for the filters that succeed this one.
  CHECK(filter["target_fpr"] < 0.00502);
  CHECK(filter["target_fpr"] > 0.001);
  CHECK(filter["building"] == false);
  const auto text = run_seenby({"inspect", url(), "ann"}).out;
  CHECK(text.find("split_block, k = 8") != std::string::npos);
  CHECK(text.find("2 added, about 2 different") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "what is no filter is refused by its key") {
  const auto fails = [&](const std::string& user, const std::string& message) {
    const auto result = run_seenby({"inspect", url(), user});
    INFO(result.err);
    return result.exit_code == 1 && result.out.empty() && result.err.find(message) != std::string::npos;
  };
  CHECK(fails("zoe", "expected a filter of user 'zoe', got no key 'seenby:{zoe}'"));
  CHECK_FALSE(server().call({"RPUSH", "seenby:{list}", "a"}).is_error());
  CHECK(fails("list", "expected a filter at key 'seenby:{list}', got WRONGTYPE"));
  CHECK_FALSE(server().call({"SET", "seenby:{foreign}", std::string(64, 'x')}).is_error());
  CHECK(fails("foreign", "key 'seenby:{foreign}'"));
  CHECK(record().exit_code == 0);
  CHECK_FALSE(server().call({"SETRANGE", "seenby:{ann}", "2", "\x7f"}).is_error());
  CHECK(fails("ann", "key 'seenby:{ann}'"));
  const auto other_seed = run_seenby({"inspect", url(), "ben", "--store-seed", "9"});
  CHECK(other_seed.exit_code == 1);
  CHECK(other_seed.err.find("seed") != std::string::npos);
  // Never passed off as a user who has seen nothing:
  const auto broken = select({"list"});
  CHECK(broken.exit_code == 1);
  CHECK(broken.out.empty());
}

TEST_CASE_METHOD(Fixture, "bench measures and cleans up behind itself") {
  const auto figures = json_of({"bench", url(), "--time", "1s", "--users", "50", "--items", "20"});
  CHECK(figures["requests"] > 100);
  CHECK(figures["requests_per_second"] > 100);
  CHECK(figures["checks_per_second"].get<double>() > 199 * figures["requests_per_second"].get<double>());
  CHECK(figures["unknown_users"] == 0);
  CHECK(figures["call_microseconds_p99"] >= figures["call_microseconds_median"]);
  CHECK(figures["server_cpu_microseconds_per_request"] > 0);
  CHECK(server().call_integer({"DBSIZE"}) == 0);
  const auto ticks = json_of({"bench", url(), "--time", "1s", "--users", "50", "--requests-per-call", "50"});
  CHECK(ticks["requests"].get<int>() % 50 == 0);
}

TEST_CASE("a server that is not there is an error, and a URL that is none is a mistake") {
  const TemporaryFolder folder;
  const std::string nowhere = "unix://" + folder.path("none.sock");
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"select", "--store", nowhere, "--candidates", "-", "--user", "ann"},
                                             {"inspect", nowhere, "ann"},
                                             {"record", nowhere, "-"},
                                             {"bench", nowhere}}) {
    INFO(words.front());
    const auto result = run_seenby(words, words.front() == "record" ? events : candidates);
    CHECK(result.exit_code == 1);
    CHECK(result.out.empty());
    CHECK(result.err.find("none.sock") != std::string::npos);
  }
  CHECK(refused(run_seenby({"inspect", "http://127.0.0.1", "ann"}), "expected a URL"));
  CHECK(
      refused(run_seenby({"select", "--candidates", "-", "--user", "ann"}, candidates), "select: expected --history"));
  CHECK(refused(run_seenby({"select", "--candidates", "-", "--user", "a", "--history", "x", "--store", "redis://h"}),
                ""));
}

TEST_CASE("the help of the Redis commands shows an example") {
  for (const char* name : {"record", "inspect", "bench"}) {
    INFO(name);
    CHECK(run_seenby({name, "--help"}).out.find("  seenby " + std::string(name) + " ") != std::string::npos);
  }
}
