// SPDX-License-Identifier: MIT
// What a person reads: help that fits a screen, errors that say what to do next.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "seenby_command.hpp"
#include "support/temporary_folder.hpp"

namespace {

using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

/// A terminal of half a laptop's screen.
constexpr std::size_t lines_of_a_screen = 40;
constexpr std::size_t columns_of_a_screen = 100;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

/// The subcommands that the command itself lists.
std::vector<std::string> subcommands() {
  const auto lines = lines_of(run_seenby({"--help"}).out);
  std::vector<std::string> names;
  auto at = std::find(lines.begin(), lines.end(), "Subcommands:");
  for (; at != lines.end() && !at->empty(); ++at) {
    if (at->starts_with("  ") && at->size() > 2 && (*at)[2] != ' ')
      names.push_back(at->substr(2, at->find(' ', 2) - 2));
  }
  return names;
}

}  // namespace

TEST_CASE("the help of the command and of each subcommand fits a screen, and ends with an example", "[help]") {
  const auto names = subcommands();
  CHECK(names.size() >= 10);
  std::vector<std::vector<std::string>> all{{"--help"}};
  for (const std::string& name : names) all.push_back({name, "--help"});
  for (const auto& words : all) {
    CAPTURE(words);
    const auto help = run_seenby(words);
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    const auto lines = lines_of(help.out);
    CHECK(lines.size() <= lines_of_a_screen);
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(line.size() <= columns_of_a_screen);
    }
    if (words.size() == 2) CHECK(help.out.find("\n  seenby " + words[0] + " ") != std::string::npos);
  }
}

TEST_CASE("an error is one line that says what to do next", "[help]") {
  const TemporaryFolder folder;
  const std::string two = folder.file("two.csv", "a,b\n");
  const std::string badtime = folder.file("badtime.tsv", "u\ti\tyesterday\n");
  const std::string good = folder.file("good.tsv", "u\ti\t1700000000\n");
  struct Case {
    std::vector<std::string> words;
    std::string next;  ///< what the line must tell: an option, a form that is accepted, a command
  };
  const std::vector<Case> cases{
      {{"replay", two}, "--columns"},
      {{"replay", badtime}, "--columns"},
      {{"replay", folder.path("nosuch.tsv")}, "expected a readable file"},
      {{"plan"}, "--items N or --from EVENTS"},
      {{"plan", "--items", "5", "--fpr", "2"}, "such as 0.01 or 1%"},
      {{"plan", "--items", "5", "--window", "30x"}, "such as 30d, 12h, 15m or 90s"},
      {{"plna"}, "did you mean plan?"},
      {{"select"}, "see seenby select --help"},
      {{"record", good, "http://example"}, "lmdb:PATH, redis://HOST"},
      {{}, "see seenby --help"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.words, each.next);
    const auto result = run_seenby(each.words);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(lines_of(result.err).size() == 1);
    CHECK(result.err.starts_with("seenby: "));
    CHECK(result.err.find(each.next) != std::string::npos);
  }
}
