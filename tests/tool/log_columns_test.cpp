// SPDX-License-Identifier: MIT
// Which columns of a log are taken for what, and what times mean.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "seenby_command.hpp"

using seenby::test::json_of;
using seenby::test::refused;
using seenby::test::run_command;
using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

namespace {

/// The first and the last time that a log is read to hold.
std::pair<std::string, std::string> times_in(const std::string& log, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"replay", "-"});
  const auto replay = json_of(more, log);
  return {replay["first_time"], replay["last_time"]};
}

std::string first_time(const std::string& log, std::vector<std::string> more = {}) {
  return times_in(log, std::move(more)).first;
}

/// What a log makes replay say on standard error.
std::string said_of(const std::string& log, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"replay", "-"});
  return run_seenby(more, log).err;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a timestamp is the time, whatever date is beside it") {
  const std::string moment = "2022-04-15T05:20:00Z";
  CHECK(first_time("date,user,item,timestamp\n20220410,a,b,1650000000\n") == moment);
  CHECK(first_time("timestamp,user,item,date\n1650000000,a,b,20220410\n") == moment);
  CHECK(first_time("user,item,date,time\na,b,2022-04-10,1650000000\n") == moment);
  CHECK(first_time("user,item,date\na,b,20220410\n") == "2022-04-10T00:00:00Z");
}

TEST_CASE("a rating is not taken for seconds") {
  const std::string books = "User-ID;ISBN;Book-Rating\n276725;034545104X;5\n276726;0155061224;8\n";
  const auto result = run_seenby({"replay", "-"}, books);
  CHECK(refused(result,
                "<stdin>:1: expected a header that names user, item and time, got one without time ('User-ID', "
                "'ISBN', 'Book-Rating'); --columns user=User-ID,item=ISBN,time=NAME says which are"));
  CHECK(refused(run_seenby({"plan", "--from", "-"}, books), "<stdin>:1: expected a header that names"));
  CHECK(refused(run_seenby({"plan", "--from", "-"}, "user,what else,stars\na,x,1\n"), "<stdin>:1: expected a header"));
  // In a file without a header nothing tells a weight from a time but that it lies in 1970.
  CHECK(
      contains(said_of("a\tx\t3.5\nb\ty\t5\n"),
               "seenby: warning: expected times from 1990 to 2100, got 1970-01-01T00:00:03Z to 1970-01-01T00:00:05Z"));
  CHECK(
      contains(said_of(books, {"--columns", "user=1,item=2,time=3"}), "1970-01-01T00:00:08Z in column 'Book-Rating'"));
}

TEST_CASE("times outside 1990 to 2100 are warned of, times inside are not") {
  CHECK(said_of("a,x,1989-12-31T23:59:59Z\n") != "");
  CHECK(said_of("a,x,1990-01-01T00:00:00Z\na,y,2100-12-31T23:59:59Z\n").empty());
  CHECK(said_of("a,x,1990-01-01T00:00:00Z\na,y,2101-01-01T00:00:00Z\n") != "");
  for (const char* command : {"plan", "replay"}) {
    std::vector<std::string> words{command, "-"};
    if (words.front() == "plan") words.insert(words.begin() + 1, "--from");
    INFO(command);
    CHECK(contains(run_seenby(words, "a,x,5\n").err, "warning: expected times from 1990 to 2100"));
    CHECK(run_seenby(words, "a,x,1700000000\n").err.empty());
  }
}

TEST_CASE("columns are named by the caller, by header name or by number") {
  const std::string log = "who knows,rating,thing,when seen\nann,5,q1,1700000000\nben,4,q2,1700000100\n";
  const auto replay = json_of({"replay", "-", "--columns", "user=who knows,item=thing,time=when seen"}, log);
  CHECK(replay["users"] == 2);
  CHECK(replay["items"] == 2);
  CHECK(replay["last_time"] == "2023-11-14T22:15:00Z");
  CHECK(json_of({"replay", "-", "--columns", "time=4,user=1,item=3"}, log)["last_time"] == "2023-11-14T22:15:00Z");
  CHECK(json_of({"replay", "-", "--columns", "time=4, user=WHO_KNOWS, item=thing"}, log)["users"] == 2);
  // Numbers alone: a first line that is an event stays one.
  CHECK(json_of({"replay", "-", "--columns", "user=1,item=2,time=4"}, "ann\tq1\t5\t1700000000\n")["events"] == 1);
  CHECK(json_of({"plan", "--from", "-", "--columns", "user=1,item=2,time=4"}, "ann\tq1\t5\t1700000000\n")["users"] ==
        1);
  // It wins over what a header says.
  CHECK(first_time("user,item,timestamp,date\na,b,1650000000,2013-04-03\n", {"--columns", "user=1,item=2,time=date"}) ==
        "2013-04-03T00:00:00Z");
  for (const char* columns : {"user", "user=1", "user=1,item=2", "user=1,item=2,time=", "user=1,item=2,date=3",
                              "user=1,user=2,time=3", "user=1,item=2,time=3,x=4"}) {
    INFO(columns);
    CHECK(refused(run_seenby({"replay", "-", "--columns", columns}, log),
                  "--columns: expected user=NAME,item=NAME,time=NAME"));
  }
  CHECK(refused(run_seenby({"replay", "-", "--columns", "user=1,item=2,time=5"}, log),
                "--columns: expected a column '5' in the first line, got 'who knows', 'rating', 'thing', 'when seen'"));
}

TEST_CASE("numbers are seconds, milliseconds, microseconds, nanoseconds or dates, and one file's are all the same") {
  for (const char* time : {"1700000000", "1700000000.9", "1700000000123", "1700000000123456", "1700000000123456789",
                           "2023-11-14T22:13:20Z", "2023-11-14 23:13:20+01:00"}) {
    INFO(time);
    CHECK(first_time(std::string("a,x,").append(time).append("\n")) == "2023-11-14T22:13:20Z");
  }
  CHECK(first_time("a,x,20231114\n") == "2023-11-14T00:00:00Z");
  CHECK(contains(run_seenby({"replay", "-"}, "a,x,1700000000123\n").out, "(read as milliseconds)"));
  CHECK(refused(run_seenby({"replay", "-"}, "a,x,1700000000123\na,y,1700000000\n"),
                "<stdin>:2: expected a time (milliseconds like the lines before), got seconds '1700000000'"));
  CHECK(refused(run_seenby({"replay", "-"}, "a,x,1700000000\na,y,1700000000123\n"),
                "<stdin>:2: expected a time (seconds like the lines before), got milliseconds '1700000000123'"));
  CHECK(refused(run_seenby({"replay", "-"}, "a,x,20231114\na,y,20231131\n"), "<stdin>:2: expected a time (a date"));
  // A log that counts from zero passes through numbers that could be dates.
  CHECK(times_in("a,x,0\na,y,20231114\n") ==
        std::pair<std::string, std::string>("1970-01-01T00:00:00Z", "1970-08-23T03:45:14Z"));
  CHECK(
      refused(run_seenby({"replay", "-"}, "a,x,14/11/2023\n"),
              "<stdin>:1: expected a time (Unix seconds or milliseconds, 2013-04-03, 20130403 or ISO 8601, up to year "
              "9999), got '14/11/2023'; --columns "));
}

TEST_CASE("the times that were read are printed") {
  const auto text = run_seenby({"replay", "-"}, "a,x,1700000100\na,y,1700000000\n").out;
  CHECK(contains(text, "2023-11-14T22:13:20Z to 2023-11-14T22:15:00Z"));
}

TEST_CASE("spaces around the fields of a line do not count, spaces in quotes do") {
  const auto items_in = [](const std::string& log) { return json_of({"replay", "-"}, log)["items"].get<int>(); };
  CHECK(items_in("u1, 10, 1700000000\nu1,10,1700000001\nu1 ,\"10\" , 1700000002\n") == 1);
  CHECK(items_in("u1\t 10\t1700000000\nu1\t10 \t1700000001\n") == 1);
  CHECK(items_in("u1, \" 10\", 1700000000\nu1,10,1700000001\n") == 2);
  const TemporaryFolder folder;
  const std::string log = folder.file("events", "u1, 10, 1700000000\n");
  const std::string candidates = folder.file("candidates", " 10\n11 \n");
  CHECK(run_seenby({"select", "--history", log, "--candidates", candidates, "--user", "u1"}).out == "11\n");
}

TEST_CASE("a packed file and JSON lines are called by their names") {
  const TemporaryFolder folder;
  const std::string packed = folder.file("events.gz", std::string("\x1F\x8B\x08\0\0\0", 6));
  CHECK(refused(run_seenby({"replay", packed}), packed + ": expected text, got gzip data; zcat FILE | seenby"));
  CHECK(refused(run_seenby({"plan", "--from", "-", "--skip-bad"}, "\x28\xB5\x2F\xFD..."),
                "<stdin>: expected text, got zstd data; zstdcat FILE | seenby"));
  CHECK(refused(run_seenby({"replay", "-"}, "{\"user\": \"a\", \"item\": 1}\n"),
                "<stdin>:1: expected columns separated by tabs, commas or semicolons, got JSON; jq -r"));
  CHECK(
      refused(run_seenby({"replay", "-", "--skip-bad"}, "[\n  {\"user\": \"a\"}\n]\n"), "<stdin>:1: expected columns"));
}

TEST_CASE("an error of the log names the separators and the option that helps") {
  const auto spaces = run_seenby({"replay", "-"}, "ann q1 1700000000\n");
  CHECK(refused(spaces,
                "<stdin>:1: expected 3 columns (user, item, time), got 1 (separators are tabs, commas or "
                "semicolons; --columns "));
  CHECK(contains(spaces.err, "--skip-bad"));
  CHECK(contains(run_seenby({"replay", "-"}, "a,x,soon\n").err, "--columns user=NAME,item=NAME,time=NAME"));
}
