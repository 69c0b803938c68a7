#pragma once
// SPDX-License-Identifier: MIT
// BlobStore: makes a filter store of any key-value store that can load, compare-and-swap and erase.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/wire_text.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/backend.hpp"
#include "seenby/stores/blob/batches.hpp"
#include "seenby/stores/blob/item_kind.hpp"
#include "seenby/stores/blob/old_slices.hpp"
#include "seenby/stores/blob/record.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

namespace seenby {

/// One key and one value a user: a fingerprint table in format 2 (tests/golden/FORMAT-TABLE.md), which grows by itself
/// and, with a window, holds the slice of each item; so it needs no history, and 18 bits an item, 26 with a window.
/// Behind it in the same value: what the user hid, the last items, and those in flight.
///
/// Every write is a compare-and-swap of the whole value, so writers in other processes lose nothing; a writer that
/// keeps losing gives up with `conflict` after 64 tries. A record of what is there already writes nothing. Good for
/// small and medium users: each record of something new rewrites the value. Any thread may call any member, but
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
      : backend_(std::move(backend)),
        policy_(std::move(policy)),
        hash_(policy_.seed),
        slices_(policy_),
        share_(sizing::split_budget(policy_.wrong_hide_rate, policy_.users_per_request)),
        kind_(std::make_unique<detail::BlobKind>()),
        counters_(std::make_unique<Counters>()) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }    ///< the hasher, with the policy's seed
  [[nodiscard]] Backend& backend() noexcept { return backend_; }  ///< the backend, for what is its own
  /// Rebuilds missing and damaged users from this from now on. For set-up, before other threads use the store.
  void set_replay(Replay<User> replay) { replay_ = std::move(replay); }

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
      for (const User& user : request.users) keys.push_back(key_of(user));
    }
    const std::size_t users = keys.size();
    const detail::SliceWindow window = current_window();
    if (!kind_->is_known()) keys.push_back(detail::BlobKind::key());
    Values blobs = detail::load_all(backend_, keys);
    if (blobs.size() > users) {
      if (blobs.back()) kind_->learn(*blobs.back());
      blobs.pop_back();
      keys.pop_back();
    }
    if (auto right = kind_->check(item_kind<Item>); !right) std::fill(blobs.begin(), blobs.end(), Value(right.error()));
    const Values lists = load_lists(keys, blobs);
    std::size_t at = 0;
    std::size_t next_list = 0;
    for (const auto& request : requests) {
      std::fill(request.seen_by.begin(), request.seen_by.end(), std::uint8_t{0});
      std::vector<std::uint8_t> seen(request.batch.size());
      for (UserStatus& status : request.status) {
        const Value* const list = lacks_value(blobs[at]) ? &lists[next_list++] : nullptr;
        status = test(keys[at], blobs[at], list, window, request.batch.digest_span(), seen);
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
    const std::string at = key_of(user);
    const auto blob = backend_.load(at);
    if (!blob || !holds_value(*blob)) return;
    if (!Record::ages(**blob, hash_, current_window(), batch.digests, ages)) {
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
    auto outcome = update(user, nothing);
    if (!outcome) return std::move(outcome).error();
    return {};
  }

  /// As HidingStore. A missing user is created, as by a record. Errors: a record's; too_large, of a text.
  Result<std::size_t> hide(const User& user, std::span<const HiddenItem> items) {
    if (auto fits = detail::check_hidden(items); !fits) return std::move(fits).error();
    return changes(update(user, [&](Record& record) { return record.hide(items); }));
  }
  /// Takes hides back; returns how many there were.
  Result<std::size_t> unhide(const User& user, std::span<const Digest> digests) {
    auto hides = hidden(user);
    if (!hides || hides->empty()) return hides ? Result<std::size_t>(std::size_t{0}) : std::move(hides).error();
    return changes(update(user, [&](Record& record) { return record.unhide(digests); }));
  }
  /// The user's hides. One load.
  [[nodiscard]] Result<std::vector<HiddenItem>> hidden(const User& user) const {
    const std::string at = key_of(user);
    const auto blob = backend_.load(at);
    if (!blob) return blob.error();
    if (!holds_value(*blob)) return std::vector<HiddenItem>();
    auto exact = Record::test(**blob, hash_, current_window(), {}, {});
    if (!exact) return detail::at_key(at, std::move(exact).error());
    return std::move(exact->hides);
  }
  /// With it every record rewrites the value, one of repeats too.
  void keep_last(std::size_t items) noexcept { keep_last_ = items; }

  /// As MarkingStore: one load and one swap. Errors: a record's.
  Result<void> mark_in_flight(const User& user, std::span<const Digest> digests, Time until) {
    const Time now = policy_.clock();
    auto done = update(user, [&](Record& record) {
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
  Result<void> merge_users(const User& from, const User& into) {
    const std::string source = key_of(from);
    const std::string target = key_of(into);
    if (source == target) return {};
    for (int attempt = 0; attempt < tries; ++attempt) {
      auto done = try_merge(from, source, into, target);
      if (!done) return std::move(done).error();
      if (*done) return {};
    }
    return lost_all(target);
  }

  /// Erases everything stored for the user, slices of version 1 too.
  Result<bool> forget(const User& user) {
    const std::string at = key_of(user);
    auto gone = backend_.erase(at);
    if (!gone) return gone;
    auto old_gone = detail::OldSlices::forget(backend_, at, current_window(), !*gone);
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
  using Record = detail::BlobRecord<Hash>;
  using Value = detail::LoadedBlob;
  using Values = std::vector<Value>;
  struct Counters {
    std::atomic<std::uint64_t> records{0};
    std::atomic<std::uint64_t> write_failures{0};
    std::atomic<std::uint64_t> growths{0};
    std::atomic<std::uint64_t> rebuilds{0};
    std::atomic<std::uint64_t> over_budget{0};
    std::atomic<std::uint64_t> slices_dropped{0};
  };
  using OldSlices = detail::OldSlices;
  static constexpr int tries = 64;

  /// The value of a user that was merged into another. It counts as none.
  static constexpr std::string_view merged = "merged";
  [[nodiscard]] static bool holds_value(const std::optional<Blob>& blob) noexcept {
    return blob && !std::ranges::equal(*blob, std::as_bytes(std::span(merged)));
  }
  [[nodiscard]] static bool lacks_value(const Value& loaded) noexcept { return loaded && !holds_value(*loaded); }
  [[nodiscard]] static std::string key_of(const User& user) {
    std::string key = detail::wire_text(user);
    if (key.starts_with('\0')) key.insert(key.begin(), '\0');
    return key;
  }
  [[nodiscard]] detail::SliceWindow current_window() const {
    if (!slices_.windowed()) return {};
    return {slices_.newest(policy_.clock), slices_.slice_seconds(), static_cast<std::uint8_t>(slices_.tested() - 1)};
  }
  /// The lists of slices of those keys that have no value, in their order.
  [[nodiscard]] Values load_lists(const std::vector<std::string>& keys, const Values& values) const {
    std::vector<std::string> lists;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (lacks_value(values[i])) lists.push_back(OldSlices::list_key(keys[i]));
    }
    return detail::load_all(backend_, lists);
  }

  /// Whether there is a value, or what `list` names of version 1 where there is none; its answers in `seen`.
  [[nodiscard]] UserStatus test(const std::string& at, const Value& blob, const Value* list,
                                const detail::SliceWindow& window, detail::DigestSpan digests,
                                std::vector<std::uint8_t>& seen) const {
    const auto unreachable = [](Error error) {
      return UserStatus{UserState::unreachable, std::make_shared<const Error>(std::move(error))};
    };
    if (!blob) return unreachable(blob.error());
    if (holds_value(*blob)) {
      auto done = Record::test(**blob, hash_, window, digests, seen);
      if (!done) return unreachable(detail::at_key(at, std::move(done).error()));
      return {UserState::known, nullptr, done->list()};
    }
    if (!*list) return unreachable(list->error());
    auto old = OldSlices::load(backend_, at, **list, window);
    if (!old) return unreachable(std::move(old).error());
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    for (const detail::OldFilters& filters : old->filters) {
      if (auto done = detail::test_filters(filters.filters, hash_, digests.digests, seen); !done) {
        return unreachable(detail::at_key(at, std::move(done).error()));
      }
    }
    return {old->whole && !old->filters.empty() ? UserState::known : UserState::missing, nullptr};
  }

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
    if (auto right = kind_->claim(backend_, item_kind<Item>, tries); !right) {
      return std::vector<Result<RecordOutcome>>(requests.size(), right.error());
    }
    const Time now = keep_last_ == 0 ? Time{} : policy_.clock();
    return update_many(
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
    return record.insert(digests,
                         [&](std::size_t i) { return when.empty() ? detail::slice_of_now : slices_.number(when[i]); });
  }

  /// The edit of a user that is created: an existing one is left alone.
  static constexpr struct Nothing {
    std::size_t operator()(std::size_t, Record&) const noexcept { return 0; }
  } nothing{};

  /// Load, edit(record), compare-and-swap, until it holds.
  template <class Edit>
  Result<RecordOutcome> update(const User& user, const Edit& edit) {
    const auto user_of = [&](std::size_t) -> const User& { return user; };
    if constexpr (std::same_as<Edit, Nothing>) {
      return std::move(update_many(1, user_of, edit).front());
    } else {
      return std::move(update_many(1, user_of, [&](std::size_t, Record& record) { return edit(record); }).front());
    }
  }

  /// One user of an update: what was loaded, and what is to be written.
  struct Pending {
    std::size_t index;
    std::string at;
    std::optional<Blob> blob{};
    OldSlices old{};
    RecordOutcome outcome{};
    bool rebuilt = false;
    std::uint64_t dropped = 0;
  };

  /// Changes many users, each as edit(i, record) says: loads all, swaps all, and again those that another writer
  /// changed meanwhile.
  template <class UserOf, class Edit>
  std::vector<Result<RecordOutcome>> update_many(std::size_t count, const UserOf& user_of, const Edit& edit) {
    std::vector<Result<RecordOutcome>> outcomes(count, RecordOutcome{});
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < count; ++i) pending.push_back({i, key_of(user_of(i))});
    for (int attempt = 0; attempt < tries && !pending.empty(); ++attempt) {
      const detail::SliceWindow window = current_window();
      load_pending(pending, window, outcomes);
      std::vector<BlobSwap> swaps;
      std::erase_if(pending, [&](Pending& one) {
        Result<RecordOutcome>& outcome = outcomes[one.index];
        if (std::same_as<Edit, Nothing> && holds_value(one.blob)) return true;
        const std::size_t before = swaps.size();
        outcome = prepare(user_of(one.index), one, edit, window, swaps);
        return !outcome || swaps.size() == before;
      });
      const auto swapped = detail::swap_all(backend_, swaps);
      std::size_t at = 0;
      std::erase_if(pending, [&](Pending& one) {
        const Result<bool>& won = swapped[at++];
        if (won && !*won) return false;
        outcomes[one.index] = won ? finish(one) : Result<RecordOutcome>(won.error());
        return true;
      });
    }
    for (const Pending& one : pending) outcomes[one.index] = lost_all(one.at);
    return outcomes;
  }
  /// Loads values, and the lists of slices of those that have none; takes out what fails.
  void load_pending(std::vector<Pending>& pending, const detail::SliceWindow& window,
                    std::vector<Result<RecordOutcome>>& outcomes) {
    std::vector<std::string> keys;
    keys.reserve(pending.size());
    for (const Pending& one : pending) keys.push_back(one.at);
    Values values = detail::load_all(backend_, keys);
    const Values lists = load_lists(keys, values);
    std::size_t at = 0;
    std::size_t next_list = 0;
    std::erase_if(pending, [&](Pending& one) {
      Value& value = values[at++];
      if (!value) return outcomes[one.index] = value.error(), true;
      one.blob = std::move(*value);
      one.old = {};
      if (holds_value(one.blob)) return false;
      const Value& list = lists[next_list++];
      auto old = list ? OldSlices::load(backend_, one.at, *list, window) : Result<OldSlices>(list.error());
      if (!old) return outcomes[one.index] = old.error(), true;
      one.old = std::move(*old);
      return false;
    });
  }
  /// Appends the swap of one user, unless nothing changes.
  template <class Edit>
  Result<RecordOutcome> prepare(const User& user, Pending& one, const Edit& edit, const detail::SliceWindow& window,
                                std::vector<BlobSwap>& swaps) const {
    auto change = changed(user, one.at, one.blob, one.old, window);
    if (!change) return std::move(change).error();
    Record& record = change->record;
    one.outcome.newly_added = edit(one.index, record);
    one.outcome.grew = record.grew();
    one.rebuilt = change->rebuilt;
    one.dropped = record.dropped();
    if (!holds_value(one.blob) || record.changed()) swaps.push_back({one.at, std::move(one.blob), record.encode()});
    return one.outcome;
  }
  /// Counts what was written, and erases what it replaces.
  Result<RecordOutcome> finish(const Pending& one) {
    if (one.outcome.grew) counters_->growths.fetch_add(1, std::memory_order_relaxed);
    if (one.rebuilt) counters_->rebuilds.fetch_add(1, std::memory_order_relaxed);
    counters_->slices_dropped.fetch_add(one.dropped, std::memory_order_relaxed);
    if (auto gone = OldSlices::erase(backend_, one.old.keys); !gone) return std::move(gone).error();
    return one.outcome;
  }
  [[nodiscard]] static Error lost_all(const std::string& at) {
    return detail::at_key(
        at, {ErrorCode::conflict, "seenby: expected to win one of 64 compare-and-swaps, lost all to other writers"});
  }

  /// False where another writer changed one of the two.
  Result<bool> try_merge(const User& from, const std::string& source, const User& into, const std::string& target) {
    const detail::SliceWindow window = current_window();
    std::vector<Pending> both{{0, source}, {1, target}};
    std::vector<Result<RecordOutcome>> failed(2, RecordOutcome{});
    load_pending(both, window, failed);
    for (const auto& outcome : failed) {
      if (!outcome) return outcome.error();
    }
    auto theirs = changed(from, source, both[0].blob, both[0].old, window);
    if (!theirs) return std::move(theirs).error();
    const bool any = holds_value(both[0].blob) || !both[0].old.keys.empty() || theirs->rebuilt;
    if (!any && holds_value(both[1].blob)) return true;
    auto ours = changed(into, target, both[1].blob, both[1].old, window);
    if (!ours) return std::move(ours).error();
    if (!any && !ours->rebuilt) return true;
    if (!ours->record.absorb(theirs->record)) counters_->over_budget.fetch_add(1, std::memory_order_relaxed);
    std::vector<BlobSwap> swaps{{target, both[1].blob, ours->record.encode()}};
    if (holds_value(both[0].blob)) swaps.push_back({source, both[0].blob, std::nullopt});
    auto won = move_values(swaps);
    if (!won || !*won) return won;
    for (const Pending& one : both) {
      if (auto gone = OldSlices::erase(backend_, one.old.keys); !gone) return gone;
    }
    return true;
  }
  /// The first swap, then the erasure; together where the backend can. Else `from` is emptied and not erased: a swap is
  /// lost where another process recorded for it meanwhile, which is then merged too, and an erasure would take it
  /// along.
  Result<bool> move_values(const std::vector<BlobSwap>& swaps) {
    if constexpr (AtomicBackend<Backend>) {
      return backend_.swap_all(swaps);
    } else {
      auto written = backend_.compare_and_swap(swaps[0].key, swaps[0].expected, *swaps[0].desired);
      if (!written || !*written || swaps.size() < 2) return written;
      const auto text = std::as_bytes(std::span(merged));
      return backend_.compare_and_swap(swaps[1].key, swaps[1].expected, Blob(text.begin(), text.end()));
    }
  }

  struct Change {
    Record record;
    bool rebuilt = false;
  };
  /// The record of a value, or of none, with what the history knows where there was none or not a sound one.
  [[nodiscard]] Result<Change> changed(const User& user, const std::string& at, const std::optional<Blob>& blob,
                                       OldSlices& old, const detail::SliceWindow& window) const {
    Change change{Record(hash_, share_, window)};
    bool wants_history = !holds_value(blob);
    if (holds_value(blob)) {
      auto decoded = Record::decode(*blob, hash_, share_, window);
      if (decoded) {
        change.record = std::move(*decoded);
        wants_history = change.record.has_old();
      } else if (replay_ && heals(decoded.error().code)) {
        wants_history = true;
        change.record.salvage_hides(*blob);
      } else {
        return detail::at_key(at, std::move(decoded).error());
      }
    }
    for (detail::OldFilters& filters : old.filters) {
      if (auto added = change.record.add_old(std::move(filters)); !added) {
        return detail::at_key(at, std::move(added).error());
      }
    }
    if (!wants_history || !replay_) return change;
    auto known = replay_(user, slices_.window_start(window.newest));
    if (!known) return std::move(known).error();
    if (known->size() >= change.record.old_items()) change.record.drop_old();
    std::vector<FingerprintItem> items;
    for (const SeenDigest& seen : *known) {
      // A history whose clock runs ahead of ours must not open a slice that does not exist yet.
      const std::int64_t slice = std::min(slices_.number(seen.seen_at), window.newest);
      if (window.is_live(slice)) items.push_back({seen.digest, static_cast<std::uint8_t>(slice)});
    }
    change.rebuilt = !items.empty();
    change.record.insert(items);
    return change;
  }
  /// What a write may replace: bytes that were a value of ours. Another seed's or a newer format's stay.
  [[nodiscard]] static bool heals(ErrorCode code) noexcept {
    return code == ErrorCode::truncated || code == ErrorCode::corrupt || code == ErrorCode::too_large;
  }

  mutable Backend backend_;
  StorePolicy policy_;
  Hash hash_;
  detail::SliceClock slices_;
  double share_;
  std::size_t keep_last_ = 0;
  Replay<User> replay_;
  std::unique_ptr<detail::BlobKind> kind_;
  std::unique_ptr<Counters> counters_;
};

}  // namespace seenby
