// SPDX-License-Identifier: MIT
// seenby record: marks a log's events as seen in a store.

#include <CLI/CLI.hpp>
#include <algorithm>
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
#include "progress.hpp"
#include "redis/remote_store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct RecordOptions {
  RemoteStoreOptions remote;
  std::string events;
  std::string fpr = "0.01";
  std::string users_per_request = "1";
  bool skip_bad = false;
};

void record(const RecordOptions& options) {
  StorePolicy policy;
  policy.wrong_hide_rate = parse_rate("--fpr", options.fpr);
  policy.users_per_request =
      static_cast<std::uint32_t>(parse_between("--users-per-request", options.users_per_request, 255));
  SeenFilter filter(open_store(options.remote, policy));
  EventLog log = read_events(options.events, options.skip_bad ? OnBadLine::skip : OnBadLine::fail);
  report_skipped(log);
  std::stable_sort(log.events.begin(), log.events.end(),
                   [](const Event& a, const Event& b) { return a.user < b.user; });
  Progress progress("recording", log.events.size());
  std::vector<std::string> items;
  for (std::size_t at = 0; at < log.events.size();) {
    const std::uint32_t user = log.events[at].user;
    items.clear();
    for (; at < log.events.size() && log.events[at].user == user; ++at) {
      items.push_back(log.items.name(log.events[at].item));
    }
    value_of(filter.record_all(log.users.name(user), items));
    progress.update(at);
  }
  std::cout << "recorded " << with_commas(log.events.size()) << (log.events.size() == 1 ? " event" : " events")
            << " of " << with_commas(log.users.size()) << (log.users.size() == 1 ? " user\n" : " users\n");
}

}  // namespace

void add_record(CLI::App& app) {
  CLI::App* command = app.add_subcommand("record", "Mark a log's events as seen, in a store in Redis");
  const auto options = std::make_shared<RecordOptions>();
  add_store_options(*command, "store", options->remote)->required();
  command->add_option("events", options->events, "TSV or CSV of user, item, time; '-' for standard input")
      ->type_name("EVENTS")
      ->required();
  command->add_option("--fpr", options->fpr, "Rate at which a fresh candidate may be hidden, end to end: 0.01 or 1%")
      ->type_name("RATE")
      ->capture_default_str();
  command->add_option("--users-per-request", options->users_per_request, "Users a candidate must be new to")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--skip-bad", options->skip_bad, "Count bad lines and go on");
  command->footer(
      "One batched write a user. Every event counts as seen now, whatever its time. Stops at the first write that\n"
      "fails; recording the log again does no harm.\n\n"
      "Example:\n"
      "  seenby record redis://127.0.0.1/ events.tsv --users-per-request 2");
  command->callback([options] { record(*options); });
}

}  // namespace seenby::tool
