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
  /// `total` 0 is one that is not known: a count is drawn, no bar.
  explicit Progress(std::string label, std::uint64_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done);

 private:
  std::string label_;
  std::uint64_t total_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace seenby::tool
