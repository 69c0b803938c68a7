#pragma once
// SPDX-License-Identifier: MIT
// key_of_text: users and items of any type, out of the text that an event names them by.

#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "seenby/hash.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

/// A user or an item out of an event's text. `what` names it in the error.
template <HashableItem Key>
[[nodiscard]] Result<Key> key_of_text(const std::string& text, std::string_view what) {
  if constexpr (IntegerItem<Key>) {
    // A number that the key's type does not hold must not name another key by its low bits.
    const bool negative = text.starts_with('-');
    std::uint64_t magnitude = 0;
    const char* last = text.data() + text.size();
    const auto [end, bad] = std::from_chars(text.data() + (negative ? 1 : 0), last, magnitude);
    const std::uint64_t value = negative ? 0 - magnitude : magnitude;
    const auto key = static_cast<Key>(value);
    const bool in_range = as_uint64(key) == value && (key < Key{}) == (negative && magnitude != 0);
    if (bad == std::errc{} && end == last && in_range) return key;
    return Error{ErrorCode::invalid_argument, std::string("seenby::ingest: expected an integer that names a ")
                                                  .append(what)
                                                  .append(", got \"")
                                                  .append(text.substr(0, 100))
                                                  .append("\"")};
  } else if constexpr (StringItem<Key>) {
    return Key(text);
  } else {
    const auto bytes = std::as_bytes(std::span(text));
    return Key(bytes.begin(), bytes.end());
  }
}

SEENBY_DETAIL_END
