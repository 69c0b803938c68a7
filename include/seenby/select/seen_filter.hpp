#pragma once
// SPDX-License-Identifier: MIT
// SeenFilter: selects the candidates that one or more users have not seen, over any store.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/answer.hpp"
#include "seenby/clock.hpp"
#include "seenby/detail/range.hpp"
#include "seenby/detail/sizing_math.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/select/facade.hpp"
#include "seenby/select/overlays.hpp"
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
class SeenFilter : detail::Facade<Store, History> {
  using Base = detail::Facade<Store, History>;
  using Base::answer, Base::change_hides, Base::counters_, Base::digests_of, Base::exact_, Base::hand_on;
  using Base::history_, Base::now, Base::select_all, Base::store_, Base::write, Base::write_many;
  using typename Base::Prescribed;

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
  explicit SeenFilter(Store store) : Base(std::move(store), nullptr) {
    static_assert(!has_history, "seenby: pass the history to SeenFilter's constructor, behind the store");
  }
  /// Over a store and a history that outlives it: records are written to the history first, missing filters are rebuilt
  /// from it, and `Verify` asks it.
  SeenFilter(Store store, History& history) requires has_history : Base(std::move(store), &history) {
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
    const Time at = now();
    const Time until = saturating_add(at, ttl);
    const auto digests = digests_of(items);
    exact_->overlays.in_flight.add(detail::user_key(user), digests, at, until);
    return store_.mark_in_flight(user, digests, until);
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
    answer(candidates, users, options, page);
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
};

}  // namespace seenby
