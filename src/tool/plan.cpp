// SPDX-License-Identifier: MIT
// seenby plan: prices a design before it is built.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "event_log.hpp"
#include "input_error.hpp"
#include "replay_run.hpp"
#include "report.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/sizing.hpp"
#include "store_price.hpp"
#include "traffic.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

constexpr std::uint64_t id_bytes = 8;  // what an exact set needs at the very least for an item

struct PlanOptions {
  std::string users;
  std::string items;
  std::string fpr = "0.01";
  std::string window;
  std::string slices = "1";
  std::string users_per_request = "1";
  std::string layout = "classic";
  std::string store = "memory";
  std::string requests_per_second;
  std::string replicas = "1";
  std::string node_memory = "16G";
  std::string hashes;
  std::string bits;
  std::string median_items;
  std::string p99_items;
  std::string from;
  LogOptions log;
  bool json = false;
};

/// A design: what every user's filters look like, and what one request asks.
struct Design {
  std::uint64_t users = 1;
  std::uint64_t items = 0;  ///< a user, within the window
  double fpr = 0.01;        ///< end to end
  std::chrono::seconds window{0};
  std::uint64_t slices = 1;
  std::uint64_t users_per_request = 1;
  LayoutKind layout = LayoutKind::classic;
  FilterShape fixed{};  ///< k and m as the caller gives them; no bits: sized by the items

  /// A window of S slices needs one filter more: the oldest is leaving while the newest fills.
  [[nodiscard]] std::uint64_t filters_per_user() const { return window.count() > 0 ? slices + 1 : 1; }
  [[nodiscard]] std::uint64_t filters_per_request() const { return filters_per_user() * users_per_request; }
  [[nodiscard]] double filter_fpr() const {
    return filters_per_request() == 1 ? fpr : sizing::split_budget(fpr, filters_per_request());
  }
  /// What one filter holds when its user has seen `seen` items.
  [[nodiscard]] std::uint64_t filter_items(std::uint64_t seen) const { return seen / slices + (seen % slices != 0); }
  [[nodiscard]] FilterShape shape_for_user(std::uint64_t seen) const {
    if (fixed.bits > 0) return fixed;
    return sizing::shape_for(layout, filter_items(seen), filter_fpr());
  }
};

/// How many items the users have seen, where a log or the options say so.
struct Population {
  std::uint64_t median = 0;
  std::uint64_t p99 = 0;
  double mean = 0;
  bool told = true;  ///< false: every user is taken to be as planned
  std::uint64_t p90 = 0;
  std::uint64_t max = 0;
  std::vector<std::uint64_t> counts;  ///< from a log: one a user
  std::uint64_t skipped_lines = 0;
  std::string times;  ///< the first and the last of a log
};

/// The rate at which a fresh candidate is hidden when every user of the request has seen `seen` items.
double hide_rate(const Design& design, const FilterShape& shape, std::uint64_t seen) {
  const double each = sizing::expected_fpr(shape, design.filter_items(seen));
  if (each <= 0 || each >= 1) return each <= 0 ? 0 : 1;
  return design.filters_per_request() == 1 ? each : sizing::combined_rate(each, design.filters_per_request());
}

/// The most different items each user saw within any stretch of `window` (in all when it is zero).
std::vector<std::uint64_t> busiest_windows(EventLog& log, std::chrono::seconds window) {
  std::sort(log.events.begin(), log.events.end(),
            [](const Event& a, const Event& b) { return std::pair(a.user, a.time) < std::pair(b.user, b.time); });
  std::vector<std::uint64_t> most(log.users.size());
  std::unordered_map<std::uint32_t, std::uint64_t> inside;  // item: its events within the window
  std::size_t oldest = 0;
  for (const Event& event : log.events) {
    if (log.events[oldest].user != event.user) {
      inside.clear();
      oldest = static_cast<std::size_t>(&event - log.events.data());
    }
    ++inside[event.item];
    for (; window.count() > 0 && log.events[oldest].time <= event.time - window.count(); ++oldest) {
      const auto left = inside.find(log.events[oldest].item);
      if (--left->second == 0) inside.erase(left);
    }
    most[event.user] = std::max<std::uint64_t>(most[event.user], inside.size());
  }
  return most;
}

Population population_of(EventLog& log, const Design& design) {
  Population population;
  population.times = time_span(log);
  population.counts = busiest_windows(log, design.window);
  const Distribution items = distribution_of(population.counts);
  population.median = items.median;
  population.p90 = items.p90;
  population.p99 = items.p99;
  population.max = items.max;
  population.mean = items.mean;
  population.skipped_lines = log.skipped_lines;
  return population;
}

/// The store that a design asks for, as replay runs it.
ReplaySettings settings_of(const Design& design) {
  ReplaySettings settings;
  settings.wrong_hide_rate = design.fpr;
  settings.users_per_request = static_cast<std::uint32_t>(design.users_per_request);
  settings.window = design.window;
  settings.slices = static_cast<std::uint32_t>(design.slices);
  return settings;
}

/// k and m as given; m is rounded up to whole words, as a filter is.
FilterShape parse_shape(const PlanOptions& options) {
  if (options.hashes.empty() && options.bits.empty()) return {};
  if (options.hashes.empty() || options.bits.empty()) {
    throw InputError("plan: expected --hashes and --bits together, got one of them");
  }
  const std::uint64_t bits = parse_between("--bits", options.bits, max_filter_bits);
  return {.layout = LayoutKind::classic,
          .hash_count = static_cast<std::uint32_t>(parse_between("--hashes", options.hashes, max_hash_count)),
          .bits = (bits + 63) / 64 * 64};
}

Design parse_design(const PlanOptions& options) {
  Design design;
  design.fpr = parse_rate("--fpr", options.fpr);
  design.users_per_request = parse_between("--users-per-request", options.users_per_request, 255);
  if (!options.window.empty()) {
    design.window = parse_duration("--window", options.window);
    design.slices = parse_between("--slices", options.slices, 366);
  }
  design.fixed = parse_shape(options);
  design.layout = options.layout == "classic" ? LayoutKind::classic : LayoutKind::split_block;
  if (!options.users.empty()) design.users = parse_count("--users", options.users);
  if (!options.items.empty()) design.items = parse_count("--items", options.items);
  return design;
}

/// The mean bytes of a user whose filters fit his own history: what a store that grows filters spends.
double grown_bytes_per_user(const Design& design, const Population& population) {
  std::map<std::uint64_t, std::uint64_t> bytes;  // by items: few different counts, many users
  double total = 0;
  for (const std::uint64_t count : population.counts) {
    std::uint64_t& known = bytes[count];
    if (known == 0) known = design.shape_for_user(count).bytes() * design.filters_per_user();
    total += static_cast<double>(known);
  }
  return total / static_cast<double>(population.counts.size());
}

std::uint64_t times_users(double bytes, std::uint64_t users) {
  const double total = bytes * static_cast<double>(users);
  if (total >= 9.2e18) {
    throw InputError("--users: expected a total below 2^63 bytes, got " + std::to_string(users) + " users of " +
                     as_bytes(bytes));
  }
  return static_cast<std::uint64_t>(std::llround(total));
}

/// The figures of a design, ready to print either way.
struct Plan {
  Design design;
  Population population;
  FilterShape shape;
  std::uint64_t bits = 0;
  std::uint64_t bytes_per_user = 0;
  std::uint64_t total_bytes = 0;
  double exact_bytes_per_user = 0;
  std::uint64_t exact_total_bytes = 0;
  std::optional<double> grown_bytes;
  StorePrice store;
  std::optional<Cluster> cluster;    ///< for --store redis
  std::vector<std::uint64_t> table;  ///< for how many items a user the rates are listed
};

/// How many items to list rates for: the percentiles of a log's users, or the planned number and what surrounds it.
std::vector<std::uint64_t> items_to_list(const Plan& plan) {
  const Population& users = plan.population;
  const std::uint64_t items = plan.design.items;
  std::vector<std::uint64_t> list{users.median, users.p99, items, 2 * items, 10 * items};
  if (users.counts.empty()) {
    list.insert(list.end(), {std::max<std::uint64_t>(1, items / 4), std::max<std::uint64_t>(1, items / 2)});
  } else {
    list.insert(list.end(), {users.p90, users.max});
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

/// What RedisStore keeps for a user: the planned one, or the mean of a log's.
RedisUser redis_user_of(const Plan& plan) {
  const Design& design = plan.design;
  const auto one = [&](std::uint64_t items) {
    return redis_user(design.filter_items(items), design.filters_per_user(), design.filter_fpr());
  };
  if (plan.population.counts.empty()) return one(design.items);
  std::map<std::uint64_t, std::uint64_t> users;  // by items
  for (const std::uint64_t count : plan.population.counts) ++users[count];
  const auto all = static_cast<double>(plan.population.counts.size());
  RedisUser mean{.keys = design.filters_per_user()};
  for (const auto& [items, count] : users) {
    const RedisUser user = one(items);
    mean.value_bytes += user.value_bytes * static_cast<double>(count) / all;
    mean.allocated_bytes += user.allocated_bytes * static_cast<double>(count) / all;
  }
  return mean;
}

std::optional<Cluster> parse_cluster(const PlanOptions& options, const Plan& plan) {
  if (options.store != "redis") return std::nullopt;
  const auto& requests = options.requests_per_second;
  return cluster_for({.users = plan.store.active_users,
                      .user = redis_user_of(plan),
                      .filter_fpr = plan.design.filter_fpr(),
                      .requests_per_second =
                          requests.empty() ? 0 : static_cast<double>(parse_count("--requests-per-second", requests)),
                      .users_per_request = plan.design.users_per_request,
                      .replicas = parse_count("--replicas", options.replicas, 0),
                      .node_bytes = static_cast<double>(parse_count("--node-memory", options.node_memory))});
}

Plan make_plan(const PlanOptions& options) {
  Plan plan;
  plan.design = parse_design(options);
  Design& design = plan.design;
  Population& population = plan.population;
  if (!options.from.empty()) {
    EventLog log = read_events(options.from, options.log);
    report_doubts(log);
    population = population_of(log, design);
    plan.store = price_of_log(log, settings_of(design));
    if (options.users.empty()) design.users = population.counts.size();
    if (options.items.empty()) design.items = population.p99;
  } else {
    if (options.items.empty() && design.fixed.bits > 0)
      design.items = sizing::capacity_of(design.fixed, design.filter_fpr());
    if (design.items == 0) throw InputError("plan: expected --items N or --from EVENTS, got neither");
    population.median =
        options.median_items.empty() ? design.items : parse_count("--median-items", options.median_items);
    population.p99 = options.p99_items.empty() ? design.items : parse_count("--p99-items", options.p99_items);
    population.mean = static_cast<double>(design.items);
    population.told = !options.median_items.empty() || !options.p99_items.empty();
  }
  plan.bits = sizing::textbook_bits(design.filter_items(design.items), design.filter_fpr());
  plan.shape = design.shape_for_user(design.items);
  plan.table = items_to_list(plan);
  plan.bytes_per_user = plan.shape.bytes() * design.filters_per_user();
  plan.total_bytes = times_users(static_cast<double>(plan.bytes_per_user), design.users);
  plan.exact_bytes_per_user = population.mean * static_cast<double>(id_bytes);
  plan.exact_total_bytes = times_users(plan.exact_bytes_per_user, design.users);
  if (population.counts.empty()) {
    plan.store = price_of_items(design.items, settings_of(design));
    plan.store.active_users = static_cast<double>(design.users);
  } else {
    plan.grown_bytes = grown_bytes_per_user(design, population);
    if (!options.users.empty()) plan.store.active_users = static_cast<double>(design.users);
  }
  plan.cluster = parse_cluster(options, plan);
  return plan;
}

nlohmann::ordered_json as_json(const Plan& plan) {
  const Design& design = plan.design;
  const auto at = [&](std::uint64_t items) {
    return nlohmann::ordered_json{{"items", items}, {"false_positive_rate", hide_rate(design, plan.shape, items)}};
  };
  nlohmann::ordered_json json{
      {"users", design.users},
      {"items", design.items},
      {"fpr", design.fpr},
      {"users_per_request", design.users_per_request},
      {"window_seconds", design.window.count()},
      {"slices", design.slices},
      {"layout", to_string(design.layout)},
      {"bits", plan.bits},
      {"hash_count", plan.shape.hash_count},
      {"filter_bits", plan.shape.bits},
      {"filter_items", design.filter_items(design.items)},
      {"filter_fpr", design.filter_fpr()},
      {"filters_per_user", design.filters_per_user()},
      {"bytes_per_user", plan.bytes_per_user},
      {"header_bytes_per_user", header_bytes * design.filters_per_user()},
      {"total_bytes", plan.total_bytes},
      {"exact_bytes_per_user", plan.exact_bytes_per_user},
      {"exact_total_bytes", plan.exact_total_bytes},
      {"false_positive_rate", hide_rate(design, plan.shape, design.items)},
      {"median", at(plan.population.median)},
      {"p99", at(plan.population.p99)},
      {"exact_ratio", static_cast<double>(plan.exact_total_bytes) / static_cast<double>(plan.total_bytes)},
      {"memory_store",
       {{"users", plan.store.active_users},
        {"live_items_per_user", plan.store.live_items},
        {"bytes_per_user",
         {{"median", plan.store.bytes.median},
          {"p90", plan.store.bytes.p90},
          {"p99", plan.store.bytes.p99},
          {"mean", plan.store.bytes.mean}}},
        {"store_bytes_per_user", plan.store.store_bytes},
        {"exact_set_bytes_per_user", plan.store.exact_bytes},
        {"total_bytes", times_users(plan.store.bytes.mean, static_cast<std::uint64_t>(plan.store.active_users))}}},
  };
  if (plan.cluster) json["cluster"] = as_json(*plan.cluster);
  for (const std::uint64_t items : plan.table) json["rates"].push_back(at(items));
  if (plan.grown_bytes) {
    json["mean_items"] = plan.population.mean;
    json["grown_bytes_per_user"] = *plan.grown_bytes;
    json["grown_total_bytes"] = times_users(*plan.grown_bytes, design.users);
    json["skipped_lines"] = plan.population.skipped_lines;
  }
  return json;
}

std::string times(double ratio) {
  return as_short(ratio).append(ratio < 1 ? " times as much (an exact set is smaller)" : " times as much");
}

Report as_report(const Plan& plan) {
  const Design& design = plan.design;
  const auto items_text = [](std::uint64_t items) { return with_commas(items) + (items == 1 ? " item" : " items"); };
  Report report;
  if (!plan.population.times.empty()) {
    report.heading("Log");
    report.row("times", plan.population.times);
  }
  report.heading("Filter (" + std::string(design.layout == LayoutKind::classic ? "classic" : "split-block") +
                 " layout)");
  report.row("holds", items_text(design.filter_items(design.items)) + " at " + as_percent(design.filter_fpr()));
  report.row("bits by the formula", with_commas(plan.bits));
  report.row("bits allocated", with_commas(plan.shape.bits));
  report.row("hashes (k)", std::to_string(plan.shape.hash_count));
  if (design.window.count() > 0) {
    report.row("filters a user", std::to_string(design.filters_per_user()) + " (" + as_duration(design.window) +
                                     " in " + std::to_string(design.slices) + " slices, and the one that leaves)");
  }
  report.heading("Memory for " + with_commas(design.users) + (design.users == 1 ? " user" : " users"));
  report.row("a user", as_bytes(static_cast<double>(plan.bytes_per_user)) + " (and " +
                           std::to_string(header_bytes * design.filters_per_user()) + " B of header where stored)");
  report.row("all users", as_bytes(static_cast<double>(plan.total_bytes)));
  if (plan.grown_bytes) {
    report.row("all, each sized to its user", as_bytes(*plan.grown_bytes * static_cast<double>(design.users)) + " (" +
                                                  as_bytes(*plan.grown_bytes) + " a user on average)");
  }
  report.row(
      "exact ids of 8 bytes",
      as_bytes(plan.exact_bytes_per_user) + " a user, " + as_bytes(static_cast<double>(plan.exact_total_bytes)) +
          " in all: " + times(static_cast<double>(plan.exact_total_bytes) / static_cast<double>(plan.total_bytes)));
  const StorePrice& store = plan.store;
  report.heading("MemoryStore, filled one by one (" + as_short(store.live_items) + " items a user" +
                 (design.window.count() > 0 ? " within the window" : "") + ")");
  report.row("a user", "median " + as_bytes(static_cast<double>(store.bytes.median)) + ", p99 " +
                           as_bytes(static_cast<double>(store.bytes.p99)) + ", mean " + as_bytes(store.bytes.mean) +
                           ", index included");
  report.row(with_commas(static_cast<std::uint64_t>(store.active_users)) + " users",
             as_bytes(store.bytes.mean * store.active_users) +
                 (design.window.count() > 0 ? " (those with something in the window)" : ""));
  report.row("exact sets", as_bytes(store.exact_bytes) + " a user (std::unordered_" +
                               (design.window.count() > 0 ? "map of ids to times)" : "set of ids)"));
  if (plan.cluster) add_cluster(report, *plan.cluster);
  report.heading("Fresh candidates hidden by mistake (" + std::to_string(design.users_per_request) +
                 (design.users_per_request == 1 ? " user" : " users") + " a request, budget " + as_percent(design.fpr) +
                 ")");
  for (const std::uint64_t items : plan.table) {
    std::string who;
    const auto is = [&](std::uint64_t count, const char* name) {
      if (items == count) who.append(who.empty() ? "" : ", ").append(name);
    };
    is(plan.population.median, "median user");
    is(plan.population.p90, "p90 user");
    is(plan.population.p99, "p99 user");
    is(plan.population.max, "busiest user");
    is(design.items, "as planned");
    is(2 * design.items, "twice that");
    is(10 * design.items, "ten times");
    report.row(items_text(items), as_percent(hide_rate(design, plan.shape, items)) + (who.empty() ? "" : "  " + who));
  }
  if (!plan.population.told) {
    report.heading(
        "Every user is taken to be alike; --from EVENTS, or --median-items and --p99-items, say how they differ.");
  }
  return report;
}

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
  add("--items", options->items, "N", "Items a user has seen, or within the window (default: the log's p99 user)");
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
