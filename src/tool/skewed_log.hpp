#pragma once
// SPDX-License-Identifier: MIT
// A made-up event log with the skew of a real one.

#include <cstdint>
#include <functional>
#include <vector>

#include "event_log.hpp"

namespace seenby::tool {

/// How large a made-up log is. The defaults are the size of the real log its skew was measured on.
struct SkewedLogOptions {
  std::uint64_t users = 16'554;
  std::uint64_t items = 10'506;
  std::uint64_t events = 100'000;
  std::uint64_t seed = 1;
  std::int64_t start = 1'362'062'307;   ///< Unix seconds of the first possible event
  std::int64_t seconds = 185 * 86'400;  ///< how long the log runs
};

/// Throws InputError when the numbers contradict one another.
void check(const SkewedLogOptions& options);

/// Calls `take` for exactly `events` events, user by user, each user's in the order of time; nobody sees an item twice.
/// Equal options give equal logs on every machine. User and item are numbers from 0. O(users) memory, O(events) time.
void make_skewed_log(const SkewedLogOptions& options, const std::function<void(const Event&)>& take);

}  // namespace seenby::tool
