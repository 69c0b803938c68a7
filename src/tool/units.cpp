// SPDX-License-Identifier: MIT
// Parsers and printers of quantities.

#include "units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "input_error.hpp"

namespace seenby::tool {
namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view expected, std::string_view came) {
  throw InputError(std::string(option).append(": expected ").append(expected).append(", got ").append(in_quotes(came)));
}

/// The whole text as a number, or nothing.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <std::size_t N>
std::string printed(const char (&format)[N], double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value, unit);
  return text.data();
}

/// Three digits and the largest of the units that leaves at least one before the point.
template <std::size_t N>
std::string in_units(double value, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (unit + 1 < N && value >= 999.5) {
    value /= 1000;
    ++unit;
  }
  if (value >= 99.95 || (unit == 0 && value == std::floor(value))) return printed("%.0f%s", value, units[unit]);
  return value >= 9.995 ? printed("%.1f%s", value, units[unit]) : printed("%.2f%s", value, units[unit]);
}

}  // namespace

std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t at_least) {
  constexpr std::uint64_t most = 9'000'000'000'000'000'000U;  // what still fits where a total is signed
  const std::string expected =
      "a whole number from " + std::to_string(at_least) + " to 9000000000G (such as 2000, 10K or 100M)";
  std::string_view digits = text;
  double scale = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k':
      case 'K': scale = 1e3; break;
      case 'm':
      case 'M': scale = 1e6; break;
      case 'g':
      case 'G':
      case 'b':
      case 'B': scale = 1e9; break;
      default: break;
    }
    if (scale > 1) digits.remove_suffix(1);
  }
  std::uint64_t whole = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (scale == 1 && error == std::errc{} && end == digits.data() + digits.size()) {
    if (whole < at_least || whole > most) refuse(option, expected, text);
    return whole;
  }
  const auto value = number_of(digits);
  const double scaled = value.value_or(-1) * scale;
  if (!value || !(scaled >= static_cast<double>(at_least)) || scaled > static_cast<double>(most) ||
      scaled != std::round(scaled)) {
    refuse(option, expected, text);
  }
  return static_cast<std::uint64_t>(scaled);
}

std::uint64_t parse_between(std::string_view option, std::string_view text, std::uint64_t most) {
  const std::uint64_t value = parse_count(option, text);
  if (value > most) refuse(option, "1 to " + std::to_string(most), text);
  return value;
}

double parse_rate(std::string_view option, std::string_view text) {
  std::string_view digits = text;
  const bool percent = !digits.empty() && digits.back() == '%';
  if (percent) digits.remove_suffix(1);
  double rate = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rate);
  if (percent) rate /= 100;
  if (error != std::errc{} || end != digits.data() + digits.size() || !(rate > 0 && rate < 1)) {
    refuse(option, "a rate above 0 and below 1 (such as 0.01 or 1%)", text);
  }
  return rate;
}

std::chrono::seconds parse_duration(std::string_view option, std::string_view text) {
  constexpr std::string_view expected = "a duration of whole seconds (such as 30d, 12h, 15m or 90s), at most 100 years";
  constexpr std::int64_t longest = std::int64_t{100} * 366 * 86400;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const std::int64_t seconds = unit == "w"   ? 7 * 86400
                               : unit == "d" ? 86400
                               : unit == "h" ? 3600
                               : unit == "m" ? 60
                               : unit == "s" ? 1
                                             : 0;
  if (error != std::errc{} || seconds == 0 || value <= 0 || value > longest / seconds) refuse(option, expected, text);
  return std::chrono::seconds(value * seconds);
}

std::string with_commas(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string as_bytes(double bytes) {
  return in_units(bytes, std::array{" B", " KB", " MB", " GB", " TB", " PB", " EB"});
}

std::string as_percent(double rate) {
  const double percent = rate * 100;
  if (percent == 0) return "0%";
  if (percent >= 9.995) return printed("%.1f%s", percent, "%");
  return percent >= 0.1 ? printed("%.2f%s", percent, "%") : printed("%.2g%s", percent, "%");
}

std::string as_short(double value) { return in_units(value, std::array{"", " K", " M", " G", " T"}); }

std::string as_duration(std::chrono::seconds duration) {
  const std::int64_t count = duration.count();
  for (const auto& [seconds, unit] : {std::pair<std::int64_t, const char*>{86400, "d"}, {3600, "h"}, {60, "m"}}) {
    if (count % seconds == 0) return std::to_string(count / seconds).append(unit);
  }
  return std::to_string(count).append("s");
}

}  // namespace seenby::tool
