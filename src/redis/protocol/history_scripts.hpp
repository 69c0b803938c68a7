#pragma once
// SPDX-License-Identifier: MIT
// The Lua scripts of RedisHistory. KEYS: a user's items by time, their events, and hides: a hide's value is its place
// in the order and its time, in decimal. Those that trim begin with ARGV 1, the least score to keep or "", ARGV 2, how
// many items or "0", and ARGV 3, how long the keys live or "0".

#include "redis/transport/script.hpp"

namespace seenby::redis::scripts {

/// KEYS: hides. ARGV: item and time, two arguments a hide. Returns how many were not hidden.
[[nodiscard]] const Script& hide_items();

/// KEYS: items, events. Trims; behind ARGV 3: item, time and event, three arguments an event. Returns how many events
/// are new.
[[nodiscard]] const Script& append_events();

/// KEYS: items, events and hides of one user, then of the other who gets them. Trims. Returns 1 when there were any.
[[nodiscard]] const Script& merge_histories();

/// KEYS: items, events. ARGV: items. Returns how many there were.
[[nodiscard]] const Script& erase_items();

}  // namespace seenby::redis::scripts
