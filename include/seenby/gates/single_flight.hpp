#pragma once
// SPDX-License-Identifier: MIT
// SingleFlight: of many concurrent calls for one key, one does the work and the others get its answer.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace seenby {

/// Concurrent calls of one key become one. Value is copied to every caller. Any thread may call anything; a function
/// must not call `run` for its own key.
template <class Key, class Value, class KeyHash = std::hash<Key>>
class SingleFlight {
 public:
  /// What a call got, and whether another call computed it.
  struct Answer {
    Value value;          ///< a copy of its own
    bool shared = false;  ///< true: another call's function computed it
  };

  /// The answer of function() for this key; of a call that is under way already where there is one. What the function
  /// throws, every caller that shares it gets.
  template <class Function>
  Answer run(const Key& key, Function&& function) {
    Shard& shard = shards_[KeyHash{}(key) % shards_.size()];
    std::shared_ptr<Flight> flight;
    {
      const std::lock_guard lock(shard.mutex);
      auto [entry, leads] = shard.flights.try_emplace(key, nullptr);
      if (!leads) {
        flight = entry->second;
        waiting_.fetch_add(1, std::memory_order_relaxed);
      } else {
        entry->second = std::make_shared<Flight>();
      }
    }
    if (flight != nullptr) return flight->wait(waiting_);
    try {
      Value value = std::forward<Function>(function)();
      land(shard, key, value, nullptr);
      return {std::move(value), false};
    } catch (...) {
      land(shard, key, std::nullopt, std::current_exception());
      throw;
    }
  }

  /// Calls that wait for another's answer at this moment.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }

 private:
  class Flight {
   public:
    Answer wait(std::atomic<std::uint64_t>& waiting) {
      std::unique_lock lock(mutex_);
      landed_.wait(lock, [&] { return value_ || failure_; });
      waiting.fetch_sub(1, std::memory_order_relaxed);
      if (failure_) std::rethrow_exception(failure_);
      return {*value_, true};
    }
    void land(std::optional<Value> value, std::exception_ptr failure) {
      const std::lock_guard lock(mutex_);
      value_ = std::move(value);
      failure_ = std::move(failure);
      landed_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable landed_;
    std::optional<Value> value_;
    std::exception_ptr failure_;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::shared_ptr<Flight>, KeyHash> flights;
  };
  /// Later calls start a new flight; those that wait get this answer.
  static void land(Shard& shard, const Key& key, std::optional<Value> value, std::exception_ptr failure) {
    std::shared_ptr<Flight> flight;
    {
      const std::lock_guard lock(shard.mutex);
      flight = std::move(shard.flights.extract(key).mapped());
    }
    flight->land(std::move(value), std::move(failure));
  }
  std::array<Shard, 32> shards_;
  std::atomic<std::uint64_t> waiting_{0};
};

}  // namespace seenby
