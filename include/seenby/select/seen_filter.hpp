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
#include <span>
#include <stdexcept>
#include <string>
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
#include "seenby/select/overlays.hpp"
#include "seenby/select/page_builder.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/select/shadow.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// Everything a person tunes by, since construction.
struct SeenCounters {
  std::uint64_t requests = 0;
  std::uint64_t candidates_checked = 0;
  std::uint64_t removed = 0;     ///< candidates that the filters, or what a request knew, took off the page
  std::uint64_t duplicates = 0;  ///< in-page repeats
  std::uint64_t underfilled_pages = 0;
  std::uint64_t unknown_users = 0;           ///< users of requests whose filter could not be asked
  std::uint64_t lookups = 0;                 ///< history look-ups by Verify
  std::uint64_t verified = 0;                ///< false positives won back by them
  std::uint64_t write_failures = 0;          ///< records that the history or the store refused
  std::uint64_t over_user_budget = 0;        ///< requests of more users than the policy's users_per_request
  std::uint64_t shadow_requests = 0;         ///< requests that the exact referee judged (see SeenFilter::shadow)
  std::uint64_t shadow_fresh = 0;            ///< candidates in them that the judged users had not seen
  std::uint64_t shadow_wrong_hides = 0;      ///< of those, hidden by a filter: over shadow_fresh, the wrong-hide rate
  std::uint64_t shadow_false_negatives = 0;  ///< seen candidates that a filter called unseen; must stay 0
  std::uint64_t shadow_underfilled = 0;      ///< pages that exact sets would have filled and the filters did not
  StoreCounters store;
};

/// Which of these items has this user, or neither of these two users, already seen?
///
///     seenby::SeenFilter filter{seenby::MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.01, .users_per_request =
///     2}}}; filter.record(alice, question); seenby::CandidatePool pool{questions}; auto page =
///     filter.select_unseen(pool, {alice, bob}, {.limit = 10}); for (auto& pick : page) show(pool[pick.index]);
///
/// Nothing recorded is ever picked (no false negative); a fresh candidate is hidden at most at the policy's
/// wrong_hide_rate. With a history the record goes there first, a filter is rebuilt from it, and Verify can win back
/// what a filter hides wrongly; the history must outlive the filter.
///
/// Thread safety: any thread may call any member at any time. Moving it is for set-up only.
template <class Store, class History = NoHistory>
class SeenFilter {
 public:
  using store_type = Store;
  using history_type = History;
  using user_type = typename Store::user_type;
  using hasher_type = typename Store::hasher_type;
  static constexpr bool has_history = HistoryLike<History>;

  explicit SeenFilter(Store store) : store_(std::move(store)), exact_(std::make_unique<Exact>()) {
    static_assert(!has_history, "pass the history to the constructor");
  }
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
    exact_->shadow = std::make_unique<detail::Shadow<Key>>(share);
  }

  /// Keeps the last `items` records of every user exact, beside the filter: 8 bytes each. No relaxation brings them
  /// back and no look-up is spent on them, however thin the page. 0, the default, keeps none. For set-up.
  void keep_last(std::size_t items) noexcept { exact_->last.keep(items); }

  // Record

  /// Marks an item as seen. When it returns a value, no later selection shows the item to this user within the window.
  /// An error says which write failed: the history's (nothing was recorded) or the store's (the history has it).
  template <HashableItem Item>
  Result<RecordOutcome> record(const user_type& user, const Item& item) {
    if constexpr (StringItem<Item>) {
      const std::string text{std::string_view(item)};
      return record_all(user, std::span<const std::string>(&text, 1));
    } else {
      return record_all(user, std::span<const Item>(&item, 1));
    }
  }
  /// As record, for many items in one go: one write of the history, one of the store.
  template <detail::InputRange Range>
  Result<RecordOutcome> record_all(const user_type& user, const Range& items) {
    using Item = detail::RangeValue<Range>;
    if constexpr (detail::ContiguousRange<Range>) {
      return write(user, std::span<const Item>(std::ranges::data(items), std::ranges::size(items)));
    } else {
      const std::vector<Item> copy(std::ranges::begin(items), std::ranges::end(items));
      return write(user, std::span<const Item>(copy));
    }
  }
  /// Gives a new user an explicit empty filter, so that "nothing seen yet" is an answer and not `unknown`.
  Result<void> create(const user_type& user) { return store_.create(user); }

  /// Items served or reported, but not recorded yet: hidden at once and exactly, until recorded or for `ttl`.
  template <detail::InputRange Range>
  void mark_in_flight(const user_type& user, const Range& items, std::chrono::seconds ttl = std::chrono::minutes(1)) {
    exact_->in_flight.add(detail::user_key(user), digests_of(items), now(), now() + ttl);
  }

  /// Never shows this item to this user again, whatever the window. True when it was not hidden before.
  template <HashableItem Item>
  bool hide(const user_type& user, const Item& item) {
    return exact_->hides.add(detail::user_key(user), store_.hasher()(item), detail::text_of_item(item));
  }
  template <HashableItem Item>
  bool unhide(const user_type& user, const Item& item) {
    return exact_->hides.remove(detail::user_key(user), store_.hasher()(item));
  }
  /// What the user hid, in the order it was hidden.
  template <class Item>
  [[nodiscard]] std::vector<Item> hidden(const user_type& user) const {
    std::vector<Item> items;
    for (std::string& text : exact_->hides.list(detail::user_key(user))) {
      items.push_back(detail::item_of_text<Item>(std::move(text)));
    }
    return items;
  }

  /// Removes every trace of a user: filter, hides, items in flight, and the history's rows where there is one. True
  /// when there was any.
  Result<bool> forget(const user_type& user) {
    const auto key = detail::user_key(user);
    bool any = exact_->hides.forget(key);
    if (exact_->shadow) exact_->shadow->forget(key);
    any = exact_->in_flight.forget(key) || any;
    any = exact_->last.forget(key) || any;
    if constexpr (has_history) {
      auto rows = history_->forget(user);
      if (!rows) return rows;
      any = *rows || any;
    }
    auto stored = store_.forget(user);
    if (!stored) return stored;
    return *stored || any;
  }

  /// Everything `from` has seen, `into` has seen from now on, and `from` is forgotten: login after anonymous use, a
  /// second device. A history must be a MergingHistory; it comes first. What is recorded for `from` meanwhile stays in
  /// its history; after an error or a crash call it again.
  Result<void> merge_users(const user_type& from,
                           const user_type& into) requires(!has_history || MergingHistory<History>) &&
      requires(Store& store, const user_type& user) {
    { store.merge_users(user, user) } -> std::same_as<Result<void>>;
  }
  {
    if constexpr (MergingHistory<History>) {
      if (auto moved = history_->merge(from, into); !moved) return std::move(moved).error();
    }
    if (auto done = store_.merge_users(from, into); !done) return done;
    if (exact_->shadow) {
      exact_->shadow->forget(detail::user_key(from));
      exact_->shadow->forget(detail::user_key(into));
    }
    exact_->hides.merge(detail::user_key(from), detail::user_key(into));
    exact_->in_flight.merge(detail::user_key(from), detail::user_key(into));
    exact_->last.merge(detail::user_key(from), detail::user_key(into));
    return {};
  }

  // Select

  /// The candidates that none of the users has seen, in ranking order, up to options.limit; then whatever the
  /// relaxations let in, each pick saying why. Throws std::invalid_argument for 0 or more than 255 users and for a
  /// pool under another seed; BadResult when options.on_unknown is raise.
  template <class Item>
  [[nodiscard]] Selection select_unseen(const CandidatePool<Item, hasher_type>& pool, std::span<const user_type> users,
                                        const SelectOptions<Item, hasher_type>& options = {}) const {
    Selection page;
    select_unseen(pool, users, options, page);
    return page;
  }
  template <class Item>
  [[nodiscard]] Selection select_unseen(const CandidatePool<Item, hasher_type>& pool,
                                        std::initializer_list<user_type> users,
                                        const SelectOptions<Item, hasher_type>& options = {}) const {
    return select_unseen(pool, std::span<const user_type>(users.begin(), users.size()), options);
  }
  /// Into a page of the caller's, whose buffers are reused: no allocation once they are large enough.
  template <class Item>
  void select_unseen(const CandidatePool<Item, hasher_type>& pool, std::span<const user_type> users,
                     const SelectOptions<Item, hasher_type>& options, Selection& page) const {
    require_users(users.size());
    require_same_hash(pool);
    const auto expected = expect<Item>(users);  // before all else: the users' lines are on the way meanwhile
    SelectionBuilder<SeenFilter, Item, hasher_type> builder(*this, pool, users, options, page);
    builder.run(expected);
    finish(pool, users, page);
  }

  /// One request of many.
  template <class Item>
  struct Request {
    const CandidatePool<Item, hasher_type>* pool = nullptr;
    std::span<const user_type> users;
    SelectOptions<Item, hasher_type> options{};
  };
  /// Answers many requests in one call: one round trip to a remote store; in memory the next request's filters are
  /// fetched while this one is answered. pages[i] answers requests[i]. Throws as select_unseen.
  template <class Item>
  void select_many(std::span<const Request<Item>> requests, std::span<Selection> pages) const {
    if (pages.size() < requests.size()) {
      throw std::invalid_argument("seenby: expected a page for every request, got fewer pages than requests");
    }
    using Builder = SelectionBuilder<SeenFilter, Item, hasher_type>;
    std::vector<Builder> builders;
    std::vector<CheckRequest<user_type, Item>> questions;
    builders.reserve(requests.size());
    questions.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      require_users(requests[i].users.size());
      require_same_hash(*requests[i].pool);
      builders.emplace_back(*this, *requests[i].pool, requests[i].users, requests[i].options, pages[i]);
      questions.push_back(builders.back().question(0, requests[i].pool->distinct().size()));
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
      finish(*requests[i].pool, requests[i].users, pages[i]);
    }
  }

  /// What the filter says of one item. For one look-up; a page is select_unseen's.
  template <HashableItem Item>
  [[nodiscard]] Answer ask(const user_type& user, const Item& item) const {
    using Stored = std::conditional_t<StringItem<Item>, std::string, Item>;
    const CandidatePool<Stored, hasher_type> pool(std::vector<Stored>{Stored(item)}, store_.hasher());
    const auto page = select_unseen(pool, {user});
    if (!page.empty()) return page[0].reason == PickReason::unseen ? Answer::unseen : Answer::unknown;
    return Answer::seen;
  }

  /// A pool under this store's hasher and seed.
  template <detail::InputRange Range>
  [[nodiscard]] auto pool(const Range& items) const {
    return CandidatePool<detail::RangeValue<Range>, hasher_type>(items, store_.hasher());
  }

  // Look inside

  [[nodiscard]] Store& store() noexcept { return store_; }
  [[nodiscard]] const Store& store() const noexcept { return store_; }
  [[nodiscard]] History& history() const noexcept requires has_history { return *history_; }
  [[nodiscard]] SeenCounters counters() const {
    const auto sum = [this](Counter counter) { return counters_.sum(counter); };
    SeenCounters all{.requests = sum(requests_counter),
                     .candidates_checked = sum(checked_counter),
                     .removed = sum(removed_counter),
                     .duplicates = sum(duplicates_counter),
                     .underfilled_pages = sum(underfilled_counter),
                     .unknown_users = sum(unknown_counter),
                     .lookups = sum(lookups_counter),
                     .verified = sum(verified_counter),
                     .write_failures = sum(write_failures_counter),
                     .over_user_budget = sum(over_user_budget_counter),
                     .store = store_.counters()};
    if (exact_->shadow) {
      const auto& counts = exact_->shadow->counts();
      all.shadow_requests = counts.requests.load(std::memory_order_relaxed);
      all.shadow_fresh = counts.fresh.load(std::memory_order_relaxed);
      all.shadow_wrong_hides = counts.wrong_hides.load(std::memory_order_relaxed);
      all.shadow_false_negatives = counts.false_negatives.load(std::memory_order_relaxed);
      all.shadow_underfilled = counts.underfilled.load(std::memory_order_relaxed);
    }
    return all;
  }

 private:
  template <class Filter, class Item, class Hash>
  friend class SelectionBuilder;

  using Key = decltype(detail::user_key(std::declval<const user_type&>()));
  struct Exact {
    detail::InFlight<Key> in_flight;
    detail::Hides<Key> hides;
    detail::LastItems<Key> last;
    std::unique_ptr<detail::Shadow<Key>> shadow;
  };
  enum Counter : std::size_t {
    requests_counter,
    checked_counter,
    removed_counter,
    duplicates_counter,
    underfilled_counter,
    unknown_counter,
    lookups_counter,
    verified_counter,
    write_failures_counter,
    over_user_budget_counter,
    counter_count
  };

  [[nodiscard]] Time now() const { return store_.policy().clock ? store_.policy().clock() : system_time(); }

  template <detail::InputRange Range>
  [[nodiscard]] std::vector<Digest> digests_of(const Range& items) const {
    std::vector<Digest> digests;
    for (const auto& item : items) digests.push_back(store_.hasher()(item));
    return digests;
  }

  template <class Item>
  Result<RecordOutcome> write(const user_type& user, std::span<const Item> items) {
    const auto digests = digests_of(items);
    const auto failed = [&](Error error) -> Result<RecordOutcome> {
      counters_.row().add(write_failures_counter, items.size());
      return error;
    };
    if constexpr (has_history) {
      static_assert(std::same_as<Item, typename History::item_type>, "record items of the history's item_type");
    }
    if (exact_->shadow) begin_shadow(user, digests);
    if constexpr (has_history) {
      if (auto done = history_->append(user, items, now()); !done) return failed(std::move(done).error());
    }
    auto outcome = store_.record(user, ItemBatch<Item>{items, digests});
    if (!outcome) return failed(std::move(outcome).error());
    if (exact_->shadow) exact_->shadow->end_write(detail::user_key(user), digests, now());
    exact_->last.add(detail::user_key(user), digests);
    if (!exact_->in_flight.empty()) exact_->in_flight.settle(detail::user_key(user), digests);
    return outcome;
  }

  void begin_shadow(const user_type& user, std::span<const Digest> digests) {
    const auto key = detail::user_key(user);
    detail::shadow_meet(*exact_->shadow, store_, user, key, [&](std::vector<SeenDigest>& past) {
      if constexpr (has_history) {
        auto account = replay_of(*history_, hasher_type(store_.hasher()))(user, all_time);
        if (!account) return false;
        past = *std::move(account);
        return true;
      } else {
        return false;
      }
    });
    exact_->shadow->begin_write(key, digests, now());
  }

  template <class Item>
  void finish(const CandidatePool<Item, hasher_type>& pool, std::span<const user_type> users,
              const Selection& page) const {
    count(page, users.size());
    if (exact_->shadow) {
      detail::shadow_request(*exact_->shadow, store_, users, pool.distinct(), now(), page.limit_, page.underfilled());
    }
  }

  /// Sorted digests that no page of these users may show.
  void collect_certain(std::span<const user_type> users, std::span<const Digest> also_seen,
                       std::vector<Digest>& into) const {
    const Exact& exact = *exact_;
    if (also_seen.empty() && exact.in_flight.empty() && exact.hides.empty() && exact.last.empty()) return;
    collect_some_certain(users, also_seen, into);
  }
  [[gnu::noinline]] void collect_some_certain(std::span<const user_type> users, std::span<const Digest> also_seen,
                                              std::vector<Digest>& into) const {
    into.assign(also_seen.begin(), also_seen.end());
    for (const user_type& user : users) {
      const auto key = detail::user_key(user);
      if (!exact_->hides.empty()) exact_->hides.collect(key, into);
      if (!exact_->last.empty()) exact_->last.collect(key, into);
      if (!exact_->in_flight.empty()) exact_->in_flight.collect(key, now(), into);
    }
    std::sort(into.begin(), into.end());
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
  template <class Item>
  void require_same_hash(const CandidatePool<Item, hasher_type>& pool) const {
    if (pool.hasher().seed() == store_.hasher().seed()) return;
    throw std::invalid_argument(
        "seenby: expected a pool under the store's seed, got another seed; make it with filter.pool(items)");
  }

  void count(const Selection& page, std::size_t users) const noexcept {
    auto row = counters_.row();
    row.add(requests_counter, 1);
    row.add(checked_counter, page.checked_ + page.checked_in_fallbacks_);
    row.add(removed_counter, page.removed_);
    if (page.duplicates_ != 0) row.add(duplicates_counter, page.duplicates_);
    if (page.underfilled()) row.add(underfilled_counter, 1);
    if (!page.unknown_.empty()) row.add(unknown_counter, page.unknown_.size());
    if (users > store_.policy().users_per_request) row.add(over_user_budget_counter, 1);
    if (page.lookups_ == 0) return;
    row.add(lookups_counter, page.lookups_);
    row.add(verified_counter, static_cast<std::uint64_t>(std::count_if(page.begin(), page.end(), [](const Pick& pick) {
              return pick.reason == PickReason::verified;
            })));
  }

  Store store_;
  History* history_ = nullptr;
  std::unique_ptr<Exact> exact_;
  detail::ThreadCounters<counter_count> counters_;
};

}  // namespace seenby
