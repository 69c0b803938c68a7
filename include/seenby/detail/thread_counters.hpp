#pragma once
// SPDX-License-Identifier: MIT
// Counters that cost a hot path no atomic read-modify-write: a cache line a thread, summed when read.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// Small numbers for threads, given back when a thread ends. A number is one thread's alone at any time, so its
/// counters need no atomic addition, only atomic loads and stores.
class ThreadSlots {
 public:
  static constexpr std::size_t own = 128;  // threads beyond share the last slot, with atomic additions

  [[nodiscard]] static std::size_t mine() noexcept {
    // A plain thread_local number first: it needs no guard, so that every call but a thread's first is one load.
    return slot_ != unset ? slot_ : take();
  }

 private:
  static constexpr std::size_t unset = static_cast<std::size_t>(-1);
  static inline constinit thread_local std::size_t slot_ = unset;
  [[gnu::noinline]] static std::size_t take() noexcept {
    thread_local const Holder holder;
    slot_ = holder.slot;
    return slot_;
  }

  struct Pool {
    std::mutex mutex;
    std::vector<std::size_t> free;
    std::size_t next = 0;
  };
  [[nodiscard]] static Pool& pool() {
    static Pool* const shared = new Pool;  // never destroyed: threads may end after static destruction
    return *shared;
  }
  struct Holder {
    std::size_t slot;
    Holder() : slot(own) {
      const std::lock_guard lock(pool().mutex);
      if (!pool().free.empty()) {
        slot = pool().free.back();
        pool().free.pop_back();
      } else if (pool().next < own) {
        // Room for giving it back is made now, since a destructor must not throw.
        pool().free.reserve(pool().next + 1);
        slot = pool().next++;
      }
    }
    ~Holder() {
      if (slot == own) return;
      const std::lock_guard lock(pool().mutex);
      pool().free.push_back(slot);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
  };
};

/// `Count` counters. add() is a load and a store on a line of the thread's own; sum() reads all lines: exact once the
/// adding threads are done, a moment's view before.
template <std::size_t Count>
class ThreadCounters {
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, Count> values{};
  };

 public:
  ThreadCounters() : lines_(std::make_unique<std::array<Line, ThreadSlots::own + 1>>()) {}

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
    mine.line_ = &(*lines_)[slot];
    mine.shared_ = slot == ThreadSlots::own;
    return mine;
  }
  [[nodiscard]] std::uint64_t sum(std::size_t counter) const noexcept {
    std::uint64_t total = 0;
    for (const Line& line : *lines_) total += line.values[counter].load(std::memory_order_relaxed);
    return total;
  }

 private:
  std::unique_ptr<std::array<Line, ThreadSlots::own + 1>> lines_;
};

SEENBY_DETAIL_END
