#pragma once
// SPDX-License-Identifier: MIT
// Collector: a process's Metrics beside a program's own on prometheus-cpp.

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "seenby/metrics.hpp"

namespace seenby::prometheus {

/// What a prometheus-cpp Exposer or Registry collects of seenby's parts:
///
///     auto collector = std::make_shared<seenby::prometheus::Collector>(metrics);
///     exposer.RegisterCollectable(collector);
///
/// A program without prometheus-cpp serves Metrics::text() itself. Thread-safe. The metrics must outlive it.
class Collector final : public ::prometheus::Collectable {
 public:
  /// Reads the metrics whenever it is collected from.
  explicit Collector(const Metrics& metrics) noexcept : metrics_(&metrics) {}

  /// Throws as Metrics::page.
  [[nodiscard]] std::vector<::prometheus::MetricFamily> Collect() const override;

 private:
  const Metrics* metrics_;
};

}  // namespace seenby::prometheus
