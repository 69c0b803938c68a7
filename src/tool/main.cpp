// SPDX-License-Identifier: MIT
// The seenby command: prices, replays and answers from the shell.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "input_error.hpp"
#include "seenby/version.hpp"

namespace {

constexpr int exit_failure = 1;    // something outside went wrong: a full disk, a server
constexpr int exit_bad_input = 2;  // the command line or a file is not what it must be

int report(std::string_view message, int exit_code) {
  std::cout.flush();
  std::cerr << "seenby: " << seenby::tool::without_prefix(message) << '\n';
  return exit_code;
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = error.what();
  for (char& c : message) c = c == '\n' ? ' ' : c;
  const auto chosen = app.get_subcommands();
  message.append(" (see seenby ").append(chosen.empty() ? "" : chosen.front()->get_name() + " ").append("--help)");
  return report(message, exit_bad_input);
}

int run(int argc, char** argv) {
  CLI::App app{"Which of these items has this user already seen? Answers from Bloom filters of a few bytes an item.",
               "seenby"};
  app.set_version_flag("--version", std::string("seenby ").append(SEENBY_VERSION));
  app.require_subcommand(1);
  app.footer(
      "Event logs are TSV or CSV: user, item, time; '-' reads standard input.\n"
      "Exit codes: 0 done, 1 something failed outside (a server, a full disk), 2 bad input or usage.");
  seenby::tool::add_plan(app);
  seenby::tool::add_replay(app);
  seenby::tool::add_select(app);
  seenby::tool::add_generate(app);
#ifdef SEENBY_TOOL_WITH_REDIS
  seenby::tool::add_record(app);
  seenby::tool::add_inspect(app);
  seenby::tool::add_bench(app);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return usage_error(app, error);
  }
  std::cout.flush();
  return std::cout ? 0 : report("cannot write to standard output", exit_failure);
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    return run(argc, argv);
  } catch (const seenby::tool::InputError& error) {
    return report(error.what(), exit_bad_input);
  } catch (const std::invalid_argument& error) {
    return report(error.what(), exit_bad_input);
  } catch (const std::exception& error) { return report(error.what(), exit_failure); }
}
