#pragma once
// SPDX-License-Identifier: MIT
// What a log's items are: integers and text have different digests.

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "seenby/hash.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace seenby::tool {

/// The value of a text that is an integer as programs print it, 0 to 2^64 - 1: digits without a leading zero.
[[nodiscard]] inline std::optional<std::uint64_t> canonical_integer(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && error == std::errc{} && end == text.data() + text.size();
  return whole && (text.front() != '0' || text.size() == 1) ? std::optional(value) : std::nullopt;
}

/// Adds --items to a command.
void add_items_option(CLI::App& command, std::string& items);

[[noreturn]] void refuse_item(std::string_view item);

/// What --items says, or, where it says nothing, what all items look like: integers when each is a canonical one.
/// Throws InputError when they are to be integers and one is not. `names` is called with a number below `count`.
template <class NameOf>
[[nodiscard]] ItemKind kind_of_items(const std::string& option, std::uint64_t count, const NameOf& names) {
  if (option == "text") return ItemKind::text;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (canonical_integer(names(i))) continue;
    if (option.empty()) return ItemKind::text;
    refuse_item(names(i));
  }
  return ItemKind::integer;
}

}  // namespace seenby::tool
