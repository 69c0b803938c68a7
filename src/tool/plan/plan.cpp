// SPDX-License-Identifier: MIT
// seenby plan: prices a design before it is built.

#include "plan/plan.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "commands.hpp"

namespace seenby::tool {
namespace {

void plan(const PlanOptions& options) {
  const Plan plan = make_plan(options);
  if (options.json) {
    std::cout << as_json(plan).dump(2) << '\n';
  } else {
    std::cout << as_report(plan);
  }
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Price a design: bits, bytes and error rate, beside exact sets");
  const auto options = std::make_shared<PlanOptions>();
  const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
    return command->add_option(name, value, text)->type_name(type);
  };
  add("--users", options->users, "N", "Users in all, such as 100M (default: 1, or those of the log)");
  add("--items", options->items, "N", "Items a user has seen (in the window); default: the log's p99 user");
  add("--fpr", options->fpr, "RATE", "Rate at which a fresh candidate may be hidden, end to end: 0.01 or 1%")
      ->capture_default_str();
  auto* window = add("--window", options->window, "TIME", "Forget after this long: 30d, 12h (default: never)");
  add("--slices", options->slices, "N", "Filters the window is cut into")->capture_default_str()->needs(window);
  add("--users-per-request", options->users_per_request, "N", "Users a candidate must be new to")
      ->capture_default_str();
  add("--layout", options->layout, "LAYOUT", "Layout of the bits: classic or split-block")
      ->check(CLI::IsMember({"classic", "split-block"}))
      ->capture_default_str();
  auto* store = add("--store", options->store, "STORE", "memory, or redis: price a cluster of nodes too")
                    ->check(CLI::IsMember({"memory", "redis"}))
                    ->capture_default_str();
  add("--requests-per-second", options->requests_per_second, "N", "That Redis answers")->needs(store);
  add("--replicas", options->replicas, "N", "Of each Redis node")->capture_default_str()->needs(store);
  add("--node-memory", options->node_memory, "BYTES", "Of a Redis node")->capture_default_str()->needs(store);
  add("--hashes", options->hashes, "K", "Fix k, with --bits: the rates of a filter as it is, classic layout");
  add("--bits", options->bits, "M", "Fix m, rounded up to whole 64-bit words");
  auto* from = add("--from", options->from, "EVENTS", "Take users and items from an event log ('-': standard input)");
  add("--median-items", options->median_items, "N", "Items of the median user (default: --items)")->excludes(from);
  add("--p99-items", options->p99_items, "N", "Items of the p99 user (default: --items)")->excludes(from);
  add_log_options(*command, options->log);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Examples:\n"
      "  seenby plan --users 100M --items 2000 --fpr 0.01\n"
      "  seenby plan --users 100M --items 2000 --window 30d --slices 6 --users-per-request 2\n"
      "  seenby plan --hashes 4 --bits 2048 --users-per-request 2\n"
      "  seenby plan --users 1G --items 200 --store redis --requests-per-second 100K\n"
      "  seenby plan --from events.tsv --users 10M --json");
  command->callback([options] { plan(*options); });
}

}  // namespace seenby::tool
