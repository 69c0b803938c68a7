// SPDX-License-Identifier: MIT
// seenby record: marks a log's events as seen in a store.

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

/// Events of one user that are recorded in one call: those of one slice, since a store cannot tell them apart.
struct Batch {
  std::size_t begin;
  std::size_t end;
};

/// Sorts the events by user and time, and cuts them into batches.
std::vector<Batch> batches_of(std::vector<Event>& events, const StorePolicy& policy) {
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return std::pair(a.user, a.time) < std::pair(b.user, b.time); });
  const std::int64_t slice =
      policy.window.count() == 0 ? 0 : (policy.window.count() + policy.slices - 1) / policy.slices;
  std::vector<Batch> batches;
  for (std::size_t at = 0; at < events.size(); ++at) {
    const bool same = at > 0 && events[at].user == events[at - 1].user &&
                      (slice == 0 || events[at].time / slice == events[at - 1].time / slice);
    if (!same) batches.push_back({at, at});
    batches.back().end = at + 1;
  }
  return batches;
}

/// Records items under the time they were seen at, where the filter takes one; otherwise they count as seen now.
template <class Filter, class Item>
Result<RecordOutcome> record_at(Filter& filter, const std::string& user, const std::vector<Item>& items, Time when) {
  if constexpr (requires { filter.record_all(user, items, when); }) {
    return filter.record_all(user, items, when);
  } else {
    return filter.record_all(user, items);
  }
}

template <class Item, class Filter, class ItemOf>
void record_batches(Filter& filter, EventLog& log, const ItemOf& item_of) {
  Progress progress("recording", log.events.size());
  std::vector<Item> items;
  for (const Batch& batch : batches_of(log.events, filter.store().policy())) {
    items.clear();
    for (std::size_t at = batch.begin; at < batch.end; ++at) items.push_back(item_of(log.events[at].item));
    const Event& last = log.events[batch.end - 1];
    value_of(record_at(filter, log.users.name(last.user), items, Time(std::chrono::seconds(last.time))));
    progress.update(batch.end);
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
    record_batches<std::string>(filter, log, name_of);
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
      "One batched write a user, or with a window one for each of its slices, under the time of the events. Stops at\n"
      "the first write that fails; recording the log again does no harm. seenby ingest keeps a history beside the "
      "store.\n\n"
      "Example:\n"
      "  seenby record redis://127.0.0.1/ events.tsv --users-per-request 2");
  command->callback([options] { record(*options); });
}

}  // namespace seenby::tool
