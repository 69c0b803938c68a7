// SPDX-License-Identifier: MIT
// A few large strings a thread.

#include "redis/transport/large_strings.hpp"

#include <array>
#include <utility>

namespace seenby::redis {
namespace {

/// Enough for the values of one request; what a thread holds on to is bounded by both.
constexpr std::size_t most_strings = 8;
constexpr std::size_t largest_kept = std::size_t{512} << 10;

struct Kept {
  std::array<std::string, most_strings> strings;
  std::size_t count = 0;
};

Kept& kept() noexcept {
  thread_local Kept strings;
  return strings;
}

}  // namespace

std::string take_string(std::size_t size) {
  std::string text;
  if (Kept& own = kept(); size >= large_string_bytes && own.count > 0) text = std::move(own.strings[--own.count]);
  // Bytes that are there already are not written again.
  text.resize(size);
  return text;
}

void give_back(std::string&& text) noexcept {
  Kept& own = kept();
  if (text.size() < large_string_bytes || text.capacity() > largest_kept || own.count == most_strings) {
    text = std::string{};
    return;
  }
  own.strings[own.count++] = std::move(text);
}

}  // namespace seenby::redis
