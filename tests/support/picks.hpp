#pragma once
// SPDX-License-Identifier: MIT
// Two users, items by number, and the items that a page shows.

#include <cstdint>
#include <numeric>
#include <vector>

#include "seenby/select/selection.hpp"

namespace seenby::test {

inline constexpr std::uint64_t alice = 1;
inline constexpr std::uint64_t bob = 2;

using Ids = std::vector<std::uint64_t>;

/// from, from + 1, ..., to - 1.
inline Ids range(std::uint64_t from, std::uint64_t to) {
  Ids ids(to - from);
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

/// The items of a page.
inline Ids picked(const Selection<std::uint64_t>& page) {
  Ids ids;
  for (const auto& pick : page) ids.push_back(pick.item);
  return ids;
}
/// As by the picks' indices, where all are of this pool.
template <class Pool>
Ids picked(const Pool& pool, const Selection<std::uint64_t>& page) {
  Ids ids;
  for (const auto& pick : page) ids.push_back(pool[pick.index]);
  return ids;
}

}  // namespace seenby::test
