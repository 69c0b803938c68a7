#pragma once
// SPDX-License-Identifier: MIT
// The seenby command under test.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby_test_paths.hpp"
#include "support/command.hpp"

namespace seenby::test {

[[nodiscard]] inline CommandResult run_seenby(std::vector<std::string> arguments, std::string_view input = {}) {
  arguments.insert(arguments.begin(), SEENBY_COMMAND);
  return run_command(std::move(arguments), input);
}

/// What a command prints with --json; throws when it failed or printed something else.
[[nodiscard]] inline nlohmann::json json_of(std::vector<std::string> arguments, std::string_view input = {}) {
  arguments.emplace_back("--json");
  const CommandResult result = run_seenby(std::move(arguments), input);
  if (result.exit_code != 0) throw std::runtime_error(result.err);
  return nlohmann::json::parse(result.out);
}

/// Whether a refusal is what it must be: exit code 2, nothing on standard output, one line that starts with `start`.
[[nodiscard]] inline bool refused(const CommandResult& result, const std::string& start) {
  return result.exit_code == 2 && result.out.empty() && result.err.rfind("seenby: " + start, 0) == 0 &&
         result.err.find('\n') == result.err.size() - 1;
}

}  // namespace seenby::test
