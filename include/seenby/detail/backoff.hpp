#pragma once
// SPDX-License-Identifier: MIT
// Backoff: how long to wait between two tries of what failed.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// Pauses that double from `first` to `longest`. A value: not for concurrent callers.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds longest) noexcept
      : first_(std::min(first, longest)), longest_(longest) {}

  /// The next pause.
  [[nodiscard]] std::chrono::milliseconds next() noexcept {
    pause_ = pause_.count() == 0 ? first_ : pause_ > longest_ / 2 ? longest_ : 2 * pause_;
    return pause_;
  }
  /// It worked: the next pause is the first again.
  void reset() noexcept { pause_ = {}; }

 private:
  std::chrono::milliseconds first_;
  std::chrono::milliseconds longest_;
  std::chrono::milliseconds pause_{0};
};

/// Sleeps for a time, or until a stop is requested.
inline void sleep_unless_stopped(const std::stop_token& stop, std::chrono::milliseconds span) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, span, [] { return false; });
}

SEENBY_DETAIL_END
