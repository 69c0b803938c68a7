// SPDX-License-Identifier: MIT
// seenby record: marks a log's events as seen in a store.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "event_log.hpp"
#include "input_error.hpp"
#include "item_kind.hpp"
#include "progress.hpp"
#include "seenby/select/seen_filter.hpp"
#include "store_url.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct RecordOptions {
  StoreOptions store;
  std::string events;
  LogOptions log;
  std::string items;
};

/// In batches, each user's events together and the oldest first.
template <class Item, class Filter, class ItemOf>
void record_batches(Filter& filter, EventLog& log, const ItemOf& item_of) {
  constexpr std::size_t batch_size = 10'000;
  std::sort(log.events.begin(), log.events.end(),
            [](const Event& a, const Event& b) { return std::pair(a.user, a.time) < std::pair(b.user, b.time); });
  Progress progress("recording", log.events.size());
  std::vector<SeenEvent<std::string, Item>> batch;
  for (std::size_t at = 0; at < log.events.size();) {
    batch.clear();
    for (; at < log.events.size() && batch.size() < batch_size; ++at) {
      const Event& event = log.events[at];
      batch.push_back({log.users.name(event.user), item_of(event.item), Time(std::chrono::seconds(event.time))});
    }
    const auto recorded = filter.record_many(batch);
    if (const Error* error = recorded.first_error()) value_of(Result<void>(*error));
    progress.update(at);
  }
}

template <class Filter>
void record(Filter& filter, const RecordOptions& options) {
  EventLog log = read_events(options.events, options.log);
  report_doubts(log);
  const auto name_of = [&](std::uint64_t item) -> const std::string& {
    return log.items.name(static_cast<std::uint32_t>(item));
  };
  const ItemKind kind = kind_of_items(items_in(options.store, options.items), log.items.size(), name_of);
  if (kind == ItemKind::integer) {
    record_batches<std::uint64_t>(filter, log, [&](std::uint32_t item) { return *canonical_integer(name_of(item)); });
  } else {
    record_batches<std::string_view>(filter, log, name_of);
  }
  std::cout << "recorded " << with_commas(log.events.size()) << (log.events.size() == 1 ? " event" : " events")
            << " of " << with_commas(log.users.size()) << (log.users.size() == 1 ? " user" : " users") << ", "
            << time_span(log) << "; items are " << (kind == ItemKind::integer ? "integers" : "text") << '\n';
}

void record(const RecordOptions& options) {
  with_store(options.store, policy_of(options.store), IfMissing::create, [&](auto& store) {
    SeenFilter filter(std::move(store));
    record(filter, options);
  });
}

}  // namespace

void add_record(CLI::App& app) {
  CLI::App* command = app.add_subcommand("record", "Mark a log's events as seen in a store");
  const auto options = std::make_shared<RecordOptions>();
  add_store_options(*command, "store", options->store)->required();
  command->add_option("events", options->events, "TSV or CSV of user, item, time; '-' for standard input")
      ->type_name("EVENTS")
      ->required();
  add_policy_options(*command, options->store);
  add_items_option(*command, options->items);
  add_log_options(*command, options->log);
  command->footer(
      "One batched write a user, or with a window one for each of its slices, under the time of the\n"
      "events. Stops at the first batch of which a write fails; recording the log again does no harm.\n"
      "seenby ingest keeps a history beside the store.\n\n"
      "Example:\n"
      "  seenby record redis://127.0.0.1/ events.tsv --users-per-request 2");
  command->callback([options] { record(*options); });
}

}  // namespace seenby::tool
