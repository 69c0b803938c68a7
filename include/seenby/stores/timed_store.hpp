#pragma once
// SPDX-License-Identifier: MIT
// TimedStore: any store with latency histograms and an observer.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "seenby/latency_histogram.hpp"
#include "seenby/observer.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// How long a store's calls took.
struct StoreLatencies {
  LatencyHistogram::Snapshot check;   ///< a question: one request's, or all of check_many's
  LatencyHistogram::Snapshot record;  ///< a write with what it rebuilt
};

/// A store whose checks and records are timed; in everything else it is that store, which it derives from, so that what
/// a store can do beyond the concept (hides, snapshots, merging) is here too.
///
///     seenby::SeenFilter filter{seenby::TimedStore{seenby::redis::RedisStore<std::string>{url, policy}}};
///
/// Two readings of the steady clock a call, about 40 ns: nothing beside a round trip, as much as a whole request in
/// memory. Thread-safe as the store is.
template <class Store>
class TimedStore : public Store {
 public:
  using user_type = typename Store::user_type;  ///< who sees

  /// The observer is told of "store.check" and "store.record".
  explicit TimedStore(Store store, Observer observer = {})
      : Store(std::move(store)), timing_(std::make_unique<Timing>(std::move(observer))) {}

  /// Since construction.
  [[nodiscard]] StoreLatencies latencies() const noexcept {
    return {.check = timing_->check.snapshot(), .record = timing_->record.snapshot()};
  }

  /// The store's, timed.
  template <class Item, class... Expected>
  requires requires(const Store& store, std::span<const user_type> users, const ItemBatch<Item>& batch,
                    std::span<std::uint8_t> seen_by, std::span<UserStatus> status, const Expected&... expected) {
    store.check(users, batch, seen_by, status, expected...);
  }
  void check(std::span<const user_type> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status, const Expected&... expected) const {
    const auto start = std::chrono::steady_clock::now();
    Store::check(users, batch, seen_by, status, expected...);
    checked(start, users.size(), batch.size(), first_error(status));
  }

  /// The store's, timed as one call.
  template <class Item>
  requires BatchingStoreFor<Store, Item>
  void check_many(std::span<const CheckRequest<user_type, Item>> requests) const {
    const auto start = std::chrono::steady_clock::now();
    Store::check_many(requests);
    std::size_t users = 0;
    std::size_t items = 0;
    const Error* error = nullptr;
    for (const auto& request : requests) {
      users += request.users.size();
      items += request.batch.size();
      if (error == nullptr) error = first_error(request.status);
    }
    checked(start, users, items, error);
  }

  /// The store's, timed.
  template <class Item, class... When>
  requires requires(Store& store, const user_type& user, const ItemBatch<Item>& batch, const When&... when) {
    store.record(user, batch, when...);
  }
  Result<RecordOutcome> record(const user_type& user, const ItemBatch<Item>& batch, const When&... when) {
    const auto start = std::chrono::steady_clock::now();
    auto outcome = Store::record(user, batch, when...);
    detail::observe_call(timing_->record, timing_->observer,
                         {"store.record", start, {}, 1, batch.size(), outcome ? nullptr : &outcome.error()});
    return outcome;
  }

  /// The store's, timed as one record.
  template <class Item>
  requires ManyRecordingStoreFor<Store, Item>
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(
      std::span<const RecordRequest<user_type, Item>> requests) {
    const auto start = std::chrono::steady_clock::now();
    auto outcomes = Store::record_many(requests);
    std::size_t items = 0;
    for (const auto& request : requests) items += request.batch.size();
    const auto failed =
        std::find_if(outcomes.begin(), outcomes.end(), [](const auto& outcome) { return !outcome.has_value(); });
    detail::observe_call(
        timing_->record, timing_->observer,
        {"store.record", start, {}, requests.size(), items, failed == outcomes.end() ? nullptr : &failed->error()});
    return outcomes;
  }

 private:
  struct Timing {
    explicit Timing(Observer functions) : observer(std::move(functions)) {}
    LatencyHistogram check;
    LatencyHistogram record;
    Observer observer;
  };

  [[nodiscard]] static const Error* first_error(std::span<const UserStatus> status) noexcept {
    const auto failed =
        std::find_if(status.begin(), status.end(), [](const UserStatus& each) { return each.error != nullptr; });
    return failed == status.end() ? nullptr : failed->error.get();
  }
  void checked(std::chrono::steady_clock::time_point start, std::size_t users, std::size_t items,
               const Error* error) const noexcept {
    detail::observe_call(timing_->check, timing_->observer, {"store.check", start, {}, users, items, error});
  }

  std::unique_ptr<Timing> timing_;
};

}  // namespace seenby
