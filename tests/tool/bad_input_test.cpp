// SPDX-License-Identifier: MIT
// Every kind of bad input gets one line with the file and the line number, and exit code 2.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby_command.hpp"

using seenby::test::json_of;
using seenby::test::refused;
using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

namespace {

/// How many distinct users a log has, which tells whether it was read at all.
std::uint64_t users_in(const std::string& log) { return json_of({"plan", "--from", "-"}, log)["users"]; }

/// The error that a log gets, and the same with --skip-bad.
struct BadLineCase {
  const char* name;
  std::string log;
  std::string message;      // behind FILE:
  std::uint64_t users = 1;  // left over with --skip-bad
};

}  // namespace

TEST_CASE("a bad line is refused with the file and the line number") {
  const TemporaryFolder folder;
  const std::vector<BadLineCase> cases{
      {"missing column", "a\tx\t1\nb\ty\n", "2: expected 3 columns (user, item, time), got 2"},
      {"missing column in the first line", "a,x\nb,y,2\n", "1: expected 3 columns (user, item, time), got 2"},
      {"one column too many", "a\tx\t5\t1\na\tx\t1\n", "1: expected 3 columns (user, item, time), got 4"},
      {"no separator", "a\tx\t1\nhello world\n", "2: expected 3 columns (user, item, time), got 1"},
      {"not UTF-8", "a\tx\t1\nb\t\xFF\xFE\t2\n", "2: expected UTF-8 text, got byte 0xFF at byte 3"},
      {"an overlong encoding", "a\tx\t1\nb\t\xC0\x80\t2\n", "2: expected UTF-8 text, got byte 0xC0 at byte 3"},
      {"a surrogate", "a\tx\t1\nb\t\xED\xA0\x80\t2\n", "2: expected UTF-8 text, got byte 0xED at byte 3"},
      {"a cut sequence", "a\tx\t1\nb\tz\t2\xE2\x82\n", "2: expected UTF-8 text, got byte 0xE2 at byte 6"},
      {"a zero byte", std::string("a\tx\t1\nb\t\0\t2\n", 12), "2: expected UTF-8 text, got byte 0x00 at byte 3"},
      {"a 10 MB line", "a\tx\t1\n" + std::string(10'000'000, 'x') + "\nb\ty\t2\n",
       "2: expected a line of at most 1048576 bytes, got a longer one", 2},
      {"a bad time", "a\tx\t1\nb\ty\tsoon\n",
       "2: expected a time (Unix seconds or milliseconds, 2013-04-03, 20130403 or ISO 8601, up to year 9999), got "
       "'soon'"},
      {"a bad time in the first line", "u1\ti1\tx9\nb\ty\t2\n", "1: expected a time"},
      {"seconds behind milliseconds", "a\tx\t1365029107000\nb\ty\t2\n", "2: expected a time (milliseconds like"},
      {"a negative time", "a\tx\t-5\nb\ty\t2\n", "1: expected a time"},
      {"a day that does not exist", "a\tx\t2013-02-30\nb\ty\t2\n", "1: expected a time"},
      {"no user", "a\tx\t1\n\ty\t2\n", "2: expected a user, got an empty column"},
      {"no item", "a,x,1\nb,\"\",2\n", "2: expected an item, got an empty column"},
      {"an open quote", "a,x,1\nb,\"y,2\n", "2: expected a closing quote on the same line, got none"},
      {"text behind a quote", "a,x,1\nb,\"y\"z,2\n", "2: expected a separator behind a closing quote, got text"},
  };
  for (const BadLineCase& bad : cases) {
    INFO(bad.name);
    const std::string file = folder.file("events", bad.log);
    const auto result = run_seenby({"plan", "--from", file});
    INFO(result.err);
    CHECK(refused(result, file + ":" + bad.message));
    const auto piped = run_seenby({"plan", "--from", "-"}, bad.log);
    CHECK(refused(piped, "<stdin>:" + bad.message));
    const auto skipping = json_of({"plan", "--from", file, "--skip-bad"});
    CHECK(skipping["skipped_lines"] == 1);
    CHECK(skipping["users"] == bad.users);
  }
}

TEST_CASE("skip-bad says how many lines it left out and which was the first") {
  const auto result = run_seenby({"plan", "--from", "-", "--skip-bad"}, "a\tx\t1\nb\nc\td\nb\ty\t2\n");
  CHECK(result.exit_code == 0);
  CHECK(result.err.rfind("seenby: 2 bad lines skipped, the first: <stdin>:2: expected 3 columns", 0) == 0);
}

TEST_CASE("what is no file of events at all is refused") {
  const TemporaryFolder folder;
  const std::string empty = folder.file("empty", "");
  CHECK(refused(run_seenby({"plan", "--from", empty}),
                empty + ":1: expected at least one event (user, item, time), got an empty file"));
  CHECK(refused(run_seenby({"plan", "--from", "-"}), "<stdin>:1: expected at least one event"));
  const std::string header = folder.file("header", "user,item,time\n");
  CHECK(refused(run_seenby({"plan", "--from", header}),
                header + ":1: expected at least one event (user, item, time), got none in 1 lines"));
  const std::string all_bad = folder.file("all_bad", "x\ny\n");
  CHECK(refused(run_seenby({"plan", "--from", all_bad, "--skip-bad"}),
                all_bad + ":2: expected at least one event (user, item, time), got none in 2 lines (2 of them bad)"));
  CHECK(refused(run_seenby({"plan", "--from", folder.path("absent")}),
                folder.path("absent") + ": expected a readable file, got: No such file or directory"));
  CHECK(refused(run_seenby({"plan", "--from", folder.path("")}),
                folder.path("") + ": expected a readable file, got: a directory"));
  const std::string nameless = folder.file("nameless", "user,item,rating,stars\na,x,1,2\n");
  CHECK(refused(run_seenby({"plan", "--from", nameless, "--skip-bad"}),
                nameless + ":1: expected a header that names user, item and time, got one without time"));
}

TEST_CASE("every usual way to write a log is read alike") {
  CHECK(users_in("a\tx\t1\nb\ty\t2\n") == 2);
  CHECK(users_in("a,x,1\nb,y,2") == 2);
  CHECK(users_in("a;x;1\nb;y;2\n") == 2);
  CHECK(users_in("a\tx\t1\r\nb\ty\t2\r\n") == 2);
  CHECK(users_in("\xEF\xBB\xBFuser,item,time\r\na,x,1\r\nb,y,2\r\n") == 2);
  CHECK(users_in("\xEF\xBB\xBF"
                 "a,x,1\na,y,2\n") == 1);
  CHECK(users_in("\na\tx\t1\n\n  \nb\ty\t2\n\n") == 2);
  CHECK(users_in("userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n2,1029,3.0,1260759179\n") == 2);
  CHECK(users_in("Time,Item ID,USER_ID\n1,x,a\n2,y,b\n3,z,c\n") == 3);
  CHECK(users_in("user\titem\ttime\na\tx\t1\n") == 1);
  CHECK(users_in("\"a, the first\",x,1\n\"a, the first\",\"y \"\"z\"\"\",2\n\"b\",\"\"\"\",\"3\"\n") == 2);
  CHECK(users_in("\"a\tx\t1\nb\"\ty\t2\n") == 2);  // quotes are text where tabs separate
  CHECK(users_in("\xC3\xA4\tx\t1\n\xE2\x82\xAC\tx\t1\n\xF0\x9F\x98\x80\tx\t1\n") == 3);
  CHECK(users_in(
            "a\tx\t2013-04-03T22:45:07Z\nb\tx\t2013-04-03 22:45:07.5+02:00\nc\tx\t2013-04-03\nd\tx\t1365029107.25\n") ==
        4);
  CHECK(users_in(std::string(1'000'000, 'u') + "\tx\t1\n" + std::string(1'000'001, 'u') + "\tx\t1\n") == 2);
}

TEST_CASE("ISO 8601 and Unix seconds name the same moment") {
  // Within a window of 10 s the three events are one stretch only if all three times are read alike.
  const std::string log = "a,x,1365029107\na,y,2013-04-03T22:45:08Z\na,z,2013-04-04T00:45:09+02:00\n";
  CHECK(json_of({"plan", "--from", "-", "--window", "10s"}, log)["items"] == 3);
  CHECK(json_of({"plan", "--from", "-", "--window", "2s"}, log)["items"] == 2);
}
