// SPDX-License-Identifier: MIT
// seenby select: the candidates that none of the users has seen.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "event_log.hpp"
#include "input_error.hpp"
#include "item_kind.hpp"
#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "selection_page.hpp"
#include "store_url.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct SelectCommandOptions {
  SelectionWishes wishes;
  std::string history;
  std::string limit = "10";
  std::string on_unknown = "show";
  bool no_verify = false;
  LogOptions log;
  StoreOptions store;
  std::string items;
};

OnUnknown parse_on_unknown(const std::string& text) {
  if (text == "hide") return OnUnknown::hide;
  return text == "fail" ? OnUnknown::fail : OnUnknown::show;
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
    if (!items.empty()) value_of(filter.record_all(user, items));
  }
}

void select_from_log(const std::string& path, const LogOptions& options, const SelectionWishes& wishes,
                     StorePolicy policy) {
  const EventLog log = read_events(path, options);
  report_doubts(log);
  MemoryHistory<std::string, std::string> history;
  SeenFilter filter(MemoryStore<std::string>(std::move(policy)), history);
  record_users(filter, log, wishes.users);
  print_page(filter, wishes);
}

template <class Filter>
void select_from_store(const Filter& filter, const SelectCommandOptions& options) {
  const SelectionWishes& wishes = options.wishes;
  const std::string kind = items_in(options.store, options.items);
  const auto names = read_items(wishes.candidates, wishes.on_bad_line);
  const auto name_of = [&](std::uint64_t i) -> const std::string& { return names[i]; };
  if (kind_of_items(kind, names.size(), name_of) == ItemKind::text) {
    print_page(filter, wishes, names);
    return;
  }
  if (kind.empty()) std::cerr << "seenby: items are integers (--items text takes them as text)\n";
  std::vector<std::uint64_t> integers;
  integers.reserve(names.size());
  for (const std::string& name : names) integers.push_back(*canonical_integer(name));
  print_page(filter, wishes, std::move(integers));
}

void select(SelectCommandOptions options) {
  SelectionWishes& wishes = options.wishes;
  if (options.history == "-" && wishes.candidates == "-") {
    throw InputError("select: expected one of --history and --candidates to be a file, got '-' for both");
  }
  std::sort(wishes.users.begin(), wishes.users.end());
  wishes.users.erase(std::unique(wishes.users.begin(), wishes.users.end()), wishes.users.end());
  if (wishes.users.size() > 255) {
    throw InputError("--user: expected at most 255 users, got " + std::to_string(wishes.users.size()));
  }
  wishes.limit = parse_count("--limit", options.limit);
  wishes.on_unknown = parse_on_unknown(options.on_unknown);
  wishes.verify = !options.no_verify;
  wishes.on_bad_line = options.log.on_bad_line();
  options.store.users_per_request = std::to_string(wishes.users.size());
  StorePolicy policy = policy_of(options.store);
  if (!options.store.url.empty()) {
    with_store(options.store, std::move(policy), IfMissing::refuse, [&](auto& store) {
      const SeenFilter filter(std::move(store));
      select_from_store(filter, options);
    });
    return;
  }
  if (options.history.empty()) throw InputError("select: expected --history EVENTS or --store URL, got neither");
  select_from_log(options.history, options.log, wishes, std::move(policy));
}

}  // namespace

void add_select(CLI::App& app) {
  CLI::App* command = app.add_subcommand("select", "Print the candidates that none of the users has seen");
  const auto options = std::make_shared<SelectCommandOptions>();
  const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
    return command->add_option(name, value, text)->type_name(type);
  };
  CLI::Option* history = add("--history", options->history, "EVENTS",
                             "Who saw what: TSV or CSV of user, item, time ('-': standard input)");
  add("--candidates", options->wishes.candidates, "FILE", "Candidates, best first, one a line ('-': standard input)")
      ->required();
  command->add_option("--user", options->wishes.users, "A user of the request; again for each further one")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->required();
  add("--limit", options->limit, "N", "Print at most so many")->capture_default_str();
  add("--fpr", options->store.fpr, "RATE", "Rate at which a fresh candidate may be hidden: 0.01 or 1%")
      ->capture_default_str();
  add("--on-unknown", options->on_unknown, "WHAT", "For a user nothing is known of: show, hide or fail")
      ->check(CLI::IsMember({"show", "hide", "fail"}))
      ->capture_default_str();
  command->add_flag("--no-verify", options->no_verify,
                    "Do not win back false positives from the history on a thin page");
  command->add_flag("--reasons", options->wishes.reasons, "Print behind each candidate why it is there");
  add_log_options(*command, options->log);
  add_store_options(*command, "--store", options->store)->excludes(history);
  add_items_option(*command, options->items);
  command->footer(
      "Candidates keep their order; repeated ones are printed once.\n\n"
      "Examples:\n"
      "  seenby select --history events.tsv --candidates questions.txt --user ann --user ben --limit 10\n"
      "  seenby select --store redis://127.0.0.1/ --candidates questions.txt --user ann");
  command->callback([options] { select(*options); });
}

}  // namespace seenby::tool
