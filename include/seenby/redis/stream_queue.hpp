#pragma once
// SPDX-License-Identifier: MIT
// StreamQueue: events that wait in a Redis stream for a group of workers.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// How a StreamQueue names, keeps and claims events.
struct StreamQueueOptions {
  std::string group = "seenby";  ///< workers of one group share the events
  /// This worker's name in the group. Empty: host, process and a random number. A name that a restarted worker keeps
  /// gets what it held before at once; two workers alive must not share one.
  std::string consumer{};
  std::string field = "event";  ///< of an entry, which holds the event
  /// About how many entries the stream keeps, read or not: more than come while all workers are down. 0: all.
  std::uint64_t max_length = 1'000'000;
  /// What a worker holds for so long without an acknowledgement is taken for a dead worker's.
  std::chrono::milliseconds claim_after{60'000};
  std::string dead_letters{};  ///< the stream that they go to; empty: "{KEY}:dead"
  /// The deadline of each round trip, beside what a read waits.
  std::optional<std::chrono::milliseconds> timeout{};  ///< unset: the URL's `timeout_ms`, 1 s without one
};

/// An event that a StreamQueue hands out until it is acknowledged.
struct StreamDelivery {
  std::string receipt;           ///< the entry's id
  std::string message;           ///< the field; an entry without it: its fields and values, each on a line
  Time entered{};                ///< by the server's clock
  std::uint32_t deliveries = 1;  ///< how often it was handed out
};

/// How far a group is behind.
struct StreamBacklog {
  std::uint64_t length = 0;  ///< entries in the stream, read or not
  std::uint64_t held = 0;    ///< handed to a worker and not acknowledged
  /// Not handed out yet; nothing where the server cannot tell (before Redis 7, or after a trim).
  std::optional<std::uint64_t> unread{};
  std::optional<Time> oldest{};    ///< when the oldest that is held or unread entered; nothing: all is acknowledged
  std::uint64_t dead_letters = 0;  ///< in their stream
};

/// An EventQueue (see ingest/queue.hpp) over a stream of Redis 6.2 or later, or Valkey: what an Ingestor drains.
///
///     seenby::redis::StreamQueue queue{seenby::redis::make_executor("redis://localhost").or_throw(), "events"};
///     queue.push(R"({"id":"e1","user":"u","item":"i","at":1700000000})").or_throw();
///
/// Any client may write: `XADD events MAXLEN ~ 1000000 * event JSON`. The group is made by the first read, at the
/// stream's beginning; a stream that was lost with its server begins anew.
///
/// - `read` takes over what dead workers held (XAUTOCLAIM), then what is new (XREADGROUP).
/// - `acknowledge` leaves the entries in the stream for other groups (XACK); they go when it is trimmed.
/// - `bury` adds the event to the dead letters with `why`, `id` and `deliveries`, and acknowledges it, in one script:
///   once, however often it is called.
///
/// **What is lost.** An executor may send a push twice; an event's id makes that harmless. A stream at max_length drops
/// its oldest entries, whoever has not read them: those that a worker held are counted in `lost` (Redis 7 or later),
/// and `overruns` counts the reads that found the stream trimmed up to what this group had not read.
///
/// One thread reads; any thread may call the rest.
class StreamQueue {
 public:
  using message_type = std::string;  ///< the event's text
  using receipt_type = std::string;  ///< the entry's id
  using Delivered = StreamDelivery;  ///< what a read gives

  /// Throws std::invalid_argument for options that cannot be kept. Connects on first use.
  StreamQueue(std::shared_ptr<Executor> executor, std::string key, StreamQueueOptions options = {});
  /// Not while a call is running.
  StreamQueue(StreamQueue&&) noexcept;
  StreamQueue& operator=(StreamQueue&&) = delete;
  ~StreamQueue();

  /// Adds events at the end, in one round trip; after an error some may be there. Errors: the transport's, refused (out
  /// of memory).
  Result<void> push(const std::string& message) { return push(std::span(&message, 1)); }
  /// The same for many, in order.
  Result<void> push(std::span<const std::string> messages);

  /// Waits for the first event, then gives at most `most`; those of dead workers first, else oldest first. Fewer than
  /// `most` are all that there are: when what is new cannot be read, what was taken over before comes with the next
  /// read.
  Result<std::vector<StreamDelivery>> read(std::size_t most, std::chrono::milliseconds wait);
  /// One round trip. Receipts that are acknowledged already are no error.
  Result<void> acknowledge(std::span<const std::string> receipts);
  /// Moves an event to the dead letters. One round trip.
  Result<void> bury(const StreamDelivery& delivery, const Error& why);

  /// How far the group is behind. Two round trips.
  [[nodiscard]] Result<StreamBacklog> backlog() const;
  /// Events that were trimmed away while a worker held them.
  [[nodiscard]] std::uint64_t lost() const noexcept;
  /// Reads that found events trimmed away that no worker had read, as far as can be told.
  [[nodiscard]] std::uint64_t overruns() const noexcept;

  /// The stream's key.
  [[nodiscard]] const std::string& key() const noexcept;
  /// The key of the dead letters' stream.
  [[nodiscard]] const std::string& dead_letters_key() const noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace seenby::redis
