// SPDX-License-Identifier: MIT
// Draws the progress bar.

#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <utility>

namespace seenby::tool {

Progress::Progress(std::string label, std::uint64_t total)
    : label_(std::move(label)), total_(std::max<std::uint64_t>(total, 1)), terminal_(is_shown()) {}

bool Progress::is_shown() noexcept { return ::isatty(STDERR_FILENO) != 0; }

Progress::~Progress() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
}

void Progress::update(std::uint64_t done) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  constexpr std::size_t width = 30;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  std::cerr << '\r' << label_ << " [" << std::string(filled, '#') << std::string(width - filled, '.') << "] "
            << static_cast<int>(share * 100) << "%\x1b[K" << std::flush;
  drawn_ = true;
}

}  // namespace seenby::tool
