#pragma once
// SPDX-License-Identifier: MIT
// IngestOptions and IngestCounters: an Ingestor's settings and its counters.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "seenby/clock.hpp"
#include "seenby/ingest/impression_event.hpp"
#include "seenby/ingest/rate_limit.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// What an Ingestor is about to do with its batch.
enum class IngestStep : std::uint8_t { read, append, record, acknowledge };

/// How an Ingestor reads, judges and writes.
struct IngestOptions {
  std::size_t batch = 1'000;              ///< events a batch at most; at least 1
  std::chrono::milliseconds wait{1'000};  ///< for a first event
  /// A message that was delivered more often, and never acknowledged, is buried unread: it may be what ends the
  /// workers. 0: never.
  std::uint32_t most_deliveries = 10;              ///< deliveries of one message
  ImpressionRules rules{};                         ///< what counts as seen
  RateLimitOptions rate_limit{};                   ///< by the times at which events entered the queue
  std::chrono::milliseconds longest_pause{5'000};  ///< between two tries of what failed; the first is 50 ms at most
  /// Gets anonymous events that count as seen, without a session's duplicates among the last 65,536: for a log of
  /// views. They go into no history and no filter. An error holds the batch.
  std::function<Result<void>(std::span<const ImpressionEvent>)> anonymous{};
  /// Called with the error when the store refuses a user's record permanently (a corrupt filter): repair that user. The
  /// history has the events.
  std::function<void(const Error&)> unrecorded{};
  std::function<void(IngestStep)> before{};  ///< called before each step, for tracing and for tests
  /// The system's when empty.
  Clock clock{};
};

/// What an Ingestor counts; messages and events since it was made.
struct IngestCounters {
  std::uint64_t read = 0;      ///< messages from the queue
  std::uint64_t buried = 0;    ///< moved to the dead letters: no event of the contract
  std::uint64_t not_seen = 0;  ///< reported as not visible, or not visible enough
  /// Events of sessions without an account.
  std::uint64_t anonymous = 0;
  std::uint64_t rate_limited = 0;  ///< dropped
  std::uint64_t duplicates = 0;    ///< were in the history, in their batch or in their session already
  std::uint64_t appended = 0;      ///< new in the history
  std::uint64_t recorded = 0;      ///< handed to the store
  std::uint64_t unrecorded = 0;    ///< refused by the store permanently
  /// Messages that the queue need not deliver again.
  std::uint64_t acknowledged = 0;
  std::uint64_t failures = 0;  ///< steps that failed and were tried again
};

}  // namespace seenby
