#pragma once
// SPDX-License-Identifier: MIT
// SaltedStore: a secret of each user's own under their digests, so that deleting it makes every copy unreadable.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby {

/// A user's 64-bit salt, or nothing once it was deleted. Called from any thread.
template <class User>
using SaltSource = std::function<std::optional<std::uint64_t>(const User&)>;

/// Wraps a store of digests: what it holds of a user is a filter of salted digests. Delete the user's salt and no
/// backup of the store tells anything about them any more, not even to somebody who knows the store's seed and every
/// item there is; the user is `missing` from then on. Keep the salts in a database of their own, outside the backups.
///
/// The price: one candidate no longer serves all users with one digest. A check salts the batch for each user (a
/// multiplication or two a candidate), and no pair kernel applies. Thread safety: the store's and the salt source's.
template <FilterStore Store>
class SaltedStore {
 public:
  using user_type = typename Store::user_type;
  using hasher_type = typename Store::hasher_type;

  SaltedStore(Store store, SaltSource<user_type> salts) : store_(std::move(store)), salts_(std::move(salts)) {}

  [[nodiscard]] const StorePolicy& policy() const noexcept { return store_.policy(); }
  [[nodiscard]] hasher_type hasher() const noexcept { return store_.hasher(); }
  [[nodiscard]] Store& inner() noexcept { return store_; }
  [[nodiscard]] StoreCounters counters() const { return store_.counters(); }

  template <class Item>
  void check(std::span<const user_type> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    std::fill(seen_by.begin(), seen_by.end(), std::uint8_t{0});
    std::vector<Digest> digests(batch.size());
    std::vector<std::uint8_t> seen(batch.size());
    for (std::size_t i = 0; i < users.size(); ++i) {
      const auto salt = salts_(users[i]);
      if (!salt) {
        status[i] = {UserState::missing, nullptr};
        continue;
      }
      apply(*salt, batch.digests, digests);
      store_.check(users.subspan(i, 1), ItemBatch<Item>{batch.items, digests}, std::span(seen), status.subspan(i, 1));
      for (std::size_t j = 0; j < seen.size(); ++j) seen_by[j] = static_cast<std::uint8_t>(seen_by[j] + seen[j]);
    }
  }

  template <class Item>
  Result<RecordOutcome> record(const user_type& user, const ItemBatch<Item>& batch) {
    const auto salt = salts_(user);
    if (!salt) return no_salt();
    std::vector<Digest> digests(batch.size());
    apply(*salt, batch.digests, digests);
    return store_.record(user, ItemBatch<Item>{batch.items, digests});
  }
  Result<void> create(const user_type& user) {
    if (!salts_(user)) return no_salt();
    return store_.create(user);
  }
  Result<bool> forget(const user_type& user) { return store_.forget(user); }

  void set_replay(Replay<user_type> replay) requires ReplayableStore<Store> {
    store_.set_replay([replay = std::move(replay), salts = salts_](const user_type& user,
                                                                   Time since) -> Result<std::vector<SeenDigest>> {
      const auto salt = salts(user);
      if (!salt) return no_salt();
      auto seen = replay(user, since);
      if (!seen) return seen;
      for (SeenDigest& entry : *seen) entry.digest = salted(*salt, entry.digest);
      return seen;
    });
  }

 private:
  [[nodiscard]] static Digest salted(std::uint64_t salt, Digest digest) noexcept {
    // A seeded bijection: without the salt the position of an item is any position.
    return Digest{detail::mix64(digest.value ^ salt) + detail::mix64(salt + 1)};
  }
  static void apply(std::uint64_t salt, std::span<const Digest> from, std::span<Digest> into) noexcept {
    std::transform(from.begin(), from.end(), into.begin(), [salt](Digest digest) { return salted(salt, digest); });
  }
  [[nodiscard]] static Error no_salt() {
    return {ErrorCode::unknown_user,
            "seenby: expected a salt for this user, but the salt source has none (it was deleted)"};
  }

  Store store_;
  SaltSource<user_type> salts_;
};

}  // namespace seenby
