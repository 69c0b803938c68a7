#pragma once
// SPDX-License-Identifier: MIT
// The Lua scripts of SharedSet. KEYS: the set's hash; a version's strings are "HASH:VERSION:PARTITION", in its slot.

#include "redis/transport/script.hpp"

namespace seenby::redis::scripts {

/// ARGV: version, shape, partitions. Makes the version the set's first; 0 when there is a set already.
[[nodiscard]] const Script& publish_set();

/// ARGV: version asked, version in the making ("0": none), positions in each (u32 partition, u32 block, 32 bytes of
/// mask), the digests, and for how many milliseconds they are carried. Returns a character an item, '1' where bits of
/// the first version changed; 0 when the versions are others by now.
[[nodiscard]] const Script& add_to_set();

/// ARGV: version, shape, lease in ms. Returns the digests added within the lag, or 0 while another builder is at it.
[[nodiscard]] const Script& begin_rebuild();

/// ARGV: version, positions, lease in ms, partitions. Returns 1, or false when another version is in the making.
[[nodiscard]] const Script& add_to_next();

/// ARGV: version, grace in ms. Returns 1, or false when another version is in the making.
[[nodiscard]] const Script& commit_rebuild();

/// ARGV: version. Drops it if it is in the making.
[[nodiscard]] const Script& abandon_rebuild();

/// Drops the set with all its versions; 1 when there was one.
[[nodiscard]] const Script& drop_set();

}  // namespace seenby::redis::scripts
