#pragma once
// SPDX-License-Identifier: MIT
// Shadow: an exact referee beside the filter for a sampled share of users.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/select/seen_counters.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

/// Keeps, for sampled users, everything they saw since tracking began, and judges the filters by it. Any thread may
/// call anything. An item is `pending` while its write is under way: either answer is right then.
template <class Key>
class Shadow {
 public:
  struct Counts {
    std::atomic<std::uint64_t> requests{0};
    std::atomic<std::uint64_t> fresh{0};
    std::atomic<std::uint64_t> wrong_hides{0};
    std::atomic<std::uint64_t> false_negatives{0};
    std::atomic<std::uint64_t> underfilled{0};
  };
  enum class Verdict : std::uint8_t { fresh, seen, either };

  explicit Shadow(double share)
      : limit_(share >= 1 ? std::numeric_limits<std::uint64_t>::max()
                          : static_cast<std::uint64_t>(std::ldexp(share, 64))) {}

  [[nodiscard]] bool samples(const Key& user) const noexcept {
    return mix64(user.low ^ mix64(user.high + 0x5ead0u)) <= limit_;
  }
  [[nodiscard]] bool tracks(const Key& user) const {
    const std::lock_guard lock(mutex_);
    const auto found = users_.find(user);
    return found != users_.end() && found->second.tracked;
  }
  /// Whether the user was met before, tracked or not.
  [[nodiscard]] bool knows(const Key& user) const {
    const std::lock_guard lock(mutex_);
    return users_.contains(user);
  }
  /// Begins to track a user whose whole past is `seen`; with `complete` false the past is not known, and the user is
  /// left out permanently.
  void meet(const Key& user, std::span<const SeenDigest> seen, bool complete) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = users_.try_emplace(user);
    if (!is_new) return;
    at->second.tracked = complete;
    for (const SeenDigest& entry : seen) at->second.items[entry.digest.value] = {entry.seen_at, false};
  }
  void begin_write(const Key& user, std::span<const Digest> items, Time now) { mark(user, items, now, true); }
  void end_write(const Key& user, std::span<const Digest> items, Time now) { mark(user, items, now, false); }
  void forget(const Key& user) {
    const std::lock_guard lock(mutex_);
    users_.erase(user);
  }

  /// What each digest is to this user. Take it before asking the filter, so that whatever is `seen` here must be seen
  /// there. Between `window` and `window + slice` either answer is right.
  void judge(const Key& user, std::span<const Digest> items, Time now, std::chrono::seconds window,
             std::chrono::seconds slice, std::span<Verdict> out) const {
    const std::lock_guard lock(mutex_);
    const auto known = users_.find(user);
    if (known == users_.end()) {  // forgotten meanwhile
      std::fill(out.begin(), out.end(), Verdict::either);
      return;
    }
    const auto& seen = known->second.items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto found = seen.find(items[i].value);
      if (found == seen.end()) {
        out[i] = Verdict::fresh;
      } else if (found->second.pending) {
        out[i] = Verdict::either;
      } else if (within_window(found->second.at, now, window)) {
        out[i] = Verdict::seen;
      } else {
        const Time gone = saturating_add(saturating_add(found->second.at, window), slice);
        out[i] = gone < now ? Verdict::fresh : Verdict::either;
      }
    }
  }
  [[nodiscard]] Counts& counts() noexcept { return counts_; }
  void add_to(SeenCounters& all) const noexcept {
    all.shadow_requests = counts_.requests.load(std::memory_order_relaxed);
    all.shadow_fresh = counts_.fresh.load(std::memory_order_relaxed);
    all.shadow_wrong_hides = counts_.wrong_hides.load(std::memory_order_relaxed);
    all.shadow_false_negatives = counts_.false_negatives.load(std::memory_order_relaxed);
    all.shadow_underfilled = counts_.underfilled.load(std::memory_order_relaxed);
  }

 private:
  struct Entry {
    Time at{};
    bool pending = false;
  };
  struct User {
    bool tracked = false;
    std::unordered_map<std::uint64_t, Entry> items;
  };
  void mark(const Key& user, std::span<const Digest> items, Time now, bool pending) {
    const std::lock_guard lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end() || !found->second.tracked) return;
    for (const Digest item : items) found->second.items[item.value] = {now, pending};
  }

  std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, User, UserKeyHash> users_;
  Counts counts_;
};

/// Begins to track a sampled user at their first record: from the history's whole account, or as a new user where
/// the store has no filter yet.
template <class Item, class Key, class Store, class Account>
void shadow_meet(Shadow<Key>& shadow, const Store& store, const typename Store::user_type& user, const Key& key,
                 const Account& account) {
  if (!shadow.samples(key) || shadow.knows(key)) return;
  std::vector<SeenDigest> past;
  bool complete = account(past);
  if (!complete) {
    UserStatus status;
    store.check(std::span(&user, 1), ItemBatch<Item>{}, std::span<std::uint8_t>{}, std::span(&status, 1));
    complete = status.state == UserState::missing;
  }
  shadow.meet(key, past, complete);
}

/// Judges one request: of its tracked users, which fresh candidates do the filters hide, and which seen ones do they
/// miss? Asks the store once more, for these users alone.
template <class Key, class Store, class Item>
void shadow_request(Shadow<Key>& shadow, const Store& store, std::span<const typename Store::user_type> users,
                    const ItemBatch<Item>& batch, Time now, std::size_t limit, bool underfilled) {
  using Verdict = typename Shadow<Key>::Verdict;
  std::vector<Verdict> all(batch.size(), Verdict::fresh);
  std::vector<Verdict> one(batch.size());
  std::vector<std::uint8_t> hidden(batch.size());
  std::vector<std::uint8_t> seen_by(batch.size());
  const StorePolicy& policy = store.policy();
  const std::chrono::seconds slice =
      policy.window.count() == 0 ? policy.window : policy.window / policy.slices + std::chrono::seconds(1);
  std::size_t tracked = 0;
  std::uint64_t missed = 0;
  for (const auto& user : users) {
    const Key key = user_key(user);
    if (!shadow.samples(key) || !shadow.tracks(key)) continue;
    shadow.judge(key, batch.digests, now, policy.window, slice, one);
    UserStatus status;
    store.check(std::span(&user, 1), batch, std::span(seen_by), std::span(&status, 1));
    if (status.state != UserState::known) continue;
    ++tracked;
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (one[i] == Verdict::seen && seen_by[i] == 0) ++missed;
      if (one[i] != Verdict::fresh && all[i] != Verdict::seen) all[i] = one[i];
      hidden[i] = static_cast<std::uint8_t>(hidden[i] | seen_by[i]);
    }
  }
  if (tracked == 0) return;
  std::uint64_t fresh = 0;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != Verdict::fresh) continue;
    ++fresh;
    if (hidden[i] != 0) ++wrong;
  }
  auto& counts = shadow.counts();
  counts.requests.fetch_add(1, std::memory_order_relaxed);
  counts.fresh.fetch_add(fresh, std::memory_order_relaxed);
  counts.wrong_hides.fetch_add(wrong, std::memory_order_relaxed);
  counts.false_negatives.fetch_add(missed, std::memory_order_relaxed);
  if (underfilled && tracked == users.size() && fresh >= limit)
    counts.underfilled.fetch_add(1, std::memory_order_relaxed);
}

SEENBY_DETAIL_END
