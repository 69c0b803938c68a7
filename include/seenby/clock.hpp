#pragma once
// SPDX-License-Identifier: MIT
// Time and Clock: the seconds that windows, tokens and histories count in, and where they come from.

#include <chrono>
#include <functional>

namespace seenby {

/// Seconds since the Unix epoch. Windows, tokens and histories use it; nothing in seenby needs finer time.
using Time = std::chrono::sys_seconds;
/// Where a store takes the time from. Called from any thread.
using Clock = std::function<Time()>;

/// The system's clock.
[[nodiscard]] inline Time system_time() {
  return std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace seenby
