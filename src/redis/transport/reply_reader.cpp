// SPDX-License-Identifier: MIT
// The parser of RESP2.

#include "redis/transport/reply_reader.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "redis/transport/large_strings.hpp"

namespace seenby::redis {
namespace {

constexpr std::string_view line_end = "\r\n";
/// How much of a string is made room for before its bytes come, and of an array before its elements do.
constexpr std::size_t first_room = std::size_t{256} << 10;
constexpr std::size_t first_elements = 64;

Error corrupt(std::string_view what) { return {ErrorCode::corrupt, std::string(what)}; }

Error not_resp(std::string_view expected, std::string_view line) {
  std::string what = "parsing: expected ";
  return corrupt(what.append(expected).append(", got \"").append(line.substr(0, 32)).append("\""));
}

}  // namespace

void ReplyReader::start(std::span<const std::size_t> limits) {
  replies_.assign(limits.size(), Reply());
  limits_ = limits;
  complete_ = spent_ = 0;
  open_.clear();
  line_.clear();
  string_bytes_ = string_filled_ = 0;
}

std::span<char> ReplyReader::room() noexcept {
  if (string_bytes_ == 0) return {};
  return std::span(string_).subspan(string_filled_);
}

Result<void> ReplyReader::filled(std::size_t bytes) {
  string_filled_ += bytes;
  if (string_bytes_ == 0 || string_filled_ < string_.size()) return {};
  if (string_.size() < string_bytes_) {
    string_.resize(std::min(string_bytes_, 2 * string_.size()));
    return {};
  }
  if (!string_.ends_with(line_end)) return corrupt("expected the end of a line after a string");
  string_.resize(string_bytes_ - line_end.size());
  string_bytes_ = 0;
  return put(Reply(std::exchange(string_, {})));
}

Result<void> ReplyReader::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    // It would answer the next request's first command.
    if (done()) return corrupt("more came than was asked for");
    if (string_bytes_ != 0) {
      const std::size_t taken = bytes.copy(room().data(), room().size());
      bytes.remove_prefix(taken);
      if (auto whole = filled(taken); !whole) return whole;
      continue;
    }
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(piece.size());
    if (line_.size() + piece.size() > longest_line)
      return corrupt("expected a line of at most 64 KiB, got a longer one");
    if (line_.empty() && end != std::string_view::npos) {
      if (auto taken = take_line(piece); !taken) return taken;
      continue;
    }
    line_.append(piece);
    if (end == std::string_view::npos) return {};
    if (auto taken = take_line(std::exchange(line_, {})); !taken) return taken;
  }
  return {};
}

Result<void> ReplyReader::take_line(std::string_view line) {
  if (!line.ends_with(line_end)) return not_resp("\\r\\n at the end of a line", line);
  line.remove_suffix(line_end.size());
  if (line.empty()) return not_resp("a reply", line);
  const char kind = line.front();
  const std::string_view rest = line.substr(1);
  if (kind != '-' || !open_.empty()) {
    if (auto fits = spend(line.size()); !fits) return fits;
  }
  if (kind == '+') return put(Reply(std::string(rest)));
  if (kind == '-') return put(Reply(Error{classify_error(rest), std::string(rest)}));
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (failure != std::errc{} || end != rest.data() + rest.size()) return not_resp("a reply of RESP2", line);
  if (kind == ':') return put(Reply(number));
  if (kind != '$' && kind != '*') return not_resp("a reply of RESP2", line);
  if (number == -1) return put(Reply());
  if (number < 0) return not_resp("a length", line);
  const auto size = static_cast<std::size_t>(number);
  return kind == '$' ? open_string(size) : open_array(size);
}

Result<void> ReplyReader::open_string(std::size_t size) {
  if (auto fits = spend(size); !fits) return fits;
  string_bytes_ = size + line_end.size();
  string_filled_ = 0;
  string_ = take_string(std::min(string_bytes_, first_room));
  return {};
}

Result<void> ReplyReader::open_array(std::size_t count) {
  // An element has three bytes at the least.
  if (count > (limits_[complete_] - spent_) / 3) return spend(limits_[complete_]);
  if (count != 0 && open_.size() == deepest_array) return corrupt("parsing: expected arrays at most 8 deep");
  Reply& made = place(Reply(Reply::Array{}));
  made.array()->reserve(std::min(count, first_elements));
  if (count != 0) open_.push_back({made.array(), count});
  close_arrays();
  return {};
}

Result<void> ReplyReader::spend(std::size_t bytes) {
  const std::size_t limit = limits_[complete_];
  if (bytes <= limit - spent_) {
    spent_ += bytes;
    return {};
  }
  std::string what = "expected a reply of at most ";
  return corrupt(what.append(std::to_string(limit)).append(" bytes, got a longer one"));
}

Reply& ReplyReader::place(Reply reply) {
  if (open_.empty()) return replies_[complete_] = std::move(reply);
  --open_.back().left;
  return open_.back().array->emplace_back(std::move(reply));
}

Result<void> ReplyReader::put(Reply reply) {
  place(std::move(reply));
  close_arrays();
  return {};
}

void ReplyReader::close_arrays() {
  while (!open_.empty() && open_.back().left == 0) open_.pop_back();
  if (!open_.empty()) return;
  ++complete_;
  spent_ = 0;
}

}  // namespace seenby::redis
