// SPDX-License-Identifier: MIT
// Makes messages fit for one line.

#include "input_error.hpp"

#include <cstddef>

namespace seenby::tool {

std::string_view without_prefix(std::string_view message) {
  for (const std::string_view prefix : {"seenby: ", "seenby::ingest: ", "seenby::redis: ", "seenby::sqlite: ",
                                        "seenby::postgres: ", "seenby::lmdb: "}) {
    if (message.substr(0, prefix.size()) == prefix) return message.substr(prefix.size());
  }
  return message;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::size_t length = text.size();
  if (length > longest) {
    length = longest;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  }
  std::string result = "'";
  for (const char c : text.substr(0, length)) {
    const auto byte = static_cast<unsigned char>(c);
    result.push_back(byte < 0x20 || byte == 0x7F ? '?' : c);
  }
  return result.append(length < text.size() ? "...'" : "'");
}

}  // namespace seenby::tool
