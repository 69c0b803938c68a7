#pragma once
// SPDX-License-Identifier: MIT
// How users and items are written in another server's keys and arguments.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "seenby/hash.hpp"

SEENBY_DETAIL_BEGIN

/// Numbers as decimal text, strings and bytes as they are.
template <HashableItem T>
[[nodiscard]] std::string wire_text(const T& value) {
  if constexpr (StringItem<T>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (IntegerItem<T>) {
    return std::to_string(value);
  } else {
    const std::span<const std::byte> bytes = value;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT: bytes as characters
  }
}

SEENBY_DETAIL_END
