#pragma once
// SPDX-License-Identifier: MIT
// RedisStore: users' filters in plain Redis or Valkey, one string a user, no module.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/detail/wire_text.hpp"
#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/keeps_exact.hpp"
#include "seenby/redis/options.hpp"
#include "seenby/redis/redis_metrics.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::redis {

struct StoreState;

/// One string a user, `{prefix}{user}`: split-block filters; with a window, a fingerprint table whose lanes carry
/// slices. Braces and '%' inside a user's name are percent-encoded, so that the whole name is the hash tag.
///
/// **A filter's value** is one or more filters in format v1, the newest first. A write goes to the first, a lookup
/// asks all. There is more than one only while a filter without a history grows (a chain: each next one is larger
/// and half as likely to err), or for the moment between a contended growth and its compaction.
///
/// **Adding** is one script: it compares the identity (bytes 0 to 15, with a random generation), sets bits, counts
/// items and bumps the sequence even if no bit changed. On another identity it returns the header, and the client
/// computes again.
///
/// **Growing and rebuilding** read the header, then the history, build in the client, and replace the value if identity
/// and sequence are unchanged. If only the sequence moved, another client added meanwhile: then the new filter is put
/// before the old one instead, so that nothing is lost and a hot user cannot starve its own growth; the history is read
/// once more, merged into the new filter (BITOP OR on the server), and the old one dropped.
///
/// **Creating from a history** first puts an empty filter marked "building" (SET NX), reads the history after that, and
/// replaces it by identity. Adds meanwhile go to the marked filter and are kept; lookups call the user `missing`. A
/// filter deleted and created again between has another generation, so a slow builder never resurrects a stale history.
///
/// **A damaged value** (cut short, a byte too many, a header that contradicts itself) is refused by lookups and by
/// adds; an add heals it from the history where there is one, and else returns `corrupt`.
///
/// **The kind of items** (integer, text, bytes) is kept in `{prefix}items`. The first record writes it; a store that is
/// asked with another kind is refused with `parameter_mismatch`, since 42 and "42" have different digests.
///
/// **Hides, last items and items in flight** are one string, `{prefix}{user}:hides`, without a time to live (marks
/// alone expire with the last of them): sections of tests/golden/FORMAT-TABLE.md, read with every look-up in the same
/// round trip and replaced by compare-and-swap.
///
/// **A table's value** (tests/golden/FORMAT-REDIS.md) has recent items behind the table. An add is one script that
/// needs to know nothing before: it looks for each item, and appends those that are new to the recent ones. Where these
/// have no room, or a slice has begun, the client reads the value, sorts them in, and swaps it by identity; what was
/// appended meanwhile is carried over inside of that script, so adds never make a swap fail. A table that is missing is
/// built as a filter is: marked first. What version 1 kept, a key a slice and a list of them, is read, and taken over
/// by the next record; programs of version 1 refuse tables.
///
/// Thread-safe.
class StoreProtocol {
 public:
  /// One request of a check; the spans are those of FilterStoreFor's `check`.
  struct Job {
    std::span<const std::string> users;  ///< names, one a user
    std::span<const Digest> digests;     ///< of the candidates
    std::span<std::uint8_t> seen_by;     ///< overwritten: for each candidate, the users whose filter says seen
    std::span<UserStatus> status;        ///< overwritten, one a user
  };

  /// Throws std::invalid_argument for a policy or options that cannot be kept. Connects on first use.
  StoreProtocol(std::shared_ptr<Executor> executor, const StorePolicy& policy, RedisStoreOptions options, HashKind hash,
                std::uint16_t seed_check);
  StoreProtocol(const StoreProtocol&) = delete;
  StoreProtocol& operator=(const StoreProtocol&) = delete;
  ~StoreProtocol();

  /// Answers all jobs in one pipelined round trip. A value read by block that has changed since its shape was
  /// remembered is read once more, whole; jobs whose values together exceed a megabyte are asked one megabyte after the
  /// other.
  void check(std::span<const Job> jobs, ItemKind kind) const;
  /// As FilterStoreFor's members; `history` may be empty, and `when` is now where it is.
  Result<RecordOutcome> record(const std::string& user, std::span<const Digest> digests, ItemKind kind,
                               const ReadSeen& history, std::optional<Time> when = {});
  /// One user of `record_many`; `when` has a time for each digest, the oldest first, or none where all were seen now.
  struct UserRecord {
    std::string user;                 ///< their name
    std::span<const Digest> digests;  ///< of the items they saw
    std::span<const Time> when;       ///< as RecordRequest::when
    ReadSeen history;                 ///< may be empty
  };
  /// As ManyRecordingStoreFor. One pipelined round trip for all users whose filters this process knows and that have
  /// room; one more for those it does not know yet, one more for new ones. With a window one for all of these. A filter
  /// that grows, is rebuilt or damaged, a slice that begins, more than 256 items: round trips of their own, as
  /// `record`.
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(std::span<const UserRecord> records, ItemKind kind);
  Result<void> create(const std::string& user);  ///< an explicit empty filter; one that exists is kept
  Result<bool> forget(const std::string& user);  ///< deletes every key of the user; true when there was one
  /// Rebuilds the user's filters from the history, whatever is there.
  Result<void> rebuild(const std::string& user, const ReadSeen& history);
  /// ages[i]: how many slices ago; 255 for unseen or unknown.
  Result<void> age(const std::string& user, std::span<const Digest> digests, ItemKind kind,
                   std::span<std::uint8_t> ages) const;

  /// What the user hid, saw last and has in flight: `{prefix}{user}:hides`.
  [[nodiscard]] Result<detail::ExactItems> exact(const std::string& user) const;
  /// Edits that, and returns what `edit` returned. Compare and swap, tried again when another writer was first.
  Result<std::size_t> change_exact(const std::string& user, const EditExact& edit);

  /// For a store that is emptied for good: the kind of its items is no longer on the server.
  Result<void> forget_kind() const;

  [[nodiscard]] StoreCounters counters() const noexcept;  ///< a snapshot of the store's counters
  /// The key of a user's filter or table.
  [[nodiscard]] std::string key_of(std::string_view user) const;
  /// Where version 1 kept one slice of a user's window.
  [[nodiscard]] std::string slice_key_of(std::string_view user, std::int64_t slice) const;
  [[nodiscard]] Executor& executor() const noexcept;  ///< what it sends commands with

 private:
  std::unique_ptr<StoreState> state_;
};

/// Filters in Redis 6.2 or later, Valkey, or a cluster of either: split-block filters, and a fingerprint table where
/// there is a window. Read whole (filters by block, when large) and checked in the client: one pipelined round trip for
/// all users of a request, and for all requests of `check_many` (for each megabyte, where values are that large). See
/// StoreProtocol for the keys and what each write does.
///
/// With a history (`set_replay`) a full filter is re-inserted at a larger size and a lost one rebuilt; write the
/// history before the filter. Without one, a full filter is succeeded by a larger, tighter one in the same value.
///
/// A user who could not be asked, or whose key holds something else, is `unreachable` with a typed error that names the
/// key; the other users are answered. Writes that fail return the error and count in `write_failures`.
///
/// Thread-safe. Move it only while no call is running.
template <HashableItem User = std::uint64_t, Hasher Hash = Xxh3Hash>
class RedisStore : public KeepsExact<RedisStore<User, Hash>, User> {
  using Exact = KeepsExact<RedisStore, User>;
  friend Exact;

 public:
  using user_type = User;                  ///< who sees
  using hasher_type = Hash;                ///< makes digests of items
  static constexpr bool is_remote = true;  ///< a round trip a question: one for a whole request

  /// Throws std::invalid_argument for a policy that cannot be kept. Does not connect yet: a server that is down makes
  /// users `unreachable`, which SeenFilter shows or hides as `on_unknown` says (by default it shows).
  RedisStore(std::shared_ptr<Executor> executor, StorePolicy policy, RedisStoreOptions options = {})
      : policy_(std::move(policy)),
        hash_(policy_.seed),
        protocol_(std::make_unique<StoreProtocol>(std::move(executor), policy_, std::move(options), Hash::kind,
                                                  seed_check(hash_))) {}
  /// From a URL, see `parse_url`: `redis://host?timeout_ms=50&pool=16`. A pool has 8 connections a server unless `pool`
  /// says otherwise; give it one for each thread that asks at once. Throws BadResult for a malformed one.
  RedisStore(std::string_view url, StorePolicy policy, RedisStoreOptions options = {})
      : RedisStore(make_executor(url).value(), std::move(policy), std::move(options)) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }  ///< the hasher, with the policy's seed
  /// A snapshot of the store's counters.
  [[nodiscard]] StoreCounters counters() const { return protocol_->counters(); }
  /// The executor's, which stores may share.
  [[nodiscard]] PoolCounters connections() const { return protocol_->executor().connections(); }
  [[nodiscard]] const StoreProtocol& protocol() const noexcept { return *protocol_; }  ///< for what is Redis's own
  /// Rebuilds missing and full filters from this from now on. For set-up, before other threads use the store.
  void set_replay(Replay<User> replay) { replay_ = std::move(replay); }

  /// As FilterStoreFor says; one pipelined round trip for all users.
  template <class Item>
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    const std::vector<std::string> names = names_of(users);
    const StoreProtocol::Job job{names, batch.digests, seen_by, status};
    protocol_->check({&job, 1}, item_kind<Item>);
  }

  /// Many requests in one round trip: what a feed service gathers in one tick.
  template <class Item>
  void check_many(std::span<const CheckRequest<User, Item>> requests) const {
    std::vector<std::vector<std::string>> names;
    std::vector<StoreProtocol::Job> jobs;
    names.reserve(requests.size());
    jobs.reserve(requests.size());
    for (const auto& request : requests) {
      names.push_back(names_of(request.users));
      jobs.push_back({names.back(), request.batch.digests, request.seen_by, request.status});
    }
    protocol_->check(jobs, item_kind<Item>);
  }

  /// As FilterStoreFor says. One round trip to a user whose shape this process remembers; with a window to any whose
  /// table has room, and to a new one without a history.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return record_at(user, batch, std::nullopt);
  }
  /// Records into the slice that `when` falls into, the newest at most. What is older than the window is acknowledged
  /// and not stored.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch, Time when) {
    return record_at(user, batch, when);
  }
  /// As ManyRecordingStoreFor; see StoreProtocol::record_many for its round trips. With keep_last each user has two
  /// more.
  template <class Item>
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(std::span<const RecordRequest<User, Item>> requests) {
    std::vector<StoreProtocol::UserRecord> records;
    records.reserve(requests.size());
    for (const auto& [user, batch, when] : requests) {
      records.push_back({detail::wire_text(user), batch.digests, when, history_of(user)});
    }
    auto outcomes = protocol_->record_many(records, item_kind<Item>);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!outcomes[i]) continue;
      if (auto kept = Exact::keep(requests[i].user, requests[i].batch.digests, requests[i].when); !kept) {
        outcomes[i] = std::move(kept).error();
      }
    }
    return outcomes;
  }
  /// An explicit empty filter for a new user, who is `missing` (unknown, not unseen) without one until the first
  /// record. An existing filter is kept.
  Result<void> create(const User& user) { return protocol_->create(detail::wire_text(user)); }
  /// Everything the user has here, whatever window it was recorded under.
  Result<bool> forget(const User& user) { return protocol_->forget(detail::wire_text(user)); }
  /// Rebuilds the user's filters from the history. `invalid_argument` without one.
  Result<void> rebuild(const User& user) { return protocol_->rebuild(detail::wire_text(user), history_of(user)); }

  /// Everything `from` has seen, `into` has seen from now on, and `from` is forgotten. The filters of `into` are
  /// rebuilt from both users' histories, in which `into` must have those items from then on (SeenFilter::merge_users
  /// writes them first). What is recorded for `from` meanwhile is lost. Errors: `invalid_argument` without a history,
  /// since filters of different sizes cannot be united; else as `rebuild`, and then `from` is as before.
  Result<void> merge_users(const User& from, const User& into) {
    const std::string source = detail::wire_text(from);
    const std::string target = detail::wire_text(into);
    if (source == target) return {};
    if (auto built = protocol_->rebuild(target, history_of_both(from, into)); !built) return built;
    const auto moved = protocol_->exact(source);
    if (!moved) return moved.error();
    if (!moved->empty()) {
      auto merged = protocol_->change_exact(target, [&](detail::ExactItems& items) {
        items.merge(*moved);
        return std::size_t{1};
      });
      if (!merged) return std::move(merged).error();
    }
    if (auto gone = protocol_->forget(source); !gone) return std::move(gone).error();
    return {};
  }

  /// Slices since the user last saw each candidate; 255 when unseen, unknown or unreachable.
  template <class Item>
  void age(const User& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> ages) const {
    // Unknown ages are 255 already; `check` is where an unreachable user's error is told.
    (void)protocol_->age(detail::wire_text(user), batch.digests, item_kind<Item>, ages);
  }

  /// The key of a user's filter or table.
  [[nodiscard]] std::string key_of(const User& user) const { return protocol_->key_of(detail::wire_text(user)); }

 private:
  [[nodiscard]] Result<detail::ExactItems> exact(const User& user) const {
    return protocol_->exact(detail::wire_text(user));
  }
  Result<std::size_t> change_exact(const User& user, const EditExact& edit) {
    return protocol_->change_exact(detail::wire_text(user), edit);
  }
  template <class Item>
  Result<RecordOutcome> record_at(const User& user, const ItemBatch<Item>& batch, std::optional<Time> when) {
    auto outcome = protocol_->record(detail::wire_text(user), batch.digests, item_kind<Item>, history_of(user), when);
    if (!outcome || !Exact::keeps()) return outcome;
    const std::vector<Time> times(when ? batch.size() : 0, when.value_or(Time{}));
    if (auto kept = Exact::keep(user, batch.digests, times); !kept) return std::move(kept).error();
    return outcome;
  }
  [[nodiscard]] static std::vector<std::string> names_of(std::span<const User> users) {
    std::vector<std::string> names;
    names.reserve(users.size());
    for (const User& user : users) names.push_back(detail::wire_text(user));
    return names;
  }
  [[nodiscard]] ReadSeen history_of(const User& user) const {
    if (!replay_) return {};
    return [this, user](Time since) { return replay_(user, since); };
  }
  [[nodiscard]] ReadSeen history_of_both(const User& from, const User& into) const {
    if (!replay_) return {};
    return [this, from, into](Time since) -> Result<std::vector<SeenDigest>> {
      auto all = replay_(into, since);
      if (!all) return all;
      auto more = replay_(from, since);
      if (!more) return more;
      all->insert(all->end(), more->begin(), more->end());
      // Once each, at the later time: a filter's size goes by their number.
      std::sort(all->begin(), all->end(), [](const SeenDigest& a, const SeenDigest& b) {
        return a.digest.value != b.digest.value ? a.digest.value < b.digest.value : a.seen_at > b.seen_at;
      });
      const auto same = [](const SeenDigest& a, const SeenDigest& b) { return a.digest.value == b.digest.value; };
      all->erase(std::unique(all->begin(), all->end(), same), all->end());
      return all;
    };
  }

  StorePolicy policy_;
  Hash hash_;
  Replay<User> replay_;
  std::unique_ptr<StoreProtocol> protocol_;
};

}  // namespace seenby::redis
