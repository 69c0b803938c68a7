// SPDX-License-Identifier: MIT
// A plan, as JSON and as text.

#include <cstdint>
#include <string>

#include "plan/plan.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

std::string items_text(std::uint64_t items) { return with_commas(items) + (items == 1 ? " item" : " items"); }
std::string times(double ratio) {
  return as_short(ratio).append(ratio < 1 ? " times as much (an exact set is smaller)" : " times as much");
}

void add_filter(Report& report, const Plan& plan) {
  const Design& design = plan.design;
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
}

void add_memory(Report& report, const Plan& plan) {
  const Design& design = plan.design;
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
}

void add_store(Report& report, const Plan& plan) {
  const Design& design = plan.design;
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
}

void add_rates(Report& report, const Plan& plan) {
  const Design& design = plan.design;
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
}

}  // namespace

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

Report as_report(const Plan& plan) {
  Report report;
  if (!plan.population.times.empty()) {
    report.heading("Log");
    report.row("times", plan.population.times);
  }
  add_filter(report, plan);
  add_memory(report, plan);
  add_store(report, plan);
  if (plan.cluster) add_cluster(report, *plan.cluster);
  add_rates(report, plan);
  if (!plan.population.told) {
    report.heading(
        "Every user is taken to be alike; --from EVENTS, or --median-items and --p99-items, say how they differ.");
  }
  return report;
}

}  // namespace seenby::tool
