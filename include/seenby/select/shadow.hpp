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

/// A request that was answered, without the types of its store and items.
struct JudgedRequest {
  std::size_t users;
  std::span<const Digest> digests;
  const StorePolicy& policy;
  Time now;
  std::size_t limit;
  bool underfilled;
  const void* request;
  UserKey (*key_of)(const void* request, std::size_t user);
  /// Asks the store about one of the users once more.
  void (*check)(const void* request, std::size_t user, std::span<std::uint8_t> seen_by, UserStatus& status);
};

/// What a filter asks of its referee. Abstract, so that only a program that has one compiles it.
class Referee {
 public:
  Referee() = default;
  Referee(const Referee&) = delete;
  Referee& operator=(const Referee&) = delete;
  virtual ~Referee() = default;
  /// Whether this user is sampled and was never met.
  [[nodiscard]] virtual bool expects(const UserKey& user) const = 0;
  /// Begins to track a user whose whole past is `seen`; with `complete` false the past is not known, and the user is
  /// left out permanently.
  virtual void meet(const UserKey& user, std::span<const SeenDigest> seen, bool complete) = 0;
  virtual void begin_write(const UserKey& user, std::span<const Digest> items, Time now) = 0;
  virtual void end_write(const UserKey& user, std::span<const Digest> items, Time now) = 0;
  virtual void forget(const UserKey& user) = 0;
  /// Of the request's tracked users, which fresh candidates do the filters hide, and which seen ones do they miss?
  virtual void judge(const JudgedRequest& request) = 0;
  virtual void add_to(SeenCounters& all) const noexcept = 0;
};

/// Keeps, for sampled users, everything they saw since tracking began, and judges the filters by it. Any thread may
/// call anything. An item is `pending` while its write is under way: either answer is right then.
template <class Key>
class Shadow final : public Referee {
  struct Counts {
    std::atomic<std::uint64_t> requests{0};
    std::atomic<std::uint64_t> fresh{0};
    std::atomic<std::uint64_t> wrong_hides{0};
    std::atomic<std::uint64_t> false_negatives{0};
    std::atomic<std::uint64_t> underfilled{0};
  };
  enum class Verdict : std::uint8_t { fresh, seen, either };

 public:
  explicit Shadow(double share)
      : limit_(share >= 1 ? std::numeric_limits<std::uint64_t>::max()
                          : static_cast<std::uint64_t>(std::ldexp(share, 64))) {}

  [[nodiscard]] bool expects(const Key& user) const override {
    if (!samples(user)) return false;
    const std::lock_guard lock(mutex_);
    return !users_.contains(user);
  }
  void meet(const Key& user, std::span<const SeenDigest> seen, bool complete) override {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = users_.try_emplace(user);
    if (!is_new) return;
    at->second.tracked = complete;
    for (const SeenDigest& entry : seen) at->second.items[entry.digest.value] = {entry.seen_at, false};
  }
  void begin_write(const Key& user, std::span<const Digest> items, Time now) override { mark(user, items, now, true); }
  void end_write(const Key& user, std::span<const Digest> items, Time now) override { mark(user, items, now, false); }
  void forget(const Key& user) override {
    const std::lock_guard lock(mutex_);
    users_.erase(user);
  }

  void judge(const JudgedRequest& request) override {
    const std::size_t count = request.digests.size();
    std::vector<Verdict> all(count, Verdict::fresh);
    std::vector<Verdict> one(count);
    std::vector<std::uint8_t> hidden(count);
    std::vector<std::uint8_t> seen_by(count);
    std::size_t tracked = 0;
    std::uint64_t missed = 0;
    for (std::size_t user = 0; user < request.users; ++user) {
      const Key key = request.key_of(request.request, user);
      if (!samples(key) || !verdicts(key, request, one)) continue;
      UserStatus status;
      request.check(request.request, user, seen_by, status);
      if (status.state != UserState::known) continue;
      ++tracked;
      for (std::size_t i = 0; i < count; ++i) {
        if (one[i] == Verdict::seen && seen_by[i] == 0) ++missed;
        if (one[i] != Verdict::fresh && all[i] != Verdict::seen) all[i] = one[i];
        hidden[i] = static_cast<std::uint8_t>(hidden[i] | seen_by[i]);
      }
    }
    if (tracked == 0) return;
    std::uint64_t fresh = 0;
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (all[i] != Verdict::fresh) continue;
      ++fresh;
      if (hidden[i] != 0) ++wrong;
    }
    counts_.requests.fetch_add(1, std::memory_order_relaxed);
    counts_.fresh.fetch_add(fresh, std::memory_order_relaxed);
    counts_.wrong_hides.fetch_add(wrong, std::memory_order_relaxed);
    counts_.false_negatives.fetch_add(missed, std::memory_order_relaxed);
    if (request.underfilled && tracked == request.users && fresh >= request.limit) {
      counts_.underfilled.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void add_to(SeenCounters& all) const noexcept override {
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
  [[nodiscard]] bool samples(const Key& user) const noexcept {
    return mix64(user.low ^ mix64(user.high + 0x5ead0u)) <= limit_;
  }
  /// What each digest is to a user; false when the user is not tracked. Asked before the filter, so that whatever is
  /// `seen` here must be seen there. Between the window's end and a slice later either answer is right.
  [[nodiscard]] bool verdicts(const Key& user, const JudgedRequest& request, std::span<Verdict> out) const {
    const std::chrono::seconds window = request.policy.window;
    const std::chrono::seconds slice =
        window.count() == 0 ? window : window / request.policy.slices + std::chrono::seconds(1);
    const std::lock_guard lock(mutex_);
    const auto known = users_.find(user);
    if (known == users_.end() || !known->second.tracked) return false;
    const auto& seen = known->second.items;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto found = seen.find(request.digests[i].value);
      if (found == seen.end()) {
        out[i] = Verdict::fresh;
      } else if (found->second.pending) {
        out[i] = Verdict::either;
      } else if (within_window(found->second.at, request.now, window)) {
        out[i] = Verdict::seen;
      } else {
        const Time gone = saturating_add(saturating_add(found->second.at, window), slice);
        out[i] = gone < request.now ? Verdict::fresh : Verdict::either;
      }
    }
    return true;
  }
  void mark(const Key& user, std::span<const Digest> items, Time now, bool pending) {
    const std::lock_guard lock(mutex_);
    const auto found = users_.find(user);
    if (found == users_.end() || !found->second.tracked) return;
    for (const Digest item : items) {
      Entry& entry = found->second.items.try_emplace(item.value, Entry{now}).first->second;
      entry = {std::max(entry.at, now), pending};  // an event may arrive late
    }
  }

  std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, User, UserKeyHash> users_;
  Counts counts_;
};

SEENBY_DETAIL_END
