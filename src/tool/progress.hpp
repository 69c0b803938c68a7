#pragma once
// SPDX-License-Identifier: MIT
// A progress bar on a terminal; nothing anywhere else.

#include <chrono>
#include <cstdint>
#include <string>

namespace seenby::tool {

/// Drawn on standard error when that is a terminal, at most ten times a second, and wiped when it goes out of scope.
class Progress {
 public:
  Progress(std::string label, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done);
  /// Whether one would be drawn: where not, a total that costs a read need not be counted.
  [[nodiscard]] static bool is_shown() noexcept;

 private:
  std::string label_;
  std::uint64_t total_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace seenby::tool
