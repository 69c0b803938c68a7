// SPDX-License-Identifier: MIT
// The replay: its figures on logs worked out by hand, and on the real one.

#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "seenby_command.hpp"
#include "support/data.hpp"

using seenby::test::json_of;
using seenby::test::refused;
using seenby::test::run_command;
using seenby::test::run_seenby;
using seenby::test::shown_on_terminal;
using seenby::test::TemporaryFolder;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer);
#else
constexpr bool sanitized = false;
#endif

/// The real log's path; the test is skipped where it is not.
std::string real_log() {
  const std::string path = seenby::test::data_file("movietweetings100k.tsv").string();
  if (!std::filesystem::exists(path)) SKIP("the real log is not here: " + path);
  return path;
}

/// `users` users who each see `items` items of their own, one a second.
std::string log_of(int users, int items) {
  std::string log;
  for (int item = 0; item < items; ++item) {
    for (int user = 0; user < users; ++user) {
      const std::string name = std::to_string(user);
      log.append("u").append(name).append("\t").append(name).append(":").append(std::to_string(item)).append("\t");
      log.append(std::to_string(1'700'000'000 + item * users + user)).append("\n");
    }
  }
  return log;
}

}  // namespace

TEST_CASE("the real log replays without a false negative and within the budget of pairs", "[000-01][000-02][000-15]") {
  const auto replay = json_of({"replay", real_log(), "--users-per-request", "2"});
  CHECK(replay["users"] == 16'554);
  CHECK(replay["items"] == 10'506);
  CHECK(replay["events"] == 100'000);
  CHECK(replay["requests"] == 100'000);
  CHECK(replay["skipped_lines"] == 0);
  CHECK(replay["false_negatives"] == 0);
  CHECK(replay["seen_candidates"] > 1'000'000);  // so that zero means something
  CHECK(replay["wrong_hide_budget"] == 0.01);
  CHECK(replay["fresh_candidates"] > 1'000'000);
  CHECK(replay["wrong_hide_rate"] <= replay["wrong_hide_budget"]);
  CHECK(replay["wrong_hide_rate"] > 0);  // filters are at work, not exact sets
  CHECK(replay["growths_over_budget"] == 0);
  CHECK(replay["growths"] > 0);
  CHECK(replay["checks_per_second"] > 1e5);
  CHECK(replay["underfilled_pages"].is_number_unsigned());
  for (const char* figure : {"median", "p90", "p99", "mean", "total"}) {
    INFO(figure);
    CHECK(replay["bytes_per_user"][figure] > 0);
    CHECK(replay["bytes_per_user"][figure] < replay["exact_bytes_per_user"][figure]);
  }
  CHECK(replay["bare_id_bytes_per_user"]["total"] == 800'000);
}

TEST_CASE("the real log replays through a window without a repeat inside it", "[003-03][003-04]") {
  const auto replay = json_of({"replay", real_log(), "--window", "30d", "--slices", "6"});
  CHECK(replay["window_seconds"] == 30 * 86'400);
  CHECK(replay["slices"] == 6);
  CHECK(replay["false_negatives"] == 0);
  CHECK(replay["repeats_within_window"] == 0);
  CHECK(replay["repeats_after_window"] > 0);  // the window does forget
  CHECK(replay["wrong_hide_rate"] <= 0.01);
}

TEST_CASE("with verify every page of the real log's replay gets the fresh candidates it needs", "[001-01][002-14]") {
  // Twelve candidates for a page of ten, of which some are seen: most pages are thin, and need what was wrongly hidden.
  const auto replay = json_of({"replay", real_log(), "--candidates", "12", "--verify", "100"});
  CHECK(replay["short_pools"] > 10'000);
  CHECK(replay["underfilled_pages"] > 50);  // what an exact set would have filled
  CHECK(replay["underfilled_pages"] <= replay["wrongly_hidden"]);
  CHECK(replay["wrongly_hidden"] > 100);
  CHECK(replay["verified"] > 100);
  CHECK(replay["verify_missed"] == 0);
  CHECK(replay["false_negatives"] == 0);
  CHECK(replay["verify_lookups"] > replay["verified"]);
  // A single look-up a request is not enough for two users.
  CHECK(json_of({"replay", real_log(), "--candidates", "12", "--verify", "1"})["verify_missed"] > 0);
}

TEST_CASE("a small log's figures are as counted by hand") {
  // Ten users of three items each; a request of one user, with every item a candidate.
  const auto replay = json_of({"replay", "-", "--users-per-request", "1", "--candidates", "5"}, log_of(10, 3));
  CHECK(replay["users"] == 10);
  CHECK(replay["items"] == 30);
  CHECK(replay["events"] == 30);
  CHECK(replay["requests"] == 30);
  CHECK(replay["checks"] == 30 * 5);
  CHECK(replay["fresh_candidates"].get<int>() + replay["seen_candidates"].get<int>() == 30 * 5 + 30);  // and the sweep
  CHECK(replay["false_negatives"] == 0);
  CHECK(replay["bare_id_bytes_per_user"]["median"] == 24);
  // Five candidates never fill a page of ten, which is no filter's fault.
  CHECK(replay["short_pools"] == 30);
  CHECK(replay["underfilled_pages"] == 0);
  CHECK(json_of({"replay", "-", "--candidates", "5", "--page", "1", "--users-per-request", "1"},
                log_of(10, 3))["short_pools"] < 30);
}

TEST_CASE("heavy users stay within the budget, with a history and without") {
  const std::string log = log_of(20, 1'000);
  for (const char* history : {"--seed=1", "--no-history"}) {
    INFO(history);
    const auto replay = json_of({"replay", "-", "--fpr", "0.05", history}, log);
    CHECK(replay["false_negatives"] == 0);
    CHECK(replay["fresh_candidates"] > 100'000);
    CHECK(replay["wrong_hide_rate"] <= 0.05);
    CHECK(replay["growths_over_budget"] == 0);
    CHECK(replay["bytes_per_user"]["median"] < replay["bare_id_bytes_per_user"]["median"]);
  }
}

TEST_CASE("a window forgets, and the log's order does not matter") {
  // One user sees an item a minute for 100 minutes; the window is 10 minutes in 5 slices.
  std::string log;
  for (int minute = 99; minute >= 0; --minute) {
    log.append("u\ti").append(std::to_string(minute)).append("\t").append(std::to_string(minute * 60)).append("\n");
  }
  const auto windowed = json_of({"replay", "-", "--window", "10m", "--slices", "5", "--users-per-request", "1"}, log);
  CHECK(windowed["false_negatives"] == 0);
  CHECK(windowed["repeats_after_window"] > 0);
  CHECK(windowed["bare_id_bytes_per_user"]["total"] == 10 * 16);  // ids with their times, of the last ten minutes
  const auto forever = json_of({"replay", "-", "--users-per-request", "1"}, log);
  CHECK_FALSE(forever.contains("repeats_after_window"));
  CHECK(forever["bare_id_bytes_per_user"]["total"] == 100 * 8);
  CHECK(forever["weighings"] == 1);
}

TEST_CASE("a window is weighed over time, and over those who have something in it") {
  // A hundred users, one a day, who each see three items and never come back; ten of them are within ten days.
  std::string log;
  for (int user = 0; user < 100; ++user) {
    for (int item = 0; item < 3; ++item) {
      log.append("u").append(std::to_string(user)).append("\ti").append(std::to_string(item)).append("\t");
      log.append(std::to_string(1'700'000'000 + user * 86'400 + item)).append("\n");
    }
  }
  const auto replay = json_of({"replay", "-", "--window", "10d", "--slices", "5"}, log);
  CHECK(replay["weighings"] > 10);
  CHECK(replay["active_users"] == 10);
  CHECK(replay["live_items"] == 30);
  CHECK(replay["bare_id_bytes_per_user"]["median"] == 3 * 16);
  CHECK(replay["bare_id_bytes_per_user"]["total"] == 30 * 16);
  CHECK(replay["bytes_per_user"]["median"] > 0);
  // Without a window everyone counts, once, at the end.
  const auto forever = json_of({"replay", "-"}, log);
  CHECK(forever["active_users"] == 100);
  CHECK(forever["bare_id_bytes_per_user"]["total"] == 300 * 8);
}

TEST_CASE("a replay of a million events fits into 150 MB") {
  if (sanitized) SKIP("a sanitizer's own memory is many times the program's");
  const TemporaryFolder folder;
  const std::string log = folder.path("events");
  const auto generated =
      run_command({"/bin/sh", "-c", "\"$0\" generate --events 1M --users 160K > \"$1\"", SEENBY_COMMAND, log});
  REQUIRE(generated.exit_code == 0);
  const auto result = run_seenby({"replay", log, "--requests", "1000"});
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  REQUIRE(result.exit_code == 0);
  CHECK(usage.ru_maxrss < 150'000);  // kB; 70 MB with the log and the referee in 32 bytes an event
}

TEST_CASE("the same seed replays the same requests") {
  auto first = json_of({"replay", "-", "--seed", "3"}, log_of(10, 30));
  auto second = json_of({"replay", "-", "--seed", "3"}, log_of(10, 30));
  auto other = json_of({"replay", "-", "--seed", "4"}, log_of(10, 30));
  for (auto* replay : {&first, &second, &other}) replay->erase("checks_per_second");
  CHECK(first == second);
  CHECK(first != other);
}

TEST_CASE("a bound on requests holds and they spread over the whole log") {
  const auto replay = json_of({"replay", "-", "--requests", "7"}, log_of(10, 30));
  CHECK(replay["requests"] == 7);
  CHECK(replay["events"] == 300);
}

TEST_CASE("a replay says what it did in words") {
  const auto result = run_seenby({"replay", "-", "--window", "1h", "--slices", "4"}, log_of(10, 30));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());  // no progress bar where nobody watches
  for (const char* text : {"users", "exact set", "false negatives", "wrong-hide rate", "budget 1.00%",
                           "repeats within 1h", "underfilled pages", "growths", "checks a second"}) {
    INFO(text);
    CHECK(result.out.find(text) != std::string::npos);
  }
}

TEST_CASE("a progress bar is drawn on a terminal, and wiped") {
  const TemporaryFolder folder;
  const std::string log = folder.file("events", log_of(20, 100));
  const std::string shown = shown_on_terminal({SEENBY_COMMAND, "replay", log});
  CHECK(shown.find("replaying [") != std::string::npos);
  REQUIRE(shown.size() > 4);
  CHECK(shown.substr(shown.size() - 4) == "\r\x1b[K");
}

TEST_CASE("replay refuses bad lines and nonsense") {
  CHECK(refused(run_seenby({"replay", "-"}, "a\tx\t1\nb\ty\n"),
                "<stdin>:2: expected 3 columns (user, item, time), got 2"));
  CHECK(refused(run_seenby({"replay", "/nonexistent"}), "/nonexistent: expected a readable file"));
  CHECK(refused(run_seenby({"replay"}), "events is required"));
  CHECK(refused(run_seenby({"replay", "-", "--fpr", "0"}, "a\tx\t1\n"), "--fpr: expected a rate"));
  CHECK(refused(run_seenby({"replay", "-", "--candidates", "0"}, "a\tx\t1\n"), "--candidates: expected"));
  CHECK(refused(run_seenby({"replay", "-", "--users-per-request", "300"}, "a\tx\t1\n"),
                "--users-per-request: expected 1 to 255"));
  CHECK(refused(run_seenby({"replay", "-", "--window", "2s", "--slices", "6"}, "a\tx\t1700000000\n"), "expected"));
  CHECK(refused(run_seenby({"replay", "-", "--verify", "9", "--no-history"}, "a\tx\t1\n"),
                "--no-history excludes --verify"));
  const auto skipping = json_of({"replay", "-", "--skip-bad"}, "a\tx\t1\nb\ty\nb\tx\t2\n");
  CHECK(skipping["skipped_lines"] == 1);
  CHECK(skipping["events"] == 2);
}
