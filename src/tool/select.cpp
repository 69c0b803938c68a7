// SPDX-License-Identifier: MIT
// seenby select: the candidates that none of the users has seen.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "event_log.hpp"
#include "input_error.hpp"
#include "seenby/history.hpp"
#include "seenby/memory_store.hpp"
#include "seenby/seen_filter.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct SelectCommandOptions {
  std::string history;
  std::string candidates;
  std::vector<std::string> users;
  std::string limit = "10";
  std::string fpr = "0.01";
  std::string on_unknown = "show";
  bool no_verify = false;
  bool reasons = false;
  bool skip_bad = false;
};

OnUnknown parse_on_unknown(const std::string& text) {
  if (text == "hide") return OnUnknown::hide;
  return text == "fail" ? OnUnknown::fail : OnUnknown::show;
}

/// Prints a page, which keeps the candidates' order; says which users nothing is known of.
template <class Filter>
void print_page(const Filter& filter, const SelectCommandOptions& options) {
  auto items = read_items(options.candidates, options.skip_bad ? OnBadLine::skip : OnBadLine::fail);
  const CandidatePool<std::string, typename Filter::hasher_type> pool(std::move(items), filter.store().hasher());
  SelectOptions<std::string, typename Filter::hasher_type> wishes;
  wishes.limit = parse_count("--limit", options.limit);
  wishes.on_unknown = parse_on_unknown(options.on_unknown);
  if (Filter::has_history && !options.no_verify) wishes.relax = {Verify{.lookups = pool.size() * options.users.size()}};
  const Selection page = filter.select_unseen(pool, std::span(options.users), wishes);
  for (const UnknownUser& unknown : page.unknown_users()) {
    std::cerr << "seenby: nothing is known of user " << in_quotes(options.users[unknown.user_index])
              << (wishes.on_unknown == OnUnknown::show ? ", so nothing is hidden for them" : "") << '\n';
  }
  if (page.error()) throw std::runtime_error(page.error()->message);
  for (const Pick& pick : page) {
    std::cout << pool[pick.index];
    if (options.reasons) std::cout << '\t' << to_string(pick.reason);
    std::cout << '\n';
  }
}

/// Records what the log says of these users, each in one go.
template <class Filter>
void record_users(Filter& filter, const EventLog& log, const std::vector<std::string>& users) {
  for (const std::string& user : users) {
    const std::uint32_t number = log.users.find(user);
    std::vector<std::string> items;
    for (const Event& event : log.events) {
      if (event.user == number) items.push_back(log.items.name(event.item));
    }
    if (!items.empty()) filter.record_all(user, items).value();
  }
}

void select(SelectCommandOptions options) {
  if (options.history == "-" && options.candidates == "-") {
    throw InputError("select: expected one of --history and --candidates to be a file, got '-' for both");
  }
  std::sort(options.users.begin(), options.users.end());
  options.users.erase(std::unique(options.users.begin(), options.users.end()), options.users.end());
  StorePolicy policy;
  policy.wrong_hide_rate = parse_rate("--fpr", options.fpr);
  if (options.users.size() > 255) throw InputError("--user: expected at most 255 users");
  policy.users_per_request = static_cast<std::uint32_t>(options.users.size());
  const EventLog log = read_events(options.history, options.skip_bad ? OnBadLine::skip : OnBadLine::fail);
  report_skipped(log);
  MemoryHistory<std::string, std::string> history;
  SeenFilter filter(MemoryStore<std::string>(policy), history);
  record_users(filter, log, options.users);
  print_page(filter, options);
}

}  // namespace

void add_select(CLI::App& app) {
  CLI::App* command = app.add_subcommand("select", "Print the candidates that none of the users has seen");
  const auto options = std::make_shared<SelectCommandOptions>();
  const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
    return command->add_option(name, value, text)->type_name(type);
  };
  add("--history", options->history, "EVENTS", "Who saw what: TSV or CSV of user, item, time ('-': standard input)")
      ->required();
  add("--candidates", options->candidates, "FILE", "Candidates, best first, one a line ('-': standard input)")
      ->required();
  command->add_option("--user", options->users, "A user of the request; again for each further one")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->required();
  add("--limit", options->limit, "N", "Print at most so many")->capture_default_str();
  add("--fpr", options->fpr, "RATE", "Rate at which a fresh candidate may be hidden: 0.01 or 1%")
      ->capture_default_str();
  add("--on-unknown", options->on_unknown, "WHAT", "For a user without history: show, hide or fail")
      ->check(CLI::IsMember({"show", "hide", "fail"}))
      ->capture_default_str();
  command->add_flag("--no-verify", options->no_verify,
                    "Do not win back false positives from the history on a thin page");
  command->add_flag("--reasons", options->reasons, "Print behind each candidate why it is there");
  command->add_flag("--skip-bad", options->skip_bad, "Count bad lines and go on");
  command->footer(
      "Candidates keep their order; repeated ones are printed once.\n\n"
      "Example:\n"
      "  seenby select --history events.tsv --candidates questions.txt --user ann --user ben --limit 10");
  command->callback([options] { select(*options); });
}

}  // namespace seenby::tool
