#pragma once
// SPDX-License-Identifier: MIT
// What a store of users' filters offers: the answers it gives, the concept it models, and what it may do beyond.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/kernels/digest_lanes.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/exact_items.hpp"
#include "seenby/stores/policy.hpp"

namespace seenby {

/// Whether a user's filter could be asked.
enum class UserState : std::uint8_t {
  known,        ///< there is a filter and it answered
  missing,      ///< the store has no filter for this user: never created, expired or evicted
  unreachable,  ///< the store could not be asked; the status carries the error
};

/// One user's part in the answer to a request.
struct UserStatus {
  UserState state = UserState::known;  ///< whether the filter answered
  std::shared_ptr<const Error> error;  ///< set when unreachable
  /// Of a HidingStore: what is seen for certain, whatever `seen_by` says; null where the user has nothing of it.
  std::shared_ptr<const ExactList> exact = nullptr;
};

/// Items with their digests beside them, index by index. Stores that keep digests read the digests; stores that send
/// raw items to a server (RedisBloom) read the items.
template <class Item>
struct ItemBatch {
  std::span<const Item> items;      ///< the candidates
  std::span<const Digest> digests;  ///< of the same candidates, index by index
  /// What a pool precomputed of the digests for the kernels; the answers are the same without it.
  detail::LanesOf lanes{};

  [[nodiscard]] std::size_t size() const noexcept { return digests.size(); }  ///< candidates
  /// The digests with what is precomputed of them, for kernels.
  [[nodiscard]] detail::DigestSpan digest_span() const noexcept { return {digests, lanes.serving(digests.data())}; }
  /// Keeps the lanes where `offset` is a multiple of the 64 candidates of one of them.
  [[nodiscard]] ItemBatch subspan(std::size_t offset, std::size_t count) const noexcept {
    return {items.subspan(offset, count), digests.subspan(offset, count), lanes.from(offset)};
  }
};

/// One request's question, for stores that answer many in one go (`check_many`): the spans of `check`.
template <class User, class Item>
struct CheckRequest {
  std::span<const User> users;      ///< of the request, at most 255
  ItemBatch<Item> batch;            ///< the candidates
  std::span<std::uint8_t> seen_by;  ///< as long as the batch; overwritten
  std::span<UserStatus> status;     ///< as long as the users; overwritten
};

/// What a record did.
struct RecordOutcome {
  std::size_t newly_added = 0;  ///< items that changed the filter: a lower bound on those not there before
  bool grew = false;            ///< the filter was made larger, or succeeded by a larger one
};

/// One user's part of a store's `record_many`. `when` has a time for each item, none where all were seen now; a store
/// whose `record` takes no times records all of them as seen now.
template <class User, class Item>
struct RecordRequest {
  User user;                     ///< who saw them
  ItemBatch<Item> batch;         ///< what they saw
  std::span<const Time> when{};  ///< and when
};

/// What a store counts. A snapshot; each figure is exact, the set of them is not atomic.
struct StoreCounters {
  std::uint64_t users = 0;           ///< users with a filter; 0 where the store cannot count them
  std::uint64_t records = 0;         ///< items recorded (acknowledged)
  std::uint64_t write_failures = 0;  ///< items whose write was refused, timed out or lost
  std::uint64_t growths = 0;         ///< filters made larger, by any means
  std::uint64_t rebuilds = 0;        ///< filters re-inserted from a history
  std::uint64_t over_budget = 0;     ///< growths that could not keep the FPR budget (should stay 0)
  std::uint64_t slices_dropped = 0;  ///< slices that left the window
  std::uint64_t clock_jumps = 0;     ///< jumps ahead of the clock that the window did not follow at once
};

/// A place where users' filters live.
///
/// - `check` adds, for each candidate, one to `seen_by[i]` for every user whose filter says "seen", and sets each
///   user's status. It overwrites both spans. One call is one round trip, however many users. A user that is
///   `missing` or `unreachable` adds nothing. At most 255 users.
/// - `record` marks items as seen by a user; creates the user's filter when there is none (from the store's Replay
///   where it has one). When it returns a value, no later `check` by any caller says "unseen" of these items (within
///   the window). One item at least: no items make no missing user known, and SeenFilter does not hand them on.
/// - `create` gives a new user an explicit empty filter; an existing one is kept.
/// - `forget` removes every trace of a user; true when there was one.
///
/// Every member may be called from any thread.
// clang-format 14 breaks noexcept requirements apart.
// clang-format off
template <class Store, class Item>
concept FilterStoreFor =
    requires { typename Store::user_type; typename Store::hasher_type; } && Hasher<typename Store::hasher_type> &&
    requires(Store& store, const Store& readable, const typename Store::user_type& user,
             std::span<const typename Store::user_type> users, const ItemBatch<Item>& batch,
             std::span<std::uint8_t> seen_by, std::span<UserStatus> status) {
      { readable.policy() } noexcept -> std::same_as<const StorePolicy&>;
      { readable.hasher() } noexcept -> std::convertible_to<typename Store::hasher_type>;
      readable.check(users, batch, seen_by, status);
      { store.record(user, batch) } -> std::same_as<Result<RecordOutcome>>;
      { store.create(user) } -> std::same_as<Result<void>>;
      { store.forget(user) } -> std::same_as<Result<bool>>;
      { readable.counters() } -> std::same_as<StoreCounters>;
    };
// clang-format on

/// The concept for stores that read digests only, whatever the item's type.
template <class Store>
concept FilterStore = FilterStoreFor<Store, std::uint64_t>;

/// A store that answers many requests in one call: one round trip, or the next request's memory fetched while this
/// one is answered.
template <class Store, class Item>
concept BatchingStoreFor = requires(const Store& store,
                                    std::span<const CheckRequest<typename Store::user_type, Item>> requests) {
  store.check_many(requests);
};

/// A store that takes the time of an event: `record(user, batch, when)` records into the slice that the time falls
/// into, and stores nothing of what is older than the window.
template <class Store, class Item>
concept TimedStoreFor = requires(Store& store, const typename Store::user_type& user, const ItemBatch<Item>& batch,
                                 Time when) {
  { store.record(user, batch, when) } -> std::same_as<Result<RecordOutcome>>;
};

/// A store that records many users' items in one call: one round trip, one transaction or one lock for all that it can.
///
/// - An outcome a request, in their order, each as `record` gives it: one user's error is no other's. Each user once.
template <class Store, class Item>
concept ManyRecordingStoreFor = requires(Store& store,
                                         std::span<const RecordRequest<typename Store::user_type, Item>> requests) {
  { store.record_many(requests) } -> std::same_as<std::vector<Result<RecordOutcome>>>;
};

/// A store that can be told of a request's users before it is asked about them, so that their memory is on its way.
template <class Store, class Item>
concept ExpectingStoreFor = requires(const Store& store, std::span<const typename Store::user_type> users,
                                     const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
                                     std::span<UserStatus> status) {
  store.check(users, batch, seen_by, status, store.expect(users));
};

/// A store on the far side of a network: one big question beats several small ones.
template <class Store>
concept RemoteStore = requires {
  requires Store::is_remote;
};

/// A store that can be given a history to rebuild users from.
template <class Store>
concept ReplayableStore = requires(Store& store, Replay<typename Store::user_type> replay) {
  store.set_replay(std::move(replay));
};

/// A store that keeps what a user did on purpose in the user's own record, so that it outlives the process and every
/// other process applies it with its next request.
///
/// - `hide` adds items to those the user hid, and says how many were not there; `unhide` takes them away. A user that
///   is missing may become known by it, as by a record.
/// - `hidden` lists them in the order they were hidden.
/// - `keep_last` has every later record keep the last so many items of its user, exact too. For set-up.
/// - `check` hands both over in UserStatus::exact, in the same round trip, and leaves `seen_by` to the filters; all of
///   them, or those that are among the candidates.
/// - `forget`, and `merge_users` where there is one, take all of it along.
template <class Store>
concept HidingStore = requires(Store& store, const Store& readable, const typename Store::user_type& user,
                               std::span<const HiddenItem> items, std::span<const Digest> digests, std::size_t most) {
  { store.hide(user, items) } -> std::same_as<Result<std::size_t>>;
  { store.unhide(user, digests) } -> std::same_as<Result<std::size_t>>;
  { readable.hidden(user) } -> std::same_as<Result<std::vector<HiddenItem>>>;
  store.keep_last(most);
};

/// A store that keeps what is in flight (reported as seen, and not recorded yet) in the user's record, so that every
/// process applies it with its next request, until a deadline by the store's clock. `check` hands it over in
/// UserStatus::exact. A user that is missing may become known by it, as by a record.
template <class Store>
concept MarkingStore = requires(Store& store, const typename Store::user_type& user, std::span<const Digest> digests,
                                Time until) {
  { store.mark_in_flight(user, digests, until) } -> std::same_as<Result<void>>;
};

/// A windowed store that can tell how long ago: `age` sets `ages[i]` to the number of slices (0: the newest) since
/// the user last saw candidate i as far as the filters tell, 255 when unseen or unknown.
template <class Store>
concept AgeingStore = requires(const Store& store, const typename Store::user_type& user,
                               const ItemBatch<std::uint64_t>& batch, std::span<std::uint8_t> ages) {
  store.age(user, batch, ages);
};

}  // namespace seenby
