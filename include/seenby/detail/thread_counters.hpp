#pragma once
// SPDX-License-Identifier: MIT
// Counters that cost a hot path no atomic read-modify-write: a cache line a thread, summed when read.

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// Which numbers threads have.
struct ThreadNumbers {
  static constexpr std::size_t count = 128;
  std::mutex mutex;
  std::array<bool, count> taken{};
  pthread_key_t key{};
  bool has_key = false;
};
inline constinit ThreadNumbers thread_numbers{};

/// Small numbers for threads, given back when a thread ends. A number is one thread's alone at any time, so its
/// counters need no atomic addition, only atomic loads and stores. Nothing here allocates: a thread's first request
/// must not fail where there is no memory left.
class ThreadSlots {
 public:
  static constexpr std::size_t own = ThreadNumbers::count;  // threads beyond share the last slot, with atomic additions

  [[nodiscard]] static std::size_t mine() noexcept {
    // A plain thread_local number first: it needs no guard, so that every call but a thread's first is one load.
    return slot_ != unset ? slot_ : take();
  }

 private:
  static constexpr std::size_t unset = static_cast<std::size_t>(-1);
  static inline constinit thread_local std::size_t slot_ = unset;

  [[gnu::noinline]] static std::size_t take() noexcept {
    const std::lock_guard lock(thread_numbers.mutex);
    if (!thread_numbers.has_key) thread_numbers.has_key = ::pthread_key_create(&thread_numbers.key, give_back) == 0;
    const auto free = std::find(thread_numbers.taken.begin(), thread_numbers.taken.end(), false);
    slot_ = own;
    if (!thread_numbers.has_key || free == thread_numbers.taken.end()) return slot_;
    // Called back with the entry when the thread ends. Where there is no room for it, the thread shares the last slot.
    if (::pthread_setspecific(thread_numbers.key, &*free) != 0) return slot_;
    *free = true;
    slot_ = static_cast<std::size_t>(free - thread_numbers.taken.begin());
    return slot_;
  }
  static void give_back(void* entry) noexcept {
    const std::lock_guard lock(thread_numbers.mutex);
    *static_cast<bool*>(entry) = false;
    slot_ = own;  // for whatever still runs in this thread
  }
};

/// `Count` counters. add() is a load and a store on a line of the thread's own; sum() reads all lines: exact once the
/// adding threads are done, a moment's view before.
template <std::size_t Count>
class ThreadCounters {
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, Count> values{};
  };

 public:
  ThreadCounters() : lines_(std::make_unique<Line[]>(line_count)) {}

  class Row {
   public:
    void add(std::size_t counter, std::uint64_t amount) noexcept {
      auto& value = line_->values[counter];
      if (shared_) {
        value.fetch_add(amount, std::memory_order_relaxed);
      } else {
        value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
      }
    }

   private:
    friend class ThreadCounters;
    Line* line_ = nullptr;
    bool shared_ = false;
  };

  /// The calling thread's row.
  [[nodiscard]] Row row() const noexcept {
    const std::size_t slot = ThreadSlots::mine();
    Row mine;
    mine.line_ = &lines_[slot];
    mine.shared_ = slot == ThreadSlots::own;
    return mine;
  }
  [[nodiscard]] std::uint64_t sum(std::size_t counter) const noexcept {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < line_count; ++i) total += lines_[i].values[counter].load(std::memory_order_relaxed);
    return total;
  }

 private:
  static constexpr std::size_t line_count = ThreadSlots::own + 1;
  std::unique_ptr<Line[]> lines_;
};

SEENBY_DETAIL_END
