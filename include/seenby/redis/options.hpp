#pragma once
// SPDX-License-Identifier: MIT
// What the stores in Redis are told: how keys are named, how long to wait, when a user's key expires.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace seenby::redis {

/// When the key of a user without a window expires. (With `StorePolicy::window` these do not apply: what was seen
/// expires slice by slice, and the key once its newest slice has left the window.)
enum class TimeToLive : std::uint8_t {
  none,       ///< never
  fixed,      ///< `ttl` after creation: a cliff, everything the user has seen comes back at once
  refreshed,  ///< `ttl` after the last write: an active user's key never expires, so nothing ever comes back
};

/// What a RedisStore is told beside its StorePolicy.
struct RedisStoreOptions {
  /// Before the user's name: "{prefix}{user}" with the user in braces, so that all keys of a user share a cluster slot.
  std::string prefix = "seenby:";
  /// The deadline of one check, and of each server round trip of a write. Unset: the URL's `timeout_ms`, 1 s without
  /// one. Set, it counts whatever the URL says. milliseconds::max(): none.
  std::optional<std::chrono::milliseconds> timeout{};
  /// A write that must read the history may take this long in all; a filter left half built by a crash expires so.
  std::chrono::milliseconds rebuild_timeout{30'000};
  TimeToLive time_to_live = TimeToLive::none;             ///< when a key expires
  std::chrono::seconds ttl{std::chrono::hours{24 * 30}};  ///< of a key, where `time_to_live` is not `none`
  /// Values up to this size are read whole, larger ones by block once their size is known. By default 256 KiB for a
  /// server on this machine, where copying a value is cheaper than asking for parts of it (100 candidates in 128 KiB
  /// over a Unix socket: 16 us of the server's time whole, 47 us by block, 160 us and more in a script), and 16 KiB
  /// across a network, where the bytes cost more than the server's time. A value below the limit is still read by block
  /// if it is over 16 KiB and the candidates are few: one block counts as 4 KiB.
  std::optional<std::size_t> whole_read_bytes{};
  /// How many users' shapes a process remembers, so that a write to a known user is one round trip.
  std::size_t remembered_users = 16'384;
};

/// What a RedisBloomStore is told. The first three are BF.RESERVE's; they count for filters made from now on.
struct RedisBloomOptions {
  std::uint64_t capacity = 1'000;  ///< items a filter holds at error_rate
  double error_rate = 0.01;        ///< of one user's filter, in (0, 1)
  /// A full filter is succeeded by one this many times its size, in the same key (EXPANSION). 0: it is not; what no
  /// longer fits is refused with `too_large` (NONSCALING), and nothing that was acknowledged is lost.
  std::uint32_t expansion = 2;
  TimeToLive time_to_live = TimeToLive::none;             ///< when a key expires
  std::chrono::seconds ttl{std::chrono::hours{24 * 30}};  ///< of a key, where `time_to_live` is not `none`
  /// The key is prefix and user, nothing else, so that other clients find it.
  std::string prefix = "seen:";
  /// The deadline of a call's round trip. Unset: the URL's `timeout_ms`, 1 s without one.
  std::optional<std::chrono::milliseconds> timeout{};
  std::uint32_t users_per_request = 1;  ///< only for policy(): the wrong-hide rate of that many users together
};

/// The creator-marketplace feed's filter: `seen:{user}`, 100,000 items at 1%, 30 days from the user's first item. After
/// those the whole filter expires at once; set `time_to_live` to `refreshed` to keep active users' filters, or use a
/// RedisStore with a window, which expires slice by slice.
[[nodiscard]] inline RedisBloomOptions creator_marketplace() {
  return {
      .capacity = 100'000, .error_rate = 0.01, .time_to_live = TimeToLive::fixed, .ttl = std::chrono::hours{24 * 30}};
}

}  // namespace seenby::redis
