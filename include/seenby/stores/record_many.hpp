#pragma once
// SPDX-License-Identifier: MIT
// Events of many users, grouped by user for one write each, and their record in any store.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/slice_clock.hpp"

namespace seenby {

/// What `record_many` did for one user.
template <class User>
struct UserRecorded {
  User user;                      ///< whose outcome it is
  std::size_t events = 0;         ///< of theirs in the batch
  Result<RecordOutcome> outcome;  ///< a value: all of them are acknowledged
};

/// What `record_many` did: an entry a user, in the order in which they first come in the batch.
///
///     for (const auto& [user, events, outcome] : recorded) if (!outcome) log(user, outcome.error().message);
///
/// A value; many threads may read it.
template <class User>
class [[nodiscard]] ManyRecorded {
 public:
  /// For those who implement record_many.
  explicit ManyRecorded(std::vector<UserRecorded<User>> users) noexcept : users_(std::move(users)) {}

  [[nodiscard]] auto begin() const noexcept { return users_.begin(); }       ///< of UserRecorded
  [[nodiscard]] auto end() const noexcept { return users_.end(); }           ///< behind the last
  [[nodiscard]] std::size_t size() const noexcept { return users_.size(); }  ///< how many users there are
  /// The outcome of the user that came at this place.
  [[nodiscard]] const UserRecorded<User>& operator[](std::size_t index) const noexcept { return users_[index]; }
  /// Events of users whose outcome is a value: no selection shows these items to them any more.
  [[nodiscard]] std::size_t acknowledged() const noexcept {
    return std::accumulate(users_.begin(), users_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& one) { return sum + (one.outcome ? one.events : 0); });
  }
  /// Null where all is acknowledged.
  [[nodiscard]] const Error* first_error() const noexcept {
    const auto failed = std::find_if(users_.begin(), users_.end(), [](const auto& one) { return !one.outcome; });
    return failed == users_.end() ? nullptr : &failed->outcome.error();
  }
  /// Throws BadResult with the first error that there is.
  void or_throw() const {
    if (const Error* error = first_error()) throw BadResult(*error);
  }

 private:
  std::vector<UserRecorded<User>> users_;
};

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// Events in a group a user, the oldest first: slices and equal times are adjacent. Keeps its memory from one batch to
/// the next. One thread at a time.
template <HashableItem User, HashableItem Item>
class EventGroups {
 public:
  using Request = RecordRequest<User, Item>;

  /// Takes `count` events, of which user_of(i), item_of(i) and when_of(i) tell. Items are kept as item_of gives them:
  /// what a view refers to must stay. O(n log n), comparing numbers but where two may be of one user.
  template <Hasher Hash, class UserOf, class ItemOf, class WhenOf>
  void assign(std::size_t count, const Hash& hash, const UserOf& user_of, const ItemOf& item_of,
              const WhenOf& when_of) {
    entries_.clear();
    for (std::size_t i = 0; i < count; ++i) entries_.push_back({user_key(user_of(i)), when_of(i), i});
    const auto same = [&](const Entry& a, const Entry& b) {
      return a.user == b.user && (IntegerItem<User> || user_of(a.index) == user_of(b.index));
    };
    std::sort(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
      if (!(a.user == b.user)) return std::tie(a.user.low, a.user.high) < std::tie(b.user.low, b.user.high);
      // Who chooses their names can choose two of one key.
      if (!same(a, b)) return user_of(a.index) < user_of(b.index);
      return std::tie(a.when, a.index) < std::tie(b.when, b.index);
    });
    items_.clear();
    digests_.clear();
    when_.clear();
    groups_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& entry = entries_[i];
      if (i == 0 || !same(entry, entries_[i - 1])) groups_.push_back({entry.index, i, i});
      groups_.back().first = std::min(groups_.back().first, entry.index);
      groups_.back().end = i + 1;
      items_.push_back(item_of(entry.index));
      digests_.push_back(hash(items_.back()));
      when_.push_back(entry.when);
    }
    std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
    requests_.clear();
    for (const auto& [first, begin, end] : groups_) {
      const ItemBatch<Item> all{items_, digests_};
      requests_.push_back(
          {user_of(first), all.subspan(begin, end - begin), std::span(when_).subspan(begin, end - begin)});
    }
  }

  /// A request a user, those first whose events come first. Valid until the next assign.
  [[nodiscard]] std::span<const Request> requests() const noexcept { return requests_; }

 private:
  struct Entry {
    UserKey user;
    Time when;
    std::size_t index;
  };
  struct Group {
    std::size_t first;  // the earliest of its events
    std::size_t begin;  // its place among the items
    std::size_t end;
  };
  std::vector<Entry> entries_;
  std::vector<Group> groups_;
  std::vector<Item> items_;
  std::vector<Digest> digests_;
  std::vector<Time> when_;
  std::vector<Request> requests_;
};

/// Calls run(begin, end) for each run of neighbours that are equal by key(i).
template <class Key, class Run>
void for_each_run(std::size_t count, const Key& key, const Run& run) {
  for (std::size_t begin = 0; begin < count;) {
    std::size_t end = begin + 1;
    while (end < count && key(end) == key(begin)) ++end;
    run(begin, end);
    begin = end;
  }
}

/// One request by a store's `record`, in parts: neighbours equal by part_of(i), those of `no_part` left out. A store
/// that takes times gets a part's last.
inline constexpr std::int64_t no_part = std::numeric_limits<std::int64_t>::min();
template <class Store, class User, class Item, class PartOf>
Result<RecordOutcome> record_parts(Store& store, const RecordRequest<User, Item>& request, const PartOf& part_of) {
  const std::span<const Time> when = request.when;
  Result<RecordOutcome> total = RecordOutcome{};
  for_each_run(request.batch.size(), part_of, [&](std::size_t begin, std::size_t end) {
    if (!total || part_of(begin) == no_part) return;
    const ItemBatch<Item> part = request.batch.subspan(begin, end - begin);
    Result<RecordOutcome> done = [&] {
      if constexpr (TimedStoreFor<Store, Item>) {
        if (!when.empty()) return store.record(request.user, part, when[end - 1]);
      }
      return store.record(request.user, part);
    }();
    if (!done) {
      total = std::move(done);
    } else {
      total->newly_added += done->newly_added;
      total->grew = total->grew || done->grew;
    }
  });
  return total;
}
/// A record a time.
template <class Store, class User, class Item>
Result<RecordOutcome> record_times(Store& store, const RecordRequest<User, Item>& request) {
  return record_parts(store, request, [&](std::size_t i) {
    return request.when.empty() ? 0 : std::int64_t{request.when[i].time_since_epoch().count()};
  });
}
/// A record a slice of the window; or one of what is within it, where the store takes no times.
template <class Store, class User, class Item>
Result<RecordOutcome> record_slices(Store& store, const SliceClock& slices, const RecordRequest<User, Item>& request) {
  const Time now = request.when.empty() || TimedStoreFor<Store, Item> ? Time{} : store.policy().clock();
  return record_parts(store, request, [&](std::size_t i) -> std::int64_t {
    if (request.when.empty()) return 0;
    if constexpr (TimedStoreFor<Store, Item>) return slices.number(request.when[i]);
    return within_window(request.when[i], now, store.policy().window) ? 0 : no_part;
  });
}

/// Many requests by any store: in one call where it takes many. Else one after the other; a store that cannot be
/// reached is not asked for the rest.
template <class Store, class Item>
std::vector<Result<RecordOutcome>> record_requests(
    Store& store, std::span<const RecordRequest<typename Store::user_type, Item>> requests) {
  if constexpr (ManyRecordingStoreFor<Store, Item>) {
    return store.record_many(requests);
  } else {
    std::vector<Result<RecordOutcome>> outcomes;
    outcomes.reserve(requests.size());
    const SliceClock slices(store.policy());
    for (const auto& request : requests) {
      const Error* const last = outcomes.empty() || outcomes.back() ? nullptr : &outcomes.back().error();
      const bool down = last && is_down(last->code);
      outcomes.push_back(down ? Result<RecordOutcome>(*last) : record_slices(store, slices, request));
    }
    return outcomes;
  }
}

SEENBY_DETAIL_END
