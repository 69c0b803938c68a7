// SPDX-License-Identifier: MIT
// Splits lines at separators and takes quotes off.

#include "log_fields.hpp"

#include <algorithm>

namespace seenby::tool {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string_view LogFields::split(std::string_view line, char delimiter) {
  views_.clear();
  storage_.clear();
  storage_.reserve(line.size());  // views into it stay valid: unquoting only shortens
  const auto skip_spaces = [&](std::size_t at) { return std::min(line.find_first_not_of(' ', at), line.size()); };
  std::size_t at = 0;
  while (true) {
    at = skip_spaces(at);
    if (delimiter != '\t' && at < line.size() && line[at] == '"') {
      if (!take_quoted(line, at)) return "expected a closing quote on the same line, got none";
      at = skip_spaces(at);
      if (at < line.size() && line[at] != delimiter) return "expected a separator behind a closing quote, got text";
    } else {
      const std::size_t end = std::min(line.find(delimiter, at), line.size());
      views_.push_back(trimmed(line.substr(at, end - at)));
      at = end;
    }
    if (at >= line.size()) return {};
    ++at;
  }
}

bool LogFields::take_quoted(std::string_view line, std::size_t& at) {
  const std::size_t start = storage_.size();
  ++at;
  while (true) {
    const std::size_t quote = line.find('"', at);
    if (quote == std::string_view::npos) return false;
    storage_.append(line.substr(at, quote - at));
    at = quote + 1;
    if (at >= line.size() || line[at] != '"') break;
    storage_.push_back('"');
    ++at;
  }
  views_.push_back(std::string_view(storage_).substr(start));
  return true;
}

}  // namespace seenby::tool
