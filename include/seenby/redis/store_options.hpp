#pragma once
// SPDX-License-Identifier: MIT
// How a RedisStore names its keys, how long it waits, and when a user's key expires.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace seenby::redis {

/// When the key of a user without a window expires. (With `StorePolicy::window` every slice has its own time to live
/// and these do not apply: what was seen fades slice by slice.)
enum class TimeToLive : std::uint8_t {
  none,       ///< never
  fixed,      ///< `ttl` after creation: a cliff, everything the user has seen comes back at once
  refreshed,  ///< `ttl` after the last write: an active user's key never expires, so nothing ever comes back
};

/// What a RedisStore is told beside its StorePolicy.
struct RedisStoreOptions {
  /// Before the user's name: "{prefix}{user}" with the user in braces, so that all keys of a user share a cluster slot.
  std::string prefix = "seenby:";
  /// The deadline of one check, and of each server round trip of a write.
  std::chrono::milliseconds timeout{1000};
  /// A write that must read the history may take this long in all; a filter left half built by a crash expires so.
  std::chrono::milliseconds rebuild_timeout{30'000};
  TimeToLive time_to_live = TimeToLive::none;
  std::chrono::seconds ttl{std::chrono::hours{24 * 30}};
  /// Values up to this size are read whole, larger ones by block once their size is known. By default 256 KiB for a
  /// server on this machine, where copying a value is cheaper than asking for parts of it (100 candidates in 128 KiB
  /// over a Unix socket: 16 us of the server's time whole, 47 us by block, 160 us and more in a script), and 16 KiB
  /// across a network, where the bytes cost more than the server's time. A value below the limit is still read by block
  /// if it is over 16 KiB and the candidates are few: one block counts as 4 KiB.
  std::optional<std::size_t> whole_read_bytes{};
  /// How many users' shapes a process remembers, so that a write to a known user is one round trip.
  std::size_t remembered_users = 16'384;
};

}  // namespace seenby::redis
