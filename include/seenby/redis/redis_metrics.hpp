#pragma once
// SPDX-License-Identifier: MIT
// A Redis client's counters as metrics.

#include "seenby/metric_page.hpp"
#include "seenby/redis/executor.hpp"

namespace seenby::redis {

/// A Redis client's counters.
inline void add_metrics(MetricPage& page, const PoolCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_redis_connects_total", "Connections made.", counters.connects, labels);
  page.counter("seenby_redis_connect_failures_total", "Connections that could not be made.", counters.connect_failures,
               labels);
  page.counter("seenby_redis_connections_dropped_total", "Connections closed after an error or a time-out.",
               counters.connections_dropped, labels);
  page.counter("seenby_redis_batches_resent_total", "Batches sent again: a pooled connection was dead.",
               counters.resent_batches, labels);
  page.counter("seenby_redis_refused_by_breaker_total", "Calls not sent: the server failed lately.",
               counters.refused_by_breaker, labels);
  page.counter("seenby_redis_breaker_openings_total", "Times that a server was given up for a while.",
               counters.breaker_openings, labels);
}

}  // namespace seenby::redis
