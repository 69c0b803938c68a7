#pragma once
// SPDX-License-Identifier: MIT
// Points in time, written as text.

#include <cstdint>
#include <optional>
#include <string_view>

namespace seenby::tool {

/// Seconds since 1970 out of "1365029107", "1365029107.25" or ISO 8601 ("2013-04-03T22:45:07Z", "2013-04-03 22:45:07",
/// "2013-04-03", with +hh:mm behind it; no zone means UTC). Nothing outside 1970 to 9999 and nothing else.
[[nodiscard]] std::optional<std::int64_t> parse_time(std::string_view text);

}  // namespace seenby::tool
