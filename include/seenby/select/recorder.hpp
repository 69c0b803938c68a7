#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter has, and its way of a record: from the public members to the history and the store.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/observer.hpp"
#include "seenby/result.hpp"
#include "seenby/select/overlays.hpp"
#include "seenby/select/page_builder.hpp"
#include "seenby/select/requirements.hpp"
#include "seenby/select/seen_counters.hpp"
#include "seenby/select/shadow.hpp"
#include "seenby/select/write_gate.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

SEENBY_DETAIL_BEGIN

/// A SeenFilter's members, and the way of a record. Thread-safe as it is.
template <class Store, class History>
class Recorder {
 protected:
  using Prescribed = ItemOf<Store, History>;
  using Required = std::tuple<RequireStore<Store, AnyItem<Prescribed>>, RequireHistory<History>>;
  static_assert(sizeof(Required) > 0);  // NOLINT(bugprone-sizeof-expression): makes the checks run

  using user_type = UserOf<Store>;
  using hasher_type = HasherOf<Store>;
  static constexpr bool has_history = !std::same_as<History, NoHistory>;
  Recorder(Store&& store, History* history)
      : store_(std::move(store)), history_(history), exact_(std::make_unique<Exact>()) {}

  struct Exact {
    Overlays<Store> overlays;
    WriteGate gate;
    std::unique_ptr<Referee> shadow;
    std::unique_ptr<SeenTiming> timing;
  };
  [[nodiscard]] Time now() const { return now_of(store_.policy()); }

  template <class Range>
  [[nodiscard]] std::vector<Digest> digests_of(const Range& items) const {
    std::vector<Digest> digests;
    if constexpr (requires { std::ranges::size(items); }) digests.reserve(std::ranges::size(items));
    for (const auto& item : items) digests.push_back(store_.hasher()(item));
    return digests;
  }

  template <class Item>
  [[nodiscard]] static auto hand_on(const Item& item) {
    static_assert(recordable<Item, Prescribed>(), "seenby: expected items of the history's item_type");
    return handed_on<typename HandedOn<Item, Prescribed>::type>(item);
  }

  /// Calls change(the store, user) where it keeps hides, or change(the overlay, key): how many entries changed.
  template <class Change>
  Result<bool> change_hides(const user_type& user, Change&& change) {
    const auto key = user_key(user);
    const WriteGate::Record among_others(exact_->gate, UserKeyHash{}(key));
    if constexpr (HidingStore<Store>) {
      const auto changed = change(store_, user);
      if (!changed) return changed.error();
      return *changed != 0;
    } else {
      return change(exact_->overlays.exact, key) != 0;
    }
  }

  // Defined below.

  template <class Item>
  Result<RecordOutcome> write(const user_type& user, std::span<const Item> items, std::optional<Time> when);
  template <class Item>
  Result<RecordOutcome> write_batch(const user_type& user, const ItemBatch<Item>& batch, std::optional<Time> when);
  template <class Item>
  Result<RecordOutcome> write_untimed(const user_type& user, const ItemBatch<Item>& batch, std::optional<Time> when);
  template <class Item>
  Result<RecordOutcome> write_event(const user_type& user, const ItemBatch<Item>& batch, Time when, Time current);
  void begin_shadow(const user_type& user, std::span<const Digest> digests, Time at);
  [[nodiscard]] bool read_past(const user_type& user, std::vector<SeenDigest>& past) const;
  template <class Item>
  [[gnu::noinline]] void check_one(const user_type& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
                                   UserStatus& status) const {
    store_.check(std::span(&user, 1), batch, seen_by, std::span(&status, 1));
  }

  // Records of many users

  template <class Item>
  [[nodiscard]] ManyRecorded<user_type> write_many(std::span<const SeenEvent<user_type, Item>> events) {
    using Handed = decltype(hand_on(std::declval<const Item&>()));
    EventGroups<user_type, Handed> groups;
    groups.assign(
        events.size(), store_.hasher(), [&](std::size_t i) -> const user_type& { return events[i].user; },
        [&](std::size_t i) { return hand_on(events[i].item); }, [&](std::size_t i) { return events[i].seen_at; });
    const auto requests = groups.requests();
    FacadeCounters::Write failing{counters_, events.size()};
    std::vector<std::size_t> hashes;
    hashes.reserve(requests.size());
    for (const auto& request : requests) hashes.push_back(UserKeyHash{}(user_key(request.user)));
    const WriteGate::Records among_others(exact_->gate, hashes);
    std::vector<UserRecorded<user_type>> users;
    users.reserve(requests.size());
    for (const auto& request : requests) users.push_back({request.user, request.batch.size(), RecordOutcome{}});
    for (const auto& request : requests) begin_shadow(request);
    if constexpr (has_history) append_many(events, requests, users);
    // The history's errors are outcomes already.
    std::vector<RecordRequest<user_type, Handed>> durable;
    std::vector<std::size_t> of;
    durable.reserve(users.size());
    of.reserve(users.size());
    for (std::size_t i = 0; i < users.size(); ++i) {
      if (!users[i].outcome) continue;
      durable.push_back(requests[i]);
      of.push_back(i);
    }
    auto outcomes = record_requests(store_, std::span<const RecordRequest<user_type, Handed>>(durable));
    for (std::size_t i = 0; i < outcomes.size(); ++i) users[of[i]].outcome = std::move(outcomes[i]);
    for (std::size_t i = 0; i < users.size(); ++i) {
      if (!users[i].outcome) continue;
      end_write(requests[i]);
      failing.items -= users[i].events;
    }
    failing.done = failing.items == 0;
    return ManyRecorded<user_type>(std::move(users));
  }
  /// As one batch where the history takes events; else a user's and a time's items at once.
  template <class Item, class Handed>
  void append_many(std::span<const SeenEvent<user_type, Item>> events,
                   std::span<const RecordRequest<user_type, Handed>> requests,
                   std::vector<UserRecorded<user_type>>& users) {
    if constexpr (requires(std::span<const SeenEvent<user_type, Handed>> all) { history_->append(all); }) {
      const auto fail = [&](const Error& error) {
        for (auto& user : users) user.outcome = error;
      };
      if constexpr (std::same_as<Item, Handed>) {
        if (auto done = history_->append(events); !done) fail(done.error());
      } else {
        std::vector<SeenEvent<user_type, Handed>> copies;
        copies.reserve(events.size());
        for (const auto& event : events) copies.push_back({event.user, hand_on(event.item), event.seen_at, event.id});
        if (auto done = history_->append(std::span<const SeenEvent<user_type, Handed>>(copies)); !done) {
          fail(done.error());
        }
      }
    } else {
      for (std::size_t i = 0; i < requests.size(); ++i) {
        for_each_time(requests[i], [&](const ItemBatch<Handed>& batch, Time when) {
          if (!users[i].outcome) return;
          if (auto done = history_->append(users[i].user, batch.items, when); !done) users[i].outcome = done.error();
        });
      }
    }
  }
  template <class Handed, class Run>
  static void for_each_time(const RecordRequest<user_type, Handed>& request, const Run& run) {
    for_each_run(
        request.when.size(), [&](std::size_t i) { return request.when[i]; },
        [&](std::size_t begin, std::size_t end) {
          run(request.batch.subspan(begin, end - begin), request.when[begin]);
        });
  }
  template <class Handed>
  void begin_shadow(const RecordRequest<user_type, Handed>& request) {
    if (!exact_->shadow) return;
    for_each_time(request,
                  [&](const ItemBatch<Handed>& batch, Time when) { begin_shadow(request.user, batch.digests, when); });
  }
  /// What this process keeps of a record, once it is acknowledged.
  template <class Handed>
  void end_write(const RecordRequest<user_type, Handed>& request) {
    const auto key = user_key(request.user);
    Exact& exact = *exact_;
    if (exact.shadow || exact.overlays.exact.keeps()) {
      for_each_time(request, [&](const ItemBatch<Handed>& batch, Time when) {
        if (exact.shadow) exact.shadow->end_write(key, batch.digests, when);
        exact.overlays.exact.keep(key, batch.digests, when);
      });
    }
    if (Marks* const marks = exact.overlays.in_flight.get()) marks->settle(key, request.batch.digests, now());
  }

  Store store_;
  History* history_;
  std::unique_ptr<Exact> exact_;
  FacadeCounters counters_;
};

// Not in line: a unit whose types seenby::core has compiled does not compile them again.

template <class Store, class History>
template <class Item>
Result<RecordOutcome> Recorder<Store, History>::write(const user_type& user, std::span<const Item> items,
                                                      std::optional<Time> when) {
  if (items.empty()) return RecordOutcome{};
  if (items.size() > 1) return write_batch(user, ItemBatch<Item>{items, digests_of(items)}, when);
  const Digest digest = store_.hasher()(items[0]);
  return write_batch(user, ItemBatch<Item>{items, std::span(&digest, 1)}, when);
}
template <class Store, class History>
template <class Item>
Result<RecordOutcome> Recorder<Store, History>::write_batch(const user_type& user, const ItemBatch<Item>& batch,
                                                            std::optional<Time> when) {
  SeenTiming* const timing = exact_->timing.get();
  if (timing == nullptr) return write_untimed(user, batch, when);
  const auto start = begin_of(timing);
  auto outcome = write_untimed(user, batch, when);
  observe_call(timing->record, timing->observer,
               {"record", start, {}, 1, batch.size(), outcome ? nullptr : &outcome.error()});
  return outcome;
}
template <class Store, class History>
template <class Item>
Result<RecordOutcome> Recorder<Store, History>::write_untimed(const user_type& user, const ItemBatch<Item>& batch,
                                                              std::optional<Time> when) {
  Exact& exact = *exact_;
  const auto key = user_key(user);
  FacadeCounters::Write counted{counters_, batch.size()};
  const WriteGate::Record among_others(exact.gate, UserKeyHash{}(key));
  // A record that no part needs the time of does not read the clock.
  const bool timed =
      has_history || when || exact.shadow || exact.overlays.exact.keeps() || exact.overlays.in_flight.get() != nullptr;
  const Time current = timed ? now() : Time{};
  const Time at = when.value_or(current);
  if (exact.shadow) begin_shadow(user, batch.digests, at);
  if constexpr (has_history) {
    if (auto done = history_->append(user, batch.items, at); !done) return std::move(done).error();
  }
  auto outcome = when ? write_event(user, batch, *when, current) : store_.record(user, batch);
  if (!outcome) return outcome;
  counted.done = true;
  if (exact.shadow) exact.shadow->end_write(key, batch.digests, at);
  exact.overlays.exact.keep(key, batch.digests, at);
  if (Marks* const marks = exact.overlays.in_flight.get()) marks->settle(key, batch.digests, current);
  return outcome;
}
/// Where the store takes no times, an event within the window counts from now.
template <class Store, class History>
template <class Item>
Result<RecordOutcome> Recorder<Store, History>::write_event(const user_type& user, const ItemBatch<Item>& batch,
                                                            Time when, Time current) {
  if constexpr (TimedStoreFor<Store, Item>) {
    return store_.record(user, batch, when);
  } else if (within_window(when, current, store_.policy().window)) {
    return store_.record(user, batch);
  } else {
    return RecordOutcome{};
  }
}

template <class Store, class History>
void Recorder<Store, History>::begin_shadow(const user_type& user, std::span<const Digest> digests, Time at) {
  const auto key = user_key(user);
  if (exact_->shadow->expects(key)) {
    std::vector<SeenDigest> past;
    const bool complete = read_past(user, past);
    exact_->shadow->meet(key, past, complete);
  }
  exact_->shadow->begin_write(key, digests, at);
}
/// The whole past of a user: from the history, or nothing where the store has no filter of them yet.
template <class Store, class History>
bool Recorder<Store, History>::read_past(const user_type& user, std::vector<SeenDigest>& past) const {
  if constexpr (has_history) {
    auto account = replay_of(*history_, hasher_type(store_.hasher()))(user, all_time);
    if (account) {
      past = *std::move(account);
      return true;
    }
  }
  UserStatus status;
  check_one(user, ItemBatch<AnyItem<Prescribed>>{}, {}, status);
  return status.state == UserState::missing;
}

SEENBY_DETAIL_END
