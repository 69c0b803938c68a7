// SPDX-License-Identifier: MIT
// seenby generate: writes a made-up event log.

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "commands.hpp"
#include "input_error.hpp"
#include "skewed_log.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct GenerateOptions {
  std::string users = "16554";
  std::string items = "10506";
  std::string events = "100000";
  std::string days = "185";
  std::uint64_t seed = 1;
};

void append_number(std::string& text, std::int64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

void generate(const GenerateOptions& options) {
  SkewedLogOptions log;
  log.users = parse_count("--users", options.users);
  log.items = parse_count("--items", options.items);
  log.events = parse_count("--events", options.events);
  log.seed = options.seed;
  constexpr std::uint64_t most_days = 36'525;
  const std::uint64_t days = parse_count("--days", options.days);
  if (days > most_days) throw InputError("--days: expected at most 36525, got " + options.days);
  log.seconds = static_cast<std::int64_t>(days) * 86'400;
  std::string text;
  make_skewed_log(log, [&](const Event& event) {
    append_number(text, std::int64_t{event.user} + 1);
    append_number(text.append("\t"), std::int64_t{event.item} + 1);
    append_number(text.append("\t"), event.time);
    text.push_back('\n');
    if (text.size() < 1U << 16) return;
    std::cout << text;
    text.clear();
    if (!std::cout) throw std::runtime_error("cannot write to standard output");
  });
  std::cout << text;
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Write a made-up event log with the skew of a real one");
  const auto options = std::make_shared<GenerateOptions>();
  command->add_option("--users", options->users, "Users, each with at least one event")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--items", options->items, "Items to see, a few of them very popular")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--events", options->events, "Events in all; nobody sees an item twice")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--days", options->days, "How many days the log spans")->type_name("N")->capture_default_str();
  command->add_option("--seed", options->seed, "The same seed gives the same log")
      ->type_name("N")
      ->capture_default_str();
  command->footer(
      "Writes TSV (user, item, Unix seconds) to standard output, user by user. Most users have seen one or\n"
      "two items, one in a hundred has seen thirty times as many; popularity falls with an item's rank.\n\n"
      "Example:\n  seenby generate --users 100K --events 1M --seed 7 > events.tsv");
  command->callback([options] { generate(*options); });
}

}  // namespace seenby::tool
