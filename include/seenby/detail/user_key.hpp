#pragma once
// SPDX-License-Identifier: MIT
// UserKey: what tables know a user by: a number, or 128 bits of hash instead of a string.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// An integer is its own key. A string's key is its 128-bit XXH3: two of 10^9 users collide with a probability below
/// 10^-20, and no name is kept in memory.
struct UserKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend constexpr bool operator==(const UserKey&, const UserKey&) noexcept = default;
};

struct UserKeyHash {
  [[nodiscard]] std::size_t operator()(const UserKey& key) const noexcept {
    return static_cast<std::size_t>(mix64(key.low ^ key.high));
  }
};

/// The key under a seed. Integers have the same under all.
template <HashableItem User>
[[nodiscard]] inline UserKey user_key(const User& user, std::uint64_t seed = 0) noexcept {
  if constexpr (IntegerItem<User>) {
    return {as_uint64(user), 0};
  } else {
    const auto key_of = [&](const void* data, std::size_t size) {
      const XXH128_hash_t hash = XXH3_128bits_withSeed(data, size, seed);
      return UserKey{hash.low64, hash.high64};
    };
    if constexpr (StringItem<User>) {
      const std::string_view text = user;
      return key_of(text.data(), text.size());
    } else {
      const std::span<const std::byte> bytes = user;
      return key_of(bytes.data(), bytes.size());
    }
  }
}

SEENBY_DETAIL_END
