// SPDX-License-Identifier: MIT
// From a MetricPage to prometheus-cpp's families.

#include "seenby/prometheus/collector.hpp"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace seenby::prometheus {
namespace {

::prometheus::MetricType type_of(MetricType type) noexcept {
  switch (type) {
    case MetricType::counter: return ::prometheus::MetricType::Counter;
    case MetricType::gauge: return ::prometheus::MetricType::Gauge;
    case MetricType::histogram: return ::prometheus::MetricType::Histogram;
  }
  return ::prometheus::MetricType::Untyped;
}

::prometheus::ClientMetric::Histogram histogram_of(const LatencyHistogram::Snapshot& latencies) {
  ::prometheus::ClientMetric::Histogram histogram;
  histogram.sample_sum = std::chrono::duration<double>(latencies.sum).count();
  for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i) {
    histogram.sample_count += latencies.buckets[i];
    const bool last = i + 1 == LatencyHistogram::bucket_count;
    const std::chrono::duration<double> bound = LatencyHistogram::upper_bound(i);
    histogram.bucket.push_back(
        {histogram.sample_count, last ? std::numeric_limits<double>::infinity() : bound.count()});
  }
  return histogram;
}

}  // namespace

std::vector<::prometheus::MetricFamily> Collector::Collect() const {
  std::vector<::prometheus::MetricFamily> families;
  const MetricPage page = metrics_->page();
  for (const MetricFamily& family : page.families()) {
    auto& made = families.emplace_back();
    made.name = family.name;
    made.help = family.help;
    made.type = type_of(family.type);
    for (const MetricSample& sample : family.samples) {
      auto& metric = made.metric.emplace_back();
      for (const auto& label : sample.labels) metric.label.push_back({label.first, label.second});
      metric.counter.value = metric.gauge.value = sample.value;
      if (family.type == MetricType::histogram) metric.histogram = histogram_of(sample.latencies);
    }
  }
  return families;
}

}  // namespace seenby::prometheus
