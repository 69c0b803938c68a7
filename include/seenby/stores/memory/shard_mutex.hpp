#pragma once
// SPDX-License-Identifier: MIT
// ShardMutex: a mutex that a long write can leave to those who wait for it.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// A std::mutex that knows whether anybody waits. Whoever unlocks a std::mutex and locks it again at once mostly gets
/// it before a waiter has woken up; `give_way` in between lets one of them go first.
class ShardMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    turns_.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  /// Without the lock: returns once one of those who wait has got it, or none does; or after many tries.
  void give_way() const noexcept {
    constexpr int tries = 2'000;
    const std::uint32_t turns = turns_.load(std::memory_order_relaxed);
    for (int i = 0; i < tries && waiting_.load(std::memory_order_relaxed) != 0; ++i) {
      if (turns_.load(std::memory_order_relaxed) != turns) return;
      std::this_thread::yield();
    }
  }

 private:
  std::mutex mutex_;
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::uint32_t> turns_{0};
};

SEENBY_DETAIL_END
