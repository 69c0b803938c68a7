#pragma once
// SPDX-License-Identifier: MIT
// Stores whose users grow item by item, at times of their own.

#include <chrono>
#include <cstddef>
#include <memory>

#include "contender.hpp"
#include "seenby/clock.hpp"

namespace peers {

/// The present of all that ages, and how long it is remembered.
inline constexpr seenby::Time present{std::chrono::seconds{1'700'000'000}};
inline constexpr std::chrono::seconds remembered = std::chrono::hours{24 * 30};
/// When the i-th item of any user was seen: hour after hour, from a month ago, over and over.
[[nodiscard]] constexpr seenby::Time time_of(std::size_t i) noexcept {
  return present - remembered + std::chrono::hours{1 + i % (24 * 30 - 1)};
}

/// `history`: one that can be read again, so that full filters are built anew from it.
enum class Growth { alone, history, window };

class GrownStore : public Store {
 public:
  using Store::record;
  virtual void reserve(std::size_t users) = 0;
  virtual void record(User user, Item item, seenby::Time when) = 0;
};

[[nodiscard]] std::unique_ptr<GrownStore> make_seenby_grown(Growth growth);
/// boost::unordered_flat_map of an item and its time for each user: exact.
[[nodiscard]] std::unique_ptr<GrownStore> make_boost_grown();

}  // namespace peers
