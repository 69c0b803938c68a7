// SPDX-License-Identifier: MIT
// Metrics: every counter is on the page, under one naming scheme, as text that Prometheus reads.

#include "seenby/metrics.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "seenby/gates/existence_gate.hpp"
#include "seenby/ingest/ingest_metrics.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::LatencyHistogram;
using seenby::MetricPage;
using seenby::MetricType;
using Store = seenby::MemoryStore<std::uint64_t>;

bool has_line(const std::string& text, const std::string& line) {
  return text.find(std::string("\n").append(line).append("\n")) != std::string::npos;
}

/// Every field a number of its own; counters are structs of 64-bit integers and nothing else.
template <class Counters>
Counters numbered() {
  std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)> fields{};
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i] = 1'000'000'007 * (i + 1);
  return std::bit_cast<Counters>(fields);
}

}  // namespace

TEMPLATE_TEST_CASE("A page has every field of what a part counts, once", "[metrics]", seenby::SeenCounters,
                   seenby::StoreCounters, seenby::GateCounters, seenby::ReadCounters, seenby::DuplicateCounters,
                   seenby::IngestCounters) {
  MetricPage page;
  add_metrics(page, numbered<TestType>(), {});
  std::multiset<double> found;
  for (const auto& family : page.families()) found.insert(family.samples.at(0).value);
  CHECK(found.size() == sizeof(TestType) / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < sizeof(TestType) / sizeof(std::uint64_t); ++i) {
    const auto value = static_cast<double>(1'000'000'007 * (i + 1));
    CAPTURE(i, value);
    CHECK(found.count(value) + found.count(value * 1e-9) == 1);  // nanoseconds are told in seconds
  }
}

TEST_CASE("A page's text is Prometheus's format to the byte", "[metrics]") {
  LatencyHistogram latencies;
  latencies.add(1us);
  latencies.add(3us);
  latencies.add(20s);
  MetricPage page;
  page.counter("seenby_a_total", "A sum.\nOf \"two\" \\ lines.", 3, {{"filter", "a\"b\\c\nd"}});
  page.gauge("seenby_b_ratio", "A share.", 0.25);
  page.counter("seenby_a_total", "A sum.", std::uint64_t{1} << 40, {{"filter", "second"}, {"shard", "1"}});
  page.gauge("seenby_c_seconds", "An age.", std::numeric_limits<double>::infinity());
  page.histogram("seenby_d_seconds", "Times.", latencies.snapshot(), {{"store", "s"}});
  const std::string text = page.text();
  const std::string begin =
      "# HELP seenby_a_total A sum.\\nOf \"two\" \\\\ lines.\n"
      "# TYPE seenby_a_total counter\n"
      "seenby_a_total{filter=\"a\\\"b\\\\c\\nd\"} 3\n"
      "seenby_a_total{filter=\"second\",shard=\"1\"} 1099511627776\n"
      "# HELP seenby_b_ratio A share.\n"
      "# TYPE seenby_b_ratio gauge\n"
      "seenby_b_ratio 0.25\n"
      "# HELP seenby_c_seconds An age.\n"
      "# TYPE seenby_c_seconds gauge\n"
      "seenby_c_seconds +Inf\n"
      "# HELP seenby_d_seconds Times.\n"
      "# TYPE seenby_d_seconds histogram\n"
      "seenby_d_seconds_bucket{store=\"s\",le=\"1e-06\"} 1\n"
      "seenby_d_seconds_bucket{store=\"s\",le=\"2e-06\"} 1\n"
      "seenby_d_seconds_bucket{store=\"s\",le=\"4e-06\"} 2\n";
  CHECK(text.substr(0, begin.size()) == begin);
  CHECK(has_line(text, "seenby_d_seconds_bucket{store=\"s\",le=\"8.388608\"} 2"));
  CHECK(has_line(text, "seenby_d_seconds_bucket{store=\"s\",le=\"+Inf\"} 3"));
  CHECK(has_line(text, "seenby_d_seconds_sum{store=\"s\"} 20.000004"));
  CHECK(text.ends_with("seenby_d_seconds_count{store=\"s\"} 3\n"));
}

TEST_CASE("A page refuses what Prometheus would", "[metrics]") {
  MetricPage page;
  page.counter("seenby_a_total", "", 1);
  CHECK_THROWS_AS(page.counter("seenby_a_total", "", 2), std::invalid_argument);  // the same labels
  CHECK_THROWS_AS(page.gauge("seenby_a_total", "", 2, {{"a", "b"}}), std::invalid_argument);
  CHECK_THROWS_AS(page.counter("seenby_count", "", 1), std::invalid_argument);
  CHECK_THROWS_AS(page.histogram("seenby_time", "", {}), std::invalid_argument);
  CHECK_THROWS_AS(page.gauge("2nd", "", 1), std::invalid_argument);
  CHECK_THROWS_AS(page.gauge("", "", 1), std::invalid_argument);
  CHECK_THROWS_AS(page.gauge("seenby_b", "", 1, {{"not-a-label", ""}}), std::invalid_argument);
  CHECK_THROWS_AS(page.gauge("seenby_b", "", 1, {{"le", ""}}), std::invalid_argument);
  CHECK(page.families().size() == 1);  // nothing of what was refused is left behind
  CHECK_NOTHROW(page.counter("seenby_a_total", "", 2, {{"a", ""}}));
}

TEST_CASE("Two filters and a gate are read whenever they are asked, each under its labels", "[metrics]") {
  seenby::SeenFilter feed{Store{{.wrong_hide_rate = 0.01}}};
  seenby::SeenFilter quiz{seenby::TimedStore{Store{{.wrong_hide_rate = 0.01, .users_per_request = 2}}}};
  seenby::ExistenceGate<std::uint64_t> gate{{}};
  seenby::Metrics metrics;
  metrics.watch(feed, {{"filter", "feed"}});
  metrics.watch(quiz, {{"filter", "quiz"}});
  metrics.watch(gate, {{"gate", "posts"}});
  metrics.add([](MetricPage& page) { page.gauge("shop_posts", "Of the program's own.", 7); });
  feed.observe();
  const std::vector<std::uint64_t> items{1, 2, 3};
  feed.record(1, 2).or_throw();
  (void)feed.select_unseen(items, {1});
  (void)quiz.select_unseen(items, {1, 2});
  (void)quiz.select_unseen(items, {1, 2});
  const std::string text = metrics.text();
  CHECK(has_line(text, "seenby_requests_total{filter=\"feed\"} 1"));
  CHECK(has_line(text, "seenby_requests_total{filter=\"quiz\"} 2"));
  CHECK(has_line(text, "seenby_candidates_removed_total{filter=\"feed\"} 1"));
  CHECK(has_line(text, "seenby_request_seconds_count{filter=\"feed\"} 1"));
  CHECK(has_line(text, "seenby_record_seconds_count{filter=\"feed\"} 1"));
  CHECK(text.find("seenby_request_seconds_count{filter=\"quiz\"}") == std::string::npos);  // not observed
  CHECK(has_line(text, "seenby_store_check_seconds_count{filter=\"quiz\"} 2"));
  CHECK(has_line(text, "seenby_store_users{filter=\"feed\"} 1"));
  CHECK(has_line(text, "seenby_gate_state{gate=\"posts\",state=\"empty\"} 1"));
  CHECK(has_line(text, "seenby_gate_state{gate=\"posts\",state=\"ready\"} 0"));
  CHECK(has_line(text, "shop_posts 7"));
  // One family a name, whatever the order of the parts.
  std::set<std::string> names;
  const MetricPage page = metrics.page();
  for (const auto& family : page.families()) CHECK(names.insert(family.name).second);
  metrics.watch(feed, {{"filter", "feed"}});
  CHECK_THROWS_AS(metrics.page(), std::invalid_argument);
}
