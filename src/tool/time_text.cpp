// SPDX-License-Identifier: MIT
// The parser of points in time.

#include "time_text.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace seenby::tool {
namespace {

constexpr std::int64_t end_of_9999 = 253402300799;

/// Reads text from the left; every step tells whether it succeeded.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() const noexcept { return rest_.empty(); }
  [[nodiscard]] bool skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// Exactly `digits` digits.
  [[nodiscard]] bool number(std::size_t digits, int& value) {
    if (rest_.size() < digits) return false;
    value = 0;
    for (const char c : rest_.substr(0, digits)) {
      if (c < '0' || c > '9') return false;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(digits);
    return true;
  }
  /// A point and digits, which whole seconds do not need; true when there is none.
  [[nodiscard]] bool fraction() {
    if (!skip('.')) return true;
    const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    rest_.remove_prefix(digits);
    return digits > 0;
  }

 private:
  std::string_view rest_;
};

std::optional<std::int64_t> parse_seconds(std::string_view text) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || text.front() == '-') return std::nullopt;
  Cursor rest(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!rest.fraction() || !rest.done()) return std::nullopt;
  return seconds;
}

/// Z, +hh:mm, -hh:mm or nothing, as seconds east of Greenwich.
std::optional<int> parse_zone(Cursor& cursor) {
  if (cursor.done()) return 0;
  if (cursor.skip('Z') || cursor.skip('z')) return cursor.done() ? std::optional(0) : std::nullopt;
  const bool east = cursor.skip('+');
  if (!east && !cursor.skip('-')) return std::nullopt;
  int hours = 0;
  int minutes = 0;
  if (!cursor.number(2, hours)) return std::nullopt;
  if (!cursor.done()) {
    static_cast<void>(cursor.skip(':'));  // +0100 is as good as +01:00
    if (!cursor.number(2, minutes) || !cursor.done()) return std::nullopt;
  }
  if (hours > 23 || minutes > 59) return std::nullopt;
  return (east ? 1 : -1) * (hours * 3600 + minutes * 60);
}

std::optional<std::int64_t> parse_iso(std::string_view text) {
  Cursor cursor(text);
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (!cursor.number(4, year) || !cursor.skip('-') || !cursor.number(2, month) || !cursor.skip('-') ||
      !cursor.number(2, day)) {
    return std::nullopt;
  }
  std::optional<int> zone = 0;
  if (!cursor.done()) {
    if (!cursor.skip('T') && !cursor.skip('t') && !cursor.skip(' ')) return std::nullopt;
    if (!cursor.number(2, hour) || !cursor.skip(':') || !cursor.number(2, minute)) return std::nullopt;
    if (cursor.skip(':') && (!cursor.number(2, second) || !cursor.fraction())) return std::nullopt;
    zone = parse_zone(cursor);
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!zone || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * 86400 + hour * 3600 + minute * 60 + second - *zone;
}

}  // namespace

std::optional<std::int64_t> parse_time(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) return std::nullopt;
  const bool iso = text.size() >= 10 && text[4] == '-';
  const auto time = iso ? parse_iso(text) : parse_seconds(text);
  return time && *time >= 0 && *time <= end_of_9999 ? time : std::nullopt;
}

}  // namespace seenby::tool
