#pragma once
// SPDX-License-Identifier: MIT
// KeepsExact: what a store in Redis keeps exact beside each user's filter, in a string of its own.

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/exact_items.hpp"

namespace seenby::redis {

/// Edits a user's exact items and says how many entries it changed; 0: nothing is written. May run again where another
/// writer was first.
using EditExact = std::function<std::size_t(detail::ExactItems&)>;

/// The members of HidingStore and MarkingStore, for a store that has `exact(user)` and `change_exact(user, edit)`: the
/// items as they are, and a compare-and-swap of them.
///
/// The string is under the filter's hash tag, has no time to live, and is read with every look-up in the same round
/// trip; a user who is missing stays missing. A change is two round trips, more where writers meet. Errors: the
/// server's, corrupt and wrong_type (of the string), too_large (of a hide's text), conflict.
template <class Store, class User>
class KeepsExact {
 public:
  /// As HidingStore.
  Result<std::size_t> hide(const User& user, std::span<const HiddenItem> items) {
    if (auto fits = detail::check_hidden(items); !fits) return std::move(fits).error();
    return store().change_exact(user, [&](detail::ExactItems& all) { return all.hide(items); });
  }
  /// Takes hides back; returns how many there were.
  Result<std::size_t> unhide(const User& user, std::span<const Digest> digests) {
    return store().change_exact(user, [&](detail::ExactItems& all) { return all.unhide(digests); });
  }
  /// The user's hides. One round trip.
  [[nodiscard]] Result<std::vector<HiddenItem>> hidden(const User& user) const {
    auto items = static_cast<const Store&>(*this).exact(user);
    if (!items) return std::move(items).error();
    return std::move(items->hides);
  }
  /// As MarkingStore. A string of marks alone expires with the last of them.
  Result<void> mark_in_flight(const User& user, std::span<const Digest> digests, Time until) {
    const Time now = store().policy().clock();
    auto marked = store().change_exact(user, [&](detail::ExactItems& items) {
      items.mark(digests, until, now);
      return digests.size();
    });
    if (!marked) return std::move(marked).error();
    return {};
  }
  /// Two round trips more a record.
  void keep_last(std::size_t items) noexcept { keep_last_ = items; }

 protected:
  [[nodiscard]] bool keeps() const noexcept { return keep_last_ != 0; }  ///< whether a record keeps anything
  /// Keeps what was recorded at these times, or now where there are none.
  Result<void> keep(const User& user, std::span<const Digest> digests, std::span<const Time> when) {
    if (!keeps()) return {};
    const Time now = store().policy().clock();
    auto kept = store().change_exact(user, [&](detail::ExactItems& items) {
      for (std::size_t i = 0; i < digests.size(); ++i) {
        items.keep(digests.subspan(i, 1), when.empty() ? now : when[i], keep_last_);
      }
      return digests.size();
    });
    if (!kept) return std::move(kept).error();
    return {};
  }

 private:
  [[nodiscard]] Store& store() noexcept { return static_cast<Store&>(*this); }

  std::size_t keep_last_ = 0;
};

}  // namespace seenby::redis
