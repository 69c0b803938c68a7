#pragma once
// SPDX-License-Identifier: MIT
// What a MemoryStore does once its users are keys and its items digests: two instantiations, whatever the types.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/lookup.hpp"
#include "seenby/stores/memory/options.hpp"
#include "seenby/stores/slice_clock.hpp"

SEENBY_DETAIL_BEGIN

template <std::size_t Words>
struct MemoryState;
struct RateTables;
struct SliceDigest;
struct InsertOutcome;
template <std::size_t Words>
class Shard;

/// A user as the index knows them, and as a history does.
template <std::size_t Words>
struct StoredUser {
  IndexKey<Words> key;
  const void* user;
};
/// A RecordRequest whose user and items have lost their types.
template <std::size_t Words>
struct StoredRequest {
  StoredUser<Words> user;
  std::span<const Digest> digests;
  std::span<const Time> when;
};
/// A Replay whose user has lost its type.
using HistoryReader = std::function<Result<std::vector<SeenDigest>>(const void* user, Time since)>;

/// The exact items of a store's users, by the words of their keys.
template <std::size_t Words>
struct KeyWordsHash {
  [[nodiscard]] std::size_t operator()(const std::array<std::uint64_t, Words>& words) const noexcept {
    return static_cast<std::size_t>(mix64(words.front() ^ (Words == 1 ? 0 : words.back())));
  }
};
template <std::size_t Words>
using ExactKeys = ExactUsers<std::array<std::uint64_t, Words>, KeyWordsHash<Words>>;

/// Whose digests a store keeps.
struct DigestIdentity {
  HashKind hash;
  std::uint16_t seed_check;
};

/// One for each MemoryStore, at an address that does not change when the store is moved. Its members are defined in
/// core_members.hpp and instantiated for one and for two key words: in each program, or once in seenby::core.
/// Thread-safe.
template <std::size_t Words>
class MemoryCore {
 public:
  using Key = IndexKey<Words>;
  using User = StoredUser<Words>;

  /// Throws std::invalid_argument.
  MemoryCore(StorePolicy&& given, const MemoryOptions& wanted, DigestIdentity identity);
  ~MemoryCore();
  MemoryCore(const MemoryCore&) = delete;
  MemoryCore& operator=(const MemoryCore&) = delete;

  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] const MemoryOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t key_seed() const noexcept { return key_seed_; }
  /// For requests of two users, in line.
  [[nodiscard]] const Lookup<Words>& lookup() const noexcept { return lookup_; }

  /// Hides and kept last items, beside the records.
  [[nodiscard]] ExactKeys<Words>& exact() noexcept { return exact_; }
  [[nodiscard]] const ExactKeys<Words>& exact() const noexcept { return exact_; }

  void set_history(HistoryReader history);
  Result<void> create(const Key& key);
  /// In the newest slice, or in the one that `when` belongs to.
  Result<RecordOutcome> record(const User& user, std::span<const Digest> digests, std::optional<Time> when);
  /// Many users, each once: those of one shard under one lock.
  std::vector<Result<RecordOutcome>> record_many(std::span<const StoredRequest<Words>> requests);
  Result<bool> forget(const Key& key);
  Result<void> merge(const User& from, const User& into);
  void sweep();
  Result<void> snapshot(const std::string& path) const;
  Result<void> restore(const std::string& path);

  /// The answers for users that were loaded; overwrites both spans.
  void check(const Request<Words>& request, DigestSpan digests, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const noexcept;
  /// Adds one user's answers.
  void check_add(const Key& key, DigestSpan digests, std::span<std::uint8_t> seen_by,
                 UserStatus& status) const noexcept;
  void age(const Key& key, DigestSpan digests, std::span<std::uint8_t> ages) const noexcept;

  [[nodiscard]] StoreCounters counters() const;
  [[nodiscard]] std::uint64_t memory_bytes() const;
  [[nodiscard]] double expected_fpr(const Key& key) const;
  [[nodiscard]] std::uint64_t user_bytes(const Key& key) const;

 private:
  using State = MemoryState<Words>;

  [[nodiscard]] std::uint32_t newest_slice() const;
  [[nodiscard]] std::uint32_t slice_of(Time time) const noexcept;
  template <class Write>
  auto guarded(std::size_t items, Write&& write) -> decltype(write());
  void keep_last(const Key& key, std::span<const Digest> digests, std::optional<Time> when);
  void keep_last(const StoredRequest<Words>& request, std::uint32_t newest);
  Result<RecordOutcome> record_in(const User& user, std::span<const Digest> digests, std::uint32_t slice,
                                  std::uint32_t newest);
  /// What record_many has left to do: whose history must be read first, whose record a history may rebuild, and what of
  /// a large user's items waits until others had their turn.
  struct BatchRest {
    struct Unfinished {
      std::size_t request;
      std::span<const Digest> digests;
      std::uint32_t slice;
    };
    std::vector<Unfinished> unfinished;
    std::vector<std::size_t> missing;
    std::vector<std::pair<std::size_t, std::uint32_t>> outgrown;  // and in which slice
  };
  void record_known(std::span<const StoredRequest<Words>> requests, std::uint32_t newest,
                    std::vector<Result<RecordOutcome>>& outcomes, BatchRest& rest);
  /// Calls run(digests, slice) for each live slice of a request, and adds up what it gives; stops at an error.
  template <class Run>
  Result<RecordOutcome> for_each_slice(const StoredRequest<Words>& request, std::uint32_t newest, const Run& run) const;
  std::optional<InsertOutcome> insert_locked(Shard<Words>& shard, const Key& key, std::span<const Digest> digests,
                                             std::uint32_t slice, std::uint32_t newest);
  Result<std::vector<SliceDigest>> read_history(const User& user, std::uint32_t newest) const;
  Result<RecordOutcome> create_from_history(const User& user, std::span<const Digest> digests, std::uint32_t slice,
                                            std::uint32_t newest);
  Result<void> merge_in(const User& from, const User& into, std::uint32_t newest);
  void rebuild(const User& user, std::uint32_t slice);

  /// What a history is for. Called by address, so that only a program that sets one compiles it.
  struct HistoryPaths {
    Result<RecordOutcome> (MemoryCore::*create)(const User&, std::span<const Digest>, std::uint32_t, std::uint32_t);
    void (MemoryCore::*rebuild)(const User&, std::uint32_t);
  };

  StorePolicy policy_;
  SliceClock slices_;
  MemoryOptions options_;
  DigestIdentity identity_;
  std::uint64_t key_seed_;  // where users are in the index is as secret as where items are in a filter
  std::unique_ptr<const RateTables> rates_;
  std::unique_ptr<State> state_;
  ExactKeys<Words> exact_;
  Lookup<Words> lookup_;
  std::atomic<std::uint64_t> write_failures_{0};
  mutable std::mutex snapshot_mutex_;
  std::atomic<const HistoryPaths*> history_paths_{nullptr};  // set with the first history, for good
  mutable std::mutex history_mutex_;
  std::shared_ptr<const HistoryReader> history_;
};

#if defined(SEENBY_COMPILED_STORE)
extern template class MemoryCore<1>;
extern template class MemoryCore<2>;
#endif

SEENBY_DETAIL_END
