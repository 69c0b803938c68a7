#pragma once
// SPDX-License-Identifier: MIT
// MemoryStore: the filters of millions of users in this process, for concurrent readers and writers.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/core.hpp"
#include "seenby/stores/memory/options.hpp"
#if !defined(SEENBY_COMPILED_STORE)
#include "seenby/stores/memory/core_members.hpp"
#endif

namespace seenby {

/// Users' filters in memory: an arena of 32-byte granules, 8-byte handles, one index a shard.
///
/// A short history is exact. With a history to read (`set_replay`) and no window, a longer one is a split-block filter,
/// re-inserted at growth_factor times the size when it is full. Without, a large first batch gets a filter of its size,
/// and what grows goes into a fingerprint table, which grows by itself; with a window everything is in one table whose
/// lanes know their slices. A user past one table (table_bytes) has several, split by the digests' top bits.
///
/// Thread-safe. `check` takes no lock and writes nothing shared, but for a shared lock for each user while there are
/// hides or last items; it never waits for a growth. Writers of users in one shard exclude each other. A record that
/// returned is visible to every check that starts afterwards.
template <HashableItem User = std::uint64_t, Hasher Hash = Xxh3Hash>
class MemoryStore {
  static constexpr std::size_t key_words = detail::index_key_words<User>;
  using Core = detail::MemoryCore<key_words>;
  using Located = detail::Request<key_words>;

 public:
  using user_type = User;    ///< who sees
  using hasher_type = Hash;  ///< makes digests of items

  /// Throws std::invalid_argument for a policy or options outside their ranges.
  explicit MemoryStore(StorePolicy policy = {}, MemoryOptions options = {})
      : core_(std::make_unique<Core>(std::move(policy), options, identity_of(policy))) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return core_->policy(); }
  /// As given at construction.
  [[nodiscard]] const MemoryOptions& options() const noexcept { return core_->options(); }
  [[nodiscard]] Hash hasher() const noexcept { return Hash(policy().seed); }  ///< the hasher, with the policy's seed

  /// Gives the store a history: users that are missing when something is recorded are created from it, and full filters
  /// are re-inserted from it. Set it before the first record, since filters are sized by what they can count on.
  void set_replay(Replay<User> replay) {
    if (!replay) return core_->set_history(nullptr);
    core_->set_history([replay = std::move(replay)](const void* user, Time since) {
      return replay(*static_cast<const User*>(user), since);
    });
  }

  /// An explicit empty record for a new user; an existing one is kept.
  [[nodiscard]] Result<void> create(const User& user) { return core_->create(key(user)); }

  /// Marks items as seen. Amortised O(items); a growth costs the writer the user's items once more. A batch of nothing
  /// creates no user. Errors: too_large (max_bytes), unavailable (the user is forgotten again and again meanwhile), and
  /// whatever the Replay returns when a missing user cannot be rebuilt.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return core_->record(stored(user), batch.digests, std::nullopt);
  }
  /// The same for what was seen at another time than now: it goes into the slice of that time, and what lies before the
  /// window is acknowledged and not stored. Without a window the time says nothing.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch, Time when) {
    return core_->record(stored(user), batch.digests, when);
  }
  /// As ManyRecordingStoreFor: the users of one shard under one lock. Errors as `record`, a user's own.
  template <class Item>
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(std::span<const RecordRequest<User, Item>> requests) {
    std::vector<detail::StoredRequest<key_words>> all;
    all.reserve(requests.size());
    for (const auto& request : requests) all.push_back({stored(request.user), request.batch.digests, request.when});
    return core_->record_many(all);
  }
  /// The same for items seen now.
  Result<RecordOutcome> record_digests(const User& user, std::span<const Digest> digests) {
    return core_->record(stored(user), digests, std::nullopt);
  }

  /// Removes every trace of a user and zeroes the bytes; true when there was one.
  [[nodiscard]] Result<bool> forget(const User& user) { return core_->forget(key(user)); }

  /// Everything `from` has seen, `into` has seen from now on, slice by slice; `from` is forgotten. Filters of one size
  /// are united where the result stays within its rate and kept side by side otherwise: then the merged user may
  /// be over budget, which the counters say. A user that is missing counts with what the history has of them. Waits for
  /// a snapshot that is being written. Errors as `record`; then both users are as before.
  Result<void> merge_users(const User& from, const User& into) { return core_->merge(stored(from), stored(into)); }

  /// As HidingStore: kept beside the record, in snapshots too; a user who is missing stays missing. Errors: too_large,
  /// of a text.
  Result<std::size_t> hide(const User& user, std::span<const HiddenItem> items) {
    if (auto fits = detail::check_hidden(items); !fits) return std::move(fits).error();
    return core_->exact().hide(key(user).words, items);
  }
  /// Takes hides back; returns how many there were.
  Result<std::size_t> unhide(const User& user, std::span<const Digest> digests) {
    return core_->exact().unhide(key(user).words, digests);
  }
  /// The user's hides, copied.
  [[nodiscard]] Result<std::vector<HiddenItem>> hidden(const User& user) const {
    return core_->exact().hidden(key(user).words);
  }
  /// How many of each user's last records stay exact: 16 bytes each. For set-up.
  void keep_last(std::size_t items) noexcept { core_->exact().keep_last(items); }

  /// Frees the slices that left the window. Records do so for the user they touch; call this now and then for those who
  /// do not come back. O(users), one shard locked at a time.
  void sweep() { core_->sweep(); }

  /// Writes all users to a file while the store keeps serving: what was acknowledged before is in it. The file takes
  /// the place of a regular file or of none, with its permissions, and follows links. A kill at any moment leaves the
  /// old file or the new one. Errors: io.
  Result<void> snapshot(const std::string& path) const { return core_->snapshot(path); }

  /// Replaces all users by a snapshot's; for each user a check sees the record before or the one after. The shards'
  /// number and the wrong-hide rate may differ from those it was written under; where the filters then err more than
  /// the policy allows, over_budget counts them. Errors, which leave the store as it is: bad_magic,
  /// unsupported_version, truncated, corrupt, parameter_mismatch (another hash, seed, window or kind of user),
  /// too_large (max_bytes), io. Needs memory for the users before and after at once; the former's serves again for the
  /// next restore.
  Result<void> restore(const std::string& path) { return core_->restore(path); }

  /// One added to seen_by[i] for every user whose record says "seen" of candidate i; both spans are overwritten.
  /// O(users * candidates * parts), a user without a window having one part in most cases.
  template <class Item>
  [[gnu::always_inline]] void check(std::span<const User> users, const ItemBatch<Item>& batch,
                                    std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const noexcept {
    check_candidates(users, batch.digest_span(), seen_by, status);
  }
  /// As `check`, of digests alone.
  void check_digests(std::span<const User> users, std::span<const Digest> digests, std::span<std::uint8_t> seen_by,
                     std::span<UserStatus> status) const noexcept {
    check_candidates(users, {digests}, seen_by, status);
  }

  /// Where two users are looked up, on its way from memory since `expect`.
  using Expected = typename detail::Lookup<key_words>::Pair;
  /// Asks for the lines that a check of these users looks at first, for callers that have something else to do before
  /// it. Any thread.
  [[nodiscard, gnu::always_inline]] Expected expect(std::span<const User> users) const noexcept {
    Expected pair;
    if (users.size() != 2) return pair;
    core_->lookup().locate(key(users[0]), pair.first);
    core_->lookup().locate(key(users[1]), pair.second);
    return pair;
  }
  /// As the other `check`, for the users that were expected.
  template <class Item>
  [[gnu::always_inline]] void check(std::span<const User> users, const ItemBatch<Item>& batch,
                                    std::span<std::uint8_t> seen_by, std::span<UserStatus> status,
                                    const Expected& expected) const noexcept {
    check_expected(expected, users, batch.digest_span(), seen_by, status);
    add_exact(users, status);
  }

  /// Answers many requests, each as `check` does. While one is answered, the next one's filters are on their way from
  /// memory, and the one after that has its users looked up.
  template <class Item>
  void check_many(std::span<const CheckRequest<User, Item>> requests) const noexcept {
    std::array<Located, 4> ring;
    const std::size_t count = requests.size();
    for (std::size_t i = 0; i < count + 2; ++i) {
      if (i < count) locate(requests[i].users, ring[i % 4]);
      if (i >= 1 && i - 1 < count) load(ring[(i - 1) % 4]);
      if (i < 2) continue;
      const auto& request = requests[i - 2];
      check_loaded(ring[(i - 2) % 4], request.users, request.batch.digest_span(), request.seen_by, request.status);
      add_exact(request.users, request.status);
    }
  }

  /// ages[i] is the number of slices since the user last saw candidate i as far as the record tells: 0 in the newest,
  /// 255 when unseen or the user is missing. Without a window what is seen has age 0.
  template <class Item>
  void age(const User& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> ages) const noexcept {
    core_->age(key(user), batch.digest_span(), ages);
  }

  [[nodiscard]] StoreCounters counters() const { return core_->counters(); }  ///< a snapshot of the store's counters
  [[nodiscard]] std::uint64_t users() const { return counters().users; }      ///< users in the store. O(shards).

  /// Everything the store holds: records, index, unused memory, shards and bookkeeping. Addresses that were reserved
  /// and never used are not memory: at most as many again, and a few hundred KiB.
  [[nodiscard]] std::uint64_t memory_bytes() const { return sizeof(*this) + core_->memory_bytes(); }
  /// The rate at which a user's record hides a fresh candidate now; 0 for a missing user and for exact records.
  [[nodiscard]] double expected_fpr(const User& user) const { return core_->expected_fpr(key(user)); }
  /// A user's record and their share of the index (20 bytes, 30 where users are no integers); 0 for a missing user.
  [[nodiscard]] std::uint64_t user_bytes(const User& user) const { return core_->user_bytes(key(user)); }

 private:
  [[nodiscard]] static detail::DigestIdentity identity_of(const StorePolicy& policy) noexcept {
    return {Hash::kind, seed_check(Hash(policy.seed))};
  }
  [[nodiscard, gnu::always_inline]] detail::IndexKey<key_words> key(const User& user) const noexcept {
    return detail::index_key(user, core_->key_seed());
  }
  [[nodiscard]] detail::StoredUser<key_words> stored(const User& user) const noexcept { return {key(user), &user}; }

  [[gnu::always_inline]] void check_candidates(std::span<const User> users, detail::DigestSpan digests,
                                               std::span<std::uint8_t> seen_by,
                                               std::span<UserStatus> status) const noexcept {
    check_expected(expect(users), users, digests, seen_by, status);
    add_exact(users, status);
  }
  [[gnu::always_inline]] void check_expected(const Expected& expected, std::span<const User> users,
                                             detail::DigestSpan digests, std::span<std::uint8_t> seen_by,
                                             std::span<UserStatus> status) const noexcept {
    using Lookup = detail::Lookup<key_words>;
    if (expected.first.slot == nullptr || status.size() != 2) return check_any(users, digests, seen_by, status);
    const detail::Loaded first = core_->lookup().load(expected.first);
    const detail::Loaded second = core_->lookup().load(expected.second);
    if (Lookup::check_loaded(expected.first, first, expected.second, second, digests, seen_by.data(), status)) return;
    const auto filter = detail::RecordKind::filter;
    if (first.handle.kind() == filter && second.handle.kind() == filter) {  // a writer got in between
      return check_any(users, digests, seen_by, status);
    }
    check_pair(Expected(expected), first, second, digests, seen_by, status);  // of a copy: the other stays in registers
  }
  /// Two users who were loaded, and have records of other kinds.
  [[gnu::noinline]] void check_pair(const Expected& pair, detail::Loaded first, detail::Loaded second,
                                    detail::DigestSpan digests, std::span<std::uint8_t> seen_by,
                                    std::span<UserStatus> status) const noexcept {
    Located located;
    located.count = 2;
    located.users[0] = pair.first;
    located.users[1] = pair.second;
    located.records[0] = first;
    located.records[1] = second;
    core_->check(located, digests, seen_by, status);
  }
  [[gnu::always_inline]] void add_exact(std::span<const User> users, std::span<UserStatus> status) const noexcept {
    if (!core_->exact().empty()) look_up_exact(users, status);
  }
  [[gnu::noinline]] void look_up_exact(std::span<const User> users, std::span<UserStatus> status) const noexcept {
    for (std::size_t u = 0; u < users.size(); ++u) status[u].exact = core_->exact().of(key(users[u]).words);
  }
  [[gnu::noinline]] void check_any(std::span<const User> users, detail::DigestSpan digests,
                                   std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const noexcept {
    Located located;
    locate(users, located);
    load(located);
    check_loaded(located, users, digests, seen_by, status);
  }

  void locate(std::span<const User> users, Located& located) const noexcept {
    located.count = users.size() <= detail::few_users ? users.size() : 0;
    for (std::size_t u = 0; u < located.count; ++u) core_->lookup().locate(key(users[u]), located.users[u]);
  }
  void load(Located& located) const noexcept {
    for (std::size_t u = 0; u < located.count; ++u) located.records[u] = core_->lookup().load(located.users[u]);
  }
  void check_loaded(const Located& located, std::span<const User> users, detail::DigestSpan digests,
                    std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const noexcept {
    if (located.count == users.size()) return core_->check(located, digests, seen_by, status);
    std::fill_n(seen_by.begin(), digests.size(), std::uint8_t{0});
    for (std::size_t u = 0; u < users.size(); ++u) core_->check_add(key(users[u]), digests, seen_by, status[u]);
  }

  std::unique_ptr<Core> core_;
};

}  // namespace seenby
