#pragma once
// SPDX-License-Identifier: MIT
// Reads text line by line from a file or standard input, in bounded memory.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace seenby::tool {

/// The lines of a UTF-8 text. A byte-order mark and carriage returns before the line end are taken off. Holds one line
/// of at most `max_line_bytes` at a time, whatever the input. Not thread-safe.
class LineReader {
 public:
  static constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

  /// Opens a file, or standard input for "-". Throws InputError when it cannot be read.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Moves to the next line; false at the end. `line` is valid until the next call. Throws BadLine for a line that is
  /// too long or no UTF-8 text (the next call goes on behind it), InputError when reading fails.
  [[nodiscard]] bool next(std::string_view& line);

  /// Whether `next` gives a line, or the end, without waiting for input; waits for that at most so long, or until a
  /// signal comes.
  [[nodiscard]] bool ready(std::chrono::milliseconds wait);
  /// Whether `next` gives a line out of what was read already.
  [[nodiscard]] bool holds_line() const noexcept;
  /// Whether a line was begun whose end was not read yet.
  [[nodiscard]] bool in_line() const noexcept { return !ended_ && (begin_ != end_ || (!given_ && !carried_.empty())); }
  /// Whether the end was reached and all lines were given.
  [[nodiscard]] bool ended() const noexcept { return ended_ && begin_ == end_ && (given_ || carried_.empty()); }

  /// What messages call the file.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The current line's number, from 1; 0 before the first.
  [[nodiscard]] std::uint64_t line_number() const noexcept { return line_number_; }
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// The file's size; 0 where it has none (a pipe).
  [[nodiscard]] std::uint64_t bytes_total() const noexcept { return bytes_total_; }

 private:
  [[nodiscard]] bool fill();
  void carry(std::size_t count);
  [[nodiscard]] bool take_line(std::string_view& line);

  std::string name_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string carried_;  // the start of a line that spans two buffers
  bool given_ = true;    // what is carried was given out as a line
  bool ended_ = false;
  std::uint64_t line_number_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_total_ = 0;
};

}  // namespace seenby::tool
