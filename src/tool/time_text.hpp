#pragma once
// SPDX-License-Identifier: MIT
// Points in time, read and written as text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace seenby::tool {

/// What a number in a log's time column counts.
enum class TimeUnit : std::uint8_t { seconds, milliseconds, microseconds, nanoseconds, date };

[[nodiscard]] constexpr std::string_view to_string(TimeUnit unit) noexcept {
  switch (unit) {
    case TimeUnit::seconds: return "seconds";
    case TimeUnit::milliseconds: return "milliseconds";
    case TimeUnit::microseconds: return "microseconds";
    case TimeUnit::nanoseconds: return "nanoseconds";
    case TimeUnit::date: return "a date (YYYYMMDD)";
  }
  return "unnamed";
}

/// Reads the times of one column as seconds since 1970: ISO 8601 ("2013-04-03T22:45:07Z", "2013-04-03 22:45:07",
/// "2013-04-03", with +hh:mm behind it; no zone means UTC), or numbers, the first of which shows by its size what they
/// all count: seconds, milliseconds, microseconds, nanoseconds, or dates like 20130403. Nothing outside 1970 to 9999.
class TimeColumn {
 public:
  /// The time, or nothing; `problem` then says why.
  [[nodiscard]] std::optional<std::int64_t> read(std::string_view text);
  /// What is wrong with a text that `read` refused: what was expected and what came.
  [[nodiscard]] std::string problem(std::string_view text) const;
  /// What the column's numbers count; nothing before the first of them.
  [[nodiscard]] std::optional<TimeUnit> unit() const noexcept { return unit_; }

 private:
  [[nodiscard]] std::optional<std::int64_t> read_number(std::string_view text);

  std::optional<TimeUnit> unit_;
};

/// Seconds since 1970, from 1970 to 9999, as ISO 8601: "2013-04-03T22:45:07Z".
[[nodiscard]] std::string as_time(std::int64_t seconds);

}  // namespace seenby::tool
