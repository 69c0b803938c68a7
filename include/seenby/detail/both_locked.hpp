#pragma once
// SPDX-License-Identifier: MIT
// BothLocked: two mutexes at once, which may be one.

#include <mutex>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// Holds two mutexes without a deadlock, whatever the order of others that do; one that is given twice it locks once.
template <class Mutex>
class BothLocked {
 public:
  BothLocked(Mutex& a, Mutex& b) : first_(a, std::defer_lock), second_(b, std::defer_lock) {
    if (&a == &b) {
      first_.lock();
    } else {
      std::lock(first_, second_);
    }
  }

 private:
  std::unique_lock<Mutex> first_;
  std::unique_lock<Mutex> second_;
};

SEENBY_DETAIL_END
