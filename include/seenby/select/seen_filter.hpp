#pragma once
// SPDX-License-Identifier: MIT
// SeenFilter: selects the candidates that one or more users have not seen, over any store.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/answer.hpp"
#include "seenby/clock.hpp"
#include "seenby/detail/range.hpp"
#include "seenby/detail/sizing_math.hpp"
#include "seenby/detail/thread_counters.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/select/overlays.hpp"
#include "seenby/select/page_builder.hpp"
#include "seenby/select/requirements.hpp"
#include "seenby/select/seen_counters.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/select/shadow.hpp"
#include "seenby/select/write_gate.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

namespace seenby {

/// Which of these items has this user, or neither of these two users, already seen?
///
/// @code
/// seenby::SeenFilter filter{seenby::MemoryStore{{.wrong_hide_rate = 0.01, .users_per_request = 2}}};
/// filter.record(alice, question).or_throw();
/// seenby::CandidatePool pool{questions};
/// auto page = filter.select_unseen(pool, {alice, bob}, {.limit = 10});
/// for (const auto& pick : page) show(pick.item);
/// @endcode
///
/// Nothing recorded is ever picked (no false negative); a fresh candidate is hidden at most at the policy's
/// wrong_hide_rate. With a history the record goes there first, a filter is rebuilt from it, and Verify can win back
/// what a filter hides wrongly; the history must outlive the filter.
///
/// Thread safety: any thread may call any member at any time, but for those "for set-up". Moving it is for set-up only.
template <class Store, class History = NoHistory>
class SeenFilter {
  using Prescribed = detail::ItemOf<Store, History>;
  using Required =
      std::tuple<detail::RequireStore<Store, detail::AnyItem<Prescribed>>, detail::RequireHistory<History>>;
  static_assert(sizeof(Required) > 0);  // NOLINT(bugprone-sizeof-expression): makes the checks run

 public:
  using store_type = Store;                                               ///< where the filters live
  using history_type = History;                                           ///< the exact source of truth, or NoHistory
  using user_type = detail::UserOf<Store>;                                ///< who sees
  using hasher_type = detail::HasherOf<Store>;                            ///< makes digests of items
  static constexpr bool has_history = !std::same_as<History, NoHistory>;  ///< whether it has a history
  /// One of the requests of select_many.
  template <class Item>
  using Request = seenby::Request<user_type, Item, hasher_type>;

  /// Over a store alone.
  explicit SeenFilter(Store store) : store_(std::move(store)), exact_(std::make_unique<Exact>()) {
    static_assert(!has_history, "seenby: pass the history to SeenFilter's constructor, behind the store");
  }
  /// Over a store and a history that outlives it: records are written to the history first, missing filters are rebuilt
  /// from it, and `Verify` asks it.
  SeenFilter(Store store, History& history) requires has_history : store_(std::move(store)),
                                                                   history_(&history),
                                                                   exact_(std::make_unique<Exact>()) {
    if constexpr (ReplayableStore<Store>) {
      store_.set_replay(replay_of(history, hasher_type(store_.hasher())));
    } else if constexpr (ItemReplayableStore<Store, History>) {
      store_.set_item_replay(item_replay_of(history));
    }
  }

  /// Puts an exact referee beside the filters of a share of the users, in (0, 1], from their next record on; the
  /// shadow_ counters then say what the filters really do. Costs the sampled users' items in exact sets and, for
  /// requests they are in, one more check. For set-up, before other threads use the filter. Throws
  /// std::invalid_argument.
  void shadow(double share) {
    if (share != 1) detail::require_rate(share, "shadow share");
    exact_->shadow = std::make_unique<detail::Shadow<detail::UserKey>>(share);
  }

  /// Times every request and every record from now on (two readings of the steady clock each; unobserved they cost
  /// nothing), and tells the observer of "select" and "record". A TimedStore does the same for the store's calls. For
  /// set-up, before other threads use the filter.
  void observe(Observer observer = {}) { exact_->timing = std::make_unique<detail::SeenTiming>(std::move(observer)); }

  /// Keeps the last `items` records of every user exact, beside the filter: 16 bytes each. Within the window no
  /// relaxation brings them back and no lookup is spent on them, however thin the page. 0, the default, keeps none. A
  /// HidingStore keeps them in the user's record, any other leaves them to this process. For set-up.
  void keep_last(std::size_t items) noexcept {
    if constexpr (HidingStore<Store>) {
      store_.keep_last(items);
    } else {
      exact_->overlays.exact.keep_last(items);
    }
  }

  // Record

  /// Marks an item as seen, now or at the time of the event. When it returns a value, no later selection shows the item
  /// to this user within the window; of what was seen before the window the history alone keeps a record. An error says
  /// which write failed: the history's (nothing was recorded) or the store's (the history has it).
  template <HashableItem Item>
  Result<RecordOutcome> record(const user_type& user, const Item& item, std::optional<Time> when = {}) {
    const auto handed = hand_on(item);
    return write(user, std::span(&handed, 1), when);
  }
  /// As record, for many items in one go: one write of the history, one of the store. No items: nothing is done, and an
  /// unknown user stays unknown.
  template <detail::ItemRange Range>
  Result<RecordOutcome> record_all(const user_type& user, const Range& items, std::optional<Time> when = {}) {
    using Item = detail::RangeValue<Range>;
    using Handed = decltype(hand_on(std::declval<const Item&>()));
    if constexpr (detail::ContiguousRange<Range> && std::same_as<Handed, Item>) {
      return write(user, std::span<const Item>(std::ranges::data(items), std::ranges::size(items)), when);
    } else {
      std::vector<Handed> copy;
      if constexpr (requires { std::ranges::size(items); }) copy.reserve(std::ranges::size(items));
      for (const auto& item : items) copy.push_back(hand_on(item));
      return write(user, std::span<const Handed>(copy), when);
    }
  }
  /// Marks many users' items as seen, each at its own time: a contiguous range of SeenEvent<user_type, Item>, in any
  /// order. One write of the history, then one of the store for each user, all of them in one round trip or transaction
  /// where the store can (ManyRecordingStoreFor). The result tells each user's outcome, a value where all their events
  /// are acknowledged; what failed may be sent again, since a repeated event is as one. An error of the history is
  /// every user's, and nothing was recorded then, but in a history that takes no events (EventHistory): there each user
  /// has their own.
  template <detail::ContiguousRange Events>
  [[nodiscard]] ManyRecorded<user_type> record_many(const Events& events) {
    detail::SeenTiming* const timing = exact_->timing.get();
    const auto start = detail::begin_of(timing);
    auto recorded = write_many(std::span(std::ranges::data(events), std::ranges::size(events)));
    if (timing != nullptr) {
      detail::observe_call(timing->record, timing->observer,
                           {"record", start, {}, recorded.size(), std::ranges::size(events), recorded.first_error()});
    }
    return recorded;
  }
  /// Gives a new user an explicit empty filter, so that "nothing seen yet" is an answer and not `unknown`.
  Result<void> create(const user_type& user) { return store_.create(user); }

  /// Items reported as seen, but not recorded yet: hidden at once and exactly, until recorded or for `ttl`, by this
  /// SeenFilter alone. What was only returned or prefetched is not in flight.
  template <detail::ItemRange Range>
  void mark_in_flight(const user_type& user, const Range& items, std::chrono::seconds ttl = std::chrono::minutes(1)) {
    const Time at = now();
    exact_->overlays.in_flight.add(detail::user_key(user), digests_of(items), at, saturating_add(at, ttl));
  }

  /// As mark_in_flight, in every process: this one at once, any other with its next request, since the marks are in the
  /// user's record (a MarkingStore). They expire by the store's clock. Errors: the store's; then this process alone
  /// hides the items.
  template <detail::ItemRange Range>
  Result<void> share_in_flight(const user_type& user, const Range& items,
                               std::chrono::seconds ttl = std::chrono::minutes(1)) requires MarkingStore<Store> {
    mark_in_flight(user, items, ttl);
    return store_.mark_in_flight(user, digests_of(items), saturating_add(now(), ttl));
  }

  /// Never shows this item to this user again, whatever the window. True when it was not hidden before. A HidingStore
  /// keeps it in the user's record, for every process and after this one; any other leaves it to this process. Errors:
  /// the store's; then it may not be hidden.
  template <HashableItem Item>
  Result<bool> hide(const user_type& user, const Item& item) {
    static_assert(detail::recordable<Item, Prescribed>(), "seenby: expected an item of the history's item_type");
    const HiddenItem hidden{store_.hasher()(item), detail::text_of_item(item), now()};
    return change_hides(user, [&](auto& hides, const auto& key) { return hides.hide(key, std::span(&hidden, 1)); });
  }
  /// Takes a hide back; what was seen stays seen. True when it was hidden. Errors: the store's.
  template <HashableItem Item>
  Result<bool> unhide(const user_type& user, const Item& item) {
    const Digest digest = store_.hasher()(item);
    return change_hides(user, [&](auto& hides, const auto& key) { return hides.unhide(key, std::span(&digest, 1)); });
  }
  /// What the user hid, in the order it was hidden: the items of Item's kind (integers, text or bytes) that an Item can
  /// hold. With a history, of its item type. Errors: the store's.
  template <HashableItem Item = detail::AnyItem<Prescribed>>
  [[nodiscard]] Result<std::vector<Item>> hidden(const user_type& user) const {
    static_assert(detail::recordable<Item, Prescribed>(), "seenby: expected the history's item_type");
    std::vector<HiddenItem> hides;
    if constexpr (HidingStore<Store>) {
      auto listed = store_.hidden(user);
      if (!listed) return std::move(listed).error();
      hides = *std::move(listed);
    } else {
      hides = exact_->overlays.exact.hidden(detail::user_key(user));
    }
    std::vector<Item> items;
    for (const HiddenItem& hidden : hides) {
      if (auto item = detail::item_of_text<Item>(hidden.text)) items.push_back(*std::move(item));
    }
    return items;
  }

  /// Removes every trace of a user: the history's rows where there is one, the filter, hides, items in flight. True
  /// when there was any. An error leaves it half done at worst; calling it again finishes it. A record of the user that
  /// comes meanwhile waits, in this process. The history goes first, since a record by another in between would bring
  /// all of it back.
  Result<bool> forget(const user_type& user) {
    const auto key = detail::user_key(user);
    const std::size_t hash = detail::UserKeyHash{}(key);
    const detail::WriteGate::Alone alone(exact_->gate, hash, hash);
    bool any = false;
    if constexpr (has_history) {
      auto rows = history_->forget(user);
      if (!rows) return rows;
      any = *rows;
    }
    if (exact_->shadow) exact_->shadow->forget(key);
    auto stored = store_.forget(user);
    if (!stored) return stored;
    return exact_->overlays.forget(key) || *stored || any;
  }

  /// Everything `from` has seen, `into` has seen from now on, and `from` is forgotten: login after anonymous use, a
  /// second device. Nothing happens where they are one user. A record of either that comes meanwhile waits, in this
  /// process; in another it may stay with `from`, whole. After an error, or a death at any step, nothing is lost, and
  /// calling it again finishes it: the history is merged first, in one step of its own (MergingHistory).
  Result<void> merge_users(const user_type& from, const user_type& into) requires detail::MergingStore<Store> &&
      (!has_history || MergingHistory<History>) {
    const auto from_key = detail::user_key(from);
    const auto into_key = detail::user_key(into);
    if (from_key == into_key) return {};
    const detail::UserKeyHash hash;
    const detail::WriteGate::Alone alone(exact_->gate, hash(from_key), hash(into_key));
    if constexpr (has_history) {
      if (auto moved = history_->merge(from, into); !moved) return std::move(moved).error();
    }
    if (auto done = store_.merge_users(from, into); !done) return done;
    if (exact_->shadow) {
      exact_->shadow->forget(from_key);
      exact_->shadow->forget(into_key);
    }
    exact_->overlays.merge(from_key, into_key);
    return {};
  }

  // Select

  /// The candidates that none of the users has seen, in ranking order, up to options.limit; then whatever the
  /// relaxations let in, each pick saying why. `candidates` are a CandidatePool, a contiguous range of items that this
  /// request alone ranks, or an ItemBatch of items with the digests that the caller keeps beside them; the page refers
  /// to them, so that a pool or a container that would be gone by then is refused. Throws std::invalid_argument for 0
  /// or more than 255 users and for digests under another seed; BadResult when options.on_unknown is raise.
  template <class Source>
  requires detail::CandidateSource<Source, hasher_type>
  [[nodiscard]] auto select_unseen(Source&& candidates, std::span<const user_type> users,
                                   const SelectOptions<detail::SourceItem<Source>, hasher_type>& options = {}) const {
    Selection<detail::SourceItem<Source>> page;
    select_unseen(candidates, users, options, page);
    return page;
  }
  /// The same for a list of users.
  template <class Source>
  requires detail::CandidateSource<Source, hasher_type>
  [[nodiscard]] auto select_unseen(Source&& candidates, std::initializer_list<user_type> users,
                                   const SelectOptions<detail::SourceItem<Source>, hasher_type>& options = {}) const {
    Selection<detail::SourceItem<Source>> page;
    select_unseen(candidates, std::span<const user_type>(users.begin(), users.size()), options, page);
    return page;
  }
  /// Into a page of the caller's, whose buffers are reused: no allocation once they are large enough.
  template <class Source>
  requires detail::CandidateSource<Source, hasher_type>
  void select_unseen(Source&& candidates, std::span<const user_type> users,
                     const SelectOptions<detail::SourceItem<Source>, hasher_type>& options,
                     Selection<detail::SourceItem<Source>>& page) const {
    using Item = detail::SourceItem<Source>;
    require_users(users.size());
    const auto start = detail::begin_of(exact_->timing.get());
    const auto expected = expect<Item>(users);  // before all else: the users' lines are on the way meanwhile
    const detail::Candidates<Item> asked = candidates_of(candidates, page.state().own);
    Builder<Item> builder(store_, exact_->overlays, history_, asked, users, options, page.state());
    builder.run(expected);
    finish(asked.distinct, users, start, page);
    if (page.state().raises) throw BadResult(*page.error());
  }

  /// Answers many requests in one call: one round trip to a remote store; in memory the next request's filters are
  /// fetched while this one is answered. `requests` is a contiguous range of Request<Item>; pages[i], of a contiguous
  /// range of Selection<Item>, answers requests[i]. Throws as select_unseen; BadResult once every page is made.
  template <detail::ContiguousRange Requests, detail::ContiguousRange Pages>
  void select_many(const Requests& requests, Pages&& pages) const {
    using Item = typename detail::RangeValue<Requests>::Pool::item_type;
    const std::span<const Request<Item>> asked(std::ranges::data(requests), std::ranges::size(requests));
    select_all(asked, std::span<Selection<Item>>(std::ranges::data(pages), std::ranges::size(pages)));
  }

  /// What the filter says of one item: hides, items in flight and the last items first, then the store. For one
  /// lookup; a page is select_unseen's. Allocates nothing that the store does not (it may want a std::string where the
  /// history keeps strings), and counts as no request.
  template <HashableItem Item>
  [[nodiscard]] Answer ask(const user_type& user, const Item& item) const {
    const Digest digest = store_.hasher()(item);
    if (!exact_->overlays.empty()) {
      bool certain = false;
      exact_->overlays.visit(detail::user_key(user), now(), store_.policy().window,
                             [&](Digest known) { certain = certain || known == digest; });
      if (certain) return Answer::seen;
    }
    const auto asked = hand_on(item);
    std::uint8_t seen_by = 0;
    UserStatus status;
    store_.check(std::span(&user, 1),
                 ItemBatch<std::remove_const_t<decltype(asked)>>{std::span(&asked, 1), std::span(&digest, 1)},
                 std::span(&seen_by, 1), std::span(&status, 1));
    bool certain = seen_by != 0;
    if (status.exact) {
      detail::visit_exact(status.exact.get(), now(), store_.policy().window,
                          [&](Digest known) { certain = certain || known == digest; });
    }
    if (certain) return Answer::seen;
    return status.state == UserState::known ? Answer::unseen : Answer::unknown;
  }

  /// A pool under this store's hasher and seed.
  template <detail::ItemRange Range>
  [[nodiscard]] auto pool(const Range& items) const {
    return CandidatePool<detail::Kept<detail::RangeValue<Range>>, hasher_type>(items, store_.hasher());
  }

  // Look inside

  [[nodiscard]] Store& store() noexcept { return store_; }              ///< the store, for what is its own
  [[nodiscard]] const Store& store() const noexcept { return store_; }  ///< the same, to read
  /// The history that it was given.
  [[nodiscard]] History& history() const noexcept requires has_history { return *history_; }
  /// A snapshot of the counters, the store's among them.
  [[nodiscard]] SeenCounters counters() const {
    SeenCounters all = counters_.read();
    all.store = store_.counters();
    if (exact_->shadow) exact_->shadow->add_to(all);
    return all;
  }
  /// Nothing before observe().
  [[nodiscard]] std::optional<SeenLatencies> latencies() const noexcept {
    if (!exact_->timing) return std::nullopt;
    return SeenLatencies{exact_->timing->request.snapshot(), exact_->timing->record.snapshot()};
  }

 private:
  template <class Item>
  using Builder = detail::PageBuilder<Store, History, Item>;
  struct Exact {
    detail::Overlays<Store> overlays;
    detail::WriteGate gate;
    std::unique_ptr<detail::Referee> shadow;
    std::unique_ptr<detail::SeenTiming> timing;
  };
  [[nodiscard]] Time now() const { return detail::now_of(store_.policy()); }

  template <class Range>
  [[nodiscard]] std::vector<Digest> digests_of(const Range& items) const {
    std::vector<Digest> digests;
    for (const auto& item : items) digests.push_back(store_.hasher()(item));
    return digests;
  }

  template <class Item>
  [[nodiscard]] static auto hand_on(const Item& item) {
    static_assert(detail::recordable<Item, Prescribed>(), "seenby: expected items of the history's item_type");
    return detail::handed_on<typename detail::HandedOn<Item, Prescribed>::type>(item);
  }

  /// Calls change(the store, user) where it keeps hides, or change(the overlay, key): how many entries changed.
  template <class Change>
  Result<bool> change_hides(const user_type& user, Change&& change) {
    const auto key = detail::user_key(user);
    const detail::WriteGate::Record among_others(exact_->gate, detail::UserKeyHash{}(key));
    if constexpr (HidingStore<Store>) {
      const auto changed = change(store_, user);
      if (!changed) return changed.error();
      return *changed != 0;
    } else {
      return change(exact_->overlays.exact, key) != 0;
    }
  }

  // Record

  template <class Item>
  Result<RecordOutcome> write(const user_type& user, std::span<const Item> items, std::optional<Time> when) {
    if (items.empty()) return RecordOutcome{};
    if (items.size() > 1) return write_batch(user, ItemBatch<Item>{items, digests_of(items)}, when);
    const Digest digest = store_.hasher()(items[0]);
    return write_batch(user, ItemBatch<Item>{items, std::span(&digest, 1)}, when);
  }
  template <class Item>
  Result<RecordOutcome> write_batch(const user_type& user, const ItemBatch<Item>& batch, std::optional<Time> when) {
    detail::SeenTiming* const timing = exact_->timing.get();
    if (timing == nullptr) return write_untimed(user, batch, when);
    const auto start = detail::begin_of(timing);
    auto outcome = write_untimed(user, batch, when);
    detail::observe_call(timing->record, timing->observer,
                         {"record", start, {}, 1, batch.size(), outcome ? nullptr : &outcome.error()});
    return outcome;
  }
  template <class Item>
  Result<RecordOutcome> write_untimed(const user_type& user, const ItemBatch<Item>& batch, std::optional<Time> when) {
    Exact& exact = *exact_;
    const auto key = detail::user_key(user);
    detail::FacadeCounters::Write counted{counters_, batch.size()};
    const detail::WriteGate::Record among_others(exact.gate, detail::UserKeyHash{}(key));
    // A record that no part needs the time of does not read the clock.
    const bool timed = has_history || when || exact.shadow || exact.overlays.exact.keeps() ||
                       exact.overlays.in_flight.get() != nullptr;
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
    if (detail::Marks* const marks = exact.overlays.in_flight.get()) marks->settle(key, batch.digests, current);
    return outcome;
  }
  /// Where the store takes no times, an event within the window counts from now.
  template <class Item>
  Result<RecordOutcome> write_event(const user_type& user, const ItemBatch<Item>& batch, Time when, Time current) {
    if constexpr (TimedStoreFor<Store, Item>) {
      return store_.record(user, batch, when);
    } else if (within_window(when, current, store_.policy().window)) {
      return store_.record(user, batch);
    } else {
      return RecordOutcome{};
    }
  }

  template <class Item>
  [[nodiscard]] ManyRecorded<user_type> write_many(std::span<const SeenEvent<user_type, Item>> events) {
    using Handed = decltype(hand_on(std::declval<const Item&>()));
    detail::EventGroups<user_type, Handed> groups;
    groups.assign(
        events.size(), store_.hasher(), [&](std::size_t i) -> const user_type& { return events[i].user; },
        [&](std::size_t i) { return hand_on(events[i].item); }, [&](std::size_t i) { return events[i].seen_at; });
    const auto requests = groups.requests();
    detail::FacadeCounters::Write failing{counters_, events.size()};
    std::vector<std::size_t> hashes;
    for (const auto& request : requests) hashes.push_back(detail::UserKeyHash{}(detail::user_key(request.user)));
    const detail::WriteGate::Records among_others(exact_->gate, hashes);
    std::vector<UserRecorded<user_type>> users;
    for (const auto& request : requests) users.push_back({request.user, request.batch.size(), RecordOutcome{}});
    for (const auto& request : requests) begin_shadow(request);
    if constexpr (has_history) append_many(events, requests, users);
    // The history's errors are outcomes already.
    std::vector<RecordRequest<user_type, Handed>> durable;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < users.size(); ++i) {
      if (!users[i].outcome) continue;
      durable.push_back(requests[i]);
      of.push_back(i);
    }
    auto outcomes = detail::record_requests(store_, std::span<const RecordRequest<user_type, Handed>>(durable));
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
    detail::for_each_run(
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
    const auto key = detail::user_key(request.user);
    Exact& exact = *exact_;
    if (exact.shadow || exact.overlays.exact.keeps()) {
      for_each_time(request, [&](const ItemBatch<Handed>& batch, Time when) {
        if (exact.shadow) exact.shadow->end_write(key, batch.digests, when);
        exact.overlays.exact.keep(key, batch.digests, when);
      });
    }
    if (detail::Marks* const marks = exact.overlays.in_flight.get()) marks->settle(key, request.batch.digests, now());
  }

  [[gnu::noinline]] void begin_shadow(const user_type& user, std::span<const Digest> digests, Time at) {
    const auto key = detail::user_key(user);
    if (exact_->shadow->expects(key)) {
      std::vector<SeenDigest> past;
      const bool complete = read_past(user, past);
      exact_->shadow->meet(key, past, complete);
    }
    exact_->shadow->begin_write(key, digests, at);
  }
  /// The whole past of a user: from the history, or nothing where the store has no filter of them yet.
  [[nodiscard]] bool read_past(const user_type& user, std::vector<SeenDigest>& past) const {
    if constexpr (has_history) {
      auto account = replay_of(*history_, hasher_type(store_.hasher()))(user, all_time);
      if (account) {
        past = *std::move(account);
        return true;
      }
    }
    UserStatus status;
    check_one(user, ItemBatch<detail::AnyItem<Prescribed>>{}, {}, status);
    return status.state == UserState::missing;
  }

  // Select

  template <class Item>
  [[nodiscard]] detail::Candidates<Item> candidates_of(const CandidatePool<Item, hasher_type>& pool,
                                                       detail::CandidateIndex<Item>&) const {
    if (pool.hasher().seed() != store_.hasher().seed()) detail::throw_other_seed();
    return pool.candidates();
  }
  template <class Item>
  [[nodiscard]] detail::Candidates<Item> candidates_of(const ItemBatch<Item>& batch,
                                                       detail::CandidateIndex<Item>& index) const {
    index.take(batch.items, batch.digests, store_.hasher());
    return index.of(batch.items);
  }
  template <detail::ContiguousRange Range, class Item>
  [[nodiscard]] detail::Candidates<Item> candidates_of(const Range& range, detail::CandidateIndex<Item>& index) const {
    const std::span<const Item> items(std::ranges::data(range), std::ranges::size(range));
    index.hash(items, store_.hasher());
    return index.of(items);
  }

  template <class Item>
  void select_all(std::span<const Request<Item>> requests, std::span<Selection<Item>> pages) const {
    if (pages.size() < requests.size()) {
      throw std::invalid_argument("seenby: expected a page for every request, got fewer pages than requests");
    }
    const auto start = detail::begin_of(exact_->timing.get());
    std::vector<Builder<Item>> builders;
    std::vector<CheckRequest<user_type, Item>> questions;
    builders.reserve(requests.size());
    questions.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request<Item>& request = requests[i];
      require_users(request.users().size());
      const auto asked = candidates_of(request.pool(), pages[i].state().own);
      builders.emplace_back(store_, exact_->overlays, history_, asked, request.users(), request.options(),
                            pages[i].state());
      questions.push_back(builders.back().question(0, asked.distinct.size()));
    }
    if constexpr (BatchingStoreFor<Store, Item>) {
      store_.check_many(std::span<const CheckRequest<user_type, Item>>(questions));
    } else {
      for (const auto& question : questions) {
        store_.check(question.users, question.batch, question.seen_by, question.status);
      }
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (builders[i].absorb(0, questions[i].batch.size())) builders[i].relax();
      finish(questions[i].batch, requests[i].users(), start, pages[i]);
    }
    for (Selection<Item>& page : pages.first(requests.size())) {
      if (page.state().raises) throw BadResult(*page.error());
    }
  }

  template <class Item>
  void finish(const ItemBatch<Item>& asked, std::span<const user_type> users,
              std::chrono::steady_clock::time_point start, Selection<Item>& page) const {
    counters_.count(page, users.size(), store_.policy().users_per_request);
    if (exact_->shadow) judge(asked, users, page);
    if (exact_->timing) tell(start, users.size(), page);
  }
  template <class Item>
  [[gnu::noinline]] void tell(std::chrono::steady_clock::time_point start, std::size_t users,
                              const Selection<Item>& page) const {
    detail::observe_call(exact_->timing->request, exact_->timing->observer,
                         {"select", start, {}, users, page.checked(), page.error() ? &*page.error() : nullptr});
  }
  template <class Item>
  [[gnu::noinline]] void judge(const ItemBatch<Item>& asked, std::span<const user_type> users,
                               Selection<Item>& page) const {
    struct Judged {
      const SeenFilter& filter;
      const ItemBatch<Item>& asked;
      std::span<const user_type> users;
    } const judged{*this, asked, users};
    exact_->shadow->judge(
        {.users = users.size(),
         .digests = asked.digests,
         .policy = store_.policy(),
         .now = now(),
         .limit = page.state().limit,
         .underfilled = page.underfilled(),
         .request = &judged,
         .key_of = [](const void* of,
                      std::size_t user) { return detail::user_key(static_cast<const Judged*>(of)->users[user]); },
         .check =
             [](const void* of, std::size_t user, std::span<std::uint8_t> seen_by, UserStatus& status) {
               const auto& [filter, batch, all] = *static_cast<const Judged*>(of);
               filter.check_one(all[user], batch, seen_by, status);
             }});
  }
  template <class Item>
  [[gnu::noinline]] void check_one(const user_type& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
                                   UserStatus& status) const {
    store_.check(std::span(&user, 1), batch, seen_by, std::span(&status, 1));
  }

  template <class Item>
  [[nodiscard, gnu::always_inline]] auto expect(std::span<const user_type> users) const noexcept {
    if constexpr (ExpectingStoreFor<Store, Item>) {
      return store_.expect(users);
    } else {
      return 0;
    }
  }

  static void require_users(std::size_t users) {
    if (users >= 1 && users <= 255) return;
    std::string message = "seenby: expected 1 to 255 users in a request, got ";
    throw std::invalid_argument(message.append(std::to_string(users)));
  }

  Store store_;
  History* history_ = nullptr;
  std::unique_ptr<Exact> exact_;
  detail::FacadeCounters counters_;
};

}  // namespace seenby
