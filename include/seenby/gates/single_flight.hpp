#pragma once
// SPDX-License-Identifier: MIT
// SingleFlight: of many concurrent calls for one key, one does the work and the others get its answer.

#include <array>
#include <condition_variable>
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
      } else {
        entry->second = std::make_shared<Flight>();
      }
    }
    if (flight != nullptr) return flight->wait();
    try {
      Value value = std::forward<Function>(function)();
      land(shard, key, value, nullptr);
      return {std::move(value), false};
    } catch (...) {
      land(shard, key, std::nullopt, std::current_exception());
      throw;
    }
  }

 private:
  class Flight {
   public:
    Answer wait() {
      std::unique_lock lock(mutex_);
      landed_.wait(lock, [&] { return value_ || failure_; });
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
};

}  // namespace seenby
