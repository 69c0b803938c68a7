#pragma once
// SPDX-License-Identifier: MIT
// Observer: a program's own functions for log lines and trace spans.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "seenby/latency_histogram.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// A call that has ended. What it points to is there while the observer is called.
struct TraceSpan {
  std::string_view name;  ///< "select" and "record" of a SeenFilter, "store.check" and "store.record" of a TimedStore
  std::chrono::steady_clock::time_point start;  ///< of the call
  std::chrono::nanoseconds took{0};             ///< until it ended
  std::size_t users = 0;                        ///< of the call
  std::size_t items = 0;                        ///< candidates checked, or items recorded
  const Error* error = nullptr;                 ///< why it failed, in part or as a whole
};

/// A line for a program's log: what failed and was told to the caller as well. `text` names the key that it failed for,
/// where there is one.
struct LogLine {
  std::string_view call;  ///< as TraceSpan::name
  ErrorCode code{};       ///< of the failure
  std::string_view text;  ///< the error's message
};

/// Called by the thread that made the call, when it ends; may be called by many threads at once. Must not throw, and
/// must not call the object that it observes. An empty function is not called.
struct Observer {
  std::function<void(const TraceSpan&)> span{};  ///< each call
  std::function<void(const LogLine&)> log{};     ///< each failure
};

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// Tells a histogram and an observer of a call that began at `start` and ends now.
inline void observe_call(LatencyHistogram& latency, const Observer& observer, TraceSpan span) noexcept {
  span.took = std::chrono::steady_clock::now() - span.start;
  latency.add(span.took);
  if (observer.span) observer.span(span);
  if (observer.log && span.error != nullptr) observer.log({span.name, span.error->code, span.error->message});
}

SEENBY_DETAIL_END
