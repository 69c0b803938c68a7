#pragma once
// SPDX-License-Identifier: MIT
// wait_until: waits for what another thread or process does, and ends all the same where it never happens.

#include <chrono>
#include <thread>

namespace seenby::test {

/// Whether condition() came true within the time. Never fails a test itself, so threads can be joined before one does.
template <class Condition>
[[nodiscard]] bool wait_until(Condition&& condition, std::chrono::milliseconds within = std::chrono::seconds{30}) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  for (int looks = 0; !condition(); ++looks) {
    if (std::chrono::steady_clock::now() >= deadline) return condition();
    // At once for what takes microseconds, then without a processor of its own.
    if (looks < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
  return true;
}

}  // namespace seenby::test
