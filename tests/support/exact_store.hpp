#pragma once
// SPDX-License-Identifier: MIT
// ExactStore: a store of sets, for tests of what stands on a store: it counts what it is asked, errs only where it is
// told to, and fails or throws at the write it is told to.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "seenby/stores/filter_store.hpp"

namespace seenby::test {

/// What the copies of a store share.
struct ExactState {
  std::mutex mutex;
  std::map<std::uint64_t, std::map<std::uint64_t, Time>> users;
  std::set<std::uint64_t> false_positives;  ///< digests that every user's filter calls seen
  std::size_t checks = 0;                   ///< calls of check
  std::size_t batched_checks = 0;           ///< calls of check_many
  std::size_t candidates = 0;               ///< in all questions
  bool down = false;                        ///< checks are unreachable, writes refused
  std::size_t writes = 0;                   ///< records, merges, forgets
  std::size_t fail_write = 0;               ///< the write of this number, from 1, is refused...
  bool throws = false;                      ///< ... or throws
  std::function<void()> before_write{};     ///< called before each, without the lock
};

/// Remote: asked once a request, as over a network. Batching: has check_many. Both change the facade's way to it.
template <bool Remote = false, bool Batching = false, Hasher Hash = Xxh3Hash>
class ExactStore {
 public:
  using user_type = std::uint64_t;
  using hasher_type = Hash;
  static constexpr bool is_remote = Remote;

  explicit ExactStore(StorePolicy policy = {}) : policy_(std::move(policy)), hash_(policy_.seed) {}

  [[nodiscard]] ExactState& state() const noexcept { return *state_; }
  [[nodiscard]] const StorePolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] Hash hasher() const noexcept { return hash_; }

  template <class Item>
  void check(std::span<const std::uint64_t> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    const std::lock_guard lock(state_->mutex);
    ++state_->checks;
    state_->candidates += batch.size();
    answer(users, batch.digests, seen_by, status);
  }
  template <class Item>
  void check_many(std::span<const CheckRequest<std::uint64_t, Item>> requests) const requires Batching {
    const std::lock_guard lock(state_->mutex);
    ++state_->batched_checks;
    for (const auto& request : requests) {
      state_->candidates += request.batch.size();
      answer(request.users, request.batch.digests, request.seen_by, request.status);
    }
  }

  template <class Item>
  Result<RecordOutcome> record(std::uint64_t user, const ItemBatch<Item>& batch) {
    return record(user, batch, policy_.clock());
  }
  template <class Item>
  Result<RecordOutcome> record(std::uint64_t user, const ItemBatch<Item>& batch, Time when) {
    if (auto refused = begin_write()) return *refused;
    const std::lock_guard lock(state_->mutex);
    for (const Digest digest : batch.digests) {
      Time& at = state_->users[user].try_emplace(digest.value, when).first->second;
      at = std::max(at, when);
    }
    return RecordOutcome{batch.size(), false};
  }
  Result<void> create(std::uint64_t user) {
    const std::lock_guard lock(state_->mutex);
    state_->users[user];
    return {};
  }
  Result<bool> forget(std::uint64_t user) {
    if (auto refused = begin_write()) return *refused;
    const std::lock_guard lock(state_->mutex);
    return state_->users.erase(user) != 0;
  }
  Result<void> merge_users(std::uint64_t from, std::uint64_t into) {
    if (auto refused = begin_write()) return *refused;
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->users.find(from);
    if (found == state_->users.end()) return {};
    auto items = std::move(found->second);
    state_->users.erase(found);
    for (const auto& [digest, at] : items) {
      Time& kept = state_->users[into].try_emplace(digest, at).first->second;
      kept = std::max(kept, at);
    }
    return {};
  }
  [[nodiscard]] StoreCounters counters() const { return {}; }

 private:
  void answer(std::span<const std::uint64_t> users, std::span<const Digest> digests, std::span<std::uint8_t> seen_by,
              std::span<UserStatus> status) const {
    std::fill(seen_by.begin(), seen_by.end(), std::uint8_t{0});
    for (std::size_t u = 0; u < users.size(); ++u) {
      const auto found = state_->users.find(users[u]);
      if (state_->down) {
        status[u] = {UserState::unreachable, std::make_shared<const Error>(Error{ErrorCode::unreachable, "down"})};
      } else {
        status[u] = {found == state_->users.end() ? UserState::missing : UserState::known, nullptr};
      }
      if (status[u].state != UserState::known) continue;
      for (std::size_t i = 0; i < digests.size(); ++i) {
        const auto item = found->second.find(digests[i].value);
        const bool seen = item != found->second.end() && within_window(item->second, policy_.clock(), policy_.window);
        if (seen || state_->false_positives.contains(digests[i].value)) ++seen_by[i];
      }
    }
  }
  [[nodiscard]] std::optional<Error> begin_write() {
    if (state_->before_write) state_->before_write();
    const std::lock_guard lock(state_->mutex);
    const bool fails = ++state_->writes == state_->fail_write;
    if (fails && state_->throws) throw std::runtime_error("the store threw");
    if (fails || state_->down) return Error{ErrorCode::refused, "the store refused"};
    return std::nullopt;
  }

  StorePolicy policy_;
  Hash hash_;
  std::shared_ptr<ExactState> state_ = std::make_shared<ExactState>();
};

}  // namespace seenby::test
