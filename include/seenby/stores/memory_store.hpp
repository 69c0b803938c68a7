#pragma once
// SPDX-License-Identifier: MIT
// MemoryStore: the filters of millions of users in this process, for concurrent readers and writers.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/core.hpp"
#include "seenby/stores/memory/options.hpp"

namespace seenby {

/// Users' filters in memory: an arena of 32-byte granules, 8-byte handles, one index a shard.
///
/// A short history is exact. A longer one is a split-block filter, sized for the first batch; outgrown, it is
/// re-inserted at growth_factor times the size where there is a history to read (`set_replay`), and otherwise succeeded
/// by a larger and tighter one, so that the user's rate stays within budget for 1,000 times the first capacity and
/// more. With a window each slice is such a chain of its own.
///
/// Thread-safe. `check` takes no lock and writes nothing shared; it never waits for a growth. Writers of users in one
/// shard exclude each other. A record that returned is visible to every check that starts afterwards.
template <HashableItem User = std::uint64_t, Hasher Hash = Xxh3Hash>
class MemoryStore {
  using Core = detail::MemoryCore<User, Hash>;
  using State = typename Core::State;
  using Shard = typename Core::ShardOf;
  using Reader = typename Core::Reader;

 public:
  using user_type = User;
  using hasher_type = Hash;

  /// Throws std::invalid_argument for a policy or options outside their ranges.
  explicit MemoryStore(StorePolicy policy = {}, MemoryOptions options = {})
      : core_(std::make_unique<Core>(std::move(policy), options)) {}

  [[nodiscard]] const StorePolicy& policy() const noexcept { return core_->policy; }
  [[nodiscard]] const MemoryOptions& options() const noexcept { return core_->options; }
  [[nodiscard]] Hash hasher() const noexcept { return core_->hash; }

  /// Gives the store a history: users that are missing when something is recorded are created from it, and full filters
  /// are re-inserted from it. Set it before the first record, since filters are sized by what they can count on.
  void set_replay(Replay<User> replay) {
    const std::lock_guard lock(core_->replay_mutex);
    core_->replay = replay ? std::make_shared<const Replay<User>>(std::move(replay)) : nullptr;
    core_->state()->context.has_history.store(core_->replay != nullptr, std::memory_order_relaxed);
  }

  /// An explicit empty record for a new user; an existing one is kept.
  [[nodiscard]] Result<void> create(const User& user) {
    return core_->guarded(0, [&]() -> Result<void> {
      core_->locked(core_->key(user), [&](State&, Shard& shard) { return shard.create(core_->key(user)); });
      return {};
    });
  }

  /// Marks items as seen. Amortised O(items); a growth costs the writer the user's items once more. Errors: too_large
  /// (max_bytes), and whatever the Replay returns when a missing user cannot be rebuilt.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return record_digests(user, batch.digests);
  }
  Result<RecordOutcome> record_digests(const User& user, std::span<const Digest> digests) {
    return core_->guarded(digests.size(), [&] { return core_->record_in(user, digests, core_->current_slice()); });
  }

  /// Removes every trace of a user and zeroes the bytes; true when there was one.
  [[nodiscard]] Result<bool> forget(const User& user) {
    return core_->locked(core_->key(user), [&](State&, Shard& shard) { return shard.erase(core_->key(user)); });
  }

  /// Everything `from` has seen, `into` has seen from now on, slice by slice; `from` is forgotten. Filters of one size
  /// are united where the result stays within its rate and stand beside each other otherwise: then the merged user may
  /// be over budget, which the counters say. A user that is missing counts with what the history has of them. Errors as
  /// `record`; then both users are as before.
  Result<void> merge_users(const User& from, const User& into) {
    return core_->guarded(0, [&]() -> Result<void> { return core_->merge(from, into, core_->current_slice()); });
  }

  /// Frees the slices that left the window. Records do so for the user they touch; call this now and then for those who
  /// do not come back. O(users), one shard locked at a time.
  void sweep() {
    const std::uint32_t newest = core_->current_slice();
    core_->for_each_shard([&](Shard& shard) { shard.sweep(newest); });
  }

  /// Writes all users to a file while the store goes on serving: what was acknowledged before is in it. A kill at any
  /// moment leaves the old file or the new one, and perhaps a temporary one beside it ("NAME.XXXXXX"). Errors: io.
  Result<void> snapshot(const std::string& path) const {
    const std::lock_guard lock(core_->snapshot_mutex);
    return detail::write_snapshot(*core_->state(), core_->identity(), core_->current_slice(), path);
  }

  /// Replaces all users by a snapshot's; for each user a check sees the record before or the one after. The shards'
  /// number and the wrong-hide rate may differ from those it was written under; where the filters then err more than
  /// the policy allows, over_budget counts them. Errors, which leave the store as it is: bad_magic,
  /// unsupported_version, truncated, corrupt, parameter_mismatch (another hash, seed, window or kind of user),
  /// too_large (max_bytes), io. Readers may be looking at the users before until the store goes, so 600 bytes a shard
  /// or so stay behind each time.
  Result<void> restore(const std::string& path) {
    return core_->guarded(0, [&]() -> Result<void> {
      const std::lock_guard lock(core_->snapshot_mutex);
      auto fresh = core_->new_state();
      const auto newest = detail::read_snapshot(*fresh, core_->identity(), path);
      if (!newest) return newest.error();
      core_->replace_state(std::move(fresh));
      const auto seconds = std::chrono::seconds(std::int64_t{*newest} * core_->slices.slice_seconds());
      if (core_->slices.windowed()) (void)core_->slices.newest(Time(seconds));
      return {};
    });
  }

  /// One added to seen_by[i] for every user whose record says "seen" of candidate i; both spans are overwritten.
  /// O(users * candidates * parts), a user without a window having one part in most cases.
  template <class Item>
  [[gnu::always_inline]] void check(std::span<const User> users, const ItemBatch<Item>& batch,
                                    std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const noexcept {
    check_candidates(users, batch.digest_span(), seen_by, status);
  }
  void check_digests(std::span<const User> users, std::span<const Digest> digests, std::span<std::uint8_t> seen_by,
                     std::span<UserStatus> status) const noexcept {
    check_candidates(users, {digests}, seen_by, status);
  }

  /// Where the users of a request are looked up, on its way from memory since `expect`.
  using Expected = typename Reader::Pair;
  /// Asks for the lines that a check of these users looks at first, for callers that have something else to do before
  /// it. Any thread.
  [[nodiscard, gnu::always_inline]] Expected expect(std::span<const User> users) const noexcept {
    return core_->slices.windowed() ? Expected{} : core_->reader.aim_pair(users);
  }
  /// As the other `check`, for the users that were expected.
  template <class Item>
  [[gnu::always_inline]] void check(std::span<const User> users, const ItemBatch<Item>& batch,
                                    std::span<std::uint8_t> seen_by, std::span<UserStatus> status,
                                    const Expected& expected) const noexcept {
    const detail::DigestSpan digests = batch.digest_span();
    if (!core_->reader.answer_pair(expected, digests, seen_by.data(), status)) {
      check_any(users, digests, seen_by, status);
    }
  }

  /// Answers many requests, each as `check` does. While one is answered, the next one's filters are on their way from
  /// memory, and the one after that has its users looked up.
  template <class Item>
  void check_many(std::span<const CheckRequest<User, Item>> requests) const noexcept {
    std::array<typename Reader::Targets, 4> ring;
    const Reader& reader = core_->reader;
    const std::uint32_t newest = core_->current_slice();
    const std::size_t count = requests.size();
    for (std::size_t i = 0; i < count + 2; ++i) {
      if (i < count) reader.aim(requests[i].users, ring[i % 4]);
      if (i >= 1 && i - 1 < count) reader.resolve(ring[(i - 1) % 4]);
      if (i < 2) continue;
      const auto& request = requests[i - 2];
      reader.answer(ring[(i - 2) % 4], request.users, request.batch.digest_span(), newest, request.seen_by.data(),
                    request.status);
    }
  }

  /// ages[i] is the number of slices since the user last saw candidate i as far as the record tells: 0 in the newest,
  /// 255 when unseen or the user is missing. Without a window what is seen has age 0.
  template <class Item>
  void age(const User& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> ages) const noexcept {
    core_->reader.age(user, core_->current_slice(), batch.digest_span(), ages.data());
  }

  [[nodiscard]] StoreCounters counters() const {
    std::uint64_t user_count = 0;
    detail::ShardCounters total;
    core_->for_each_shard([&](const Shard& shard) {
      user_count += shard.index.users();
      total += shard.counters;
    });
    return {.users = user_count,
            .records = total.records,
            .write_failures = core_->write_failures.load(std::memory_order_relaxed),
            .growths = total.growths,
            .rebuilds = total.rebuilds,
            .over_budget = total.over_budget,
            .slices_dropped = total.slices_dropped};
  }
  [[nodiscard]] std::uint64_t users() const { return counters().users; }

  /// Everything the store holds: records, index, unused memory, shards and bookkeeping.
  [[nodiscard]] std::uint64_t memory_bytes() const {
    std::uint64_t bytes = sizeof(*this) + sizeof(Core) + sizeof(State) + core_->state()->context.space.resident_bytes();
    core_->for_each_shard([&](const Shard& shard) { bytes += shard.bookkeeping_bytes(); });
    return bytes;
  }
  /// The rate at which a user's record hides a fresh candidate now; 0 for nobody and for exact records.
  [[nodiscard]] double expected_fpr(const User& user) const {
    return core_->locked(core_->key(user), [&](State&, Shard& shard) {
      return shard.expected_fpr(core_->key(user), core_->current_slice());
    });
  }
  /// A user's record and their share of the index (20 bytes, 30 where users are no integers); 0 for nobody.
  [[nodiscard]] std::uint64_t user_bytes(const User& user) const {
    return core_->locked(core_->key(user), [&](State&, Shard& shard) { return shard.bytes_of(core_->key(user)); });
  }

 private:
  [[gnu::always_inline]] void check_candidates(std::span<const User> users, detail::DigestSpan digests,
                                               std::span<std::uint8_t> seen_by,
                                               std::span<UserStatus> status) const noexcept {
    if (!core_->reader.answer_pair(expect(users), digests, seen_by.data(), status)) {
      check_any(users, digests, seen_by, status);
    }
  }
  [[gnu::noinline]] void check_any(std::span<const User> users, detail::DigestSpan digests,
                                   std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const noexcept {
    typename Reader::Targets targets;
    core_->reader.aim(users, targets);
    core_->reader.resolve(targets);
    core_->reader.answer(targets, users, digests, core_->current_slice(), seen_by.data(), status);
  }

  std::unique_ptr<Core> core_;
};

}  // namespace seenby
