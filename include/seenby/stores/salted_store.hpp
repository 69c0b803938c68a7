#pragma once
// SPDX-License-Identifier: MIT
// SaltedStore: a secret of each user's own under their digests, so that deleting it makes every copy unreadable.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

namespace seenby {

/// A user's 64-bit salt, or nothing once it was deleted. Called from any thread.
template <class User>
using SaltSource = std::function<std::optional<std::uint64_t>(const User&)>;

/// Wraps a store of digests: what it holds of a user is a filter of salted digests. Delete the user's salt and no
/// backup of the store tells anything about them any more, not even to an attacker who knows the store's seed and every
/// item there is; the user is `missing` from then on. Keep the salts in a database of their own, outside the backups.
///
/// The price: one candidate no longer serves all users with one digest. A check salts the batch for each user (a
/// multiplication or two a candidate), and no pair kernel applies. Two users' records cannot be merged, since their
/// digests have nothing in common. A store that heals a damaged value believes a hide whose digest is that of its text;
/// a salted one never is, so the user's hides are lost with the value. All else that the store can do it does salted:
/// all users of all requests in one question where the store takes many, events at their time, ages, hides. Thread
/// safety: the store's and the salt source's.
template <FilterStore Store>
class SaltedStore {
 public:
  using user_type = typename Store::user_type;      ///< who sees
  using hasher_type = typename Store::hasher_type;  ///< makes digests of items

  /// Over an inner store, with salts that outlive it.
  SaltedStore(Store store, SaltSource<user_type> salts) : store_(std::move(store)), salts_(std::move(salts)) {}

  [[nodiscard]] const StorePolicy& policy() const noexcept { return store_.policy(); }  ///< the inner store's policy
  [[nodiscard]] hasher_type hasher() const noexcept { return store_.hasher(); }         ///< the inner store's hasher
  [[nodiscard]] Store& inner() noexcept { return store_; }  ///< the store beneath, whose users are salted
  [[nodiscard]] StoreCounters counters() const { return store_.counters(); }  ///< a snapshot of the store's counters

  static constexpr bool is_remote = RemoteStore<Store>;  ///< as the inner store

  /// As FilterStoreFor says; each user with digests of their own.
  template <class Item>
  void check(std::span<const user_type> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    const CheckRequest<user_type, Item> request{users, batch, seen_by, status};
    check_many(std::span(&request, 1));
  }
  /// Each user of each request is a request of the store's, under digests of their own.
  template <class Item>
  void check_many(std::span<const CheckRequest<user_type, Item>> requests) const {
    std::vector<Salted> salted;
    for (const auto& request : requests) {
      std::fill(request.seen_by.begin(), request.seen_by.end(), std::uint8_t{0});
      for (std::size_t i = 0; i < request.users.size(); ++i) {
        request.status[i] = {UserState::missing, nullptr};
        const auto salt = salts_(request.users[i]);
        if (salt) salted.push_back({&request - requests.data(), i, *salt, salt_all(*salt, request.batch.digests), {}});
      }
    }
    std::vector<CheckRequest<user_type, Item>> asked;
    for (Salted& one : salted) {
      const auto& request = requests[static_cast<std::size_t>(one.request)];
      one.seen.resize(request.batch.size());
      asked.push_back({request.users.subspan(one.user, 1), ItemBatch<Item>{request.batch.items, one.digests}, one.seen,
                       request.status.subspan(one.user, 1)});
    }
    if constexpr (BatchingStoreFor<Store, Item>) {
      store_.check_many(std::span<const CheckRequest<user_type, Item>>(asked));
    } else {
      for (const auto& one : asked) store_.check(one.users, one.batch, one.seen_by, one.status);
    }
    for (const Salted& one : salted) {
      const auto& request = requests[static_cast<std::size_t>(one.request)];
      const auto seen_by = request.seen_by;
      if (auto& exact = request.status[one.user].exact) {
        ExactList own = *exact;
        for (ExactItem& item : own) item.digest = unsalted(one.salt, item.digest);
        exact = std::make_shared<const ExactList>(std::move(own));
      }
      for (std::size_t j = 0; j < one.seen.size(); ++j) {
        seen_by[j] = static_cast<std::uint8_t>(seen_by[j] + one.seen[j]);
      }
    }
  }

  /// As the inner store's, with the user's own digests.
  template <class Item>
  void age(const user_type& user, const ItemBatch<Item>& batch,
           std::span<std::uint8_t> ages) const requires AgeingStore<Store> {
    std::fill(ages.begin(), ages.end(), std::uint8_t{255});
    const auto salt = salts_(user);
    if (!salt) return;
    const auto digests = salt_all(*salt, batch.digests);
    store_.age(user, ItemBatch<Item>{batch.items, digests}, ages);
  }

  /// As FilterStoreFor says. Errors: the salts', the inner store's.
  template <class Item>
  Result<RecordOutcome> record(const user_type& user, const ItemBatch<Item>& batch) {
    return record_salted(user, batch, [&](const ItemBatch<Item>& salted) { return store_.record(user, salted); });
  }
  /// At the time of the event, where the store takes one.
  template <class Item>
  auto record(const user_type& user, const ItemBatch<Item>& batch, Time when)
      -> decltype(std::declval<Store&>().record(user, batch, when)) {
    return record_salted(user, batch, [&](const ItemBatch<Item>& salted) { return store_.record(user, salted, when); });
  }
  /// As ManyRecordingStoreFor, in one call of the store where it takes many.
  template <class Item>
  [[nodiscard]] std::vector<Result<RecordOutcome>> record_many(
      std::span<const RecordRequest<user_type, Item>> requests) {
    std::vector<Result<RecordOutcome>> outcomes(requests.size(), RecordOutcome{});
    std::vector<std::vector<Digest>> digests;
    std::vector<RecordRequest<user_type, Item>> salted;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto& [user, batch, when] = requests[i];
      const auto salt = salts_(user);
      if (!salt) {
        outcomes[i] = no_salt();
        continue;
      }
      digests.push_back(salt_all(*salt, batch.digests));
      salted.push_back({user, ItemBatch<Item>{batch.items, digests.back()}, when});
      of.push_back(i);
    }
    auto done = detail::record_requests(store_, std::span<const RecordRequest<user_type, Item>>(salted));
    for (std::size_t i = 0; i < done.size(); ++i) outcomes[of[i]] = std::move(done[i]);
    return outcomes;
  }
  /// As FilterStoreFor says.
  Result<void> create(const user_type& user) {
    if (!salts_(user)) return no_salt();
    return store_.create(user);
  }
  /// Removes the inner store's trace of the user; the salt is the caller's to delete.
  Result<bool> forget(const user_type& user) { return store_.forget(user); }

  /// As HidingStore, where the store is one: digests are salted, and the items' texts unreadable without the salt. In
  /// check the store's own come back as they went in.
  Result<std::size_t> hide(const user_type& user, std::span<const HiddenItem> items) requires HidingStore<Store> {
    const auto salt = salts_(user);
    if (!salt) return no_salt();
    std::vector<HiddenItem> all;
    for (const HiddenItem& item : items) {
      const Digest digest = salted(*salt, item.digest);
      all.push_back({digest, veiled(*salt, digest, item.text), item.at});
    }
    return store_.hide(user, all);
  }
  /// As HidingStore.
  Result<std::size_t> unhide(const user_type& user, std::span<const Digest> digests) requires HidingStore<Store> {
    const auto salt = salts_(user);
    if (!salt) return no_salt();
    return store_.unhide(user, salt_all(*salt, digests));
  }
  /// Nothing once the salt is deleted.
  [[nodiscard]] Result<std::vector<HiddenItem>> hidden(const user_type& user) const requires HidingStore<Store> {
    const auto salt = salts_(user);
    if (!salt) return std::vector<HiddenItem>();
    auto items = store_.hidden(user);
    if (!items) return items;
    for (HiddenItem& item : *items) {
      item.text = veiled(*salt, item.digest, std::move(item.text));
      item.digest = unsalted(*salt, item.digest);
    }
    return items;
  }
  /// As HidingStore.
  void keep_last(std::size_t items) noexcept requires HidingStore<Store> { store_.keep_last(items); }
  /// As MarkingStore.
  Result<void> mark_in_flight(const user_type& user, std::span<const Digest> digests,
                              Time until) requires MarkingStore<Store> {
    const auto salt = salts_(user);
    if (!salt) return no_salt();
    return store_.mark_in_flight(user, salt_all(*salt, digests), until);
  }

  /// Rebuilds missing users from this, under their salt. For set-up.
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
  /// One user of a request, asked under their own digests.
  struct Salted {
    std::ptrdiff_t request;
    std::size_t user;
    std::uint64_t salt;
    std::vector<Digest> digests;
    std::vector<std::uint8_t> seen;
  };

  [[nodiscard]] static Digest salted(std::uint64_t salt, Digest digest) noexcept {
    // A seeded bijection: without the salt the position of an item is any position.
    return Digest{detail::mix64(digest.value ^ salt) + detail::mix64(salt + 1)};
  }
  [[nodiscard]] static Digest unsalted(std::uint64_t salt, Digest digest) noexcept {
    return Digest{detail::unmix64(digest.value - detail::mix64(salt + 1)) ^ salt};
  }
  /// The text under a stream of bytes that the salt and the digest give; twice is once.
  [[nodiscard]] static std::string veiled(std::uint64_t salt, Digest digest, std::string text) {
    for (std::size_t at = 0; at < text.size(); at += 8) {
      const std::array<std::uint64_t, 2> place{digest.value, at};
      const std::uint64_t stream = detail::xxh3_bytes(place.data(), sizeof place, salt);
      for (std::size_t i = at; i < std::min(at + 8, text.size()); ++i) {
        text[i] = static_cast<char>(static_cast<unsigned char>(text[i]) ^ ((stream >> (8 * (i - at))) & 0xFFU));
      }
    }
    return text;
  }
  [[nodiscard]] static std::vector<Digest> salt_all(std::uint64_t salt, std::span<const Digest> digests) {
    std::vector<Digest> all(digests.size());
    std::transform(digests.begin(), digests.end(), all.begin(), [salt](Digest digest) { return salted(salt, digest); });
    return all;
  }
  template <class Item, class Write>
  Result<RecordOutcome> record_salted(const user_type& user, const ItemBatch<Item>& batch, Write&& write) {
    const auto salt = salts_(user);
    if (!salt) return no_salt();
    const auto digests = salt_all(*salt, batch.digests);
    return write(ItemBatch<Item>{batch.items, digests});
  }
  [[nodiscard]] static Error no_salt() {
    return {ErrorCode::unknown_user,
            "seenby: expected a salt for this user, but the salt source has none (it was deleted)"};
  }

  Store store_;
  SaltSource<user_type> salts_;
};

}  // namespace seenby
