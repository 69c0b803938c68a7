#pragma once
// SPDX-License-Identifier: MIT
// EventQueue: where events wait for the worker; BoundedQueue: one inside the process.

#include <algorithm>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// A message that a queue hands out until it is acknowledged.
template <class Message, class Receipt>
struct Delivery {
  Receipt receipt;               ///< what `acknowledge` takes
  Message message;               ///< what was pushed
  Time entered{};                ///< when it entered the queue
  std::uint32_t deliveries = 1;  ///< how often it was handed out
};

/// A queue that delivers at least once: what was read and not acknowledged when its reader dies is delivered again.
///
/// - `read` waits for the first message, then gives at most `most`, oldest first; none when the wait is over. Fewer
///   than `most` are all that there are now and no other reader holds.
/// - `acknowledge` removes messages, all of these or none; repeating it is no error.
/// - `bury` moves a message that can never be ingested to the dead letters, with the reason, and acknowledges it.
/// - `Delivered` has the members of Delivery.
// clang-format 14 breaks concepts apart.
// clang-format off
template <class Queue>
concept EventQueue =
    requires { typename Queue::message_type; typename Queue::receipt_type; typename Queue::Delivered; } &&
    requires(Queue& queue, std::size_t most, std::chrono::milliseconds wait,
             std::span<const typename Queue::receipt_type> receipts, const typename Queue::Delivered& delivery,
             const Error& why) {
      { queue.read(most, wait) } -> std::same_as<Result<std::vector<typename Queue::Delivered>>>;
      { queue.acknowledge(receipts) } -> std::same_as<Result<void>>;
      { queue.bury(delivery, why) } -> std::same_as<Result<void>>;
      { delivery.receipt } -> std::convertible_to<typename Queue::receipt_type>;
      { delivery.message } -> std::convertible_to<typename Queue::message_type>;
      { delivery.entered } -> std::convertible_to<Time>;
      { delivery.deliveries } -> std::convertible_to<std::uint32_t>;
    };
// clang-format on

/// What a full queue does with one more message.
enum class WhenFull : std::uint8_t {
  block,        ///< wait for room
  drop_oldest,  ///< forget the oldest that no reader holds, and count it
  refuse,       ///< refuse the new one, and count it
};

/// How much a BoundedQueue holds.
struct QueueOptions {
  std::size_t capacity = 65'536;  ///< messages, those that a reader holds included
  /// What happens to one message more.
  WhenFull when_full = WhenFull::refuse;
  std::size_t dead_letters = 1'000;  ///< kept; the oldest go first
  /// The system's when empty.
  Clock clock{};
};

/// A queue in memory. Messages die with the process: for tests, and behind a recorder that may lose a few seconds. Any
/// thread may call anything.
template <std::copyable Message>
class BoundedQueue {
 public:
  using message_type = Message;                       ///< what it carries
  using receipt_type = std::uint64_t;                 ///< a number of its own for each message
  using Delivered = Delivery<Message, receipt_type>;  ///< a message as `read` hands it out
  /// A message that was buried.
  struct DeadLetter {
    Message message;  ///< what was pushed
    Error why;        ///< why it cannot be ingested
  };

  /// Throws std::invalid_argument for a capacity of 0.
  explicit BoundedQueue(QueueOptions options = {}) : options_(std::move(options)) {
    if (options_.capacity == 0) throw std::invalid_argument("seenby: expected a queue's capacity of 1 or more, got 0");
  }

  /// Errors: refused (it is full, or was full of what a reader holds), unavailable (it is closed).
  Result<void> push(Message message) {
    std::unique_lock lock(mutex_);
    if (options_.when_full == WhenFull::block) {
      room_.wait(lock, [&] { return closed_ || size() < options_.capacity; });
    }
    if (closed_) return Error{ErrorCode::unavailable, "seenby: expected an open queue, got a closed one"};
    if (size() >= options_.capacity) {
      ++dropped_;
      if (options_.when_full == WhenFull::refuse || waiting_.empty()) {
        return Error{ErrorCode::refused,
                     "seenby: expected room in the queue, got it full of " + std::to_string(size()) + " messages"};
      }
      waiting_.pop_front();
    }
    waiting_.push_back({next_++, std::move(message), options_.clock(), 1});
    lock.unlock();
    arrived_.notify_one();
    return {};
  }
  /// Closes the queue: readers get the remaining messages, then nothing, without waiting.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_all();
    room_.notify_all();
  }

  /// At most `most` messages, oldest first; none when the wait is over. They are delivered until acknowledged.
  Result<std::vector<Delivered>> read(std::size_t most, std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, wait, [&] { return closed_ || !waiting_.empty(); });
    std::vector<Delivered> batch;
    while (!waiting_.empty() && batch.size() < most) {
      held_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      batch.push_back(held_.back());
    }
    return batch;
  }
  /// Removes these; those it does not know are no error.
  Result<void> acknowledge(std::span<const receipt_type> receipts) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<receipt_type> sorted(receipts.begin(), receipts.end());
      std::sort(sorted.begin(), sorted.end());
      std::erase_if(held_, [&](const Delivered& delivery) {
        return std::binary_search(sorted.begin(), sorted.end(), delivery.receipt);
      });
    }
    room_.notify_all();
    return {};
  }
  /// Moves a message to the dead letters.
  Result<void> bury(const Delivered& delivery, const Error& why) {
    {
      const std::lock_guard lock(mutex_);
      dead_.push_back({delivery.message, why});
      if (dead_.size() > options_.dead_letters) dead_.pop_front();
    }
    return acknowledge(std::span(&delivery.receipt, 1));
  }
  /// Hands out again what a reader holds: for when it is dead.
  void redeliver() {
    {
      const std::lock_guard lock(mutex_);
      for (; !held_.empty(); held_.pop_back()) {
        ++held_.back().deliveries;
        waiting_.push_front(std::move(held_.back()));
      }
    }
    arrived_.notify_all();
  }

  /// Messages that are not acknowledged.
  [[nodiscard]] std::size_t backlog() const {
    const std::lock_guard lock(mutex_);
    return size();
  }
  /// Messages that were refused or dropped because the queue was full.
  [[nodiscard]] std::uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }
  /// Copies, oldest first.
  [[nodiscard]] std::vector<DeadLetter> dead_letters() const {
    const std::lock_guard lock(mutex_);
    return {dead_.begin(), dead_.end()};
  }

 private:
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size() + held_.size(); }

  QueueOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable room_;
  std::deque<Delivered> waiting_;
  std::deque<Delivered> held_;  // in the order they were read
  std::deque<DeadLetter> dead_;
  std::uint64_t next_ = 0;
  std::uint64_t dropped_ = 0;
  bool closed_ = false;
};

}  // namespace seenby
