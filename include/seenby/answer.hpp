#pragma once
// SPDX-License-Identifier: MIT
// Answer: what a filter says of one item.

#include <cstdint>
#include <string_view>

#include "seenby/config.hpp"

namespace seenby {

/// What a filter says of one item: of one user's filter, or of a gate's.
enum class Answer : std::uint8_t {
  unseen,   ///< certain
  seen,     ///< probable; certain where an exact set answers (hides, items in flight, the last items)
  unknown,  ///< no filter to ask: missing, evicted, unreachable, not trusted
};

/// The enumerator's name; "unnamed" for a value that is none.
[[nodiscard]] constexpr std::string_view to_string(Answer answer) noexcept {
  switch (answer) {
    case Answer::unseen: return "unseen";
    case Answer::seen: return "seen";
    case Answer::unknown: return "unknown";
  }
  return "unnamed";
}

}  // namespace seenby
