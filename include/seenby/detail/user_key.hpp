#pragma once
// SPDX-License-Identifier: MIT
// UserKey: what the library's own tables know a user by: a number, or 128 bits of hash instead of a string.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// Integers stand for themselves. Strings are known by XXH3's 128 bits: two of 10^9 users collide with a probability
/// below 10^-20, and no name is kept in memory.
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

template <HashableItem User>
[[nodiscard]] inline UserKey user_key(const User& user) noexcept {
  if constexpr (IntegerItem<User>) {
    return {as_uint64(user), 0};
  } else if constexpr (StringItem<User>) {
    const std::string_view text = user;
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return {hash.low64, hash.high64};
  } else {
    const std::span<const std::byte> bytes = user;
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {hash.low64, hash.high64};
  }
}

SEENBY_DETAIL_END
