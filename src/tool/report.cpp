// SPDX-License-Identifier: MIT
// Prints reports and sums up distributions.

#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace seenby::tool {

std::ostream& operator<<(std::ostream& out, const Report& report) {
  std::size_t width = 0;
  for (const auto& [label, value] : report.rows_) width = std::max(width, value.empty() ? 0 : label.size());
  bool first = true;
  for (const auto& [label, value] : report.rows_) {
    if (value.empty()) {
      out << (first ? "" : "\n") << label << '\n';
    } else {
      out << "  " << label << std::string(width - label.size() + 2, ' ') << value << '\n';
    }
    first = false;
  }
  return out;
}

Distribution distribution_of(std::vector<std::uint64_t> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double quantile) {
    const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  Distribution result{.median = at(0.5), .p90 = at(0.9), .p99 = at(0.99), .max = values.back()};
  result.total = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
  result.mean = static_cast<double>(result.total) / static_cast<double>(values.size());
  return result;
}

}  // namespace seenby::tool
