#pragma once
// SPDX-License-Identifier: MIT
// StoreProtocol: what RedisStore does to keys, without its template parameters.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/store_options.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::redis {

/// Reads one user's history.
using ReadHistory = std::function<Result<std::vector<SeenDigest>>()>;

struct StoreState;

/// Split-block filters in plain Redis strings. Keys: `{prefix}{user}`, and with a window `{prefix}{user}:N` for slice N
/// beside `{prefix}{user}`, which then lists the slices there are. Braces and '%' inside a
/// user's name are percent-encoded, so that the whole name is the hash tag.
///
/// **A filter's value** is one or more filters in format v1, the newest first. A write goes to the first, a look-up
/// asks all. More than one stand there only while a filter without a history grows (a chain: each next one is larger
/// and half as likely to err), or for the moment between a contended growth and its compaction.
///
/// **Adding** is one script: it compares the identity (bytes 0 to 15, with a random generation), sets bits, counts
/// items and bumps the sequence even if no bit changed. On another identity it returns the header, and the client
/// computes again.
///
/// **Growing and rebuilding** read the header, then the history, build in the client, and replace the value if identity
/// and sequence are unchanged. If only the sequence moved, somebody added meanwhile: then the new filter is put before
/// the old one instead, so that nothing is lost and a hot user cannot starve its own growth; the history is read once
/// more, merged into the new filter (BITOP OR on the server), and the old one dropped.
///
/// **Creating from a history** first puts an empty filter marked "building" (SET NX), reads the history after that, and
/// replaces it by identity. Adds meanwhile go to the marked filter and are kept; look-ups call the user `missing`. A
/// filter deleted and created again between has another generation, so a slow builder never resurrects a stale history.
///
/// **Slices** are listed in the user's own key in the same script that creates them. A listed slice that is not there
/// was evicted: the user is `missing`, never wrongly "unseen", and the next record rebuilds.
///
/// Thread-safe.
class StoreProtocol {
 public:
  /// One request of a check; the spans are those of FilterStoreFor's `check`.
  struct Job {
    std::span<const std::string> users;
    std::span<const Digest> digests;
    std::span<std::uint8_t> seen_by;
    std::span<UserStatus> status;
  };

  StoreProtocol(std::shared_ptr<Executor> executor, const StorePolicy& policy, RedisStoreOptions options, HashKind hash,
                std::uint16_t seed_check);
  StoreProtocol(const StoreProtocol&) = delete;
  StoreProtocol& operator=(const StoreProtocol&) = delete;
  ~StoreProtocol();

  /// Answers all jobs in one pipelined round trip. A value read by block that has changed since its shape was
  /// remembered is read once more, whole; jobs whose values together exceed a megabyte are asked one megabyte after the
  /// other.
  void check(std::span<const Job> jobs) const;
  /// As FilterStoreFor's members; `history` may be empty.
  Result<RecordOutcome> record(const std::string& user, std::span<const Digest> digests, const ReadHistory& history);
  Result<void> create(const std::string& user);
  Result<bool> forget(const std::string& user);
  /// Builds the user's filters anew from the history, whatever is there.
  Result<void> rebuild(const std::string& user, const ReadHistory& history);
  /// ages[i]: how many slices ago; 255 for unseen or unknown.
  Result<void> age(const std::string& user, std::span<const Digest> digests, std::span<std::uint8_t> ages) const;

  [[nodiscard]] StoreCounters counters() const noexcept;
  /// The key of a user's filter (or list of slices), and of one slice.
  [[nodiscard]] std::string key_of(std::string_view user) const;
  [[nodiscard]] std::string slice_key_of(std::string_view user, std::int64_t slice) const;
  [[nodiscard]] Executor& executor() const noexcept;

 private:
  std::unique_ptr<StoreState> state_;
};

}  // namespace seenby::redis
