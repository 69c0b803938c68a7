// SPDX-License-Identifier: MIT
// The parser and the printer of points in time.

#include "time_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "input_error.hpp"
#include "log_fields.hpp"

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

/// A number without a sign, whole or with digits behind a point, which are dropped.
std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || text.front() == '-') return std::nullopt;
  Cursor rest(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!rest.fraction() || !rest.done()) return std::nullopt;
  return number;
}

std::chrono::year_month_day date_of(int year, int month, int day) {
  return {std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
          std::chrono::day(static_cast<unsigned>(day))};
}

/// Midnight of a date like 20130403 between 1990 and 2100.
std::optional<std::int64_t> parse_date(std::int64_t number) {
  if (number < 1990'01'01 || number > 2100'12'31) return std::nullopt;
  const auto digits = static_cast<int>(number);
  const auto date = date_of(digits / 10000, digits / 100 % 100, digits % 100);
  if (!date.ok()) return std::nullopt;
  return std::int64_t{std::chrono::sys_days(date).time_since_epoch().count()} * 86400;
}

/// How many of a unit make a second; 1 for dates, which count nothing.
constexpr std::int64_t per_second(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::milliseconds: return 1'000;
    case TimeUnit::microseconds: return 1'000'000;
    case TimeUnit::nanoseconds: return 1'000'000'000;
    default: return 1;
  }
}

/// What a number counts by its size: in each unit the years 1990 to 9999 begin above where those of the unit before
/// end.
TimeUnit unit_of(std::int64_t number) {
  if (parse_date(number)) return TimeUnit::date;
  for (const TimeUnit unit : {TimeUnit::seconds, TimeUnit::milliseconds, TimeUnit::microseconds}) {
    if (number / per_second(unit) <= end_of_9999) return unit;
  }
  return TimeUnit::nanoseconds;
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
  const auto date = date_of(year, month, day);
  if (!zone || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * 86400 + hour * 3600 + minute * 60 + second - *zone;
}

}  // namespace

std::optional<std::int64_t> TimeColumn::read(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  const bool iso = text.size() >= 10 && text[4] == '-';
  const auto time = iso ? parse_iso(text) : read_number(text);
  return time && *time >= 0 && *time <= end_of_9999 ? time : std::nullopt;
}

std::optional<std::int64_t> TimeColumn::read_number(std::string_view text) {
  const auto number = parse_number(text);
  if (!number) return std::nullopt;
  const TimeUnit unit = unit_of(*number);
  if (!unit_) unit_ = unit;
  if (unit_ == TimeUnit::date) return parse_date(*number);
  // Among seconds an eight-digit number is a second of 1970 like its neighbours.
  if (unit != *unit_ && !(unit == TimeUnit::date && unit_ == TimeUnit::seconds)) return std::nullopt;
  return *number / per_second(*unit_);
}

std::string TimeColumn::problem(std::string_view text) const {
  std::string result = "expected a time (";
  const auto number = unit_ ? parse_number(trimmed(text)) : std::nullopt;
  if (number) {
    result.append(to_string(*unit_)).append(" like the lines before), got ");
    if (const TimeUnit unit = unit_of(*number); unit != *unit_) result.append(to_string(unit)).append(" ");
  } else {
    result.append("Unix seconds or milliseconds, 2013-04-03, 20130403 or ISO 8601, up to year 9999), got ");
  }
  return result.append(in_quotes(text));
}

std::string as_time(std::int64_t seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto of_day = static_cast<int>((time - day).count());
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), of_day / 3600, of_day / 60 % 60,
                of_day % 60);
  return text.data();
}

}  // namespace seenby::tool
