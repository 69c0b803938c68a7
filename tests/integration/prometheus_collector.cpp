// SPDX-License-Identifier: MIT
// Metrics through prometheus-cpp: its own serializer writes what MetricPage::text writes.

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "seenby/prometheus/collector.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace {

using namespace std::chrono_literals;
using Store = seenby::MemoryStore<std::uint64_t>;

/// A sample's name and labels with its value; numbers compare as numbers ("1e-06", "1.0000000000000001e-06").
std::map<std::string, double> samples_of(const std::string& text) {
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::string name = line.substr(0, line.rfind(' '));
    if (const auto bound = name.find("le=\""); bound != std::string::npos) {
      name = name.substr(0, bound).append(std::to_string(std::stod(name.substr(bound + 4))));
    }
    CHECK(samples.emplace(name, std::stod(line.substr(line.rfind(' ')))).second);
  }
  return samples;
}

}  // namespace

TEST_CASE("prometheus-cpp writes the samples that the page's own text has", "[prometheus]") {
  seenby::SeenFilter feed{seenby::TimedStore{Store{{.wrong_hide_rate = 0.01}}}};
  seenby::SeenFilter quiz{Store{{.wrong_hide_rate = 0.01}}};
  feed.observe();
  const std::vector<std::uint64_t> items{1, 2, 3};
  feed.record_all(1, items).or_throw();
  (void)feed.select_unseen(items, {1});
  (void)quiz.select_unseen(items, {1});
  seenby::Metrics metrics;
  metrics.watch(feed, {{"filter", "feed \"a\"\\b"}});
  metrics.watch(quiz, {{"filter", "quiz"}});
  metrics.add([](seenby::MetricPage& page) { page.gauge("shop_share_ratio", "A share.", 1.0 / 3); });
  const auto collector = std::make_shared<seenby::prometheus::Collector>(metrics);
  const std::string text = ::prometheus::TextSerializer().Serialize(collector->Collect());
  const auto theirs = samples_of(text);
  const auto ours = samples_of(metrics.text());
  REQUIRE(theirs.size() == ours.size());
  for (const auto& [name, value] : ours) {
    CAPTURE(name, value);
    REQUIRE(theirs.contains(name));
    CHECK(theirs.at(name) == value);
  }
  for (const char* line : {"# TYPE seenby_requests_total counter", "# TYPE seenby_store_users gauge",
                           "# TYPE seenby_request_seconds histogram"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
}
