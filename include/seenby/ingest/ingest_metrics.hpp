#pragma once
// SPDX-License-Identifier: MIT
// The counters of an Ingestor as metrics: include it to watch an Ingestor or an AsyncRecorder.

#include "seenby/ingest/ingest_options.hpp"
#include "seenby/metric_page.hpp"

namespace seenby {

/// An Ingestor's counters.
inline void add_metrics(MetricPage& page, const IngestCounters& counters, const MetricLabels& labels) {
  page.counter("seenby_ingest_messages_read_total", "Messages taken from the queue.", counters.read, labels);
  page.counter("seenby_ingest_messages_buried_total", "Messages that are no events: moved to the dead letters.",
               counters.buried, labels);
  page.counter("seenby_ingest_events_not_seen_total", "Events of what was not visible enough.", counters.not_seen,
               labels);
  page.counter("seenby_ingest_events_anonymous_total", "Events without a user.", counters.anonymous, labels);
  page.counter("seenby_ingest_events_rate_limited_total", "Events dropped as too many of one user.",
               counters.rate_limited, labels);
  page.counter("seenby_ingest_events_repeated_total", "Events that were there already.", counters.duplicates, labels);
  page.counter("seenby_ingest_events_appended_total", "Events new in the history.", counters.appended, labels);
  page.counter("seenby_ingest_events_recorded_total", "Events handed to the store.", counters.recorded, labels);
  page.counter("seenby_ingest_events_unrecorded_total", "Events that the store refused for good.", counters.unrecorded,
               labels);
  page.counter("seenby_ingest_messages_acknowledged_total", "Messages done with.", counters.acknowledged, labels);
  page.counter("seenby_ingest_step_failures_total", "Steps that failed and were tried again.", counters.failures,
               labels);
}

}  // namespace seenby
