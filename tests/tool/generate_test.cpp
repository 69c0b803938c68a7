// SPDX-License-Identifier: MIT
// The made-up log has the shape it was asked for, and the real one's skew.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "seenby_command.hpp"

using seenby::test::refused;
using seenby::test::run_seenby;

namespace {

struct Log {
  std::size_t events = 0;
  std::map<std::string, std::size_t> by_user;
  std::map<std::string, std::size_t> by_item;
  std::set<std::pair<std::string, std::string>> pairs;
};

Log parse(const std::string& text) {
  Log log;
  std::istringstream lines(text);
  std::string user;
  std::string item;
  long long time = 0;
  while (lines >> user >> item >> time) {
    ++log.events;
    ++log.by_user[user];
    ++log.by_item[item];
    log.pairs.emplace(user, item);
  }
  return log;
}

std::vector<std::size_t> sorted_counts(const std::map<std::string, std::size_t>& counts) {
  std::vector<std::size_t> result;
  for (const auto& [name, count] : counts) result.push_back(count);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

TEST_CASE("the default log has the real one's size and skew", "[000-15]") {
  const auto result = run_seenby({"generate"});
  REQUIRE(result.exit_code == 0);
  const Log log = parse(result.out);
  CHECK(log.events == 100'000);
  CHECK(log.by_user.size() == 16'554);
  CHECK(log.pairs.size() == 100'000);  // nobody sees an item twice
  const auto seen = sorted_counts(log.by_user);
  const auto at = [&](double quantile) {
    return seen[static_cast<std::size_t>(quantile * static_cast<double>(seen.size()))];
  };
  CHECK(at(0.5) == 2);
  CHECK((at(0.9) >= 13 && at(0.9) <= 17));
  CHECK((at(0.99) >= 52 && at(0.99) <= 64));
  CHECK((seen.back() >= 280 && seen.back() <= 340));
  const auto popularity = sorted_counts(log.by_item);
  CHECK((popularity.back() >= 1'200 && popularity.back() <= 2'200));  // the real log's first: 1,812
  CHECK(log.by_item.size() > 9'000);
}

TEST_CASE("the same seed gives the same log, another seed another") {
  const auto make = [](const char* seed) {
    return run_seenby({"generate", "--users", "100", "--items", "50", "--events", "700", "--seed", seed}).out;
  };
  CHECK(make("5") == make("5"));
  CHECK(make("5") != make("6"));
}

TEST_CASE("odd sizes come out exactly") {
  const auto generate = [](const char* users, const char* items, const char* events) {
    return parse(run_seenby({"generate", "--users", users, "--items", items, "--events", events}).out);
  };
  CHECK(generate("1", "1", "1").events == 1);
  CHECK(generate("10", "10", "100").pairs.size() == 100);  // everybody has seen everything
  CHECK(generate("7", "1000", "7").by_user.size() == 7);
  CHECK(generate("3", "1K", "1234").pairs.size() == 1'234);
}

TEST_CASE("a log that cannot be is refused") {
  CHECK(refused(run_seenby({"generate", "--users", "10", "--events", "9"}),
                "--events: expected at least one for each user"));
  CHECK(refused(run_seenby({"generate", "--users", "10", "--items", "10", "--events", "101"}),
                "--events: expected at most"));
  CHECK(refused(run_seenby({"generate", "--users", "0"}), "--users: expected"));
  CHECK(refused(run_seenby({"generate", "--days", "0"}), "--days: expected"));
}
