#pragma once
// SPDX-License-Identifier: MIT
// LmdbStore: users' filters in one file of this machine, for processes that must remember.

#include <string>
#include <utility>

#include "seenby/hash.hpp"
#include "seenby/lmdb/environment.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// A BlobStore over an LMDB file: embedded, durable, shared by the processes of one machine.
///
///     auto store = seenby::LmdbStore<std::uint64_t>::open("seen.lmdb", {.wrong_hide_rate = 0.01}).or_throw();
///     seenby::SeenFilter filter{std::move(store), history};
///
/// A check is one read of a memory map, without a lock. A record is one transaction: about a disk's sync each, so
/// record_many where many come at once: one transaction for all. Thread-safe; see lmdb::Environment for crashes,
/// processes and fork.
template <HashableItem User = std::uint64_t, Hasher Hash = Xxh3Hash>
class LmdbStore : public BlobStore<lmdb::Environment, User, Hash> {
  using Base = BlobStore<lmdb::Environment, User, Hash>;

 public:
  /// Over an open environment. Throws std::invalid_argument for a policy that cannot be kept.
  LmdbStore(lmdb::Environment environment, StorePolicy policy) : Base(std::move(environment), std::move(policy)) {}

  /// Errors as lmdb::Environment::open. Throws std::invalid_argument for a policy that cannot be kept.
  [[nodiscard]] static Result<LmdbStore> open(const std::string& path, StorePolicy policy,
                                              const lmdb::Options& options = {}) {
    auto environment = lmdb::Environment::open(path, options);
    if (!environment) return std::move(environment).error();
    return LmdbStore(*std::move(environment), std::move(policy));
  }

  /// As lmdb::Environment::backup.
  Result<void> backup(const std::string& path) { return this->backend().backup(path); }
};

}  // namespace seenby
