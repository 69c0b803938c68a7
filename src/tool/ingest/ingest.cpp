// SPDX-License-Identifier: MIT
// seenby ingest: a worker that moves events into a history, and then into a store.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "commands.hpp"
#include "history_url.hpp"
#include "ingest/line_queue.hpp"
#include "input_error.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "stop_signal.hpp"
#include "store_url.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct IngestCommandOptions {
  std::string history;
  std::string items = "text";
  StoreOptions store;
  std::string dead_letters;
  std::string batch = "10000";
  bool json = false;
};

/// Whether waiting may help.
bool passes(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::unreachable:
    case ErrorCode::timed_out:
    case ErrorCode::refused:
    case ErrorCode::conflict:
    case ErrorCode::unavailable:
    case ErrorCode::io: return true;
    default: return false;
  }
}

/// Tells of a failure when it begins and when it is over, waits between two tries, and gives up 10 s after a stop
/// signal.
class Patience {
 public:
  void failed(const Error& error) {
    const auto now = std::chrono::steady_clock::now();
    if (!since_) {
      since_ = now;
      std::cerr << "seenby: " << without_prefix(error.message) << "; the batch is held and tried again\n";
    }
    pause_ = std::clamp(2 * pause_, std::chrono::milliseconds{50}, std::chrono::milliseconds{5'000});
    if (stop_asked() && !give_up_) give_up_ = now + std::chrono::seconds{10};
    const auto end = now + pause_;
    while (std::chrono::steady_clock::now() < end && !over()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      if (stop_asked() && !give_up_) return;  // at once, one more time
    }
  }
  void succeeded() {
    if (!since_) return;
    const auto took = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - *since_);
    std::cerr << "seenby: it works again after " << took.count() << " s; goes on\n";
    since_.reset();
    pause_ = std::chrono::milliseconds{0};
  }
  [[nodiscard]] bool over() const { return give_up_ && std::chrono::steady_clock::now() >= *give_up_; }

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
  std::optional<std::chrono::steady_clock::time_point> give_up_;
  std::chrono::milliseconds pause_{0};
};

/// What a run came to.
struct Outcome {
  IngestCounters counters;
  std::uint64_t dead_letters = 0;
  std::uint64_t in_hand = 0;  ///< lines that were read and given up

  [[nodiscard]] bool lost() const noexcept { return dead_letters != 0 || counters.unrecorded != 0 || in_hand != 0; }
};

/// Ingests until the queue ends. False when a batch was given up.
template <class Ingestor>
bool drain(Ingestor& ingestor, const LineQueue& queue, const LineReader& lines) {
  Progress progress("ingesting", lines.bytes_total());
  Patience patience;
  for (;;) {
    const auto done = ingestor.step();
    if (done) {
      patience.succeeded();
      if (lines.bytes_total() > 0) progress.update(lines.bytes_read());
      if (*done == 0 && queue.ended()) return true;
    } else {
      if (!passes(done.error().code)) throw std::runtime_error(done.error().message);
      patience.failed(done.error());
      if (patience.over()) return false;
    }
  }
}

template <class Item, class Store>
Outcome ingest(History<Item>& history, Store& store, const IngestCommandOptions& options) {
  store.set_replay(replay_of(history, store.hasher()));
  LineReader lines("-");
  DeadLetters dead_letters(options.dead_letters);
  LineQueue queue(lines, dead_letters);
  Ingestor<LineQueue, History<Item>, Store> ingestor(
      queue, history, store,
      {.batch = parse_between("--batch", options.batch, 1'000'000), .unrecorded = [](const Error& error) {
         std::cerr << "seenby: " << without_prefix(error.message) << "; the history has the events: seenby repair\n";
       }});
  const bool whole = drain(ingestor, queue, lines);
  Outcome outcome{.counters = ingestor.counters(), .dead_letters = dead_letters.count()};
  if (!whole) outcome.in_hand = outcome.counters.read - outcome.counters.buried - outcome.counters.acknowledged;
  if (stop_asked() && (!lines.ended() || lines.in_line())) {
    std::cerr << "seenby: stopped by a signal after line " << with_commas(lines.line_number())
              << "; ingest the same input again for the rest: what is there counts once\n";
  }
  return outcome;
}

void print(const Outcome& outcome, bool json) {
  const IngestCounters& counters = outcome.counters;
  if (json) {
    std::cout << nlohmann::ordered_json{{"lines", counters.read - counters.buried + outcome.dead_letters},
                                        {"new", counters.appended},
                                        {"duplicates", counters.duplicates},
                                        {"not_seen", counters.not_seen},
                                        {"anonymous", counters.anonymous},
                                        {"recorded", counters.recorded},
                                        {"unrecorded", counters.unrecorded},
                                        {"dead_letters", outcome.dead_letters},
                                        {"given_up", outcome.in_hand}}
                     .dump(2)
              << '\n';
    return;
  }
  Report report;
  report.row("new events", with_commas(counters.appended));
  report.row("known already", with_commas(counters.duplicates));
  if (counters.not_seen != 0) report.row("not visible", with_commas(counters.not_seen));
  if (counters.anonymous != 0) report.row("anonymous", with_commas(counters.anonymous));
  if (counters.unrecorded != 0) report.row("not in the store", with_commas(counters.unrecorded));
  if (outcome.in_hand != 0) report.row("given up", with_commas(outcome.in_hand));
  report.row("dead letters", with_commas(outcome.dead_letters));
  std::cout << report;
}

void run(const IngestCommandOptions& options) {
  catch_stop_signals();
  Outcome outcome;
  const auto ingest_as = [&](auto item) {
    using Item = decltype(item);
    auto history = open_history<Item>(options.history, IfMissing::create);
    with_store(options.store, policy_of(options.store), IfMissing::create,
               [&](auto& store) { outcome = ingest<Item>(history, store, options); });
  };
  static_cast<void>(kind_of_store(options.store.url));  // before a history is made
  options.items == "integer" ? ingest_as(std::uint64_t{}) : ingest_as(std::string());
  print(outcome, options.json);
  if (!outcome.lost()) return;
  std::string message = "not all was ingested: ";
  message.append(with_commas(outcome.dead_letters)).append(" dead letters");
  if (outcome.counters.unrecorded != 0) message.append("; seenby repair mends what the store lacks");
  if (outcome.in_hand != 0) message.append("; ingest the same input again for what was given up");
  throw std::runtime_error(message);
}

}  // namespace

void add_ingest(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ingest", "Take events as lines of JSON into a history, then into a store");
  const auto options = std::make_shared<IngestCommandOptions>();
  add_history_options(*command, options->history, options->items);
  add_store_options(*command, "--store", options->store)->required();
  add_policy_options(*command, options->store);
  command->add_option("--dead-letters", options->dead_letters, "Append lines that are no events to it, with why")
      ->type_name("FILE");
  command->add_option("--batch", options->batch, "Events at once")->type_name("N")->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Reads standard input. visible and anonymous are optional. An event counts once,\n"
      "however often it comes. SIGTERM: a clean stop. Exit code 1: something was lost.\n"
      "Example:\n"
      "  {\"id\":\"e1\",\"user\":\"u\",\"item\":\"i\",\"at\":1700000000}\n"
      "  seenby ingest --history sqlite:h.sqlite --store lmdb:s.lmdb < events.jsonl");
  command->callback([options] { run(*options); });
}

}  // namespace seenby::tool
