// SPDX-License-Identifier: MIT
// seenby replay: proves on a log what the filters would have done.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.hpp"
#include "event_log.hpp"
#include "replay_run.hpp"
#include "report.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

struct ReplayOptions {
  std::string events;
  LogOptions log;
  std::string fpr = "0.01";
  std::string candidates = "100";
  std::string users_per_request = "2";
  std::string page = "10";
  std::string requests = "100K";
  std::string verify;
  std::string window;
  std::string slices = "1";
  std::uint64_t seed = 1;
  bool no_history = false;
  bool json = false;
};

ReplaySettings parse_settings(const ReplayOptions& options) {
  ReplaySettings settings;
  settings.wrong_hide_rate = parse_rate("--fpr", options.fpr);
  settings.candidates = static_cast<std::uint32_t>(parse_between("--candidates", options.candidates, 1'000'000));
  settings.users_per_request =
      static_cast<std::uint32_t>(parse_between("--users-per-request", options.users_per_request, 255));
  settings.page = static_cast<std::uint32_t>(parse_between("--page", options.page, 1'000'000));
  settings.requests = parse_count("--requests", options.requests);
  settings.seed = options.seed;
  settings.history = !options.no_history;
  if (!options.verify.empty()) settings.verify = parse_count("--verify", options.verify);
  if (options.window.empty()) return settings;
  settings.window = parse_duration("--window", options.window);
  settings.slices = static_cast<std::uint32_t>(parse_between("--slices", options.slices, 366));
  return settings;
}

nlohmann::ordered_json as_json(const Distribution& bytes) {
  return {{"median", bytes.median}, {"p90", bytes.p90},   {"p99", bytes.p99},
          {"max", bytes.max},       {"mean", bytes.mean}, {"total", bytes.total}};
}

nlohmann::ordered_json as_json(const ReplayFigures& figures, const ReplaySettings& settings, const EventLog& log) {
  nlohmann::ordered_json json{
      {"users", figures.users},
      {"items", figures.items},
      {"events", figures.events},
      {"skipped_lines", log.skipped_lines},
      {"first_time", as_time(log.first_time)},
      {"last_time", as_time(log.last_time)},
      {"requests", figures.requests},
      {"users_per_request", settings.users_per_request},
      {"false_negatives", figures.false_negatives},
      {"seen_candidates", figures.seen_offered},
      {"wrong_hide_rate", figures.wrong_hide_rate()},
      {"wrong_hide_budget", settings.wrong_hide_rate},
      {"fresh_candidates", figures.fresh_offered},
      {"wrongly_hidden", figures.fresh_hidden},
      {"bytes_per_user", as_json(figures.bytes)},
      {"exact_bytes_per_user", as_json(figures.exact_bytes)},
      {"bare_id_bytes_per_user", as_json(figures.bare_bytes)},
      {"store_bytes", figures.store_bytes},
      {"weighings", figures.weighings},
      {"active_users", figures.active_users},
      {"live_items", figures.live_items},
      {"checks", figures.checks},
      {"checks_per_second", figures.checks_per_second},
      {"underfilled_pages", figures.underfilled_pages},
      {"short_pools", figures.short_pools},
      {"unknown_users", figures.unknown_users},
      {"growths", figures.growths},
      {"growths_over_budget", figures.over_budget},
  };
  if (settings.verify > 0) {
    json["verify_lookups"] = figures.verify_lookups;
    json["verified"] = figures.verified;
    json["verify_missed"] = figures.verify_missed;
  }
  if (settings.window.count() > 0) {
    json["window_seconds"] = settings.window.count();
    json["slices"] = settings.slices;
    json["repeats_within_window"] = figures.false_negatives;
    json["repeats_after_window"] = figures.repeats_after_window;
  }
  return json;
}

std::string as_text(const Distribution& bytes) {
  const auto text = [](std::uint64_t value) { return as_bytes(static_cast<double>(value)); };
  return "median " + text(bytes.median) + ", p90 " + text(bytes.p90) + ", p99 " + text(bytes.p99) + ", mean " +
         as_bytes(bytes.mean) + ", total " + text(bytes.total);
}

Report as_report(const ReplayFigures& figures, const ReplaySettings& settings, const EventLog& log) {
  Report report;
  report.heading("Log");
  report.row("users", with_commas(figures.users));
  report.row("items", with_commas(figures.items));
  report.row("events", with_commas(figures.events));
  report.row("times", time_span(log));
  if (settings.window.count() > 0) {
    report.heading("Bytes an active user (" + with_commas(figures.active_users) + " with " +
                   with_commas(figures.live_items) + " live items on average, weighed " +
                   std::to_string(figures.weighings) + (figures.weighings == 1 ? " time)" : " times)"));
  } else {
    report.heading("Bytes a user");
  }
  report.row("filter", as_text(figures.bytes));
  report.row("exact set", as_text(figures.exact_bytes));
  report.row("bare ids", as_text(figures.bare_bytes));
  report.row("the whole store", as_bytes(static_cast<double>(figures.store_bytes)));
  report.row("growths", with_commas(figures.growths) +
                            (figures.over_budget > 0 ? ", " + with_commas(figures.over_budget) + " over budget" : ""));
  report.heading("Answers (" + with_commas(figures.requests) + " requests, " +
                 std::to_string(settings.users_per_request) + (settings.users_per_request == 1 ? " user" : " users") +
                 ", " + with_commas(settings.candidates) + " candidates each)");
  report.row("false negatives",
             with_commas(figures.false_negatives) + " of " + with_commas(figures.seen_offered) + " seen candidates");
  report.row("wrong-hide rate", as_percent(figures.wrong_hide_rate()) + " (" + with_commas(figures.fresh_hidden) +
                                    " of " + with_commas(figures.fresh_offered) + " fresh candidates), budget " +
                                    as_percent(settings.wrong_hide_rate));
  if (settings.window.count() > 0) {
    report.row("repeats within " + as_duration(settings.window), with_commas(figures.false_negatives));
    report.row("repeats after it", with_commas(figures.repeats_after_window) + " (allowed)");
  }
  report.row("underfilled pages",
             with_commas(figures.underfilled_pages) + " (an exact set shows " + std::to_string(settings.page) +
                 ", or all that are fresh); pools with fewer fresh ones: " + with_commas(figures.short_pools));
  if (settings.verify > 0) {
    report.row("with verify", with_commas(figures.verified) + " fresh candidates won back by " +
                                  with_commas(figures.verify_lookups) + " look-ups, " +
                                  with_commas(figures.verify_missed) + " still missing from pages");
  }
  if (figures.unknown_users > 0) report.row("unknown users", with_commas(figures.unknown_users));
  report.row("checks a second", as_short(figures.checks_per_second));
  return report;
}

void replay(const ReplayOptions& options) {
  const ReplaySettings settings = parse_settings(options);
  EventLog log = read_events(options.events, options.log);
  report_doubts(log);
  const ReplayFigures figures = run_replay(log, settings);
  if (options.json) {
    std::cout << as_json(figures, settings, log).dump(2) << '\n';
  } else {
    std::cout << as_report(figures, settings, log);
  }
}

}  // namespace

void add_replay(CLI::App& app) {
  CLI::App* command = app.add_subcommand("replay", "Replay an event log through the filters, beside exact sets");
  const auto options = std::make_shared<ReplayOptions>();
  const auto add = [&](const char* name, std::string& value, const char* type, const char* text) {
    return command->add_option(name, value, text)->type_name(type);
  };
  add("events", options->events, "EVENTS", "The log: TSV or CSV of user, item, time; '-' for standard input")
      ->required();
  add("--fpr", options->fpr, "RATE", "Rate at which a fresh candidate may be hidden, end to end: 0.01 or 1%")
      ->capture_default_str();
  add("--candidates", options->candidates, "N", "Candidates a request")->capture_default_str();
  add("--users-per-request", options->users_per_request, "N", "Users a candidate must be new to")
      ->capture_default_str();
  add("--page", options->page, "N", "Unseen candidates that fill a page")->capture_default_str();
  add("--requests", options->requests, "N", "Requests at most, spread evenly over the log")->capture_default_str();
  auto* window = add("--window", options->window, "TIME", "Forget after this long: 30d, 12h (default: never)");
  add("--slices", options->slices, "N", "Filters the window is cut into")->capture_default_str()->needs(window);
  command->add_option("--seed", options->seed, "Draws the requests; the same seed draws the same")
      ->type_name("N")
      ->capture_default_str();
  auto* no_history =
      command->add_flag("--no-history", options->no_history, "Grow filters without re-inserting from a history");
  add("--verify", options->verify, "N", "Ask each request again for a page, with N look-ups to fill it")
      ->excludes(no_history)
      ->excludes(window);
  add_log_options(*command, options->log);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Events are replayed in the order of time. Behind each one a request is drawn: its user and others\n"
      "who are active ask for candidates, 3 in 4 by popularity, 1 in 4 something they have seen. An exact\n"
      "set is the referee: a seen candidate that is shown is a false negative, a fresh one that is not is\n"
      "wrongly hidden. It is weighed as a std::unordered_set of 8-byte ids; checks a second are the\n"
      "library's calls alone.\n"
      "With a window, users with something in it are weighed at moments spread over the log.\n\n"
      "Examples:\n"
      "  seenby replay events.tsv\n"
      "  seenby replay events.tsv --window 30d --slices 6 --json\n"
      "  seenby generate --events 1M --users 160K | seenby replay -");
  command->callback([options] { replay(*options); });
}

}  // namespace seenby::tool
