// SPDX-License-Identifier: MIT
// The distance between words.

#include "suggestion.hpp"

#include <algorithm>
#include <cstddef>

namespace seenby::tool {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cells((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return cells[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return cells.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& choices) {
  constexpr std::size_t longest = 64;  // no choice is as long
  if (word.size() > longest) return {};
  std::string best;
  std::size_t best_distance = word.size() / 3 + 1;
  for (const std::string& choice : choices) {
    if (const std::size_t far = distance(word, choice); far < best_distance) {
      best = choice;
      best_distance = far;
    }
  }
  return best;
}

}  // namespace seenby::tool
