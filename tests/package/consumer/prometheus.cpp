// SPDX-License-Identifier: MIT
// Part of the consumer when it asks for the prometheus component.

#include <cstdio>
#include <cstdlib>
#include <seenby/prometheus/collector.hpp>

namespace {

[[maybe_unused]] const bool collected = [] {
  seenby::Metrics metrics;
  metrics.add([](seenby::MetricPage& page) { page.gauge("shop_posts", "Posts.", 7); });
  const auto families = seenby::prometheus::Collector(metrics).Collect();
  if (families.size() != 1 || families[0].metric.at(0).gauge.value != 7) std::abort();
  std::printf("prometheus component, %zu family\n", families.size());
  return true;
}();

}  // namespace
