#pragma once
// SPDX-License-Identifier: MIT
// PageBuilder: makes a page of a store's answers, and relaxes it while it is thin.

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/kernels/table.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/select/overlays.hpp"
#include "seenby/select/requirements.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

/// The picks of the candidates with seen_by[i] == 0, in order; returns how many. `picks` has room for all candidates.
inline std::size_t place_unseen(std::span<const std::uint8_t> seen_by, std::uint32_t first, PickReason reason,
                                Pick* picks) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    // A pick is its index and, above it, its reason: the words that a kernel writes. Placing picks field by field cost
    // a third of a whole request.
    static_assert(sizeof(Pick) == 8 && std::is_trivially_copyable_v<Pick> && offsetof(Pick, reason) == 4);
    const std::uint64_t word = first | (static_cast<std::uint64_t>(reason) << 32);
    return compress(seen_by.data(), seen_by.size(), 0, word, picks);
  } else {
    std::size_t count = 0;
    for (std::size_t i = 0; i < seen_by.size(); ++i) {
      if (seen_by[i] == 0) picks[count++] = {first + static_cast<std::uint32_t>(i), reason, 0, 0};
    }
    return count;
  }
}

[[nodiscard]] inline Time now_of(const StorePolicy& policy) { return policy.clock(); }

[[noreturn, gnu::cold]] inline void throw_other_seed() {
  throw std::invalid_argument(
      "seenby: expected a pool under the store's seed, got another seed; make it with filter.pool(items)");
}

/// One request on its way. What it is given must outlive it; `History` is NoHistory where there is none.
template <class Store, class History, class Item>
class PageBuilder {
 public:
  static_assert(std::is_void_v<ItemOf<Store, History>> || std::same_as<Item, ItemOf<Store, History>>,
                "seenby: expected candidates of the history's item_type");

  using User = typename Store::user_type;
  using Hash = typename Store::hasher_type;
  using Pool = CandidatePool<Item, Hash>;
  using Options = SelectOptions<Item, Hash>;

  PageBuilder(const Store& store, const Overlays<Store>& overlays, History* history, const Candidates<Item>& candidates,
              std::span<const User> users, const Options& options, PageState<Item>& page)
      : store_(store),
        overlays_(overlays),
        history_(history),
        candidates_(candidates),
        users_(users),
        options_(options),
        page_(page) {
    page_.reset(candidates, users.size(), options.limit);
    if (!options.also_seen.empty() || !overlays.empty()) collect_certain();
  }

  /// Asks the store and fills the page: the whole request. In line with all that it calls for a plain request: a span
  /// that one function stores by its halves and the next loads whole waits for both to reach the cache, and 67 ns a
  /// request of two became 75.
  template <class Expected>
  [[gnu::always_inline]] void run(const Expected& expected) {
    const std::size_t total = candidates_.distinct.size();
    std::size_t at = 0;
    do {  // once at least: users that cannot be asked are found out whatever the page's size
      const std::size_t count = std::min(total - at, next_chunk(at));
      ask(question(at, count), at, expected);
      if (!absorb(at, count)) return;
      at += count;
    } while (at < total && open());
    relax();
  }

  /// The store's question about the candidates from `at` on, for callers that ask the store themselves.
  [[nodiscard, gnu::always_inline]] CheckRequest<User, Item> question(std::size_t at, std::size_t count) {
    return {std::span(users_.data(), users_.size()), candidates_.distinct.subspan(at, count),
            std::span(page_.seen_by).subspan(at, count), page_.status};
  }

  /// Takes the answers in; false when the page ends here.
  [[gnu::always_inline]] bool absorb(std::size_t at, std::size_t count) {
    page_.checked += count;
    if (!settle_unknown()) return false;
    take_exact();  // of each piece: a store may tell only what is certain of the candidates it is asked about
    const auto seen_by = std::span(page_.seen_by).subspan(at, count);
    mark_certain(candidates_.distinct.digests.subspan(at, count), seen_by);
    take_unseen(seen_by, at);
    return true;
  }

  /// Runs the relaxations while the page is thin.
  void relax() {
    if (!options_.relax.empty()) run_relaxations();
  }

 private:
  // In seen_by: known exactly, from any source; no relaxation brings it back.
  static constexpr std::uint8_t certainly_seen = 255;

  [[nodiscard]] bool open() const noexcept { return page_.count < options_.limit; }
  [[nodiscard]] std::size_t wanted() const noexcept { return options_.limit - page_.count; }

  // What only some requests need is in functions of its own, out of the way of the others: inlined it cost all of them
  // 80 instructions of the 690 that a page took beside its checks.
  [[gnu::noinline]] void run_relaxations();

  template <class Expected>
  [[gnu::always_inline]] void ask(const CheckRequest<User, Item>& request, std::size_t at, const Expected& expected) {
    if constexpr (ExpectingStoreFor<Store, Item>) {
      if (at == 0) return store_.check(request.users, request.batch, request.seen_by, request.status, expected);
    }
    store_.check(request.users, request.batch, request.seen_by, request.status);
  }

  /// Local stores are asked in growing pieces, so that a page of ten out of a pool of thousands ends early; a remote
  /// one is asked once.
  [[nodiscard]] std::size_t next_chunk(std::size_t at) const noexcept {
    if constexpr (RemoteStore<Store>) return std::numeric_limits<std::size_t>::max();
    // Multiples of 64, so that every piece keeps its lanes.
    const std::size_t first = options_.limit < 128 ? (2 * options_.limit + 63) / 64 * 64 : 256;
    return std::max({first, std::size_t{64}, at});
  }

  // Users that could not be asked

  /// Lists them and does what the caller chose about them; false ends the page.
  bool settle_unknown() { return all_known() || settle_some_unknown(); }
  [[nodiscard]] bool all_known() const noexcept {
    const auto known = [](const UserStatus& status) { return status.state == UserState::known; };
    return std::all_of(page_.status.begin(), page_.status.end(), known);
  }
  [[gnu::noinline]] bool settle_some_unknown();

  void note_unknown(UnknownUser user) {
    const auto same = [&](const UnknownUser& noted) { return noted.user_index == user.user_index; };
    if (std::none_of(page_.unknown.begin(), page_.unknown.end(), same)) page_.unknown.push_back(std::move(user));
  }

  [[nodiscard]] Error describe_unknown() const {
    for (const UnknownUser& user : page_.unknown) {
      if (user.error) return *user.error;
    }
    std::string message = "seenby: expected a filter for every user of the request, but user ";
    message.append(std::to_string(page_.unknown.front().user_index)).append(" of ");
    message.append(std::to_string(users_.size())).append(" has none; create(user) gives a new user an empty one");
    return {ErrorCode::unknown_user, std::move(message)};
  }

  // What is known for certain

  [[gnu::noinline]] void collect_certain();
  /// What the store keeps exact of the users, as it came with the last answers.
  void take_exact() {
    if constexpr (HidingStore<Store>) {
      const auto has_some = [](const UserStatus& status) { return status.exact != nullptr; };
      if (std::any_of(page_.status.begin(), page_.status.end(), has_some)) collect_exact();
    }
  }
  [[gnu::noinline]] void collect_exact();
  void mark_certain(std::span<const Digest> digests, std::span<std::uint8_t> seen_by) const {
    if (!page_.certain.empty()) mark_some_certain(digests, seen_by);
  }
  [[gnu::noinline]] void mark_some_certain(std::span<const Digest> digests, std::span<std::uint8_t> seen_by) const;

  // Picks

  void take_unseen(std::span<const std::uint8_t> seen_by, std::size_t at) {
    const PickReason reason = page_.unknown.empty() ? PickReason::unseen : PickReason::unknown_user;
    Pick* const picks = page_.room(seen_by.size());
    const std::size_t found = place_unseen(seen_by, static_cast<std::uint32_t>(at), reason, picks);
    page_.removed += seen_by.size() - found;
    const std::size_t count = std::min(wanted(), found);
    if (candidates_.first_at != nullptr) {
      for (std::size_t i = 0; i < count; ++i) picks[i].index = candidates_.first_at[picks[i].index];
    }
    page_.count += count;
  }
  void pick(std::size_t i, PickReason reason) {
    page_.add({candidates_.index_of(i), reason, page_.seen_by[i], 0});
    page_.seen_by[i] = certainly_seen;  // on the page now: no later step may take it again
  }

  // Verify

  void apply(const Verify& step) {
    if constexpr (std::same_as<History, NoHistory>) {
      page_.error = Error{ErrorCode::unavailable, "seenby: expected a history to verify against; this filter has none"};
    } else {
      std::size_t budget = step.lookups;
      std::size_t at = 0;
      while (open() && budget >= users_.size()) {
        const auto suspects = next_suspects(at, std::min(wanted(), budget / users_.size()));
        if (suspects.empty()) break;
        if (!win_back(suspects, budget)) break;
      }
      // What was won back is as fresh as the rest, so the page is in ranking order again.
      std::sort(page_.picks.data(), page_.picks.data() + page_.count,
                [](const Pick& a, const Pick& b) { return std::pair(a.pool, a.index) < std::pair(b.pool, b.index); });
    }
  }

  /// The next candidates in ranking order that a filter calls seen; `at` moves on.
  [[nodiscard]] std::vector<std::uint32_t> next_suspects(std::size_t& at, std::size_t most) const {
    std::vector<std::uint32_t> suspects;
    for (; at < own_checked_ && suspects.size() < most; ++at) {
      if (probably_seen(at)) suspects.push_back(static_cast<std::uint32_t>(at));
    }
    return suspects;
  }
  [[nodiscard]] bool probably_seen(std::size_t i) const noexcept {
    return page_.seen_by[i] != 0 && page_.seen_by[i] != certainly_seen;
  }

  Result<void> ask_history(const User& user, std::span<const Item> items, std::span<std::uint8_t> seen, Time since) {
    if constexpr (std::same_as<History, NoHistory>) {
      return {};
    } else {
      return history_->contains(user, items, seen, since);
    }
  }
  /// Asks the history about the suspects, user by user, and picks those no user saw; false when the history failed.
  bool win_back(std::vector<std::uint32_t> suspects, std::size_t& budget) {
    std::vector<Item> items;
    std::vector<std::uint8_t> seen;
    const Time since = window_start(now_of(store_.policy()), store_.policy().window);
    for (const User& user : users_) {
      items.clear();
      for (const std::uint32_t i : suspects) items.push_back(candidates_.distinct.items[i]);
      seen.assign(items.size(), 0);
      budget -= items.size();
      page_.lookups += items.size();
      auto done = ask_history(user, items, seen, since);
      if (!done) {
        page_.error = std::move(done).error();
        return false;
      }
      std::size_t kept = 0;
      for (std::size_t i = 0; i < suspects.size(); ++i) {
        if (seen[i] == 0) suspects[kept++] = suspects[i];
      }
      suspects.resize(kept);
    }
    for (const std::uint32_t i : suspects) pick(i, PickReason::verified);
    return true;
  }
  // The other relaxations

  void apply(const NextPool<Pool>& step) {
    const Pool& pool = step.pool();
    if (pool.hasher().seed() != store_.hasher().seed()) throw_other_seed();
    const Candidates<Item> next = pool.candidates();
    const ItemBatch<Item>& batch = next.distinct;
    auto& seen_by = page_.fallback_seen_by;
    seen_by.resize(batch.size());
    store_.check(users_, batch, std::span(seen_by), std::span(page_.status));
    page_.checked += batch.size();
    ended_ = !settle_unknown();
    if (ended_) return;
    take_exact();
    mark_certain(batch.digests, seen_by);
    note_shown();
    const auto number = static_cast<std::uint16_t>(page_.pools.size());
    const PickReason reason = all_known() ? PickReason::next_pool : PickReason::unknown_user;
    page_.duplicates += next.duplicates();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (seen_by[i] != 0) {
        ++page_.removed;
      } else if (std::binary_search(page_.shown.begin(), page_.shown.end(), batch.digests[i])) {
        ++page_.duplicates;
      } else if (open()) {
        page_.add({next.index_of(i), reason, 0, number});
      }
    }
    page_.pools.push_back(next);
  }
  /// The digests of what is on the page, sorted.
  void note_shown() {
    page_.shown.clear();
    for (const Pick& pick : std::span(page_.picks).first(page_.count)) {
      page_.shown.push_back(page_.pools[pick.pool].digest_at(pick.index));
    }
    std::sort(page_.shown.begin(), page_.shown.end());
  }

  void apply(const SeenByAtMost& step) {
    for (unsigned count = 1; count <= step.users && open(); ++count) {
      for (std::size_t i = 0; i < own_checked_ && open(); ++i) {
        if (page_.seen_by[i] == count && count != certainly_seen) pick(i, PickReason::seen_by_few);
      }
    }
  }

  void apply(const OldestSeenFirst&) {
    if constexpr (requires(const User& user, std::span<std::uint8_t> ages) {
                    store_.age(user, candidates_.distinct, ages);
                  }) {
      std::vector<std::uint32_t> order;
      for (std::size_t i = 0; i < own_checked_; ++i) {
        if (probably_seen(i)) order.push_back(static_cast<std::uint32_t>(i));
      }
      const auto ages = latest_ages();
      std::sort(order.begin(), order.end(),
                [&](std::uint32_t a, std::uint32_t b) { return ages[a] != ages[b] ? ages[a] > ages[b] : a < b; });
      for (const std::uint32_t i : order) {
        if (!open()) return;
        pick(i, PickReason::seen_long_ago);
      }
    } else {
      page_.error =
          Error{ErrorCode::unavailable, "seenby: expected a store with a window to order by age; this one has none"};
    }
  }
  /// For each candidate the slices since the last of the users saw it.
  [[nodiscard]] std::vector<std::uint8_t> latest_ages() const {
    const auto batch = candidates_.distinct.subspan(0, own_checked_);
    std::vector<std::uint8_t> latest(batch.size(), 255);
    std::vector<std::uint8_t> ages(batch.size());
    for (const User& user : users_) {
      store_.age(user, batch, std::span(ages));
      for (std::size_t i = 0; i < ages.size(); ++i) latest[i] = std::min(latest[i], ages[i]);
    }
    return latest;
  }

  const Store& store_;
  const Overlays<Store>& overlays_;
  History* history_;
  Candidates<Item> candidates_;
  std::span<const User> users_;
  const Options& options_;
  PageState<Item>& page_;
  std::size_t own_checked_ = 0;  // of the request's candidates, when the relaxations began
  bool ended_ = false;           // by a user who became unknown
};

// Not in line: a unit whose types seenby::core has compiled does not compile them again.

template <class Store, class History, class Item>
void PageBuilder<Store, History, Item>::run_relaxations() {
  own_checked_ = page_.checked;
  for (const auto& relaxation : options_.relax) {
    if (!open() || ended_) return;
    std::visit([this](const auto& step) { this->apply(step); }, relaxation);
  }
}

template <class Store, class History, class Item>
bool PageBuilder<Store, History, Item>::settle_some_unknown() {
  OnUnknown worst = OnUnknown::show;
  for (std::size_t i = 0; i < users_.size(); ++i) {
    const UserStatus& status = page_.status[i];
    if (status.state == UserState::known) continue;
    note_unknown({i, status.state, status.error});
    const bool failed = status.state == UserState::unreachable;
    worst = std::max(worst, failed && options_.on_unreachable ? *options_.on_unreachable : options_.on_unknown);
  }
  if (worst == OnUnknown::show) return true;
  page_.count = 0;
  if (worst == OnUnknown::hide) return false;
  page_.error = describe_unknown();
  page_.raises = worst == OnUnknown::raise;
  return false;
}

template <class Store, class History, class Item>
void PageBuilder<Store, History, Item>::collect_certain() {
  auto& certain = page_.certain;
  certain.assign(options_.also_seen.begin(), options_.also_seen.end());
  const Time now = now_of(store_.policy());
  for (const User& user : users_) {
    overlays_.visit(user_key(user), now, store_.policy().window, [&](Digest item) { certain.push_back(item); });
  }
  std::sort(certain.begin(), certain.end());
}

template <class Store, class History, class Item>
void PageBuilder<Store, History, Item>::collect_exact() {
  auto& certain = page_.certain;
  const Time now = now_of(store_.policy());
  for (const UserStatus& status : page_.status) {
    visit_exact(status.exact.get(), now, store_.policy().window, [&](Digest item) { certain.push_back(item); });
  }
  std::sort(certain.begin(), certain.end());
  certain.erase(std::unique(certain.begin(), certain.end()), certain.end());
}

template <class Store, class History, class Item>
void PageBuilder<Store, History, Item>::mark_some_certain(std::span<const Digest> digests,
                                                          std::span<std::uint8_t> seen_by) const {
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (std::binary_search(page_.certain.begin(), page_.certain.end(), digests[i])) seen_by[i] = certainly_seen;
  }
}

SEENBY_DETAIL_END
