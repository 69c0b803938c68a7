#pragma once
// SPDX-License-Identifier: MIT
// The Lua scripts of tables in a RedisStore. Each is atomic on its server.

#include "redis/transport/script.hpp"

namespace seenby::redis::scripts {

/// KEYS: table. ARGV: `table_meaning`; items (digest of 8 bytes, high byte first, and how many slices behind the
/// caller's newest); the caller's newest slice; how many slices behind the newest still count; TTL in ms to refresh, or
/// ""; what to put where the key is missing: an empty table, its TTL in ms or "", and how many items it takes.
///
/// Appends the items that are not there, or there in an older slice, to the recent ones, and bumps the sequence in any
/// case. Returns {items that were not there, value's size, header before}, whose checksum the caller checks; false when
/// the key is missing and nothing was put. Returns the value, and has changed nothing, where the caller must edit and
/// swap it: recent items have no room, the table's newest slice is older than the caller's, moving the value is less
/// work, or it is not such a table. The error DAMAGED when the value is not as long as its header says.
[[nodiscard]] const Script& add_to_table();

/// KEYS: value [, filters of old slices]. ARGV: how the value must begin, how long it must be ("0": absent), new value,
/// TTL in ms or "" to keep it; from a table to a table, where recent items are in the old one and in the new one, and
/// four numbers of 2 bytes: how many of the old one's are in the new value, bytes of an entry of the old and of the
/// new, and how many the new one has room for; else "" for all three; how each of the other keys must begin. Puts the
/// new value, with what was appended to the old one's recent items meanwhile: adds never make a swap fail. Removes the
/// other keys. Returns 1, or 0 when something is other than expected.
[[nodiscard]] const Script& swap_table();

}  // namespace seenby::redis::scripts
