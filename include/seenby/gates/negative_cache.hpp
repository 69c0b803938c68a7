#pragma once
// SPDX-License-Identifier: MIT
// NegativeCache: remembers for a short time that something was looked for and not found.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/sets/recent_set.hpp"

namespace seenby {

/// How much a NegativeCache remembers, and for how long.
struct NegativeCacheOptions {
  std::size_t entries = 100'000;  ///< at least 1
  std::chrono::seconds ttl{5};    ///< zero: it remembers nothing
  Clock clock{};                  ///< the system's when empty
};

/// Digests that a lookup did not find. An entry is "absent", no entry is "not known": the two are never confused. An
/// id is forgotten when it is created, and a lookup that began before that cannot bring it back.
///
/// Thread safety: any thread may call any member.
template <Hasher Hash>
class BasicNegativeCache {
 public:
  /// Room for options.entries digests; none with a time to live of zero.
  explicit BasicNegativeCache(const NegativeCacheOptions& options) : enabled_(options.ttl.count() > 0) {
    if (!enabled_) return;
    const std::size_t each = std::max<std::size_t>(1, options.entries / shard_count);
    for (Shard& shard : shards_) {
      shard.absent = RecentSet<std::uint64_t, Hash>({.max_items = each, .window = options.ttl, .clock = options.clock});
    }
  }

  /// What is remembered of a digest, and the moment it was asked.
  struct Memory {
    bool absent = false;       ///< whether a lookup found nothing within the time to live
    std::uint64_t erased = 0;  ///< erases in the digest's shard so far
  };
  /// What is remembered now. O(1), under a lock of one shard of 16.
  [[nodiscard]] Memory ask(Digest digest) const {
    if (!enabled_) return {};
    const Shard& shard = shard_of(digest);
    const std::lock_guard lock(shard.mutex);
    return {.absent = shard.absent.contains(digest.value), .erased = shard.erased};
  }
  /// Remembers that a lookup which began with `before` found nothing; not when something in the shard was created in
  /// between, since it may have been this.
  void remember(Digest digest, const Memory& before) {
    if (!enabled_) return;
    Shard& shard = shard_of(digest);
    const std::lock_guard lock(shard.mutex);
    if (shard.erased == before.erased) shard.absent.insert(digest.value);
  }
  /// What was absent is being created.
  void erase(Digest digest) {
    if (!enabled_) return;
    Shard& shard = shard_of(digest);
    const std::lock_guard lock(shard.mutex);
    ++shard.erased;
    shard.absent.erase(digest.value);
  }

 private:
  static constexpr std::size_t shard_count = 16;
  struct Shard {
    mutable std::mutex mutex;
    RecentSet<std::uint64_t, Hash> absent{RecentSetOptions{}};
    std::uint64_t erased = 0;
  };
  [[nodiscard]] Shard& shard_of(Digest digest) { return shards_[digest.value % shard_count]; }
  [[nodiscard]] const Shard& shard_of(Digest digest) const { return shards_[digest.value % shard_count]; }

  bool enabled_;
  std::array<Shard, shard_count> shards_;
};

/// The one to use. The cache is a template so that only programs which use one compile it.
using NegativeCache = BasicNegativeCache<Mix64Hash>;

}  // namespace seenby
