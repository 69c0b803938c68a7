#pragma once
// SPDX-License-Identifier: MIT
// Selection: the page that a request gets, why each pick is on it, and how the request may relax when it is thin.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
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
};

[[nodiscard]] constexpr std::string_view to_string(PickReason reason) noexcept {
  switch (reason) {
    case PickReason::unseen: return "unseen";
    case PickReason::unknown_user: return "unknown_user";
    case PickReason::verified: return "verified";
    case PickReason::next_pool: return "next_pool";
    case PickReason::seen_by_few: return "seen_by_few";
    case PickReason::seen_long_ago: return "seen_long_ago";
  }
  return "unnamed";
}

/// One candidate on the page.
struct Pick {
  std::uint32_t index = 0;  ///< its place in the pool, as the pool was given
  PickReason reason = PickReason::unseen;
  std::uint8_t seen_by = 0;  ///< how many users' filters say seen
  std::uint16_t pool = 0;    ///< 0: the pool of the request; n: the n-th next_pool
  friend bool operator==(const Pick&, const Pick&) = default;
};

/// Asks the history about the best "seen" answers, at most `lookups` (user, item) pairs, and wins back the filters'
/// false positives in their ranking order.
struct Verify {
  std::size_t lookups = 64;
};
/// Goes on with another pool. The pool must outlive the call.
template <class Pool>
struct NextPool {
  const Pool* pool = nullptr;
};
/// Takes candidates seen by at most `users` of the request's users, fewest first.
struct SeenByAtMost {
  std::uint8_t users = 1;
};
/// Takes seen candidates, those seen longest ago first, by slice of the window.
struct OldestSeenFirst {};

/// One request's wishes.
template <class Item, class Hash = Xxh3Hash>
struct SelectOptions {
  using Relaxation = std::variant<Verify, NextPool<CandidatePool<Item, Hash>>, SeenByAtMost, OldestSeenFirst>;

  /// How many picks fill the page. The search stops there.
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  OnUnknown on_unknown = OnUnknown::show;
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
  UserState state = UserState::missing;
  std::shared_ptr<const Error> error;  ///< set when unreachable
};

/// The page. Reuse one object for many requests and its buffers are reused too. Not thread-safe.
class Selection {
 public:
  using value_type = Pick;
  using const_iterator = const Pick*;

  [[nodiscard]] const_iterator begin() const noexcept { return picks_.data(); }
  [[nodiscard]] const_iterator end() const noexcept { return picks_.data() + count_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] const Pick& operator[](std::size_t i) const noexcept { return picks_[i]; }
  [[nodiscard]] std::span<const Pick> picks() const noexcept { return {picks_.data(), count_}; }

  /// Fewer picks than the limit. Without a limit: fewer than the pool's distinct candidates never counts, so false.
  [[nodiscard]] bool underfilled() const noexcept { return limited_ && count_ < limit_; }
  /// The users whose filters could not be asked, and why. Empty when every answer is a real one.
  [[nodiscard]] std::span<const UnknownUser> unknown_users() const noexcept {
    return {unknown_.data(), unknown_.size()};
  }
  /// Set when on_unknown is `fail` and a user was unknown, or when a relaxation could not be carried out.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

  /// Distinct candidates whose answers were computed; fewer than the pool's when the page filled early.
  [[nodiscard]] std::size_t checked() const noexcept { return checked_; }
  /// Of those, how many the filters (or what the request knew) took off the page.
  [[nodiscard]] std::size_t removed() const noexcept { return removed_; }
  /// The share of checked candidates taken off the page: what over_fetch asks for.
  [[nodiscard]] double hide_rate() const noexcept {
    return checked_ == 0 ? 0 : static_cast<double>(removed_) / static_cast<double>(checked_);
  }
  /// Candidates that repeated an earlier one.
  [[nodiscard]] std::size_t duplicates() const noexcept { return duplicates_; }
  /// History look-ups that `Verify` made.
  [[nodiscard]] std::size_t lookups() const noexcept { return lookups_; }

 private:
  template <class Store, class History>
  friend class SeenFilter;
  template <class Filter, class Item, class Hash>
  friend class SelectionBuilder;

  void reset(std::size_t limit) {
    count_ = 0;
    unknown_.clear();
    certain_.clear();
    error_.reset();
    limit_ = limit;
    limited_ = limit != std::numeric_limits<std::size_t>::max();
    checked_ = removed_ = duplicates_ = lookups_ = checked_in_fallbacks_ = 0;
  }

  /// Room for `more` picks behind those there are.
  [[nodiscard]] Pick* room(std::size_t more) {
    if (picks_.size() - count_ < more) picks_.resize(std::max(count_ + more, 2 * picks_.size()));
    return picks_.data() + count_;
  }
  void add(const Pick& pick) {
    *room(1) = pick;
    ++count_;
  }

  std::vector<Pick> picks_;  // the first count_ are the page; the rest is room that later requests need not clear
  std::size_t count_ = 0;
  std::vector<UnknownUser> unknown_;
  std::optional<Error> error_;
  std::size_t limit_ = 0;
  bool limited_ = false;
  std::size_t checked_ = 0;
  std::size_t removed_ = 0;
  std::size_t duplicates_ = 0;
  std::size_t lookups_ = 0;
  std::size_t checked_in_fallbacks_ = 0;
  // Scratch, kept between requests.
  std::vector<std::uint8_t> seen_by_;
  std::vector<UserStatus> status_;
  std::vector<Digest> certain_;
};

}  // namespace seenby
