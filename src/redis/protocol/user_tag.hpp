#pragma once
// SPDX-License-Identifier: MIT
// A user's name as a hash tag: braces would end or move it, and '%' is what escapes them.

#include <string>
#include <string_view>

namespace seenby::redis {

/// Whether the name is its own tag.
[[nodiscard]] inline bool is_plain_tag(std::string_view user) noexcept {
  return user.find_first_of("{}%") == std::string_view::npos;
}
[[nodiscard]] inline std::string escaped_tag(std::string_view user) {
  std::string out;
  for (const char c : user) {
    if (c == '{') {
      out.append("%7B");
    } else if (c == '}') {
      out.append("%7D");
    } else if (c == '%') {
      out.append("%25");
    } else {
      out.push_back(c);
    }
  }
  return out;
}
/// The name that was escaped.
[[nodiscard]] inline std::string unescaped_tag(std::string_view tag) {
  std::string out;
  for (std::size_t at = 0; at < tag.size(); ++at) {
    const std::string_view code = tag.substr(at, 3);
    const char c = code == "%7B" ? '{' : code == "%7D" ? '}' : '%';
    if (tag[at] != '%' || (c == '%' && code != "%25")) {
      out.push_back(tag[at]);
    } else {
      out.push_back(c);
      at += 2;
    }
  }
  return out;
}

}  // namespace seenby::redis
