// SPDX-License-Identifier: MIT
// seenby inspect over Redis: a user's filters.

#include "inspect.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input_error.hpp"
#include "redis/protocol/store_value.hpp"
#include "redis/protocol/table_value.hpp"
#include "report.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/filters/layout/classic.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

/// One filter and what its bits say.
struct FilterFigures {
  FilterHeader header;
  bool building = false;
  double fill = 0;
  double estimated_items = 0;
  double estimated_fpr = 0;
};

/// A table of fingerprints.
struct TableFigures {
  TableHeader header;
  bool building = false;
  std::uint64_t recent_items = 0;  ///< behind the table, not sorted in yet
  double estimated_fpr = 0;
};

/// One key: a filter's value, a table's, or a slice's of version 1.
struct KeyFigures {
  std::string key;
  std::int64_t slice = -1;  ///< -1 without a window
  std::size_t bytes = 0;
  std::int64_t memory_bytes = 0;  ///< MEMORY USAGE: with the key and the server's overhead
  std::int64_t ttl_milliseconds = -1;
  std::vector<FilterFigures> filters;
  std::optional<TableFigures> table{};
};

/// Reads keys and reports what is wrong with them by name.
class Inspector {
 public:
  explicit Inspector(const RedisTextStore& store) : store_(store), hash_{Xxh3Hash::kind, seed_check(store.hasher())} {}

  [[nodiscard]] std::vector<KeyFigures> inspect(const std::string& user) const {
    const std::string key = store_.key_of(user);
    const auto replies = ask(key);
    if (replies[0].is_nil()) {
      throw std::runtime_error(executor().name() + ": expected a filter of user " + in_quotes(user) + ", got no key " +
                               in_quotes(key));
    }
    const std::string& value = text_of(replies[0], key);
    if (store_.policy().window.count() == 0 || redis::is_table(value)) return {figures_of(key, -1, replies)};
    const auto slices = value_of(redis::SliceList::decode(value));
    std::vector<KeyFigures> figures;
    for (const std::int64_t slice : slices.slices()) {
      const std::string slice_key = store_.protocol().slice_key_of(user, slice);
      const auto slice_replies = ask(slice_key);
      if (slice_replies[0].is_nil()) continue;  // evicted, or past its time to live
      figures.push_back(figures_of(slice_key, slice, slice_replies));
    }
    return figures;
  }

 private:
  [[nodiscard]] redis::Executor& executor() const { return store_.protocol().executor(); }

  [[nodiscard]] std::vector<redis::Reply> ask(const std::string& key) const {
    const std::array<redis::Command, 3> batch{redis::Command::with_key(1, "GET", key),
                                              redis::Command::with_key(1, "PTTL", key),
                                              redis::Command::with_key(2, "MEMORY", "USAGE", key)};
    return value_of(executor().execute(batch, redis::Deadline::after(std::chrono::seconds(5))));
  }

  [[nodiscard]] const std::string& text_of(const redis::Reply& reply, const std::string& key) const {
    if (reply.string() != nullptr) return *reply.string();
    throw std::runtime_error(executor().name() + ": expected a filter at key " + in_quotes(key) + ", got " +
                             (reply.error() != nullptr ? reply.error()->message : std::string(reply.type_name())));
  }

  [[nodiscard]] KeyFigures figures_of(const std::string& key, std::int64_t slice,
                                      const std::vector<redis::Reply>& replies) const {
    const std::string& value = text_of(replies[0], key);
    KeyFigures figures{.key = key, .slice = slice, .bytes = value.size(), .filters = {}};
    if (replies[1].integer() != nullptr) figures.ttl_milliseconds = *replies[1].integer();
    if (replies[2].integer() != nullptr) figures.memory_bytes = *replies[2].integer();
    if (redis::is_table(value)) {
      figures.table = table_figures_of(value, key);
      return figures;
    }
    auto frames = redis::decode_frames(value, hash_);
    if (!frames) {
      throw std::runtime_error(executor().name() + ": key " + in_quotes(key) + ": " +
                               std::string(without_prefix(frames.error().message)));
    }
    for (const redis::Frame& frame : *frames) {
      // A copy of its own: the view asks for aligned bits.
      const auto bytes = std::as_bytes(std::span(value)).subspan(frame.bits_at, frame.end() - frame.bits_at);
      figures.filters.push_back(figures_of(frame, std::vector<std::byte>(bytes.begin(), bytes.end())));
    }
    return figures;
  }

  [[nodiscard]] TableFigures table_figures_of(std::string value, const std::string& key) const {
    TableFigures figures{.header = {}, .building = redis::is_marked(value)};
    if (const auto recent = redis::recent_place(value)) figures.recent_items = recent->used;
    if (figures.building) value[1] = static_cast<char>(value[1] & ~redis::building_mark);
    const auto table = decode_table(std::as_bytes(std::span(value)));
    const auto same = table ? check_hash(table->header, store_.hasher()) : Result<void>(table.error());
    if (!same) {
      throw std::runtime_error(executor().name() + ": key " + in_quotes(key) + ": " +
                               std::string(without_prefix(same.error().message)));
    }
    figures.header = table->header;
    figures.estimated_fpr = table->table.estimated_fpr();
    return figures;
  }

  [[nodiscard]] static FilterFigures figures_of(const redis::Frame& frame, const std::vector<std::byte>& bits) {
    FilterFigures figures{.header = frame.header, .building = frame.building};
    std::uint64_t set = 0;
    for (const std::byte byte : bits) set += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(byte)));
    const FilterShape& shape = frame.header.shape;
    figures.fill = static_cast<double>(set) / static_cast<double>(shape.bits);
    if (shape.layout == LayoutKind::split_block) {
      figures.estimated_items = SplitBlockLayout::estimate_items(bits.data(), shape);
      figures.estimated_fpr = SplitBlockLayout::estimate_fpr(bits.data(), shape);
    } else {
      figures.estimated_items = ClassicLayout::estimate_items(bits.data(), shape);
      figures.estimated_fpr = ClassicLayout::estimate_fpr(bits.data(), shape);
    }
    return figures;
  }

  const RedisTextStore& store_;
  redis::HashIdentity hash_;
};

std::string as_hex(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::string as_time_left(std::int64_t milliseconds) {
  constexpr double day = 86'400'000;
  std::array<char, 32> text{};
  const auto left = static_cast<double>(milliseconds);
  std::snprintf(text.data(), text.size(), left >= day ? "%.1f days" : "%.1f minutes",
                left / (left >= day ? day : 60'000));
  return text.data();
}

nlohmann::ordered_json as_json(const FilterFigures& filter) {
  const FilterHeader& header = filter.header;
  return {{"layout", to_string(header.shape.layout)},
          {"hash_count", header.shape.hash_count},
          {"bits", header.shape.bits},
          {"items", header.items},
          {"estimated_items", filter.estimated_items},
          {"fill_ratio", filter.fill},
          {"target_fpr", header.target_fpr},
          {"false_positive_rate", filter.estimated_fpr},
          {"generation", as_hex(header.generation)},
          {"sequence", header.sequence},
          {"building", filter.building}};
}

nlohmann::ordered_json as_json(const TableFigures& table) {
  const TableHeader& header = table.header;
  return {{"bucket_bits", header.shape.bucket_bits},
          {"lane_bits", 16 + 8 * header.shape.tail_bytes},
          {"items", header.count + table.recent_items},
          {"recent_items", table.recent_items},
          {"slice_seconds", header.slice_seconds},
          {"newest_slice", header.newest},
          {"target_fpr", header.share},
          {"false_positive_rate", table.estimated_fpr},
          {"generation", as_hex(header.generation)},
          {"sequence", header.sequence},
          {"building", table.building}};
}

nlohmann::ordered_json as_json(const std::string& user, const std::vector<KeyFigures>& keys) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KeyFigures& key : keys) {
    nlohmann::ordered_json json{{"key", key.key},
                                {"bytes", key.bytes},
                                {"memory_bytes", key.memory_bytes},
                                {"ttl_milliseconds", key.ttl_milliseconds}};
    if (key.slice >= 0) json["slice"] = key.slice;
    if (key.table) json["table"] = as_json(*key.table);
    json["filters"] = nlohmann::ordered_json::array();
    for (const FilterFigures& filter : key.filters) json["filters"].push_back(as_json(filter));
    list.push_back(std::move(json));
  }
  return {{"user", user}, {"keys", std::move(list)}};
}

void add_table(Report& report, const TableFigures& table) {
  const TableHeader& header = table.header;
  report.row("table", with_commas(std::uint64_t{1} << header.shape.bucket_bits) + " buckets, lanes of " +
                          std::to_string(16 + 8 * header.shape.tail_bytes) + " bits");
  report.row("items", with_commas(header.count + table.recent_items) + ", " + with_commas(table.recent_items) +
                          " of them recent");
  if (header.shape.sliced) {
    report.row("slices", "of " + with_commas(header.slice_seconds) + " s, the newest " + std::to_string(header.newest));
  }
  report.row("false positives", as_percent(table.estimated_fpr) + ", budget " + as_percent(header.share));
  report.row("generation", as_hex(header.generation) + ", sequence " + std::to_string(header.sequence));
  if (table.building) report.row("state", "being built from the history");
}

Report as_report(const std::vector<KeyFigures>& keys) {
  Report report;
  for (const KeyFigures& key : keys) {
    report.heading("Key " + in_quotes(key.key));
    report.row("bytes", with_commas(key.bytes) + " (" + with_commas(static_cast<std::uint64_t>(key.memory_bytes)) +
                            " with the server's overhead)");
    report.row("time to live", key.ttl_milliseconds < 0 ? "none" : as_time_left(key.ttl_milliseconds));
    if (key.table) add_table(report, *key.table);
    for (std::size_t i = 0; i < key.filters.size(); ++i) {
      const FilterFigures& filter = key.filters[i];
      const FilterHeader& header = filter.header;
      if (key.filters.size() > 1)
        report.row("filter", std::to_string(i + 1) + " of " + std::to_string(key.filters.size()));
      report.row("layout", std::string(to_string(header.shape.layout)) +
                               ", k = " + std::to_string(header.shape.hash_count) + ", " +
                               with_commas(header.shape.bits) + " bits");
      report.row("items", with_commas(header.items) + " added, about " +
                              with_commas(static_cast<std::uint64_t>(std::llround(filter.estimated_items))) +
                              " different");
      report.row("fill", as_percent(filter.fill));
      report.row("false positives", as_percent(filter.estimated_fpr) + ", budget " + as_percent(header.target_fpr));
      report.row("generation", as_hex(header.generation) + ", sequence " + std::to_string(header.sequence));
      if (filter.building) report.row("state", "being built from the history");
    }
  }
  return report;
}

}  // namespace

void inspect_redis(const InspectOptions& options) {
  const RedisTextStore store = open_redis(options.store, policy_of(options.store));
  const auto keys = Inspector(store).inspect(options.user);
  if (options.json) {
    std::cout << as_json(options.user, keys).dump(2) << '\n';
  } else {
    std::cout << as_report(keys);
  }
}

}  // namespace seenby::tool
