#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter asks of its store, its history, its items and its candidates, a line for each that is missing.

#include <concepts>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/range.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

// Placeholders where a type is missing, so that the error names what is missing once.
template <class Store>
struct UserOfStore {
  using type = std::uint64_t;
};
template <class Store>
requires requires { typename Store::user_type; }
struct UserOfStore<Store> {
  using type = typename Store::user_type;
};
template <class Store>
using UserOf = typename UserOfStore<Store>::type;

template <class Store>
struct HasherOfStore {
  using type = Xxh3Hash;
};
template <class Store>
requires requires { typename Store::hasher_type; }
struct HasherOfStore<Store> {
  using type = typename Store::hasher_type;
};
template <class Store>
using HasherOf = typename HasherOfStore<Store>::type;

/// The type of item that a history or a store prescribes; void where it takes any.
template <class Store, class History>
struct PrescribedItem {
  using type = void;
};
template <class Store, class History>
requires requires { typename History::item_type; }
struct PrescribedItem<Store, History> {
  using type = typename History::item_type;
};
template <class Store>
requires requires { typename Store::item_type; }
struct PrescribedItem<Store, NoHistory> {
  using type = typename Store::item_type;
};
template <class Store, class History>
using ItemOf = typename PrescribedItem<Store, History>::type;

/// Whether an item can be recorded: any where no type is prescribed; else one of the same kind that the type holds.
template <class Item, class Prescribed>
[[nodiscard]] consteval bool recordable() {
  if constexpr (std::is_void_v<Prescribed> || std::same_as<Item, Prescribed>) {
    return true;
  } else {
    return item_kind<Item> == item_kind<Prescribed> &&
           (!IntegerItem<Item> || sizeof(Prescribed) == sizeof(std::uint64_t));
  }
}
/// What is handed on of an item: the type prescribed; else the item itself, or a view of a string.
template <class Item, class Prescribed>
struct HandedOn {
  using type = Prescribed;
};
template <class Item>
struct HandedOn<Item, void> {
  using type = std::conditional_t<StringItem<Item>, std::string_view, Item>;
};

/// The item as it is handed on.
template <class Handed, class Item>
[[nodiscard]] Handed handed_on(const Item& item) {
  if constexpr (StringItem<Handed>) {
    return Handed(std::string_view(item));
  } else {
    return static_cast<Handed>(item);
  }
}

/// A store that can make one user of two.
template <class Store>
concept MergingStore = requires(Store& store, const UserOf<Store>& user) {
  { store.merge_users(user, user) } -> std::same_as<Result<void>>;
};

/// An integer where no item is prescribed.
template <class Prescribed>
using AnyItem = std::conditional_t<std::is_void_v<Prescribed>, std::uint64_t, Prescribed>;

// clang-format off
template <class Store, class Item>
struct RequireStore {
  using User = UserOf<Store>;
  using Hash = HasherOf<Store>;
  using Batch = ItemBatch<Item>;
  using SeenBy = std::span<std::uint8_t>;
  using Statuses = std::span<UserStatus>;
  static_assert(requires { typename Store::user_type; }, "seenby: a store needs a user_type");
  static_assert(HashableItem<User>, "seenby: a store's user_type is an integer, a string or bytes");
  static_assert(requires { typename Store::hasher_type; } && Hasher<Hash>, "seenby: a store needs a hasher_type that is a seenby::Hasher");
  static_assert(requires(const Store& store) { { store.policy() } noexcept -> std::same_as<const StorePolicy&>; }, "seenby: a store needs `const StorePolicy& policy() const noexcept`");
  static_assert(requires(const Store& store) { { store.hasher() } noexcept -> std::convertible_to<Hash>; }, "seenby: a store needs `hasher_type hasher() const noexcept`");
  static_assert(requires(const Store& store, std::span<const User> users, const Batch& batch, SeenBy seen_by, Statuses status) { store.check(users, batch, seen_by, status); }, "seenby: a store needs `void check(std::span<const user_type>, const ItemBatch<Item>&, std::span<std::uint8_t> seen_by, std::span<UserStatus>) const`");
  static_assert(requires(Store& store, const User& user, const Batch& batch) { { store.record(user, batch) } -> std::same_as<Result<RecordOutcome>>; }, "seenby: a store needs `Result<RecordOutcome> record(const user_type&, const ItemBatch<Item>&)`");
  static_assert(requires(Store& store, const User& user) { { store.create(user) } -> std::same_as<Result<void>>; }, "seenby: a store needs `Result<void> create(const user_type&)`");
  static_assert(requires(Store& store, const User& user) { { store.forget(user) } -> std::same_as<Result<bool>>; }, "seenby: a store needs `Result<bool> forget(const user_type&)`");
  static_assert(requires(const Store& store) { { store.counters() } -> std::same_as<StoreCounters>; }, "seenby: a store needs `StoreCounters counters() const`");
};

template <class History>
struct RequireHistory {
  using User = UserOf<History>;
  using Item = AnyItem<ItemOf<void, History>>;
  using Items = std::span<const Item>;
  static_assert(requires { typename History::user_type; }, "seenby: a history needs a user_type");
  static_assert(requires { typename History::item_type; } && HashableItem<Item>, "seenby: a history needs an item_type that is an integer, a string or bytes");
  static_assert(requires(History& history, const User& user, Items items, Time when) { { history.append(user, items, when) } -> std::same_as<Result<void>>; }, "seenby: a history needs `Result<void> append(const user_type&, std::span<const item_type>, Time)`");
  static_assert(requires(History& history, const User& user, Items items, std::span<std::uint8_t> seen, Time since) { { history.contains(user, items, seen, since) } -> std::same_as<Result<void>>; }, "seenby: a history needs `Result<void> contains(const user_type&, std::span<const item_type>, std::span<std::uint8_t> seen, Time since)`");
  static_assert(requires(History& history, const User& user, Time since) { { history.seen_since(user, since) } -> std::same_as<Result<std::vector<SeenItem<Item>>>>; }, "seenby: a history needs `Result<std::vector<SeenItem<item_type>>> seen_since(const user_type&, Time since)`");
  static_assert(requires(History& history, const User& user) { { history.forget(user) } -> std::same_as<Result<bool>>; }, "seenby: a history needs `Result<bool> forget(const user_type&)`");
};
// clang-format on
template <>
struct RequireHistory<NoHistory> {};

/// Where candidates come from. A pool or a container must be there after the call, since the page refers to its items;
/// a view may go.
template <class Source>
struct SourceOf;
template <ItemRange Range>
requires ContiguousRange<Range>
struct SourceOf<Range> {
  using item_type = RangeValue<Range>;
  static constexpr bool is_view = std::ranges::enable_borrowed_range<Range>;
  template <class Hash>
  static constexpr bool hashed_by = true;
};
template <class Item>
struct SourceOf<ItemBatch<Item>> {
  using item_type = Item;
  static constexpr bool is_view = true;
  template <class Hash>
  static constexpr bool hashed_by = true;
};
template <class Item, class PoolHash>
struct SourceOf<CandidatePool<Item, PoolHash>> {
  using item_type = Item;
  static constexpr bool is_view = false;
  template <class Hash>
  static constexpr bool hashed_by = std::same_as<Hash, PoolHash>;
};

template <class Source>
using SourceItem = typename SourceOf<std::remove_cvref_t<Source>>::item_type;
template <class Source, class Hash>
concept CandidateSource = requires {
  typename SourceItem<Source>;
  requires SourceOf<std::remove_cvref_t<Source>>::template hashed_by<Hash>;
  requires std::is_lvalue_reference_v<Source> || SourceOf<std::remove_cvref_t<Source>>::is_view;
};

SEENBY_DETAIL_END
