#pragma once
// SPDX-License-Identifier: MIT
// The fields of one line of a log.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace seenby::tool {

/// Splits lines into fields. Spaces around a field do not count; where tabs do not separate, a field may be in double
/// quotes (RFC 4180), and spaces inside them do count.
class LogFields {
 public:
  /// Splits; returns what is wrong with the line's quotes, or nothing. The fields are valid until the next call, and as
  /// long as the line.
  [[nodiscard]] std::string_view split(std::string_view line, char delimiter);

  [[nodiscard]] std::size_t size() const noexcept { return views_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const { return views_[i]; }
  [[nodiscard]] auto begin() const noexcept { return views_.begin(); }
  [[nodiscard]] auto end() const noexcept { return views_.end(); }

 private:
  [[nodiscard]] bool take_quoted(std::string_view line, std::size_t& at);

  std::vector<std::string_view> views_;
  std::string storage_;  // of unquoted fields
};

/// Without the spaces around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

}  // namespace seenby::tool
