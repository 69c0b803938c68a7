#pragma once
// SPDX-License-Identifier: MIT
// MetricPage: named figures with labels, and their text as Prometheus reads it (exposition format 0.0.4).

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/config.hpp"
#include "seenby/latency_histogram.hpp"

namespace seenby {

/// Names and values that tell a sample from others of its family: {{"filter", "feed"}}.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// What Prometheus makes of a family's samples.
enum class MetricType : std::uint8_t {
  counter,    ///< a sum that only grows
  gauge,      ///< a figure that rises and falls
  histogram,  ///< durations in buckets
};

/// One figure of a family.
struct MetricSample {
  MetricLabels labels{};                   ///< which no other sample of the family has
  double value = 0;                        ///< of a counter or a gauge
  LatencyHistogram::Snapshot latencies{};  ///< of a histogram
};

/// All samples of one name.
struct MetricFamily {
  std::string name;                     ///< as scraped
  std::string help;                     ///< one line on what it is
  MetricType type = MetricType::gauge;  ///< of all its samples
  std::vector<MetricSample> samples{};  ///< in the order in which they were added
};

/// One reading of everything that a process counts. Names are `seenby_<part>_<what>_<unit>`, where the unit of a time
/// is `seconds`, that of a share `ratio`, and a count's is the thing counted; a counter's name ends in `_total`. What
/// the facade counts has no part word: `seenby_requests_total`.
///
/// A value: not for concurrent writers. Members that add throw std::invalid_argument for a name or label that
/// Prometheus refuses, a name of two types, and labels that a family has already.
class MetricPage {
 public:
  /// A sum that only grows.
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void counter(std::string_view name, std::string_view help, Number value, const MetricLabels& labels = {}) {
    if (!name.ends_with("_total")) refuse("a counter's name that ends in _total", name);
    add(name, help, MetricType::counter, {labels, static_cast<double>(value), {}});
  }
  /// A figure that rises and falls.
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void gauge(std::string_view name, std::string_view help, Number value, const MetricLabels& labels = {}) {
    add(name, help, MetricType::gauge, {labels, static_cast<double>(value), {}});
  }
  /// Durations; the name ends in `_seconds`.
  void histogram(std::string_view name, std::string_view help, const LatencyHistogram::Snapshot& latencies,
                 const MetricLabels& labels = {}) {
    if (!name.ends_with("_seconds")) refuse("a histogram's name that ends in _seconds", name);
    add(name, help, MetricType::histogram, {labels, 0, latencies});
  }

  /// In the order in which their first samples were added.
  [[nodiscard]] const std::vector<MetricFamily>& families() const& noexcept { return families_; }
  const std::vector<MetricFamily>& families() const&& = delete;  ///< of a page that is gone by then

  /// For an answer of `Content-Type: text/plain; version=0.0.4`.
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const MetricFamily& family : families_) {
      out.append("# HELP ").append(family.name).append(" ").append(escaped(family.help, false)).append("\n");
      out.append("# TYPE ").append(family.name).append(" ").append(name_of(family.type)).append("\n");
      for (const MetricSample& sample : family.samples) write(out, family, sample);
    }
    return out;
  }

 private:
  static constexpr std::string_view name_of(MetricType type) noexcept {
    constexpr std::string_view names[] = {"counter", "gauge", "histogram"};
    return names[static_cast<std::size_t>(type)];
  }
  [[noreturn]] static void refuse(std::string_view expected, std::string_view got) {
    std::string message = "seenby: expected ";
    throw std::invalid_argument(message.append(expected).append(", got \"").append(got).append("\""));
  }
  static bool is_name(std::string_view name) noexcept {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && letter(name.front()) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  }

  void add(std::string_view name, std::string_view help, MetricType type, MetricSample sample) {
    for (const auto& label : sample.labels) {
      if (!is_name(label.first) || label.first == "le") refuse("a label of letters, digits and '_'", label.first);
    }
    auto family =
        std::find_if(families_.begin(), families_.end(), [&](const MetricFamily& each) { return each.name == name; });
    if (family == families_.end()) {
      if (!is_name(name)) refuse("a metric's name of letters, digits and '_'", name);
      family = families_.insert(family, {std::string(name), std::string(help), type, {}});
    }
    if (family->type != type) refuse("one type for each metric's name", name);
    for (const MetricSample& known : family->samples) {
      if (known.labels == sample.labels) refuse("labels of its own for each sample of a metric", name);
    }
    family->samples.push_back(std::move(sample));
  }

  static std::string escaped(std::string_view text, bool quotes) {
    std::string out;
    for (const char c : text) {
      if (c == '\\' || (quotes && c == '"')) out.push_back('\\');
      if (c == '\n') {
        out.append("\\n");
      } else {
        out.push_back(c);
      }
    }
    return out;
  }
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
    char digits[32];
    const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
    const auto end = whole ? std::to_chars(digits, digits + sizeof digits, static_cast<std::int64_t>(value)).ptr
                           : std::to_chars(digits, digits + sizeof digits, value).ptr;
    return {digits, end};
  }
  static void line(std::string& out, std::string_view name, std::string_view suffix, const MetricLabels& labels,
                   std::string_view bound, double value) {
    out.append(name).append(suffix);
    char before = '{';
    const auto label = [&](std::string_view key, std::string_view text) {
      out.push_back(before);
      out.append(key).append("=\"").append(escaped(text, true)).append("\"");
      before = ',';
    };
    for (const auto& each : labels) label(each.first, each.second);
    if (!bound.empty()) label("le", bound);
    if (before == ',') out.push_back('}');
    out.append(" ").append(number(value)).append("\n");
  }
  static void write(std::string& out, const MetricFamily& family, const MetricSample& sample) {
    if (family.type != MetricType::histogram) return line(out, family.name, "", sample.labels, "", sample.value);
    // The buckets' own sum is the count, so that the two agree while calls are being counted.
    std::uint64_t passed = 0;
    for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i) {
      passed += sample.latencies.buckets[i];
      const bool last = i + 1 == LatencyHistogram::bucket_count;
      const std::chrono::duration<double> bound = LatencyHistogram::upper_bound(i);
      line(out, family.name, "_bucket", sample.labels, last ? "+Inf" : number(bound.count()),
           static_cast<double>(passed));
    }
    const std::chrono::duration<double> sum = sample.latencies.sum;
    line(out, family.name, "_sum", sample.labels, "", sum.count());
    line(out, family.name, "_count", sample.labels, "", static_cast<double>(passed));
  }

  std::vector<MetricFamily> families_;
};

}  // namespace seenby
