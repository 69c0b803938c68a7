#pragma once
// SPDX-License-Identifier: MIT
// The Lua scripts of RedisStore. Each is atomic on its server.

#include "redis/transport/script.hpp"

namespace seenby::redis::scripts {

/// KEYS: filter. ARGV: identity, items (block number of 4 bytes and mask of 32 each), TTL in ms or
/// "". Returns {items that changed bits, item count, value's size}; the header when the identity is another; false when
/// the filter is missing; the error DAMAGED when the value is not as long as its headers say.
[[nodiscard]] const Script& add();

/// KEYS: filter. ARGV: identity, sequence (or "-1": keep the old filters in any case), new filter, TTL in ms or "", how
/// many items the history vouches for. Puts the new filter in the old ones' place; before them if the sequence moved or
/// if they hold more than the history. Returns 0 (replaced), 1 (kept the old behind it) or 2 (kept, because the history
/// knows less); the header when the identity is another; false when missing.
[[nodiscard]] const Script& replace();

/// KEYS: filter. ARGV: identity, sequence, whole new value, TTL in ms or "". Returns 1, 0 when the sequence moved; else
/// as `replace`.
[[nodiscard]] const Script& swap();

/// KEYS: filter, scratch key. ARGV: identity, header of the merged filter, bits, item count, how many items the history
/// vouches for. ORs the bits into the first filter, gives it the new header and drops the others. Returns 1; 2 if the
/// others hold more than the history, and nothing was done; else as `replace`.
[[nodiscard]] const Script& merge();

/// KEYS: filter. ARGV: whole old value, whole new value. Returns 1, or 0 when the value is another.
[[nodiscard]] const Script& swap_whole();

/// KEYS: filter or list of slices. ARGV: slices to remove beside those that are listed. Removes all; returns how many
/// keys there were.
[[nodiscard]] const Script& forget();

/// KEYS: hides. ARGV: whole old value, whole new value, "" for absent. Returns 1, or 0 when the value is another.
[[nodiscard]] const Script& swap_value();

}  // namespace seenby::redis::scripts
