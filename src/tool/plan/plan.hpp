#pragma once
// SPDX-License-Identifier: MIT
// What `seenby plan` computes from its options, and prints.

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "event_log.hpp"
#include "report.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/sizing.hpp"
#include "store_price.hpp"
#include "traffic.hpp"

namespace seenby::tool {

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

/// Throws InputError.
[[nodiscard]] Plan make_plan(const PlanOptions& options);
/// The rate at which a fresh candidate is hidden when every user of the request has seen `seen` items.
[[nodiscard]] double hide_rate(const Design& design, const FilterShape& shape, std::uint64_t seen);
/// Throws InputError for 2^63 and more.
[[nodiscard]] std::uint64_t times_users(double bytes, std::uint64_t users);

[[nodiscard]] nlohmann::ordered_json as_json(const Plan& plan);
[[nodiscard]] Report as_report(const Plan& plan);

}  // namespace seenby::tool
