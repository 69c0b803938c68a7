#pragma once
// SPDX-License-Identifier: MIT
// AsyncRecorder: records in the background, for services that have no stream of events.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include "seenby/clock.hpp"
#include "seenby/detail/backoff.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/ingest/ingest_options.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "seenby/ingest/queue.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// How an AsyncRecorder gathers and writes.
struct AsyncOptions {
  QueueOptions queue{};       ///< capacity, and what a full queue does
  std::size_t batch = 1'000;  ///< records a batch at most; at least 1
  /// How long a record may wait for others before it is written.
  std::chrono::milliseconds flush_every{1'000};
  /// Hides a record's item from its user at once, through the filter's overlay, for this long. 0: not.
  std::chrono::seconds overlay = std::chrono::minutes{1};
  /// How long the destructor tries to write what is left.
  std::chrono::milliseconds patience{10'000};
};

/// Takes records at once and writes them in batches from a thread of its own: into the filter's history if it has one,
/// then into its store. What is queued dies with the process: where that must not be, use a stream and an Ingestor.
///
/// A user sees what they recorded: `record` marks it in flight. It is one of the last items (`keep_last`) where the
/// store keeps them, a HidingStore. The filter must outlive it. Any thread may call anything but the destructor.
template <class Filter, HashableItem Item = std::uint64_t>
class AsyncRecorder {
 public:
  using User = typename Filter::user_type;  ///< who sees
  using Event = SeenEvent<User, Item>;      ///< one sight of an item

  /// Starts the thread. Throws std::invalid_argument for a queue of no capacity or a batch of nothing.
  explicit AsyncRecorder(Filter& filter, AsyncOptions options = {})
      : filter_(filter),
        options_(with_clock(std::move(options), filter)),
        queue_(options_.queue),
        ingestor_(queue_, history(), filter.store(),
                  {.batch = options_.batch, .wait = std::chrono::milliseconds(0), .clock = options_.queue.clock}),
        thread_([this](const std::stop_token& stop) { drain(stop); }) {}
  AsyncRecorder(const AsyncRecorder&) = delete;
  AsyncRecorder& operator=(const AsyncRecorder&) = delete;
  /// Writes what is left, for `patience` at most.
  ~AsyncRecorder() { static_cast<void>(close()); }

  /// Takes a record of an item seen now, or at a time of its own. Errors: refused (the queue is full; the item is not
  /// hidden then), unavailable (closed).
  Result<void> record(const User& user, const Item& item) { return record(user, item, options_.queue.clock()); }
  /// The same for an item seen at a time of its own.
  Result<void> record(const User& user, const Item& item, Time when) {
    auto pushed = queue_.push(Event{user, item, when, {}});
    if (pushed && options_.overlay.count() != 0) {
      filter_.mark_in_flight(user, std::span<const Item>(&item, 1), options_.overlay);
    }
    return pushed;
  }

  /// Takes no more records, and writes what is left for `patience` at most; returns how many were not written. Again,
  /// or from several threads, is no error: all wait for the same end.
  std::size_t close() {
    queue_.close();
    thread_.request_stop();
    const std::lock_guard lock(closing_);
    if (thread_.joinable()) thread_.join();
    return queue_.backlog();
  }

  /// Records that are not written yet.
  [[nodiscard]] std::size_t backlog() const { return queue_.backlog(); }
  /// How old the oldest record may be that the filter does not hold yet; what is in flight is hidden all the same.
  [[nodiscard]] std::chrono::seconds staleness() const { return ingestor_.staleness(); }
  /// A snapshot of the counters.
  [[nodiscard]] IngestCounters counters() const noexcept { return ingestor_.counters(); }
  /// Records that were refused or dropped because the queue was full.
  [[nodiscard]] std::uint64_t dropped() const { return queue_.dropped(); }

 private:
  /// The history of a filter that has none.
  struct Nowhere {
    using user_type = User;
    using item_type = Item;
    Result<std::size_t> append(std::span<const Event> events) { return events.size(); }
  };
  using History = std::conditional_t<Filter::has_history, typename Filter::history_type, Nowhere>;

  [[nodiscard]] History& history() {
    if constexpr (Filter::has_history) {
      return filter_.history();
    } else {
      return nowhere_;
    }
  }
  [[nodiscard]] static AsyncOptions with_clock(AsyncOptions options, const Filter& filter) {
    if (!options.queue.clock) options.queue.clock = filter.store().policy().clock;
    return options;
  }
  void drain(const std::stop_token& stop) {
    using Steady = std::chrono::steady_clock;
    detail::Backoff backoff(tick, std::chrono::seconds(5));
    while (!stop.stop_requested()) {
      if (!ingestor_.busy()) gather(stop);
      auto done = ingestor_.step();
      while (done && *done != 0 && !stop.stop_requested()) done = ingestor_.step();
      if (done) {
        backoff.reset();
      } else {
        detail::sleep_unless_stopped(stop, backoff.next());
      }
    }
    backoff.reset();
    const auto give_up = saturating_add(Steady::now(), options_.patience);
    while (queue_.backlog() != 0 && Steady::now() < give_up) {
      if (ingestor_.step()) {
        backoff.reset();
      } else {
        std::this_thread::sleep_until(std::min(give_up, saturating_add(Steady::now(), backoff.next())));
      }
    }
  }
  /// Waits until a batch is full or `flush_every` is over: the queue gives what it has at once.
  void gather(const std::stop_token& stop) const {
    const auto flush = saturating_add(std::chrono::steady_clock::now(), options_.flush_every);
    while (std::chrono::steady_clock::now() < flush && !stop.stop_requested() && queue_.backlog() < options_.batch) {
      std::this_thread::sleep_for(tick);
    }
  }

  static constexpr std::chrono::milliseconds tick{10};

  Filter& filter_;
  AsyncOptions options_;
  [[no_unique_address]] Nowhere nowhere_;
  BoundedQueue<Event> queue_;
  Ingestor<BoundedQueue<Event>, History, typename Filter::store_type> ingestor_;
  std::mutex closing_;
  std::jthread thread_;
};

}  // namespace seenby
