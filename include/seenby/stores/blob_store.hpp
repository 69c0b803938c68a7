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
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/record.hpp"
#include "seenby/stores/blob/version_one.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// A value of a key-value store.
using Blob = std::vector<std::byte>;

/// A key-value store, yours. Any thread may call anything.
///
/// - `load` gives the value, or nothing when there is none; an Error when it cannot tell.
/// - `compare_and_swap` writes `desired` if the value is still `expected` (nothing: still absent), atomically; false
///   when it was not.
/// - `erase` removes a key; true when it was there.
template <class Backend>
concept BlobBackend = requires(Backend& backend, std::string_view key, const std::optional<Blob>& expected,
                               const Blob& desired) {
  { backend.load(key) } -> std::same_as<Result<std::optional<Blob>>>;
  { backend.compare_and_swap(key, expected, desired) } -> std::same_as<Result<bool>>;
  { backend.erase(key) } -> std::same_as<Result<bool>>;
};

/// A backend that loads many keys in one round trip: the values, or nothing, in the keys' order.
template <class Backend>
concept BatchLoadingBackend = requires(Backend& backend, std::span<const std::string> keys) {
  { backend.load_many(keys) } -> std::same_as<Result<std::vector<std::optional<Blob>>>>;
};

/// One key and one value a user: a fingerprint table in format 2 (tests/golden/FORMAT-TABLE.md), which grows by itself
/// and, with a window, holds the slice of each item; so it needs no history, and 18 bits an item, 26 with a window.
/// Behind it in the same value: what the user hid, and the last items.
///
/// Every write is a compare-and-swap of the whole value, so writers in other processes lose nothing; a writer that
/// keeps losing gives up with `conflict` after 64 tries. A record of what is there already writes nothing. Good for
/// small and medium users: each record of something new rewrites the value. Any thread may call any member, but
/// set_replay.
///
/// A user whose value is not there is `missing` until the next record or create, which reads the history where there is
/// one. A damaged value makes its user `unreachable`; a record heals it from the history, but for the hides in it, or
/// says so where there is none. A value under another seed, hash or format is never overwritten.
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
        counters_(std::make_unique<Counters>()) {}

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }    ///< the hasher, with the policy's seed
  [[nodiscard]] Backend& backend() noexcept { return backend_; }  ///< the backend, for what is its own
  /// Rebuilds missing and damaged users from this from now on. For set-up, before other threads use the store.
  void set_replay(Replay<User> replay) { replay_ = std::move(replay); }

  /// As FilterStoreFor says; loads each user's value once.
  template <class Item>
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    const CheckRequest<User, Item> request{users, batch, seen_by, status};
    check_many(std::span(&request, 1));
  }
  /// The users of all requests in one question, where the backend loads many keys at once.
  template <class Item>
  void check_many(std::span<const CheckRequest<User, Item>> requests) const {
    std::vector<std::string> keys;
    for (const auto& request : requests) {
      for (const User& user : request.users) keys.push_back(detail::user_text(user));
    }
    const detail::SliceWindow window = current_window();
    const Values blobs = load(keys);
    std::size_t at = 0;
    for (const auto& request : requests) {
      std::fill(request.seen_by.begin(), request.seen_by.end(), std::uint8_t{0});
      std::vector<std::uint8_t> seen(request.batch.size());
      for (UserStatus& status : request.status) {
        status = test(keys[at], blobs[at], window, request.batch.digest_span(), seen);
        ++at;
        for (std::size_t i = 0; status.state == UserState::known && i < seen.size(); ++i) {
          request.seen_by[i] = static_cast<std::uint8_t>(request.seen_by[i] + seen[i]);
        }
      }
    }
  }

  /// Slices since the user last saw each candidate; 255 when unseen, unknown or unreachable. 0 without a window.
  template <class Item>
  void age(const User& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> ages) const {
    std::fill(ages.begin(), ages.end(), Record::unseen);
    const std::string at = detail::user_text(user);
    const auto blob = backend_.load(at);
    if (!blob || !*blob) return;
    if (!Record::ages(**blob, hash_, current_window(), batch.digests, ages)) {
      std::fill(ages.begin(), ages.end(), Record::unseen);
    }
  }

  /// As FilterStoreFor says, for items seen now. A load and a compare-and-swap, again when another writer was first.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return record_in(user, batch.digests, detail::slice_of_now, std::nullopt);
  }
  /// Records into the slice that `when` falls into, the newest at most. What is older than the window is acknowledged
  /// and not stored.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch, Time when) {
    return record_in(user, batch.digests, slices_.number(when), when);
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
    const std::string at = detail::user_text(user);
    const auto blob = backend_.load(at);
    if (!blob) return blob.error();
    if (!*blob) return std::vector<HiddenItem>();
    auto exact = Record::test(**blob, hash_, current_window(), {}, {});
    if (!exact) return named(at, std::move(exact).error());
    return std::move(exact->hides);
  }
  /// With it every record rewrites the value, one of repeats too.
  void keep_last(std::size_t items) noexcept { keep_last_ = items; }

  /// Erases everything stored for the user, slices of version 1 too.
  Result<bool> forget(const User& user) {
    const std::string at = detail::user_text(user);
    auto gone = backend_.erase(at);
    if (!gone) return gone;
    auto old_gone = forget_old(at, !*gone);
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
    counters.slices_dropped = read(counters_->slices_dropped);
    return counters;
  }

 private:
  using Record = detail::BlobRecord<Hash>;
  using Value = Result<std::optional<Blob>>;
  using Values = std::vector<Value>;
  struct Counters {
    std::atomic<std::uint64_t> records{0};
    std::atomic<std::uint64_t> write_failures{0};
    std::atomic<std::uint64_t> growths{0};
    std::atomic<std::uint64_t> rebuilds{0};
    std::atomic<std::uint64_t> slices_dropped{0};
  };
  /// A windowed user's slices as version 1 kept them.
  struct OldSlices {
    std::vector<detail::OldFilters> filters;
    std::vector<std::string> keys;
    bool whole = true;  // nothing that is listed was lost
  };

  [[nodiscard]] detail::SliceWindow current_window() const {
    if (!slices_.windowed()) return {};
    return {slices_.newest(policy_.clock), slices_.slice_seconds(), static_cast<std::uint8_t>(slices_.tested() - 1)};
  }
  [[nodiscard]] static Error named(const std::string& at, Error error) {
    error.message.append(" (key \"").append(at).append("\")");
    return error;
  }

  /// A value or an error for each key, in one round trip where the backend can.
  [[nodiscard]] Values load(const std::vector<std::string>& keys) const {
    Values values;
    values.reserve(keys.size());
    if constexpr (BatchLoadingBackend<Backend>) {
      auto loaded = backend_.load_many(std::span<const std::string>(keys));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        values.push_back(loaded ? Value(std::move((*loaded)[i])) : Value(loaded.error()));
      }
    } else {
      for (const std::string& key : keys) values.push_back(backend_.load(key));
    }
    return values;
  }

  /// Whether there is a value, its answers in `seen`.
  [[nodiscard]] UserStatus test(const std::string& at, const Value& blob, const detail::SliceWindow& window,
                                detail::DigestSpan digests, std::vector<std::uint8_t>& seen) const {
    const auto unreachable = [](Error error) {
      return UserStatus{UserState::unreachable, std::make_shared<const Error>(std::move(error))};
    };
    if (!blob) return unreachable(blob.error());
    if (*blob) {
      auto done = Record::test(**blob, hash_, window, digests, seen);
      if (!done) return unreachable(named(at, std::move(done).error()));
      return {UserState::known, nullptr, done->list()};
    }
    auto old = load_old(at, window);
    if (!old) return unreachable(std::move(old).error());
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    for (const detail::OldFilters& filters : old->filters) {
      if (auto done = detail::test_filters(filters.filters, hash_, digests.digests, seen); !done) {
        return unreachable(named(at, std::move(done).error()));
      }
    }
    return {old->whole && !old->filters.empty() ? UserState::known : UserState::missing, nullptr};
  }

  Result<RecordOutcome> record_in(const User& user, std::span<const Digest> digests, std::int64_t slice,
                                  std::optional<Time> when) {
    const Time at = keep_last_ == 0 ? Time{} : when ? *when : policy_.clock();
    auto outcome = update(user, [&](Record& record) {
      if (keep_last_ != 0) record.keep(digests, at, keep_last_);
      return record.insert(digests, slice);
    });
    auto& counter = outcome ? counters_->records : counters_->write_failures;
    counter.fetch_add(digests.size(), std::memory_order_relaxed);
    return outcome;
  }
  [[nodiscard]] static Result<std::size_t> changes(const Result<RecordOutcome>& outcome) {
    if (!outcome) return outcome.error();
    return outcome->newly_added;
  }

  /// The edit of a user that is created: an existing one is left alone.
  static constexpr struct Nothing {
    std::size_t operator()(Record&) const noexcept { return 0; }
  } nothing{};

  /// Load, edit(record), compare-and-swap, until it holds.
  template <class Edit>
  Result<RecordOutcome> update(const User& user, const Edit& edit) {
    const std::string at = detail::user_text(user);
    constexpr int tries = 64;
    for (int attempt = 0; attempt < tries; ++attempt) {
      const detail::SliceWindow window = current_window();
      auto blob = backend_.load(at);
      if (!blob) return std::move(blob).error();
      if (*blob && std::same_as<Edit, Nothing>) return RecordOutcome{};
      OldSlices old;
      if (!*blob) {
        auto loaded = load_old(at, window);
        if (!loaded) return std::move(loaded).error();
        old = std::move(*loaded);
      }
      auto change = changed(user, at, *blob, old, window);
      if (!change) return std::move(change).error();
      Record& record = change->record;
      RecordOutcome outcome;
      outcome.newly_added = edit(record);
      outcome.grew = record.grew();
      if (*blob && !record.changed()) return outcome;
      auto swapped = backend_.compare_and_swap(at, *blob, record.encode());
      if (!swapped) return std::move(swapped).error();
      if (!*swapped) continue;
      if (outcome.grew) counters_->growths.fetch_add(1, std::memory_order_relaxed);
      if (change->rebuilt) counters_->rebuilds.fetch_add(1, std::memory_order_relaxed);
      counters_->slices_dropped.fetch_add(record.dropped(), std::memory_order_relaxed);
      if (auto gone = erase_all(old.keys); !gone) return std::move(gone).error();
      return outcome;
    }
    return Error{
        ErrorCode::conflict,
        std::string("seenby: expected to win one of 64 compare-and-swaps of key \"").append(at).append("\", lost all")};
  }

  struct Change {
    Record record;
    bool rebuilt = false;
  };
  /// The record of a value, or of none, with what the history knows where there was none or not a sound one.
  [[nodiscard]] Result<Change> changed(const User& user, const std::string& at, const std::optional<Blob>& blob,
                                       OldSlices& old, const detail::SliceWindow& window) const {
    Change change{Record(hash_, share_, window)};
    bool wants_history = !blob;
    if (blob) {
      auto decoded = Record::decode(*blob, hash_, share_, window);
      if (decoded) {
        change.record = std::move(*decoded);
        wants_history = change.record.has_old();
      } else if (replay_ && heals(decoded.error().code)) {
        wants_history = true;
      } else {
        return named(at, std::move(decoded).error());
      }
    }
    for (detail::OldFilters& filters : old.filters) {
      if (auto added = change.record.add_old(std::move(filters)); !added) return named(at, std::move(added).error());
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

  [[nodiscard]] static std::string list_key(const std::string& at) { return at + "@slices"; }
  [[nodiscard]] static std::string slice_key(const std::string& at, std::int64_t slice) {
    return std::string(at).append("@").append(std::to_string(slice));
  }
  /// The live slices of version 1, and the keys of all.
  [[nodiscard]] Result<OldSlices> load_old(const std::string& at, const detail::SliceWindow& window) const {
    OldSlices old;
    auto blob = backend_.load(list_key(at));
    if (!blob) return std::move(blob).error();
    if (!*blob) return old;
    auto list = detail::SliceList::decode(**blob);
    if (!list) return named(list_key(at), std::move(list).error());
    for (const auto& slice : list->slices) {
      old.keys.push_back(slice_key(at, slice.number));
      const std::int64_t since = slice.number * list->slice_seconds;
      if (!detail::old_filters_live(since, window)) continue;
      auto filters = backend_.load(old.keys.back());
      if (!filters) return std::move(filters).error();
      if (*filters) old.filters.push_back({since, std::move(**filters)});
      old.whole = old.whole && (*filters || slice.opening);
    }
    old.keys.push_back(list_key(at));
    return old;
  }
  [[nodiscard]] Result<bool> erase_all(const std::vector<std::string>& keys) {
    bool any = false;
    for (const std::string& key : keys) {
      auto gone = backend_.erase(key);
      if (!gone) return gone;
      any = any || *gone;
    }
    return any;
  }
  /// A damaged list says nothing, and goes all the same. Where the list was lost, the slices of today's window are
  /// tried.
  [[nodiscard]] Result<bool> forget_old(const std::string& at, bool search) {
    auto blob = backend_.load(list_key(at));
    if (!blob) return std::move(blob).error();
    std::vector<std::string> keys;
    const auto list =
        detail::SliceList::decode(*blob ? std::span<const std::byte>(**blob) : std::span<const std::byte>());
    for (const auto& slice : list ? list->slices : std::vector<detail::SliceList::Slice>()) {
      keys.push_back(slice_key(at, slice.number));
    }
    if (*blob) keys.push_back(list_key(at));
    const detail::SliceWindow window = current_window();
    for (std::int64_t age = -1; window.windowed() && !list && (search || *blob) && age <= window.max_age; ++age) {
      keys.push_back(slice_key(at, window.newest - age));
    }
    return erase_all(keys);
  }

  mutable Backend backend_;
  StorePolicy policy_;
  Hash hash_;
  detail::SliceClock slices_;
  double share_;
  std::size_t keep_last_ = 0;
  Replay<User> replay_;
  std::unique_ptr<Counters> counters_;
};

}  // namespace seenby
