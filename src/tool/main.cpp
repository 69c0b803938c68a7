// SPDX-License-Identifier: MIT
// The seenby command: prices, replays and answers from the shell.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "input_error.hpp"
#include "seenby/version.hpp"
#include "suggestion.hpp"

namespace {

constexpr int exit_failure = 1;    // something outside went wrong: a full disk, a server
constexpr int exit_bad_input = 2;  // the command line or a file is not what it must be

int report(std::string_view message, int exit_code) {
  std::cout.flush();
  std::cerr << "seenby: " << seenby::tool::without_prefix(message) << '\n';
  return exit_code;
}

/// What a command line said that no command or option is called, and what was probably meant; empty when it is all
/// known.
std::string unknown_word(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  for (const std::string& word : app.remaining(true)) {
    const bool option = word.size() > 1 && word.front() == '-';
    const std::string name = word.substr(0, option ? word.find('=') : std::string::npos);
    std::vector<std::string> choices;
    if (option) {
      for (const CLI::Option* known : (chosen.empty() ? &app : chosen.front())->get_options()) {
        for (const std::string& long_name : known->get_lnames()) choices.push_back("--" + long_name);
      }
    } else if (chosen.empty()) {
      for (const CLI::App* known : app.get_subcommands({})) choices.push_back(known->get_name());
    }
    std::string message = option ? "unknown option " : chosen.empty() ? "unknown command " : "unexpected argument ";
    message.append(seenby::tool::in_quotes(name));
    const std::string meant = seenby::tool::nearest(name, choices);
    return meant.empty() ? message : message.append("; did you mean ").append(meant).append("?");
  }
  return {};
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = unknown_word(app);
  if (message.empty()) message = error.what();
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
      "Event logs are TSV or CSV (tabs, commas or semicolons): user, item, time; '-' reads standard input.\n"
      "Exit codes: 0 done, 1 something failed outside (a server, a full disk), 2 bad input or usage.");
  seenby::tool::add_plan(app);
  seenby::tool::add_replay(app);
  seenby::tool::add_select(app);
  seenby::tool::add_generate(app);
  seenby::tool::add_record(app);
#ifdef SEENBY_TOOL_WITH_INGEST
  seenby::tool::add_ingest(app);
#endif
  seenby::tool::add_verify(app);
  seenby::tool::add_repair(app);
  seenby::tool::add_inspect(app);
  seenby::tool::add_hide(app);
#ifdef SEENBY_TOOL_WITH_REDIS
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
