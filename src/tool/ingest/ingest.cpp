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
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "commands.hpp"
#include "components.hpp"
#include "history_url.hpp"
#include "ingest/line_queue.hpp"
#include "ingest/patience.hpp"
#include "input_error.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "stop_signal.hpp"
#include "store_url.hpp"
#include "units.hpp"
#ifdef SEENBY_TOOL_WITH_REDIS
#include "seenby/redis/stream_queue.hpp"
#endif

namespace seenby::tool {
namespace {

struct IngestCommandOptions {
  std::string history;
  std::string items = "text";
  StoreOptions store;
  std::string from;  ///< empty: standard input
  std::string group = "seenby";
  std::string worker;
  std::string claim_after = "1m";
  std::string deliveries = "10";
  std::string log_every = "1m";
  bool until_empty = false;
  std::string dead_letters;
  std::string batch = "10000";
  bool json = false;
};

/// What a run came to.
struct Outcome {
  IngestCounters counters;
  std::uint64_t dead_letters = 0;
  std::uint64_t in_hand = 0;   ///< events that were read and given up
  std::uint64_t trimmed = 0;   ///< events that left the stream while a worker held them
  std::uint64_t overruns = 0;  ///< times that the stream had been trimmed of what no worker had read

  [[nodiscard]] bool lost() const noexcept {
    return (dead_letters | counters.unrecorded | in_hand | trimmed | overruns) != 0;
  }
};

IngestOptions ingest_options(const IngestCommandOptions& options) {
  return {.batch = parse_between("--batch", options.batch, 1'000'000), .unrecorded = [](const Error& error) {
            std::cerr << "seenby: " << without_prefix(error.message) << "; the history has the events: seenby repair\n";
          }};
}

/// Ingests until `over` is true after a step, which is told how many events it had. False when a batch was given up.
template <class Ingestor, class Over>
bool drain(Ingestor& ingestor, const Over& over) {
  Patience patience;
  for (;;) {
    const auto done = ingestor.step();
    if (done) {
      patience.succeeded();
      if (over(*done)) return true;
    } else {
      if (!may_pass(done.error().code)) throw std::runtime_error(done.error().message);
      patience.failed(done.error());
      if (patience.over()) return false;
    }
  }
}

std::uint64_t in_hand(const IngestCounters& counters) {
  return counters.read - counters.buried - counters.acknowledged;
}

template <class Item, class Store>
Outcome ingest_lines(History<Item>& history, Store& store, const IngestCommandOptions& options) {
  LineReader lines("-");
  DeadLetters dead_letters(options.dead_letters);
  LineQueue queue(lines, dead_letters);
  Ingestor<LineQueue, History<Item>, Store> ingestor(queue, history, store, ingest_options(options));
  bool whole = true;
  {
    Progress progress("ingesting", lines.bytes_total());
    whole = drain(ingestor, [&](std::size_t events) {
      if (lines.bytes_total() > 0) progress.update(lines.bytes_read());
      return events == 0 && queue.ended();
    });
  }
  Outcome outcome{.counters = ingestor.counters(), .dead_letters = dead_letters.count()};
  if (!whole) outcome.in_hand = in_hand(outcome.counters);
  if (stop_asked() && (!lines.ended() || lines.in_line())) {
    std::cerr << "seenby: stopped by a signal after line " << with_commas(lines.line_number())
              << "; ingest the same input again for the rest: what is there counts once\n";
  }
  return outcome;
}

#ifdef SEENBY_TOOL_WITH_REDIS
/// Opens the stream that --from names: a server's URL, '#' and the stream's key.
redis::StreamQueue open_stream(const IngestCommandOptions& options) {
  const std::size_t sharp = options.from.rfind('#');
  if (sharp == std::string::npos || sharp + 1 == options.from.size()) {
    throw InputError("--from: expected a server and a stream (redis://HOST#STREAM), got no stream behind '#'");
  }
  redis::StreamQueueOptions queue{.group = options.group, .consumer = options.worker};
  queue.claim_after = parse_duration("--claim-after", options.claim_after);
  return {value_of(redis::make_executor(options.from.substr(0, sharp))), options.from.substr(sharp + 1),
          std::move(queue)};
}

/// Says now and then what a worker did.
class Log {
 public:
  Log(const redis::StreamQueue& queue, std::chrono::seconds every)
      : queue_(queue), every_(every), next_(std::chrono::steady_clock::now() + every) {}

  void update(const IngestCounters& now) {
    const auto time = std::chrono::steady_clock::now();
    if (time < next_) return;
    next_ = time + every_;
    std::cerr << "seenby: " << with_commas(now.appended - before_.appended) << " new events in " << as_duration(every_)
              << ", " << with_commas(now.buried - before_.buried) << " dead letters";
    before_ = now;
    if (const auto backlog = queue_.backlog()) {
      if (backlog->unread) std::cerr << "; " << with_commas(*backlog->unread) << " to read";
      if (backlog->oldest) {
        std::cerr << ", the filters are "
                  << with_commas(static_cast<std::uint64_t>(
                         std::max<std::int64_t>(0, (system_time() - *backlog->oldest).count())))
                  << " s behind";
      }
    }
    std::cerr << std::endl;
  }

 private:
  const redis::StreamQueue& queue_;
  std::chrono::seconds every_;
  std::chrono::steady_clock::time_point next_;
  IngestCounters before_{};
};

template <class Item, class Store>
Outcome ingest_stream(History<Item>& history, Store& store, const IngestCommandOptions& options) {
  redis::StreamQueue queue = open_stream(options);
  IngestOptions settings = ingest_options(options);
  settings.most_deliveries = static_cast<std::uint32_t>(parse_between("--deliveries", options.deliveries, 1'000'000));
  Ingestor<redis::StreamQueue, History<Item>, Store> ingestor(queue, history, store, std::move(settings));
  Log log(queue, parse_duration("--log-every", options.log_every));
  std::cerr << "seenby: takes events from " << in_quotes(queue.key()) << " until SIGTERM\n";
  const bool whole = drain(ingestor, [&](std::size_t events) {
    log.update(ingestor.counters());
    return stop_asked() || (options.until_empty && events == 0);
  });
  Outcome outcome{.counters = ingestor.counters(), .trimmed = queue.lost(), .overruns = queue.overruns()};
  outcome.dead_letters = outcome.counters.buried;
  if (!whole) outcome.in_hand = in_hand(outcome.counters);
  if (outcome.dead_letters != 0) {
    std::cerr << "seenby: dead letters are in the stream " << in_quotes(queue.dead_letters_key()) << '\n';
  }
  if (outcome.trimmed + outcome.overruns != 0) {
    std::cerr << "seenby: the stream was trimmed of events before they were ingested: give it a longer MAXLEN\n";
  }
  return outcome;
}
#endif

template <class Item, class Store>
Outcome ingest(History<Item>& history, Store& store, const IngestCommandOptions& options) {
  store.set_replay(replay_of(history, store.hasher()));
#ifdef SEENBY_TOOL_WITH_REDIS
  if (!options.from.empty()) return ingest_stream(history, store, options);
#endif
  return ingest_lines(history, store, options);
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
                                        {"given_up", outcome.in_hand},
                                        {"trimmed", outcome.trimmed},
                                        {"overruns", outcome.overruns}}
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
  if (outcome.trimmed != 0) report.row("trimmed away", with_commas(outcome.trimmed));
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
  if (!options.from.empty()) {
#ifdef SEENBY_TOOL_WITH_REDIS
    static_cast<void>(open_stream(options));
#else
    refuse_component("redis", "libhiredis-dev");
#endif
  }
  options.items == "integer" ? ingest_as(std::uint64_t{}) : ingest_as(std::string());
  print(outcome, options.json);
  if (!outcome.lost()) return;
  std::string message = "not all was ingested: ";
  message.append(with_commas(outcome.dead_letters)).append(" dead letters");
  if (outcome.counters.unrecorded != 0) message.append("; seenby repair mends what the store lacks");
  if (outcome.trimmed + outcome.overruns != 0) message.append("; the stream was trimmed of events");
  if (outcome.in_hand != 0) {
    message.append(options.from.empty() ? "; ingest the same input again for what was given up"
                                        : "; what was given up is still in the stream");
  }
  throw std::runtime_error(message);
}

}  // namespace

void add_ingest(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ingest", "Take events as lines of JSON into a history, then into a store");
  const auto options = std::make_shared<IngestCommandOptions>();
  add_history_options(*command, options->history, options->items);
  add_store_options(*command, "--store", options->store)->required();
  add_policy_options(*command, options->store);
  CLI::Option* from = command->add_option("--from", options->from, "A stream to take them from: redis://HOST#STREAM")
                          ->type_name("URL#STREAM");
  command->add_option("--group", options->group, "Workers that share the stream")
      ->type_name("NAME")
      ->capture_default_str()
      ->needs(from);
  command->add_option("--worker", options->worker, "This worker's name, if it keeps one (default: a new one)")
      ->type_name("NAME")
      ->needs(from);
  command->add_option("--claim-after", options->claim_after, "What a worker holds longer is another's")
      ->type_name("TIME")
      ->capture_default_str()
      ->needs(from);
  command->add_option("--deliveries", options->deliveries, "Tries before an event is a dead letter")
      ->type_name("N")
      ->capture_default_str()
      ->needs(from);
  command->add_option("--log-every", options->log_every, "How often to say what was done")
      ->type_name("TIME")
      ->capture_default_str()
      ->needs(from);
  command->add_flag("--until-empty", options->until_empty, "Stop once nothing is left in the stream")->needs(from);
  command->add_option("--dead-letters", options->dead_letters, "Append lines that are no events to it, with why")
      ->type_name("FILE")
      ->excludes(from);
  command->add_option("--batch", options->batch, "Events at once")->type_name("N")->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Reads standard input, or a Redis stream (XADD STREAM MAXLEN ~ N * event JSON).\n"
      "visible and anonymous are optional. An event counts once, however often it comes.\n"
      "A stream's dead letters go to the stream {STREAM}:dead, with why. SIGTERM: a clean\n"
      "stop, the batch in hand acknowledged. Exit code 1: something was lost.\n"
      "Example:\n"
      "  {\"id\":\"e1\",\"user\":\"u\",\"item\":\"i\",\"at\":1700000000}\n"
      "  seenby ingest --history sqlite:h.sqlite --store lmdb:s.lmdb < events.jsonl\n"
      "  seenby ingest --from redis://localhost#events --history sqlite:h.sqlite --store lmdb:s.lmdb");
  command->callback([options] { run(*options); });
}

}  // namespace seenby::tool
