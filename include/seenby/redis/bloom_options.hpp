#pragma once
// SPDX-License-Identifier: MIT
// What a RedisBloom filter is reserved with, what the module says of one, and what the store counts.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "seenby/redis/store_options.hpp"

namespace seenby::redis {

/// What a RedisBloomStore is told. The first three are BF.RESERVE's; they count for filters made from now on.
struct RedisBloomOptions {
  std::uint64_t capacity = 1'000;  ///< items a filter holds at error_rate
  double error_rate = 0.01;        ///< of one user's filter, in (0, 1)
  /// A full filter is succeeded by one this many times its size, in the same key (EXPANSION). 0: it is not; what no
  /// longer fits is refused with `too_large` (NONSCALING), and nothing that was acknowledged is lost.
  std::uint32_t expansion = 2;
  TimeToLive time_to_live = TimeToLive::none;
  std::chrono::seconds ttl{std::chrono::hours{24 * 30}};
  /// The key is prefix and user, nothing else, so that other clients find it.
  std::string prefix = "seen:";
  std::chrono::milliseconds timeout{1000};  ///< the deadline of a call's round trip
  std::uint32_t users_per_request = 1;      ///< only for policy(): the wrong-hide rate of that many users together
};

/// The creator-marketplace feed's filter: `seen:{user}`, 100,000 items at 1%, 30 days from the user's first item. After
/// those a user starts afresh, all at once; set `time_to_live` to `refreshed` to keep active users' filters, or use a
/// RedisStore with a window, whose memory fades slice by slice.
[[nodiscard]] inline RedisBloomOptions creator_marketplace() {
  return {
      .capacity = 100'000, .error_rate = 0.01, .time_to_live = TimeToLive::fixed, .ttl = std::chrono::hours{24 * 30}};
}

/// What BF.INFO says.
struct BloomInfo {
  std::uint64_t capacity = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t filters = 0;
  std::uint64_t items = 0;
  std::uint64_t expansion = 0;  ///< 0: NONSCALING
};

/// Whether the server has the module.
enum class ModuleState : std::uint8_t {
  unknown,  ///< it could not be asked yet
  present,
  absent,
};

/// What a RedisBloomStore counts beside StoreCounters.
struct BloomCounters {
  ModuleState module = ModuleState::unknown;
  std::uint64_t unavailable = 0;   ///< calls refused because the module is not there
  std::uint64_t full_filters = 0;  ///< records that a full NONSCALING filter cut short
  std::uint64_t rebuilds = 0;      ///< missing filters made anew from the history
};

}  // namespace seenby::redis
