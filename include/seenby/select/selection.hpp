#pragma once
// SPDX-License-Identifier: MIT
// Selection: the page that a request gets, why each pick is on it, and how the request may relax when it is thin.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// What to do about a user whose filter could not be asked: it is neither seen nor unseen.
enum class OnUnknown : std::uint8_t {
  show,   ///< treat the user as if they had seen nothing; what is picked from then on says PickReason::unknown_user
  hide,   ///< an empty page
  fail,   ///< an empty page, and Selection::error() is set
  raise,  ///< throw BadResult
};

/// Why a candidate is on the page.
enum class PickReason : std::uint8_t {
  unseen,         ///< every user's filter says so, for certain
  unknown_user,   ///< the filters that could be asked say unseen; one could not be asked
  verified,       ///< a filter said seen, the history says it erred
  next_pool,      ///< unseen, from a fallback pool
  seen_by_few,    ///< seen by no more users than allowed
  seen_long_ago,  ///< seen, and among what was seen longest ago
  unfiltered,     ///< from a pool that is not filtered (PageMixer)
};

/// What let it onto the page.
[[nodiscard]] constexpr std::string_view to_string(PickReason reason) noexcept {
  switch (reason) {
    case PickReason::unseen: return "unseen";
    case PickReason::unknown_user: return "unknown_user";
    case PickReason::verified: return "verified";
    case PickReason::next_pool: return "next_pool";
    case PickReason::seen_by_few: return "seen_by_few";
    case PickReason::seen_long_ago: return "seen_long_ago";
    case PickReason::unfiltered: return "unfiltered";
  }
  return "unnamed";
}

/// One candidate on the page, without its item.
struct Pick {
  std::uint32_t index = 0;  ///< its place in the pool, as the pool was given
  /// What let it onto the page.
  PickReason reason = PickReason::unseen;
  std::uint8_t seen_by = 0;  ///< how many users' filters say seen
  /// 0: the candidates of the request; n: the n-th next_pool. On a mixed page: the pool's place among the pools.
  std::uint16_t pool = 0;
  friend bool operator==(const Pick&, const Pick&) = default;  ///< equal in every member
};

/// One candidate on the page with its item, whatever pool it came from.
template <class Item>
struct ItemPick : Pick {
  const Item& item;  ///< in the pool, or the caller's range
};

/// Asks the history about the best "seen" answers, at most `lookups` (user, item) pairs, and wins back the filters'
/// false positives in their ranking order.
struct Verify {
  std::size_t lookups = 64;  ///< the most (user, item) pairs asked about
};
/// Goes on with another pool: `NextPool{trending}`. The pool must outlive the call, and the page's items.
template <class Pool>
class NextPool {
 public:
  explicit NextPool(const Pool& pool) noexcept : pool_(&pool) {}  ///< keeps the pool's address
  explicit NextPool(const Pool&&) = delete;
  [[nodiscard]] const Pool& pool() const noexcept { return *pool_; }  ///< the pool it was given

 private:
  const Pool* pool_;
};
/// Takes candidates seen by at most `users` of the request's users, fewest first.
struct SeenByAtMost {
  std::uint8_t users = 1;  ///< the most users who may have seen a pick
};
/// Takes seen candidates, those seen longest ago first, by slice of the window.
struct OldestSeenFirst {};

/// One request's options. Keep the object for many requests: its list of relaxations is a vector, and making it is the
/// one thing that allocates in a request whose page is the caller's. Of the relaxations, Verify's history and the
/// store's `age` may allocate, and NextPool's first runs do until the page's buffers are large enough.
template <class Item, class Hash = Xxh3Hash>
struct SelectOptions {
  /// What may fill a thin page.
  using Relaxation = std::variant<Verify, NextPool<CandidatePool<Item, Hash>>, SeenByAtMost, OldestSeenFirst>;

  /// How many picks fill the page. The search stops there.
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  OnUnknown on_unknown = OnUnknown::show;  ///< for users without a filter to ask
  /// For users whose store failed, where that should differ from users it does not have.
  std::optional<OnUnknown> on_unreachable{};
  /// What to try, in this order, while the page is thin.
  std::vector<Relaxation> relax{};
  /// Items that this request itself knows to be seen (a client's list, a cursor). Exact; no relaxation brings them
  /// back.
  std::span<const Digest> also_seen{};
};

/// A user of the request whose filter could not be asked.
struct UnknownUser {
  std::size_t user_index = 0;  ///< among the users of the request
  /// Missing or unreachable.
  UserState state = UserState::missing;
  std::shared_ptr<const Error> error;  ///< set when unreachable
};

/// One of the requests of select_many: its pool, its users and its options. The pool and the users must outlive the
/// call.
template <HashableItem User, HashableItem Item, Hasher Hash = Xxh3Hash>
class Request {
 public:
  using Pool = CandidatePool<Item, Hash>;     ///< candidates, hashed as the filter hashes
  using Options = SelectOptions<Item, Hash>;  ///< the options of one request
  // GCC 12 ends in an internal error at {pool, users, {.limit = 5}} in a list unless this is known by then.
  static_assert(std::is_nothrow_default_constructible_v<std::vector<typename Options::Relaxation>>);

  /// With the default options.
  Request(const Pool& pool, std::span<const User> users) : pool_(&pool), users_(users) {}
  /// With options of its own.
  Request(const Pool& pool, std::span<const User> users, Options options)
      : pool_(&pool), users_(users), options_(std::move(options)) {}
  Request(const Pool&&, std::span<const User>) = delete;
  Request(const Pool&&, std::span<const User>, Options) = delete;

  [[nodiscard]] const Pool& pool() const noexcept { return *pool_; }             ///< the pool it was given
  [[nodiscard]] std::span<const User> users() const noexcept { return users_; }  ///< as given
  [[nodiscard]] const Options& options() const noexcept { return options_; }     ///< as given

 private:
  const Pool* pool_;
  std::span<const User> users_;
  Options options_;
};
/// User is what the range holds.
template <class Item, class Hash, detail::ContiguousRange Users>
Request(const CandidatePool<Item, Hash>&, const Users&) -> Request<detail::RangeValue<Users>, Item, Hash>;
/// User is what the range holds.
template <class Item, class Hash, detail::ContiguousRange Users>
Request(const CandidatePool<Item, Hash>&, const Users&, SelectOptions<Item, Hash>)
    -> Request<detail::RangeValue<Users>, Item, Hash>;

}  // namespace seenby

SEENBY_DETAIL_BEGIN

/// What a page holds, and the buffers that a request needs on the way to it.
template <class Item>
struct PageState {
  std::vector<Pick> picks;  // the first `count` are the page; the rest is room that later requests need not clear
  std::size_t count = 0;
  std::vector<Candidates<Item>> pools;  // the request's candidates, then the fallback pools
  std::vector<UnknownUser> unknown;
  std::optional<Error> error;
  bool raises = false;  // the caller wants the error thrown
  std::size_t limit = 0;
  bool limited = false;
  std::size_t checked = 0;
  std::size_t removed = 0;
  std::size_t duplicates = 0;
  std::size_t lookups = 0;
  // Buffers.
  std::vector<std::uint8_t> seen_by;  // of the request's candidates
  std::vector<UserStatus> status;
  std::vector<Digest> certain;
  std::vector<std::uint8_t> fallback_seen_by;
  std::vector<Digest> shown;
  CandidateIndex<Item> own;  // of candidates that came without a pool

  void reset(const Candidates<Item>& candidates, std::size_t users, std::size_t most) {
    count = 0;
    pools.assign(1, candidates);
    unknown.clear();
    error.reset();
    raises = false;
    limit = most;
    limited = most != std::numeric_limits<std::size_t>::max();
    checked = removed = lookups = 0;
    duplicates = candidates.duplicates();
    seen_by.resize(candidates.distinct.size());
    status.resize(users);
    certain.clear();
  }
  /// Room for `more` picks behind those there are.
  [[nodiscard]] Pick* room(std::size_t more) {
    if (picks.size() - count < more) picks.resize(std::max(count + more, 2 * picks.size()));
    return picks.data() + count;
  }
  void add(const Pick& pick) {
    *room(1) = pick;
    ++count;
  }
};

SEENBY_DETAIL_END

namespace seenby {

/// The page: `for (const auto& pick : page) show(pick.item);`. Its items are the pools', which must outlive it. Reuse
/// one object for many requests and its buffers are reused too. Not thread-safe.
template <HashableItem Item>
class Selection {
 public:
  using value_type = ItemPick<Item>;  ///< a pick with its item

  /// A forward iterator that makes its picks on the way.
  class const_iterator {  // NOLINT(readability-identifier-naming): a container's name for it
   public:
    using value_type = ItemPick<Item>;                   ///< a pick with its item
    using difference_type = std::ptrdiff_t;              ///< of an iterator
    using iterator_concept = std::forward_iterator_tag;  ///< of an iterator

    const_iterator() = default;
    /// At a place of the page.
    const_iterator(const Selection* page, std::size_t at) noexcept : page_(page), at_(at) {}
    [[nodiscard]] value_type operator*() const noexcept { return (*page_)[at_]; }  ///< the pick
    const_iterator& operator++() noexcept { return ++at_, *this; }                 ///< the next place
    const_iterator operator++(int) noexcept { return {page_, at_++}; }             ///< the next place; returns this one
    bool operator==(const const_iterator&) const noexcept = default;               ///< the same place of the same page

   private:
    const Selection* page_ = nullptr;
    std::size_t at_ = 0;
  };

  [[nodiscard]] const_iterator begin() const noexcept { return {this, 0}; }     ///< the best pick
  [[nodiscard]] const_iterator end() const noexcept { return {this, size()}; }  ///< behind the last pick
  [[nodiscard]] std::size_t size() const noexcept { return state_.count; }      ///< picks on the page
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }             ///< whether it holds nothing
  /// The pick at a place, unchecked.
  [[nodiscard]] value_type operator[](std::size_t i) const noexcept {
    const Pick& pick = state_.picks[i];
    return {pick, state_.pools[pick.pool].items[pick.index]};
  }
  /// The picks without their items, side by side in memory.
  [[nodiscard]] std::span<const Pick> picks() const noexcept { return {state_.picks.data(), state_.count}; }

  /// Fewer picks than the limit; without a limit never.
  [[nodiscard]] bool underfilled() const noexcept { return state_.limited && state_.count < state_.limit; }
  /// The users whose filters could not be asked, and why. Empty when every answer is a real one.
  [[nodiscard]] std::span<const UnknownUser> unknown_users() const noexcept { return state_.unknown; }
  /// Set when on_unknown is `fail` and a user was unknown, or when a relaxation could not be carried out.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return state_.error; }

  /// Distinct candidates whose answers were computed, those of fallback pools too; fewer than there are when the page
  /// filled early.
  [[nodiscard]] std::size_t checked() const noexcept { return state_.checked; }
  /// Of those, how many the filters (or what the request knew) took off the page.
  [[nodiscard]] std::size_t removed() const noexcept { return state_.removed; }
  /// The share of checked candidates taken off the page: what over_fetch asks for.
  [[nodiscard]] double hide_rate() const noexcept {
    return checked() == 0 ? 0 : static_cast<double>(removed()) / static_cast<double>(checked());
  }
  /// Candidates that repeated an earlier one, of their own pool or of one before.
  [[nodiscard]] std::size_t duplicates() const noexcept { return state_.duplicates; }
  /// History lookups that `Verify` made.
  [[nodiscard]] std::size_t lookups() const noexcept { return state_.lookups; }

  /// For what fills the page.
  [[nodiscard]] detail::PageState<Item>& state() noexcept { return state_; }

 private:
  detail::PageState<Item> state_;
};

}  // namespace seenby
