#pragma once
// SPDX-License-Identifier: MIT
// What the commands print for people: labelled values, and distributions over users.

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace seenby::tool {

/// Labels and values in two columns, under headings.
class Report {
 public:
  void heading(std::string text) { rows_.emplace_back(std::move(text), std::string()); }
  void row(std::string label, std::string value) { rows_.emplace_back(std::move(label), std::move(value)); }
  friend std::ostream& operator<<(std::ostream& out, const Report& report);

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

/// A quantity over users. Percentiles are nearest-rank: values that really occur.
struct Distribution {
  std::uint64_t median = 0;
  std::uint64_t p90 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;
  std::uint64_t total = 0;
  double mean = 0;
};

/// All zero for no values.
[[nodiscard]] Distribution distribution_of(std::vector<std::uint64_t> values);

}  // namespace seenby::tool
