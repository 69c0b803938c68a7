// SPDX-License-Identifier: MIT
// `seenby select`: the unseen candidates, one a line, in the order given.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "seenby_command.hpp"

using seenby::test::refused;
using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

namespace {

class Fixture {
 public:
  Fixture()
      : events_(folder_.file("events",
                             "ann\tq1\t1700000001\nann\tq3\t1700000002\nben\tq4\t1700000003\ncho\tq2\t1700000004\n")) {}

  [[nodiscard]] seenby::test::CommandResult select(std::vector<std::string> more,
                                                   const std::string& candidates = "q1\nq2\nq3\nq4\nq5\nq6\n") const {
    std::vector<std::string> words{"select", "--history", events_, "--candidates",
                                   folder_.file("candidates", candidates)};
    words.insert(words.end(), more.begin(), more.end());
    return run_seenby(words);
  }
  [[nodiscard]] const std::string& events() const { return events_; }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string events_;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "select prints what none of the users has seen, in the order given", "[000-01][000-14]") {
  CHECK(select({"--user", "ann"}).out == "q2\nq4\nq5\nq6\n");
  CHECK(select({"--user", "ben"}).out == "q1\nq2\nq3\nq5\nq6\n");
  CHECK(select({"--user", "ann", "--user", "ben"}).out == "q2\nq5\nq6\n");
  CHECK(select({"--user", "ann", "--user", "ben", "--user", "cho"}).out == "q5\nq6\n");
  CHECK(select({"--user", "ann", "--user", "ann"}).out == "q2\nq4\nq5\nq6\n");
  CHECK(select({"--user", "ann", "--user", "ben", "--limit", "2"}).out == "q2\nq5\n");
  CHECK(select({"--user", "ann"}, "q6\nq5\nq1\nq4\n").out == "q6\nq5\nq4\n");
}

TEST_CASE_METHOD(Fixture, "repeated candidates are printed once") {
  CHECK(select({"--user", "ann"}, "q5\nq2\nq5\n\nq2\nq5\r\n").out == "q5\nq2\n");
}

TEST_CASE_METHOD(Fixture, "a user nobody knows is not passed off as one who has seen nothing", "[000-19]") {
  const auto shown = select({"--user", "zoe"});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out == "q1\nq2\nq3\nq4\nq5\nq6\n");
  CHECK(shown.err == "seenby: nothing is known of user 'zoe', so nothing is hidden for them\n");
  const auto hidden = select({"--user", "ann", "--user", "zoe", "--on-unknown", "hide"});
  CHECK(hidden.exit_code == 0);
  CHECK(hidden.out.empty());
  const auto failed = select({"--user", "zoe", "--on-unknown", "fail"});
  CHECK(failed.exit_code == 1);
  CHECK(failed.out.empty());
  CHECK(failed.err ==
        "seenby: nothing is known of user 'zoe'; --on-unknown show prints what the others have not seen\n");
  const auto second = select({"--user", "ann", "--user", "zoe", "--on-unknown", "fail"});
  CHECK(second.exit_code == 1);
  CHECK(second.out.empty());
  CHECK(second.err.find("user 'zoe'") != std::string::npos);
}

TEST_CASE("a thin page wins back what the filter hid by mistake", "[001-01]") {
  // At 30% every third fresh candidate is hidden at first; the history shows them all.
  const TemporaryFolder folder;
  std::string events;
  std::string candidates;
  for (int i = 0; i < 2'000; ++i) events.append("ann\tseen").append(std::to_string(i)).append("\t1\n");
  for (int i = 0; i < 500; ++i) {
    candidates.append("seen").append(std::to_string(i)).append("\nfresh").append(std::to_string(i)).append("\n");
  }
  const std::vector<std::string> words{"select",
                                       "--history",
                                       folder.file("events", events),
                                       "--candidates",
                                       folder.file("candidates", candidates),
                                       "--user",
                                       "ann",
                                       "--fpr",
                                       "0.3",
                                       "--limit",
                                       "1000"};
  std::string every_fresh;
  for (int i = 0; i < 500; ++i) every_fresh.append("fresh").append(std::to_string(i)).append("\n");
  CHECK(run_seenby(words).out == every_fresh);

  auto without = words;
  without.emplace_back("--no-verify");
  const auto count = std::ranges::count(run_seenby(without).out, '\n');
  CHECK(count < 500);
  CHECK(count > 250);
  auto reasons = words;
  reasons.emplace_back("--reasons");
  const std::string explained = run_seenby(reasons).out;
  CHECK(explained.find("\tunseen\n") != std::string::npos);
  CHECK(explained.find("\tverified\n") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "select reads either file from standard input") {
  const auto result = run_seenby({"select", "--history", events(), "--candidates", "-", "--user", "ann"}, "q1\nq5\n");
  CHECK(result.out == "q5\n");
  const auto piped =
      run_seenby({"select", "--history", "-", "--candidates", folder().file("candidates", "q1\nq5\n"), "--user", "ann"},
                 "ann,q5,1\n");
  CHECK(piped.out == "q1\n");
}

TEST_CASE_METHOD(Fixture, "select refuses bad files and nonsense") {
  const std::string candidates = folder().path("candidates");
  CHECK(refused(select({"--user", "ann"}, "q1\n\xFF\n"),
                candidates + ":2: expected UTF-8 text, got byte 0xFF at byte 1"));
  CHECK(refused(select({"--user", "ann"}, ""), candidates + ":1: expected at least one item, got an empty file"));
  CHECK(
      refused(select({"--user", "ann"}, std::string(10'000'000, 'x')), candidates + ":1: expected a line of at most"));
  CHECK(refused(select({}), "--user is required"));
  CHECK(refused(select({"--user", "ann", "--limit", "0"}), "--limit: expected"));
  CHECK(refused(select({"--user", "ann", "--on-unknown", "guess"}), "--on-unknown"));
  CHECK(refused(run_seenby({"select", "--history", "-", "--candidates", "-", "--user", "ann"}), "select: expected"));
  CHECK(select({"--user", "ann", "--skip-bad"}, "q1\n\xFF\nq5\n").out == "q5\n");
}
