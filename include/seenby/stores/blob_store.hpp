#pragma once
// SPDX-License-Identifier: MIT
// BlobStore: makes a filter store of any key-value store that can load, compare-and-swap and erase.

#include <algorithm>
#include <atomic>
#include <chrono>
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
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/blob/chain.hpp"
#include "seenby/stores/blob/window.hpp"
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

/// One value a user: split-block filters in format v1, oldest first; see detail/blob_chain.hpp. Every write is a
/// compare-and-swap of the whole value, so writers in other processes lose nothing; a writer that keeps losing gives up
/// with `conflict` after 64 tries. Good for small and middling filters: each record rewrites the value.
///
/// With a window a user has several keys, `{user}@N` for slice N and `{user}@slices` for the list of the slices there
/// are (kind 6 in tests/golden/FORMAT-CONTAINERS.md). The first record in a slice erases those that left the window;
/// `forget` erases all that are listed, however old. A user without a live slice is `missing`. The first record under
/// another length of slices erases those of the old length, whose numbers mean other times.
///
/// What a backend evicts between writes, or a writer leaves half done, never makes an item wrongly unseen. A user whose
/// list, or one of whose listed slices, is not there is `missing` as a whole until the next record, which
/// - with a replay rebuilds every slice of the window from the history (to see what is lost it loads them all);
/// - without one begins a new list of what is left where the list was lost, and a new slice where the newest was: from
///   then on the user is known and what was lost is not, as without a window. Where it was an older slice, the user
///   stays `missing` until that slice has left the window.
///
/// Three limits. A key that is evicted while two writers are both creating it, after the one wrote and before the other
/// does, takes along what the one wrote and the other had not yet found in the history, windowed or not: a backend that
/// evicts is no place for what must never be shown twice. A list that was evicted cannot tell `forget` of slices older
/// than the window. And keys of users who never come back stay: give them a time to live where the backend can, of at
/// least the window and two slices from each write, the list's no shorter than the slices'.
template <BlobBackend Backend, HashableItem User = std::uint64_t, Hasher Hash = Xxh3Hash>
class BlobStore {
 public:
  using user_type = User;
  using hasher_type = Hash;

  /// Throws std::invalid_argument for a policy that cannot be kept.
  BlobStore(Backend backend, StorePolicy policy)
      : backend_(std::move(backend)),
        policy_(std::move(policy)),
        hash_(policy_.seed),
        slices_(policy_),
        counters_(std::make_unique<Counters>()),
        chain_(slices_.per_filter_fpr(policy_), policy_.initial_items, policy_.growth_factor) {}

  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }
  [[nodiscard]] Backend& backend() noexcept { return backend_; }
  /// Rebuilds missing and full filters from this from now on. For set-up, before other threads use the store.
  void set_replay(Replay<User> replay) { replay_ = std::move(replay); }

  template <class Item>
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    std::fill(seen_by.begin(), seen_by.end(), std::uint8_t{0});
    std::vector<std::uint8_t> seen(batch.size());
    for (std::size_t i = 0; i < users.size(); ++i) {
      auto found = check_user(users[i], batch.digests, seen);
      if (!found) {
        status[i] = {UserState::unreachable, std::make_shared<const Error>(std::move(found).error())};
        continue;
      }
      status[i] = {*found ? UserState::known : UserState::missing, nullptr};
      for (std::size_t j = 0; *found && j < seen.size(); ++j)
        seen_by[j] = static_cast<std::uint8_t>(seen_by[j] + seen[j]);
    }
  }

  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    auto outcome = update(user, batch.digests);
    auto& counter = outcome ? counters_->records : counters_->write_failures;
    counter.fetch_add(batch.size(), std::memory_order_relaxed);
    return outcome;
  }

  Result<void> create(const User& user) {
    auto outcome = update(user, {});
    if (!outcome) return std::move(outcome).error();
    return {};
  }

  Result<bool> forget(const User& user) {
    return slices_.windowed() ? window(user).forget() : backend_.erase(key(user));
  }

  [[nodiscard]] StoreCounters counters() const {
    const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
    return {.users = 0,
            .records = read(counters_->records),
            .write_failures = read(counters_->write_failures),
            .growths = read(counters_->growths),
            .rebuilds = read(counters_->rebuilds),
            .over_budget = 0,
            .slices_dropped = read(counters_->slices_dropped)};
  }

 private:
  using Chain = detail::BlobChain<Hash>;
  using Window = detail::BlobWindow<Backend, Hash>;
  using Recorded = typename Window::Recorded;
  struct Counters {
    std::atomic<std::uint64_t> records{0};
    std::atomic<std::uint64_t> write_failures{0};
    std::atomic<std::uint64_t> growths{0};
    std::atomic<std::uint64_t> rebuilds{0};
    std::atomic<std::uint64_t> slices_dropped{0};
  };

  [[nodiscard]] Time now() const { return policy_.clock ? policy_.clock() : system_time(); }

  [[nodiscard]] static std::string key(const User& user) {
    if constexpr (StringItem<User>) {
      return std::string(std::string_view(user));
    } else {
      return std::to_string(user);
    }
  }
  [[nodiscard]] Window window(const User& user) const {
    return {backend_, chain_, hash_, slices_, slices_.newest(policy_.clock), key(user)};
  }

  /// Whether there is a filter, its answers in `seen`.
  [[nodiscard]] Result<bool> check_user(const User& user, std::span<const Digest> digests,
                                        std::vector<std::uint8_t>& seen) const {
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    if (slices_.windowed()) return window(user).test(digests, seen);
    const std::string at = key(user);
    auto blob = backend_.load(at);
    if (!blob) return std::move(blob).error();
    if (!*blob) return false;
    if (auto done = Chain::test(**blob, hash_, digests, seen); !done) return named(at, std::move(done).error());
    return true;
  }

  [[nodiscard]] static Error named(const std::string& at, Error error) {
    error.message.append(" (key \"").append(at).append("\")");
    return error;
  }

  /// Load, add, compare-and-swap, until it holds.
  Result<RecordOutcome> update(const User& user, std::span<const Digest> digests) {
    Recorded recorded;
    constexpr int tries = 64;
    for (int attempt = 0; attempt < tries; ++attempt) {
      auto done = slices_.windowed() ? window(user).record(digests, replay_for(replay_, user), recorded)
                                     : update_value(user, digests, recorded);
      if (!done) return std::move(done).error();
      if (!*done) continue;
      if (recorded.grew) counters_->growths.fetch_add(1, std::memory_order_relaxed);
      if (recorded.rebuilt) counters_->rebuilds.fetch_add(1, std::memory_order_relaxed);
      counters_->slices_dropped.fetch_add(recorded.dropped, std::memory_order_relaxed);
      return RecordOutcome{recorded.newly_added, recorded.grew};
    }
    return Error{ErrorCode::conflict, std::string("seenby: expected to win one of 64 compare-and-swaps of key \"")
                                          .append(key(user))
                                          .append("\", lost all")};
  }

  /// One attempt at the one value of a user without a window; false when the compare-and-swap was lost.
  [[nodiscard]] Result<bool> update_value(const User& user, std::span<const Digest> digests, Recorded& recorded) {
    const std::string at = key(user);
    auto blob = backend_.load(at);
    if (!blob) return std::move(blob).error();
    if (*blob && digests.empty()) return true;
    std::vector<Digest> known;
    const bool wants_history = replay_ && (!*blob || chain_.full(**blob, digests.size()));
    if (wants_history) {
      auto history = replay_(user, all_time);
      if (!history) return std::move(history).error();
      for (const SeenDigest& seen : *history) known.push_back(seen.digest);
    }
    auto next = chain_.add(*blob ? std::span<const std::byte>(**blob) : std::span<const std::byte>(), hash_, digests,
                           known, wants_history);
    if (!next) return named(at, std::move(next).error());
    auto swapped = backend_.compare_and_swap(at, *blob, next->blob);
    if (swapped && *swapped) recorded = {next->newly_added, next->grew, next->rebuilt, 0};
    return swapped;
  }

  mutable Backend backend_;
  StorePolicy policy_;
  Hash hash_;
  detail::SliceClock slices_;
  Replay<User> replay_;
  std::unique_ptr<Counters> counters_;
  Chain chain_;
};

}  // namespace seenby
