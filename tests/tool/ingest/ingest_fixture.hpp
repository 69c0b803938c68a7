#pragma once
// SPDX-License-Identifier: MIT
// A history and a store of a test's own, and the commands over both.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/seenby_command.hpp"

namespace seenby::test {

/// One event as a line.
[[nodiscard]] inline std::string event_line(std::string_view id, std::string_view user, std::string_view item,
                                            long at = 1'700'000'000) {
  return nlohmann::json{{"id", id}, {"user", user}, {"item", item}, {"at", at}}.dump() + "\n";
}

/// `count` events, each of another item, spread over 20 users.
[[nodiscard]] inline std::string event_lines(std::size_t count) {
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    lines += event_line("e" + number, "user" + std::to_string(i % 20), "item" + number);
  }
  return lines;
}

/// Files for both.
struct Files {
  TemporaryFolder folder;
  std::string sqlite = folder.path("seen.sqlite");
  std::string lmdb = folder.path("seen.lmdb");
};

/// The URLs of both, and commands over them.
class Place {
 public:
  Place(std::string history, std::string store) : history_(std::move(history)), store_(std::move(store)) {}

  [[nodiscard]] std::vector<std::string> words(std::string command, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{std::move(command), "--history", history_, "--store", store_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] CommandResult run(std::string command, std::string_view input = {},
                                  std::vector<std::string> more = {}) const {
    return run_seenby(words(std::move(command), std::move(more)), input);
  }
  /// What a command prints with --json, whatever its exit code.
  [[nodiscard]] nlohmann::json figures(std::string command, std::string_view input = {},
                                       std::vector<std::string> more = {}) const {
    more.emplace_back("--json");
    const CommandResult result = run(std::move(command), input, std::move(more));
    return nlohmann::json::parse(result.out.empty() ? "{}" : result.out);
  }
  [[nodiscard]] CommandResult select(const std::string& user, std::string_view candidates,
                                     std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"select", "--store", store_, "--candidates", "-", "--user", user};
    all.insert(all.end(), more.begin(), more.end());
    return run_seenby(all, candidates);
  }

 private:
  std::string history_;
  std::string store_;
};

}  // namespace seenby::test
