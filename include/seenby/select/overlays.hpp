#pragma once
// SPDX-License-Identifier: MIT
// What a SeenFilter knows for certain beside its store: items in flight, and what the store does not keep.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/detail/user_lists.hpp"
#include "seenby/hash.hpp"
#include "seenby/stores/exact_items.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

/// What a filter asks of items in flight. Abstract, so that only a program that marks items compiles their table.
class Marks {
 public:
  using Visit = void (*)(void* context, Digest item);

  Marks() = default;
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  virtual ~Marks() = default;
  [[nodiscard]] virtual bool empty() const noexcept = 0;
  /// Takes out items that are recorded by now.
  virtual void settle(const UserKey& user, std::span<const Digest> items, Time now) = 0;
  /// Calls found(context, digest) for each item that has not expired.
  virtual void visit(const UserKey& user, Time now, Visit found, void* context) const = 0;
  virtual bool forget(const UserKey& user) = 0;
  virtual void merge(const UserKey& from, const UserKey& into) = 0;
};

/// Items reported seen by a user but not yet recorded; each expires by itself.
template <class Key>
class InFlight final : public Marks {
 public:
  [[nodiscard]] bool empty() const noexcept override { return lists_.empty(); }
  void add(const Key& user, std::span<const Digest> items, Time now, Time until) {
    purge(now);
    lists_.change(user, [&](auto& list) {
      std::erase_if(list, [now](const Entry& entry) { return entry.until <= now; });
      for (const Digest item : items) list.push_back({item, until});
      return true;
    });
  }
  void settle(const Key& user, std::span<const Digest> items, Time now) override {
    if (empty()) return;
    purge(now);
    lists_.edit(user, [&](auto& list) {
      std::erase_if(list, [&](const Entry& e) { return std::find(items.begin(), items.end(), e.item) != items.end(); });
      return true;
    });
  }
  void visit(const Key& user, Time now, Visit found, void* context) const override {
    lists_.read(user, [&](const auto& list) {
      for (const Entry& entry : list) {
        if (entry.until > now) found(context, entry.item);
      }
    });
  }
  bool forget(const Key& user) override { return lists_.forget(user); }
  void merge(const Key& from, const Key& into) override {
    lists_.merge(from, into, [](auto& old, auto& list) { list.insert(list.end(), old.begin(), old.end()); });
  }

 private:
  struct Entry {
    Digest item;
    Time until;
  };
  void purge(Time now) {
    lists_.purge_next(now, std::chrono::minutes(1), [now](const Entry& entry) { return entry.until <= now; });
  }
  UserLists<Key, std::vector<Entry>, UserKeyHash> lists_;
};

/// A table that is made when the first item is marked.
class LazyMarks {
 public:
  LazyMarks() = default;
  LazyMarks(const LazyMarks&) = delete;
  LazyMarks& operator=(const LazyMarks&) = delete;
  ~LazyMarks() { delete marks_.load(std::memory_order_relaxed); }

  /// Null while nothing is marked.
  [[nodiscard]] Marks* get() const noexcept {
    Marks* const marks = marks_.load(std::memory_order_acquire);
    return marks == nullptr || marks->empty() ? nullptr : marks;
  }
  template <class Key>
  void add(const Key& user, std::span<const Digest> items, Time now, Time until) {
    Marks* marks = marks_.load(std::memory_order_acquire);
    if (marks == nullptr) {
      auto made = std::make_unique<InFlight<Key>>();
      if (marks_.compare_exchange_strong(marks, made.get(), std::memory_order_acq_rel)) marks = made.release();
    }
    static_cast<InFlight<Key>*>(marks)->add(user, items, now, until);
  }

 private:
  std::atomic<Marks*> marks_{nullptr};
};

/// In place of exact items where the store keeps them.
struct StoreKeepsExact {
  [[nodiscard]] static constexpr bool empty() noexcept { return true; }
  [[nodiscard]] static constexpr bool keeps() noexcept { return false; }
  [[nodiscard]] static std::shared_ptr<const ExactList> of(const UserKey&) noexcept { return nullptr; }
  static void keep(const UserKey&, std::span<const Digest>, Time) noexcept {}
  static constexpr bool forget(const UserKey&) noexcept { return false; }
  static void merge(const UserKey&, const UserKey&) noexcept {}
};

/// What is known of users for certain beside their store: items in flight, and what a store that is no HidingStore does
/// not keep. Any thread may call anything.
template <class Store>
struct Overlays {
  LazyMarks in_flight;
  std::conditional_t<HidingStore<Store>, StoreKeepsExact, ExactUsers<UserKey, UserKeyHash>> exact;

  [[nodiscard]] bool empty() const noexcept { return in_flight.get() == nullptr && exact.empty(); }
  /// Calls visit(digest) for everything that no page of this user may show.
  template <class Visit>
  void visit(const UserKey& user, Time now, std::chrono::seconds window, Visit visit) const {
    if (!exact.empty()) visit_exact(exact.of(user).get(), now, window, visit);
    if (const Marks* const marks = in_flight.get()) {
      marks->visit(
          user, now, [](void* to, Digest item) { (*static_cast<Visit*>(to))(item); }, &visit);
    }
  }
  bool forget(const UserKey& user) {
    Marks* const marks = in_flight.get();
    const bool flew = marks != nullptr && marks->forget(user);
    return exact.forget(user) || flew;
  }
  void merge(const UserKey& from, const UserKey& into) {
    exact.merge(from, into);
    if (Marks* const marks = in_flight.get()) marks->merge(from, into);
  }
};

SEENBY_DETAIL_END
