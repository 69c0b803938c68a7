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

#include "seenby/detail/blob_chain.hpp"
#include "seenby/filter_store.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

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

/// One value a user (and slice): split-block filters in format v1, oldest first; see detail/blob_chain.hpp. Every write
/// is a compare-and-swap of the whole value, so writers in other processes lose nothing; a writer that keeps losing
/// gives up with `conflict` after 64 tries. Good for small and middling filters: each record rewrites the value.
///
/// With a window each slice has a key of its own, and record erases the slice that has just left it. A user who
/// recorded nothing for a whole window is `missing`, and keys of users who never come back stay: give them a time to
/// live where the backend can.
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
    bool any = false;
    const std::int64_t newest = slices_.newest(now());
    for (std::int64_t slice = newest; slice > newest - slices_.tested(); --slice) {
      auto gone = backend_.erase(key(user, slice));
      if (!gone) return gone;
      any = *gone || any;
    }
    return any;
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
  struct Counters {
    std::atomic<std::uint64_t> records{0};
    std::atomic<std::uint64_t> write_failures{0};
    std::atomic<std::uint64_t> growths{0};
    std::atomic<std::uint64_t> rebuilds{0};
    std::atomic<std::uint64_t> slices_dropped{0};
  };

  [[nodiscard]] Time now() const { return policy_.clock ? policy_.clock() : system_time(); }

  [[nodiscard]] std::string key(const User& user, std::int64_t slice) const {
    std::string text;
    if constexpr (StringItem<User>) {
      text = std::string_view(user);
    } else {
      text = std::to_string(user);
    }
    if (slices_.windowed()) text.append("@").append(std::to_string(slice));
    return text;
  }

  /// Whether there is a filter, its answers in `seen`.
  [[nodiscard]] Result<bool> check_user(const User& user, std::span<const Digest> digests,
                                        std::vector<std::uint8_t>& seen) const {
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    bool any = false;
    const std::int64_t newest = slices_.newest(now());
    for (std::int64_t slice = newest; slice > newest - slices_.tested(); --slice) {
      const std::string at = key(user, slice);
      auto blob = backend_.load(at);
      if (!blob) return std::move(blob).error();
      if (!*blob) continue;
      any = true;
      if (auto done = Chain::test(**blob, hash_, digests, seen); !done) return named(at, std::move(done).error());
    }
    return any;
  }

  [[nodiscard]] static Error named(const std::string& at, Error error) {
    error.message.append(" (key \"").append(at).append("\")");
    return error;
  }

  /// Load, add, compare-and-swap, until it holds.
  Result<RecordOutcome> update(const User& user, std::span<const Digest> digests) {
    const std::int64_t newest = slices_.newest(now());
    const std::string at = key(user, newest);
    constexpr int tries = 64;
    for (int attempt = 0; attempt < tries; ++attempt) {
      auto blob = backend_.load(at);
      if (!blob) return std::move(blob).error();
      if (*blob && digests.empty()) return RecordOutcome{};
      auto next = add(user, *blob, digests, newest);
      if (!next) return named(at, std::move(next).error());
      auto swapped = backend_.compare_and_swap(at, *blob, next->blob);
      if (!swapped) return std::move(swapped).error();
      if (!*swapped) continue;
      if (next->grew) counters_->growths.fetch_add(1, std::memory_order_relaxed);
      if (next->rebuilt) counters_->rebuilds.fetch_add(1, std::memory_order_relaxed);
      if (!*blob && slices_.windowed()) drop(user, newest - slices_.tested());
      return RecordOutcome{next->newly_added, next->grew};
    }
    return Error{
        ErrorCode::conflict,
        std::string("seenby: expected to win one of 64 compare-and-swaps of key \"").append(at).append("\", lost all")};
  }

  [[nodiscard]] Result<typename Chain::Added> add(const User& user, const std::optional<Blob>& blob,
                                                  std::span<const Digest> digests, std::int64_t slice) {
    std::vector<Digest> known;
    const bool wants_history = replay_ && (!blob || chain_.full(*blob, digests.size()));
    if (wants_history) {
      auto history = replay_(user);
      if (!history) return std::move(history).error();
      for (const SeenDigest& seen : *history) {
        if (!slices_.windowed() || slices_.number(seen.seen_at) == slice) known.push_back(seen.digest);
      }
    }
    return chain_.add(blob ? std::span<const std::byte>(*blob) : std::span<const std::byte>(), hash_, digests, known,
                      wants_history);
  }

  void drop(const User& user, std::int64_t slice) {
    // A slice that is not erased here only costs space: nobody asks it any more.
    if (auto gone = backend_.erase(key(user, slice)); gone && *gone) {
      counters_->slices_dropped.fetch_add(1, std::memory_order_relaxed);
    }
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
