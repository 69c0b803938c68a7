#pragma once
// SPDX-License-Identifier: MIT
// BlobStore: makes a filter store of any key-value store that can load, compare-and-swap and erase.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"
#include "seenby/stores/blob/batches.hpp"
#include "seenby/stores/blob/item_kind.hpp"
#include "seenby/stores/blob/update.hpp"
#include "seenby/stores/blob/values.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

namespace seenby {

/// One key and one value a user: a fingerprint table in format 2 (tests/golden/FORMAT-TABLE.md), which grows by itself
/// and, with a window, holds the slice of each item; so it needs no history, and 18 bits an item, 26 with a window.
/// Behind it in the same value: what the user hid, the last items, and those in flight.
///
/// Every write is a compare-and-swap of the whole value, so writers in other processes lose nothing; a writer that
/// keeps losing gives up with `conflict` after 64 tries. A record of what is there already writes nothing. Good
/// for small and medium users: each record of something new rewrites the value. Any thread may call any member, but
/// set_replay.
///
/// A user whose value is not there is `missing` until the next record or create, which reads the history where there is
/// one. A damaged value makes its user `unreachable`; a record heals it from the history, with those of its hides that
/// can still be read, or says so where there is none. A value under another seed, hash or format is never overwritten.
///
/// The kind of items (integer, text, bytes) is kept in a key that no user has ("\0items"). The first record writes it;
/// a store that is asked with another kind is refused with `parameter_mismatch`, since 42 and "42" have different
/// digests. Once known, it is not asked again.
///
/// Values of version 1, windowed or not, are read where no value of version 2 is, and the next record converts them:
/// from the history where that knows as much, else they stay beside the table until they leave the window. Programs of
/// both versions must not write to one backend at a time.
///
/// A value that is evicted while two writers are both creating it takes along what the one wrote and the other had not
/// yet found in the history: a backend that evicts is no place for what must never be shown twice. Keys of users who
/// never come back stay: give them a time to live where the backend can, of at least the window and two slices from
/// each write.
template <BlobBackend Backend, HashableItem User = std::uint64_t, Hasher Hash = Xxh3Hash>
class BlobStore {
 public:
  using user_type = User;    ///< who sees
  using hasher_type = Hash;  ///< makes digests of items
  /// One question a request: a user's value is loaded once for all candidates. A backend says `is_remote = false` where
  /// a load costs nothing.
  static constexpr bool is_remote = [] {
    if constexpr (requires { Backend::is_remote; }) {
      return bool{Backend::is_remote};
    } else {
      return true;
    }
  }();

  /// Throws std::invalid_argument for a policy that cannot be kept.
  BlobStore(Backend backend, StorePolicy policy)
      : values_{std::move(backend), std::move(policy)},
        kind_(std::make_unique<detail::BlobKind>()),
        counters_(std::make_unique<detail::BlobCounters>()) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return values_.policy; }
  [[nodiscard]] Hash hasher() const noexcept { return values_.hash; }    ///< the hasher, with the policy's seed
  [[nodiscard]] Backend& backend() noexcept { return values_.backend; }  ///< the backend, for what is its own
  /// Rebuilds missing and damaged users from this from now on. For set-up, before other threads use the store.
  void set_replay(Replay<User> replay) { values_.replay = std::move(replay); }

  /// As FilterStoreFor says. One question for the users' values, and one more for those who have none: whether slices
  /// of version 1 are there.
  template <class Item>
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    const CheckRequest<User, Item> request{users, batch, seen_by, status};
    check_many(std::span(&request, 1));
  }
  /// As `check`, for the users of all requests together, where the backend loads many keys at once.
  template <class Item>
  void check_many(std::span<const CheckRequest<User, Item>> requests) const {
    std::vector<std::string> keys;
    for (const auto& request : requests) {
      for (const User& user : request.users) keys.push_back(values_.key_of(user));
    }
    const std::size_t users = keys.size();
    const detail::SliceWindow window = values_.current_window();
    if (!kind_->is_known()) keys.push_back(detail::BlobKind::key());
    std::vector<detail::LoadedBlob> blobs = detail::load_all(values_.backend, keys);
    if (blobs.size() > users) {
      if (blobs.back()) kind_->learn(*blobs.back());
      blobs.pop_back();
      keys.pop_back();
    }
    if (auto right = kind_->check(item_kind<Item>); !right) {
      std::fill(blobs.begin(), blobs.end(), detail::LoadedBlob(right.error()));
    }
    const std::vector<detail::LoadedBlob> lists = values_.load_lists(keys, blobs);
    std::size_t at = 0;
    std::size_t next_list = 0;
    for (const auto& request : requests) {
      std::fill(request.seen_by.begin(), request.seen_by.end(), std::uint8_t{0});
      std::vector<std::uint8_t> seen(request.batch.size());
      for (UserStatus& status : request.status) {
        const detail::LoadedBlob* const list = values_.lacks_value(blobs[at]) ? &lists[next_list++] : nullptr;
        status = values_.test(keys[at], blobs[at], list, window, request.batch.digest_span(), seen);
        ++at;
        for (std::size_t i = 0; status.state == UserState::known && i < seen.size(); ++i) {
          request.seen_by[i] = static_cast<std::uint8_t>(request.seen_by[i] + seen[i]);
        }
      }
    }
  }

  /// Slices since the user last saw each candidate; 255 when unseen, unknown or unreachable. 0 without a window.
  /// A user of whom only slices of version 1 are there is unknown until the next record.
  template <class Item>
  void age(const User& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> ages) const {
    std::fill(ages.begin(), ages.end(), Record::unseen);
    const std::string at = values_.key_of(user);
    const auto blob = values_.backend.load(at);
    if (!blob || !values_.holds_value(*blob)) return;
    if (!Record::ages(**blob, values_.hash, values_.current_window(), batch.digests, ages)) {
      std::fill(ages.begin(), ages.end(), Record::unseen);
    }
  }

  /// As FilterStoreFor says, for items seen now. A load and a compare-and-swap, again when another writer was first.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return record_one<Item>({user, batch, {}});
  }
  /// Records into the slice that `when` falls into, the newest at most. What is older than the window is acknowledged
  /// and not stored.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch, Time when) {
    const std::vector<Time> times(batch.size(), when);
    return record_one<Item>({user, batch, times});
  }
  /// As ManyRecordingStoreFor: one load and one swap of all where the backend can (BatchLoadingBackend,
  /// BatchSwappingBackend); again for those whose value another writer changed meanwhile.
  template <class Item>
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(std::span<const RecordRequest<User, Item>> requests) {
    auto outcomes = record_all(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto& counter = outcomes[i] ? counters_->records : counters_->write_failures;
      counter.fetch_add(requests[i].batch.size(), std::memory_order_relaxed);
    }
    return outcomes;
  }

  /// An explicit empty filter; one that exists is kept.
  Result<void> create(const User& user) {
    auto outcome = edit().update(user, Update::nothing);
    if (!outcome) return std::move(outcome).error();
    return {};
  }

  /// As HidingStore. A missing user is created, as by a record. Errors: a record's; too_large, of a text.
  Result<std::size_t> hide(const User& user, std::span<const HiddenItem> items) {
    if (auto fits = detail::check_hidden(items); !fits) return std::move(fits).error();
    return changes(edit().update(user, [&](Record& record) { return record.hide(items); }));
  }
  /// Takes hides back; returns how many there were.
  Result<std::size_t> unhide(const User& user, std::span<const Digest> digests) {
    auto hides = hidden(user);
    if (!hides || hides->empty()) return hides ? Result<std::size_t>(std::size_t{0}) : std::move(hides).error();
    return changes(edit().update(user, [&](Record& record) { return record.unhide(digests); }));
  }
  /// The user's hides. One load.
  [[nodiscard]] Result<std::vector<HiddenItem>> hidden(const User& user) const {
    const std::string at = values_.key_of(user);
    const auto blob = values_.backend.load(at);
    if (!blob) return blob.error();
    if (!values_.holds_value(*blob)) return std::vector<HiddenItem>();
    auto exact = Record::test(**blob, values_.hash, values_.current_window(), {}, {});
    if (!exact) return detail::at_key(at, std::move(exact).error());
    return std::move(exact->hides);
  }
  /// With it every record rewrites the value, one of repeats too.
  void keep_last(std::size_t items) noexcept { keep_last_ = items; }

  /// As MarkingStore: one load and one swap. Errors: a record's.
  Result<void> mark_in_flight(const User& user, std::span<const Digest> digests, Time until) {
    const Time now = values_.policy.clock();
    auto done = edit().update(user, [&](Record& record) {
      record.mark(digests, until, now);
      return std::size_t{0};
    });
    if (!done) return std::move(done).error();
    return {};
  }

  /// Everything `from` has seen, hidden and in flight, `into` has from now on; `from` is forgotten. A user that is
  /// missing counts with what the history has of them. With an AtomicBackend both happen together or not at all. Else
  /// `into` is written first: after an error, or a death at any step, nothing is lost, and calling it again finishes
  /// it; what stays of `from` is a key that says so, until the next record or `forget`. The merged user errs what both
  /// did: over_budget counts those beyond their share.
  Result<void> merge_users(const User& from, const User& into) { return edit().merge(from, into); }

  /// Erases everything stored for the user, slices of version 1 too.
  Result<bool> forget(const User& user) {
    const std::string at = values_.key_of(user);
    auto gone = values_.backend.erase(at);
    if (!gone) return gone;
    auto old_gone = detail::OldSlices::forget(values_.backend, at, values_.current_window(), !*gone);
    if (!old_gone) return old_gone;
    return *gone || *old_gone;
  }

  /// A snapshot of the store's counters.
  [[nodiscard]] StoreCounters counters() const {
    const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
    StoreCounters counters;
    counters.records = read(counters_->records);
    counters.write_failures = read(counters_->write_failures);
    counters.growths = read(counters_->growths);
    counters.rebuilds = read(counters_->rebuilds);
    counters.over_budget = read(counters_->over_budget);
    counters.slices_dropped = read(counters_->slices_dropped);
    return counters;
  }

 private:
  using Values = detail::BlobValues<Backend, User, Hash>;
  using Update = detail::BlobUpdate<Backend, User, Hash>;
  using Record = typename Values::Record;

  [[nodiscard]] Update edit() { return {values_, *counters_}; }
  [[nodiscard]] static Result<std::size_t> changes(const Result<RecordOutcome>& outcome) {
    if (!outcome) return outcome.error();
    return outcome->newly_added;
  }
  template <class Item>
  Result<RecordOutcome> record_one(const RecordRequest<User, Item>& request) {
    return std::move(record_many(std::span(&request, 1)).front());
  }
  template <class Item>
  std::vector<Result<RecordOutcome>> record_all(std::span<const RecordRequest<User, Item>> requests) {
    if (auto right = kind_->claim(values_.backend, item_kind<Item>, Update::tries); !right) {
      return std::vector<Result<RecordOutcome>>(requests.size(), right.error());
    }
    const Time now = keep_last_ == 0 ? Time{} : values_.policy.clock();
    return edit().update_many(
        requests.size(), [&](std::size_t i) -> const User& { return requests[i].user; },
        [&](std::size_t i, Record& record) {
          return insert(record, requests[i].batch.digests, requests[i].when, now);
        });
  }
  std::size_t insert(Record& record, std::span<const Digest> digests, std::span<const Time> when, Time now) const {
    record.settle(digests);
    if (keep_last_ != 0 && when.empty()) record.keep(digests, now, keep_last_);
    if (keep_last_ != 0) {
      detail::for_each_run(
          when.size(), [&](std::size_t i) { return when[i]; },
          [&](std::size_t begin, std::size_t end) {
            record.keep(digests.subspan(begin, end - begin), when[begin], keep_last_);
          });
    }
    return record.insert(
        digests, [&](std::size_t i) { return when.empty() ? detail::slice_of_now : values_.slices.number(when[i]); });
  }

  Values values_;
  std::size_t keep_last_ = 0;
  std::unique_ptr<detail::BlobKind> kind_;
  std::unique_ptr<detail::BlobCounters> counters_;
};

}  // namespace seenby
