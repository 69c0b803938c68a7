#pragma once
// SPDX-License-Identifier: MIT
// Reads text line by line from a file or standard input, in bounded memory.

#include <array>
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

  /// What messages call the file.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The current line's number, from 1; 0 before the first.
  [[nodiscard]] std::uint64_t line_number() const noexcept { return line_number_; }
  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// The file's size; 0 where it has none (a pipe).
  [[nodiscard]] std::uint64_t bytes_total() const noexcept { return bytes_total_; }

 private:
  [[nodiscard]] bool fill();
  [[nodiscard]] bool take_line(std::string_view& line);

  std::string name_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string carried_;  // the start of a line that spans two buffers
  std::uint64_t line_number_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_total_ = 0;
};

}  // namespace seenby::tool
