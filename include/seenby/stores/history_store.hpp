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
#include <string>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/exact_items.hpp"
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
/// Over a HidingHistory it is a HidingStore: hides are the history's own, for every process that reads it. A check is
/// one query a user; a user without a row is known and saw nothing. Of the policy only window, clock, seed
/// and users_per_request say anything; the window is exact, and what leaves it stays in the history. Give the facade
/// no second history: this one is written already. The history must outlive the store.
///
/// Thread safety: the history's.
template <HistoryLike History, Hasher Hash = Xxh3Hash>
class HistoryStore {
  // A hide is handed on as text.
  static constexpr bool keeps_hides = HidingHistory<History> && detail::ItemOfText<typename History::item_type>;

 public:
  using user_type = typename History::user_type;  ///< who sees
  using item_type = typename History::item_type;  ///< the history's items
  using hasher_type = Hash;                       ///< makes digests of items
  /// As the history: one question a user, whatever the pool.
  static constexpr bool is_remote = requires { requires History::is_remote; };

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
    std::vector<std::uint8_t> hides(HidingHistory<History> ? batch.size() : 0);
    const auto items = items_of(batch);
    const Time since = window_start(policy_.clock(), policy_.window);
    for (std::size_t i = 0; i < users.size(); ++i) {
      auto done = look_up(users[i], items, seen, hides, since);
      if (!done) {
        status[i] = {UserState::unreachable, std::make_shared<const Error>(std::move(done).error())};
        continue;
      }
      status[i] = {UserState::known, nullptr, hidden_of(batch.digests, hides)};
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
  /// As HidingStore: in the history. Errors: its own; parameter_mismatch for an item of another kind.
  Result<std::size_t> hide(const user_type& user, std::span<const HiddenItem> items) requires keeps_hides {
    std::vector<Hide<item_type>> hides;
    for (const HiddenItem& hidden : items) {
      auto item = detail::item_of_text<item_type>(hidden.text);
      if (!item) {
        std::string message = "seenby: expected an item to hide of the history's kind, ";
        message.append(to_string(item_kind<item_type>)).append(", got another, or one that is too large for it");
        return Error{ErrorCode::parameter_mismatch, std::move(message)};
      }
      hides.push_back({*std::move(item), hidden.at});
    }
    return history_->hide(user, std::span<const Hide<item_type>>(hides));
  }
  /// Takes hides back; returns how many there were. Two queries: a digest names an item among those that are hidden.
  Result<std::size_t> unhide(const user_type& user, std::span<const Digest> digests) requires keeps_hides {
    auto hides = history_->hidden(user);
    if (!hides) return std::move(hides).error();
    std::vector<item_type> items;
    for (const auto& hide : *hides) {
      if (std::find(digests.begin(), digests.end(), hash_(hide.item)) != digests.end()) items.push_back(hide.item);
    }
    return history_->unhide(user, std::span<const item_type>(items));
  }
  /// The user's hides.
  [[nodiscard]] Result<std::vector<HiddenItem>> hidden(const user_type& user) const requires keeps_hides {
    auto hides = history_->hidden(user);
    if (!hides) return std::move(hides).error();
    std::vector<HiddenItem> items;
    for (const auto& [item, at] : *hides) items.push_back({hash_(item), detail::text_of_item(item), at});
    return items;
  }
  /// Nothing to do: every answer is exact.
  void keep_last(std::size_t) const noexcept requires keeps_hides {}
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
  Result<void> look_up(const user_type& user, std::span<const item_type> items, std::span<std::uint8_t> seen,
                       std::span<std::uint8_t> hides, Time since) const {
    if constexpr (HidingHistory<History>) {
      return history_->contains(user, items, seen, hides, since);
    } else {
      return history_->contains(user, items, seen, since);
    }
  }
  /// Null where none is hidden.
  [[nodiscard]] static std::shared_ptr<const ExactList> hidden_of(std::span<const Digest> digests,
                                                                  std::span<const std::uint8_t> hides) {
    ExactList list;
    for (std::size_t i = 0; i < hides.size(); ++i) {
      if (hides[i] != 0) list.push_back({digests[i]});
    }
    return list.empty() ? nullptr : std::make_shared<const ExactList>(std::move(list));
  }
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
