#pragma once
// SPDX-License-Identifier: MIT
// Which word was probably meant.

#include <string>
#include <string_view>
#include <vector>

namespace seenby::tool {

/// The choice nearest to a word by optimal string alignment (letters added, lost, replaced, or swapped with their
/// neighbour), or nothing when more than a third of its letters differ. O(choices * letters^2).
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& choices);

}  // namespace seenby::tool
