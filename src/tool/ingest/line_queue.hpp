#pragma once
// SPDX-License-Identifier: MIT
// LineQueue: lines of text as an Ingestor's queue.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "line_reader.hpp"
#include "seenby/ingest/queue.hpp"

namespace seenby::tool {

/// Where lines go that are no events: one line of JSON each in a file, or one for people on standard error.
class DeadLetters {
 public:
  /// Appends to the file; standard error where `path` is empty. Throws InputError when it cannot be written.
  explicit DeadLetters(const std::string& path);

  /// Errors: io.
  Result<void> write(std::uint64_t line, std::string_view event, std::string_view why);
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::uint64_t count_ = 0;
};

/// The lines of a file or of standard input, each handed out once; what died unacknowledged comes with the next run
/// over the same input. Once a stop signal came it hands out the whole lines that were read already, and no more. An
/// EventQueue; for one thread.
class LineQueue {
 public:
  using message_type = std::string;
  using receipt_type = std::uint64_t;  ///< the line's number
  using Delivered = Delivery<message_type, receipt_type>;

  /// Both must outlive it.
  LineQueue(LineReader& lines, DeadLetters& dead_letters) : lines_(lines), dead_letters_(dead_letters) {}

  /// Blank lines are passed over; one that is no text, or too long, is a dead letter at once.
  Result<std::vector<Delivered>> read(std::size_t most, std::chrono::milliseconds wait);
  Result<void> acknowledge(std::span<const receipt_type>) { return {}; }
  Result<void> bury(const Delivered& delivery, const Error& why);

  /// Whether nothing is to come any more.
  [[nodiscard]] bool ended() const;

 private:
  LineReader& lines_;
  DeadLetters& dead_letters_;
};

}  // namespace seenby::tool
