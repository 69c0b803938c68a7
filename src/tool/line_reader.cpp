// SPDX-License-Identifier: MIT
// Lines out of a file descriptor, checked to be text.

#include "line_reader.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "input_error.hpp"

namespace seenby::tool {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 16;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

[[noreturn]] void refuse_file(std::string_view name, std::string_view came) {
  throw InputError(std::string(name).append(": expected a readable file, got: ").append(came));
}

/// What a file's first bytes say it is packed with, and the program that unpacks it.
struct Packing {
  std::string_view magic;
  std::string_view name;
  std::string_view unpacker;
};
constexpr std::array<Packing, 5> packings{{{"\x1F\x8B", "gzip", "zcat"},
                                           {"\x28\xB5\x2F\xFD", "zstd", "zstdcat"},
                                           {"\xFD"
                                            "7zXZ",
                                            "xz", "xzcat"},
                                           {"BZh", "bzip2", "bzcat"},
                                           {"PK\x03\x04", "zip", "unzip -p"}}};

void refuse_packed(std::string_view name, std::string_view start) {
  for (const Packing& packing : packings) {
    if (start.substr(0, packing.magic.size()) != packing.magic) continue;
    throw InputError(std::string(name)
                         .append(": expected text, got ")
                         .append(packing.name)
                         .append(" data; ")
                         .append(packing.unpacker)
                         .append(" FILE | seenby COMMAND - reads it"));
  }
}

/// The length of the UTF-8 sequence at `at`, or 0 when there is none (RFC 3629: no overlong forms, no surrogates,
/// nothing past U+10FFFF).
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : '\0'); };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(at);
  const unsigned second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !follows(at + 1)) return 0;
  if (first < 0xE0) return 2;
  if (!follows(at + 2)) return 0;
  if (first < 0xF0) return (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ? 0 : 3;
  if (!follows(at + 3)) return 0;
  return (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F) ? 0 : 4;
}

/// What keeps a line from being UTF-8 text; empty when nothing does.
std::string text_problem(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size()) {
    const auto byte = static_cast<unsigned char>(line[at]);
    const std::size_t length = byte == 0 ? 0 : sequence_length(line, at);
    if (length == 0) {
      std::array<char, 64> problem{};
      std::snprintf(problem.data(), problem.size(), "expected UTF-8 text, got byte 0x%02X at byte %zu", byte, at + 1);
      return problem.data();
    }
    at += length;
  }
  return {};
}

}  // namespace

LineReader::LineReader(const std::string& path) : name_(path == "-" ? "<stdin>" : path), buffer_(buffer_bytes) {
  descriptor_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse_file(name_, std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
      refuse_file(name_, "a directory");
    }
    if (S_ISREG(status.st_mode)) bytes_total_ = static_cast<std::uint64_t>(status.st_size);
  }
}

LineReader::~LineReader() {
  if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

/// Reads on behind a buffer that is used up.
bool LineReader::fill() {
  ssize_t count = 0;
  do { count = ::read(descriptor_, buffer_.data(), buffer_.size()); } while (count < 0 && errno == EINTR);
  if (count < 0) refuse_file(name_, std::strerror(errno));
  begin_ = 0;
  end_ = static_cast<std::size_t>(count);
  ended_ = count == 0;
  if (bytes_read_ == 0) refuse_packed(name_, {buffer_.data(), end_});
  bytes_read_ += end_;
  return end_ > 0;
}

/// Keeps the next bytes as part of a line: max_line_bytes + 1 in all, since one too many tells that the line is too
/// long.
void LineReader::carry(std::size_t count) {
  if (given_) carried_.clear();
  given_ = false;
  carried_.append(buffer_.data() + begin_, std::min(count, max_line_bytes + 1 - carried_.size()));
  begin_ += count;
}

bool LineReader::holds_line() const noexcept {
  return std::memchr(buffer_.data() + begin_, '\n', end_ - begin_) != nullptr;
}

bool LineReader::ready(std::chrono::milliseconds wait) {
  const auto until = std::chrono::steady_clock::now() + wait;
  while (!ended_ && !holds_line()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) <= 0) return false;
    if (begin_ != end_) carry(end_ - begin_);
    static_cast<void>(fill());
  }
  return true;
}

/// Takes the bytes up to the next line end, or up to the end; false where there are none.
bool LineReader::take_line(std::string_view& line) {
  if (given_) carried_.clear();
  while (true) {
    const char* start = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', end_ - begin_));
    const std::size_t size = newline != nullptr ? static_cast<std::size_t>(newline - start) : end_ - begin_;
    if (newline != nullptr && carried_.empty()) {
      line = {start, size};
      begin_ += size + 1;
      return true;
    }
    carry(size);
    if (newline != nullptr) ++begin_;
    if (newline != nullptr || ended_ || !fill()) break;
  }
  given_ = true;
  line = carried_;
  return !line.empty();
}

bool LineReader::next(std::string_view& line) {
  if (!take_line(line)) return false;
  ++line_number_;
  if (line.size() > max_line_bytes) {
    throw BadLine(name_, line_number_,
                  "expected a line of at most " + std::to_string(max_line_bytes) + " bytes, got a longer one");
  }
  if (line_number_ == 1 && line.substr(0, byte_order_mark.size()) == byte_order_mark) {
    line.remove_prefix(byte_order_mark.size());
  }
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (const std::string problem = text_problem(line); !problem.empty()) throw BadLine(name_, line_number_, problem);
  return true;
}

}  // namespace seenby::tool
