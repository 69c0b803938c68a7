// SPDX-License-Identifier: MIT
// seenby repair: rebuilds the filters that lost what the history knows.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>

#include "commands.hpp"
#include "history_url.hpp"
#include "input_error.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/ingest/repair_job.hpp"
#include "stop_signal.hpp"
#include "store_url.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct RepairCommandOptions {
  std::string history;
  std::string items = "text";
  StoreOptions store;
  std::string user;
  std::string rate;
  bool json = false;
};

template <class Item>
std::uint64_t count_users(const History<Item>& history) {
  constexpr std::size_t page_size = 10'000;
  std::uint64_t count = 0;
  for (std::optional<std::string> after;;) {
    const auto page = value_of(history.users(after, page_size));
    count += page.size();
    if (page.size() < page_size) return count;
    after = page.back();
  }
}

// Without a component there is no store to repair.
[[maybe_unused]] void add(RepairProgress& sum, const Repair& repair) {
  sum.users = 1;
  sum.items = repair.items;
  sum.false_negatives = repair.false_negatives;
  sum.repaired = repair.repaired ? 1 : 0;
  switch (repair.found) {
    case FilterState::healthy: sum.healthy = 1; break;
    case FilterState::expired: sum.expired = 1; break;
    case FilterState::lost: sum.lost = 1; break;
    case FilterState::incomplete: sum.incomplete = 1; break;
    case FilterState::over_budget: sum.over_budget = 1; break;
  }
}

template <class Item, class Store>
RepairProgress repair(History<Item>& history, Store& store, const RepairCommandOptions& options) {
  store.set_replay(replay_of(history, store.hasher()));
  using Job = RepairJob<History<Item>, Store>;
  RepairProgress sum;
  if (!options.user.empty()) {
    add(sum, value_of(Job(history, store).repair(options.user)));
    return sum;
  }
  Progress progress("repairing", Progress::is_shown() ? count_users(history) : 0);
  std::stop_source stop;
  RepairOptions job_options;
  if (!options.rate.empty()) job_options.users_per_second = static_cast<double>(parse_count("--rate", options.rate));
  job_options.progress = [&](const RepairProgress& done) {
    progress.update(done.users);
    if (stop_asked()) stop.request_stop();
  };
  return value_of(Job(history, store, job_options).sweep(stop.get_token()));
}

void print(const RepairProgress& sum, bool json) {
  if (json) {
    std::cout << nlohmann::ordered_json{{"users", sum.users},
                                        {"events", sum.items},
                                        {"false_negatives", sum.false_negatives},
                                        {"healthy", sum.healthy},
                                        {"expired", sum.expired},
                                        {"missing", sum.lost},
                                        {"incomplete", sum.incomplete},
                                        {"over_budget", sum.over_budget},
                                        {"repaired", sum.repaired},
                                        {"errors", sum.errors}}
                     .dump(2)
              << '\n';
    return;
  }
  Report report;
  report.row("users", with_commas(sum.users));
  report.row("healthy", with_commas(sum.healthy + sum.expired));
  report.row("missing", with_commas(sum.lost));
  report.row("incomplete", with_commas(sum.incomplete) + (sum.incomplete == 0 ? "" : ", they lacked ") +
                               (sum.incomplete == 0 ? "" : with_commas(sum.false_negatives) + " events"));
  report.row("over their budget", with_commas(sum.over_budget));
  report.row("repaired", with_commas(sum.repaired));
  if (sum.errors != 0) report.row("errors", with_commas(sum.errors));
  std::cout << report;
}

void run(const RepairCommandOptions& options) {
  catch_stop_signals();
  RepairProgress sum;
  const auto repair_as = [&](auto item) {
    using Item = decltype(item);
    auto history = open_history<Item>(options.history, IfMissing::refuse);
    with_store(options.store, policy_of(options.store), IfMissing::create,
               [&](auto& store) { sum = repair<Item>(history, store, options); });
  };
  options.items == "integer" ? repair_as(std::uint64_t{}) : repair_as(std::string());
  print(sum, options.json);
  if (stop_asked()) throw std::runtime_error("stopped by a signal before the last user; repair again for the rest");
  if (sum.errors == 0) return;
  throw std::runtime_error("expected to check every user, got errors for " + with_commas(sum.errors) +
                           "; seenby repair --user NAME tells one user's");
}

}  // namespace

void add_repair(CLI::App& app) {
  CLI::App* command = app.add_subcommand("repair", "Rebuild filters that lost what the history knows");
  const auto options = std::make_shared<RepairCommandOptions>();
  add_history_options(*command, options->history, options->items);
  add_store_options(*command, "--store", options->store)->required();
  add_policy_options(*command, options->store);
  command->add_option("--user", options->user, "Repair this user only")->type_name("NAME");
  command->add_option("--rate", options->rate, "Users a second at most (default: no limit)")->type_name("N");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Mends filters that are missing, lack what the history says, or hide too much.\n"
      "Deletes nothing; services may go on meanwhile.\n\n"
      "Example:\n"
      "  seenby repair --history sqlite:seen.sqlite --store lmdb:seen.lmdb");
  command->callback([options] { run(*options); });
}

}  // namespace seenby::tool
