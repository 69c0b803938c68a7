#pragma once
// SPDX-License-Identifier: MIT
// HistoryStore: any history as the store, for exact answers behind the same SeenFilter.

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"
#include "seenby/stores/slice_clock.hpp"

namespace seenby {

/// Answers from a history, exactly: no filter, no wrong hide, no rebuild. Small sets and exact answers are a change of
/// one type:
///
///     seenby::MemoryHistory<User, Item> seen;
///     seenby::SeenFilter filter{seenby::HistoryStore{seen, {.window = 30 * 24h}}};
///
/// A check is one query a user; a user without a row is known and saw nothing. Of the policy only window, clock, seed
/// and users_per_request say anything; the window is exact, and what leaves it stays in the history. Give the facade
/// no second history: this one is written already. The history must outlive the store.
///
/// Thread safety: the history's.
template <HistoryLike History, Hasher Hash = Xxh3Hash>
class HistoryStore {
 public:
  using user_type = typename History::user_type;  ///< who sees
  using item_type = typename History::item_type;  ///< the history's items
  using hasher_type = Hash;                       ///< makes digests of items

  /// Throws std::invalid_argument for a policy that cannot be kept.
  explicit HistoryStore(History& history, StorePolicy policy = {})
      : history_(&history), policy_(std::move(policy)), hash_(policy_.seed), counters_(std::make_unique<Counters>()) {
    const detail::SliceClock checked(policy_);
    static_cast<void>(checked);
  }

  /// The policy as given at construction.
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }           ///< the hasher, with the policy's seed
  [[nodiscard]] History& history() const noexcept { return *history_; }  ///< the history it reads

  /// As FilterStoreFor says; one query a user.
  template <HashableItem Item>
  requires(item_kind<Item> ==
           item_kind<item_type>) void check(std::span<const user_type> users, const ItemBatch<Item>& batch,
                                            std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const {
    std::fill(seen_by.begin(), seen_by.end(), std::uint8_t{0});
    std::vector<std::uint8_t> seen(batch.size());
    const auto items = items_of(batch);
    const Time since = window_start(policy_.clock(), policy_.window);
    for (std::size_t i = 0; i < users.size(); ++i) {
      auto done = history_->contains(users[i], std::span<const item_type>(items), std::span(seen), since);
      if (!done) {
        status[i] = {UserState::unreachable, std::make_shared<const Error>(std::move(done).error())};
        continue;
      }
      status[i] = {UserState::known, nullptr};
      for (std::size_t j = 0; j < seen.size(); ++j) seen_by[j] = static_cast<std::uint8_t>(seen_by[j] + seen[j]);
    }
  }

  /// As FilterStoreFor says, for items seen now.
  template <HashableItem Item>
  requires(item_kind<Item> == item_kind<item_type>) Result<RecordOutcome> record(const user_type& user,
                                                                                 const ItemBatch<Item>& batch) {
    return record(user, batch, policy_.clock());
  }
  /// Items that were seen at a time of their own. `newly_added` is not told: 0.
  template <HashableItem Item>
  requires(item_kind<Item> == item_kind<item_type>) Result<RecordOutcome> record(const user_type& user,
                                                                                 const ItemBatch<Item>& batch,
                                                                                 Time when) {
    const auto items = items_of(batch);
    auto done = history_->append(user, std::span<const item_type>(items), when);
    auto& counter = done ? counters_->records : counters_->write_failures;
    counter.fetch_add(batch.size(), std::memory_order_relaxed);
    if (!done) return std::move(done).error();
    return RecordOutcome{};
  }
  /// As ManyRecordingStoreFor: one append of all, durable together or not at all, where the history takes events.
  template <HashableItem Item>
  requires(item_kind<Item> == item_kind<item_type>) [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(
      std::span<const RecordRequest<user_type, Item>> requests) {
    std::vector<Result<RecordOutcome>> outcomes(requests.size(), RecordOutcome{});
    if constexpr (requires(std::span<const SeenEvent<user_type, item_type>> events) { history_->append(events); }) {
      const Time now = policy_.clock();
      std::vector<SeenEvent<user_type, item_type>> events;
      for (const auto& [user, batch, when] : requests) {
        for (std::size_t i = 0; i < batch.size(); ++i) {
          events.push_back({user, item_type(batch.items[i]), when.empty() ? now : when[i], {}});
        }
      }
      auto done = history_->append(std::span<const SeenEvent<user_type, item_type>>(events));
      auto& counter = done ? counters_->records : counters_->write_failures;
      counter.fetch_add(events.size(), std::memory_order_relaxed);
      if (!done) std::fill(outcomes.begin(), outcomes.end(), Result<RecordOutcome>(done.error()));
    } else {
      for (std::size_t i = 0; i < requests.size(); ++i) outcomes[i] = detail::record_times(*this, requests[i]);
    }
    return outcomes;
  }
  /// Nothing to do: a user without a row is known.
  Result<void> create(const user_type&) { return {}; }
  /// Deletes the user's rows; true when there were any.
  Result<bool> forget(const user_type& user) { return history_->forget(user); }
  /// Gives the rows of `from` to `into`.
  Result<void> merge_users(const user_type& from, const user_type& into) requires MergingHistory<History> {
    auto moved = history_->merge(from, into);
    if (!moved) return std::move(moved).error();
    return {};
  }

  /// A snapshot of the store's counters.
  [[nodiscard]] StoreCounters counters() const {
    StoreCounters all;
    all.records = counters_->records.load(std::memory_order_relaxed);
    all.write_failures = counters_->write_failures.load(std::memory_order_relaxed);
    return all;
  }

 private:
  /// The history's own items; copied where a batch holds views of them.
  template <class Item>
  [[nodiscard]] static auto items_of(const ItemBatch<Item>& batch) {
    if constexpr (std::same_as<Item, item_type>) {
      return batch.items;
    } else {
      return std::vector<item_type>(batch.items.begin(), batch.items.end());
    }
  }
  struct Counters {
    std::atomic<std::uint64_t> records{0};
    std::atomic<std::uint64_t> write_failures{0};
  };

  History* history_;
  StorePolicy policy_;
  Hash hash_;
  std::unique_ptr<Counters> counters_;
};

}  // namespace seenby
