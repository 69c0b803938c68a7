#pragma once
// SPDX-License-Identifier: MIT
// Counts, rates, durations and bytes as people write them.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace seenby::tool {

/// A whole count, at most 9 * 10^18: 2000, 100K, 2.5M, 1G or 1B (a billion). Throws InputError that names the option.
[[nodiscard]] std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t at_least = 1);
/// As parse_count, between 1 and `most`.
[[nodiscard]] std::uint64_t parse_between(std::string_view option, std::string_view text, std::uint64_t most);
/// A rate between 0 and 1, both excluded: 0.01 or 1%. Throws InputError that names the option.
[[nodiscard]] double parse_rate(std::string_view option, std::string_view text);
/// A positive duration: 90s, 15m, 12h, 30d, 2w. Throws InputError that names the option.
[[nodiscard]] std::chrono::seconds parse_duration(std::string_view option, std::string_view text);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string with_commas(std::uint64_t value);
/// Bytes in three digits: "16 B", "2.40 KB", "240 GB", "1.60 TB" (powers of 1,000).
[[nodiscard]] std::string as_bytes(double bytes);
/// A rate in percent: "0.96%".
[[nodiscard]] std::string as_percent(double rate);
/// A large number in three digits: "8.53 M".
[[nodiscard]] std::string as_short(double value);
/// "30d", "12h", "90s": the largest unit that says it in whole numbers.
[[nodiscard]] std::string as_duration(std::chrono::seconds duration);

}  // namespace seenby::tool
