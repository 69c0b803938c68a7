#pragma once
// SPDX-License-Identifier: MIT
// The Lua scripts of SharedSet. KEYS: the set's hash; a version's strings are "HASH:VERSION:PARTITION", in its slot.

#include "redis/transport/script.hpp"

namespace seenby::redis::scripts {

/// ARGV: version, shape, partitions. Makes the version the set's first; 0 when there is a set already.
[[nodiscard]] const Script& publish_set();

/// ARGV: version asked, version in the making ("0": none), positions in each (u32 partition, u32 block, 32 bytes of
/// mask), the digests, and for how many milliseconds they are carried. Returns a character an item, '1' where bits of
/// the first version changed, and how many items that has; 0 when the versions are others by now. A version in the
/// making whose builder died, or that lost a part, is dropped.
[[nodiscard]] const Script& add_to_set();

/// ARGV: version, shape, lease in ms, partitions. Returns the digests added within the lag; 0, and drops the version's
/// strings, while another builder is at it.
[[nodiscard]] const Script& begin_rebuild();

/// ARGV: version, positions, lease in ms. Returns 1, or false when the version is not in the making.
[[nodiscard]] const Script& add_to_next();

/// ARGV: version, grace in ms. Returns 1, or false when the version is not in the making.
[[nodiscard]] const Script& commit_rebuild();

/// ARGV: version. Drops it if it is in the making.
[[nodiscard]] const Script& abandon_rebuild();

/// ARGV: the version asked, the field of the digest's adds and its value then, the digest, a time to live in ms.
/// Remembers that a lookup found nothing; 0 when another version is asked by now, or the digest may have been added.
[[nodiscard]] const Script& remember_absent();

/// ARGV: "position" and one of 20 digits; or "loading", "distrusted" or "ready". Returns 1; 0 when it was not loading;
/// false when there is no set.
[[nodiscard]] const Script& mark_gate();

/// Returns the state's name, version, position, age and lag in ms, items and shape; false when there is no set.
[[nodiscard]] const Script& gate_status();

/// Drops the set with all its versions; 1 when there was one.
[[nodiscard]] const Script& drop_set();

}  // namespace seenby::redis::scripts
