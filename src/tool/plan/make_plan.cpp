// SPDX-License-Identifier: MIT
// The figures of a design, from options or an event log.

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "input_error.hpp"
#include "plan/plan.hpp"
#include "replay_run.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

constexpr std::uint64_t id_bytes = 8;  // what an exact set needs at the very least for an item

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
    if (design.window.count() == 0) return redis_user(design.filter_items(items), design.filter_fpr());
    // A window, and half of the slice that is leaving it.
    const std::uint64_t held = items + design.filter_items(items) / 2;
    return windowed_redis_user(held, sizing::split_budget(design.fpr, design.users_per_request));
  };
  if (plan.population.counts.empty()) return one(design.items);
  std::map<std::uint64_t, std::uint64_t> users;  // by items
  for (const std::uint64_t count : plan.population.counts) ++users[count];
  const auto all = static_cast<double>(plan.population.counts.size());
  RedisUser mean{.expires = design.window.count() > 0};
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

}  // namespace

double hide_rate(const Design& design, const FilterShape& shape, std::uint64_t seen) {
  const double each = sizing::expected_fpr(shape, design.filter_items(seen));
  if (each <= 0 || each >= 1) return each <= 0 ? 0 : 1;
  return design.filters_per_request() == 1 ? each : sizing::combined_rate(each, design.filters_per_request());
}

std::uint64_t times_users(double bytes, std::uint64_t users) {
  const double total = bytes * static_cast<double>(users);
  if (total >= 9.2e18) {
    throw InputError("--users: expected a total below 2^63 bytes, got " + std::to_string(users) + " users of " +
                     as_bytes(bytes));
  }
  return static_cast<std::uint64_t>(std::llround(total));
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

}  // namespace seenby::tool
