// SPDX-License-Identifier: MIT
// Waits between two tries.

#include "ingest/patience.hpp"

#include <iostream>
#include <thread>

#include "input_error.hpp"
#include "stop_signal.hpp"

namespace seenby::tool {

void Patience::failed(const Error& error) {
  const auto now = std::chrono::steady_clock::now();
  if (!since_) {
    since_ = now;
    std::cerr << "seenby: " << without_prefix(error.message) << "; the batch is held and tried again\n";
  }
  if (stop_asked() && !give_up_) give_up_ = now + std::chrono::seconds{10};
  const auto end = now + backoff_.next();
  while (std::chrono::steady_clock::now() < end && !over()) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    if (stop_asked() && !give_up_) return;  // at once, one more time
  }
}

void Patience::succeeded() {
  if (!since_) return;
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - *since_);
  std::cerr << "seenby: it works again after " << took.count() << " s; goes on\n";
  since_.reset();
  backoff_.reset();
}

bool Patience::over() const { return give_up_ && std::chrono::steady_clock::now() >= *give_up_; }

}  // namespace seenby::tool
