#pragma once
// SPDX-License-Identifier: MIT
// MemoryOptions: what is peculiar to a MemoryStore.

#include <cstdint>

namespace seenby {

/// What is peculiar to a MemoryStore; the defaults suit thousands to tens of millions of users.
struct MemoryOptions {
  /// How many shards, rounded up to a power of two, at most 65,536. Writers of one shard wait for each other.
  std::uint32_t shards = 256;
  /// Histories of up to so many items (at most 64) are kept as exact digests: no false positives, and they grow into
  /// any filter without a history. Four take the 32 bytes of the smallest filter. With 1 to 4, no window, no history to
  /// read and a rate that a fingerprint table keeps to with 16 bits an item, the first three items take no memory but
  /// the user's entry in the index, as the first 15 bits of their digests: 20.8 bytes a user in all for 5 million users
  /// of two items (`SEENBY_SOAK=1 seenby_unit_tests "users of two items*"`) where exact digests take 53.9. Eight take
  /// 64: 2.6 bytes a user more over a population of 230 items on average and 40 in the median, for a mean rate that is
  /// no lower in three digits. Where there is a history to read again, filters grow from that, and exact starts win
  /// nothing: 0 will do.
  std::uint32_t exact_items = 4;
  /// Memory for users and their index, at most; a record that would need more is refused. 0: the machine's memory.
  std::uint64_t max_bytes = 0;
  /// How large a user's fingerprint table may be, 2,048 to 131,040 (which is 128 KiB less what a handle cannot count).
  /// A user with more has several of up to a quarter of it, and a growth touches one of them: smaller ones keep other
  /// writers waiting less, larger ones are found sooner.
  std::uint32_t table_bytes = 131'040;
};

}  // namespace seenby
