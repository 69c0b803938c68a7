#pragma once
// SPDX-License-Identifier: MIT
// Ingestor: moves events from a queue into a history, then into a store of filters, and then acknowledges them.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/detail/backoff.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/ingest/impression_event.hpp"
#include "seenby/ingest/ingest_options.hpp"
#include "seenby/ingest/key_text.hpp"
#include "seenby/ingest/queue.hpp"
#include "seenby/ingest/rate_limit.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

namespace seenby {

/// What an Ingestor needs of a history: that it takes events.
template <class History>
concept EventSink = requires(
    History& history, std::span<const SeenEvent<typename History::user_type, typename History::item_type>> events) {
  { history.append(events) } -> std::same_as<Result<std::size_t>>;
};

/// Drains a queue of events, a batch at a time: validates them, drops what is no sight and what comes twice, appends
/// the rest to the history, **then** records them in the store, one record a user and all of them in one go where the
/// store can (ManyRecordingStoreFor), **then** acknowledges the batch. Whenever it dies, the queue delivers what was
/// not acknowledged again; the history takes an event once, and a filter does not change by what it holds. Nothing is
/// in a filter before it is durable.
///
/// While the history or the store cannot be reached, the batch is held and tried again from the step that failed.
///
/// Messages are JSON (see parse_impression), ImpressionEvents, or SeenEvents of the history's types. Events whose user
/// or item is no key of the history's type are buried. Queue, history and store must outlive it. One thread drives it;
/// any thread may ask for counters and staleness.
template <EventQueue Queue, EventSink History, class Store>
requires FilterStoreFor<Store, typename History::item_type>
class Ingestor {
 public:
  using User = typename History::user_type;  ///< who sees
  using Item = typename History::item_type;  ///< what is seen
  using Event = SeenEvent<User, Item>;       ///< one sight of an item

  /// Connects them; `run` starts. They must outlive it. Throws std::invalid_argument for a batch or a longest pause of
  /// nothing.
  Ingestor(Queue& queue, History& history, Store& store, IngestOptions options = {})
      : queue_(queue),
        history_(history),
        store_(store),
        options_(std::move(options)),
        rate_limit_(options_.rate_limit) {
    if (options_.batch > 0 && options_.longest_pause.count() > 0) return;
    throw std::invalid_argument(
        std::string("seenby::ingest: expected a batch of 1 or more and a longest_pause above 0 ms, got ")
            .append(std::to_string(options_.batch))
            .append(" and ")
            .append(std::to_string(options_.longest_pause.count()))
            .append(" ms"));
  }

  /// Reads and ingests one batch; how many messages it had, 0 when none came within `wait`. After an error
  /// the batch is held: the next call goes on with the step that failed. Errors: the queue's, the history's, the
  /// store's.
  Result<std::size_t> step() {
    auto done = advance();
    if (!done) count(failures_, 1);
    return done;
  }

  /// Ingests until asked to stop; then ends the batch in hand, for at most `patience`. True when nothing is in hand.
  bool run(const std::stop_token& stop, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    using Steady = std::chrono::steady_clock;
    detail::Backoff backoff(first_pause, options_.longest_pause);
    std::optional<Steady::time_point> give_up;
    for (;;) {
      if (stop.stop_requested()) {
        if (!busy()) return true;
        if (!give_up) {
          give_up = saturating_add(Steady::now(), patience);
          backoff.reset();
        }
        if (Steady::now() >= *give_up) return false;
      }
      if (step()) {
        backoff.reset();
      } else if (give_up) {
        std::this_thread::sleep_until(std::min(*give_up, saturating_add(Steady::now(), backoff.next())));
      } else {
        detail::sleep_unless_stopped(stop, backoff.next());
      }
    }
  }

  /// Whether a batch is in hand, read and not acknowledged.
  [[nodiscard]] bool busy() const noexcept { return next_ != IngestStep::read; }
  /// What entered the queue before this time, and was handed to this worker, is in the filters. What other workers of
  /// the queue hold is not known here: StreamQueue::backlog() knows.
  [[nodiscard]] Time watermark() const noexcept { return Time{std::chrono::seconds{watermark_.load()}}; }
  /// How old what the filters do not know yet may be, as far as `watermark` goes: what a page may be wrong by.
  /// seconds::max() before the first batch.
  [[nodiscard]] std::chrono::seconds staleness() const {
    const Time mark = watermark();
    return mark == all_time ? std::chrono::seconds::max() : std::max(std::chrono::seconds{0}, options_.clock() - mark);
  }
  /// A snapshot of the counters.
  [[nodiscard]] IngestCounters counters() const noexcept {
    const auto get = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
    return {get(read_),     get(buried_),   get(not_seen_),   get(anonymous_),    get(rate_limited_), get(duplicates_),
            get(appended_), get(recorded_), get(unrecorded_), get(acknowledged_), get(failures_)};
  }

 private:
  using Delivered = typename Queue::Delivered;
  using Counter = std::atomic<std::uint64_t>;
  using Request = RecordRequest<User, Item>;

  static constexpr std::chrono::milliseconds first_pause{50};

  static void count(Counter& counter, std::uint64_t by) noexcept { counter.fetch_add(by, std::memory_order_relaxed); }

  Result<std::size_t> advance() {
    if (next_ == IngestStep::read) {
      if (auto read = read_batch(); !read) return std::move(read).error();
      if (deliveries_.empty()) return std::size_t{0};
    }
    if (next_ == IngestStep::append) {
      if (auto done = append(); !done) return std::move(done).error();
    }
    if (next_ == IngestStep::record) {
      if (auto done = record(); !done) return std::move(done).error();
    }
    before(IngestStep::acknowledge);
    if (auto done = queue_.acknowledge(receipts_); !done) return std::move(done).error();
    count(acknowledged_, receipts_.size());
    watermark_ = mark_.time_since_epoch().count();
    next_ = IngestStep::read;
    return deliveries_.size();
  }
  void before(IngestStep step) const {
    if (options_.before) options_.before(step);
  }

  // Read

  Result<void> read_batch() {
    before(IngestStep::read);
    const Time asked = options_.clock();
    auto batch = queue_.read(options_.batch, options_.wait);
    if (!batch) return std::move(batch).error();
    deliveries_ = *std::move(batch);
    receipts_.clear();
    events_.clear();
    anonymous_events_.clear();
    count(read_, deliveries_.size());
    // A batch that empties the queue holds everything that entered before the request.
    mark_ = deliveries_.size() < options_.batch ? asked : deliveries_.back().entered;
    if (deliveries_.empty()) {
      watermark_ = mark_.time_since_epoch().count();
      return {};
    }
    next_ = IngestStep::append;
    position_ = 0;
    return {};
  }

  /// Sorts the batch out: events, anonymous ones, dead letters. Goes on where it stopped when burying failed.
  Result<void> sort_out() {
    for (; position_ < deliveries_.size(); ++position_) {
      const Delivered& delivery = deliveries_[position_];
      auto taken = poisonous(delivery) ? deadly(delivery) : take(delivery.message, delivery.entered);
      if (taken) {
        receipts_.push_back(delivery.receipt);
        continue;
      }
      if (auto buried = queue_.bury(delivery, taken.error()); !buried) return buried;
      count(buried_, 1);
    }
    return {};
  }
  /// Whether it was handed out so often that it must have ended those who took it.
  [[nodiscard]] bool poisonous(const Delivered& delivery) const noexcept {
    return options_.most_deliveries != 0 && delivery.deliveries > options_.most_deliveries;
  }
  [[nodiscard]] Result<void> deadly(const Delivered& delivery) const {
    return Error{ErrorCode::refused, std::string("seenby::ingest: expected at most ")
                                         .append(std::to_string(options_.most_deliveries))
                                         .append(" deliveries without an acknowledgement, got ")
                                         .append(std::to_string(delivery.deliveries))};
  }
  Result<void> take(std::string_view json, Time entered) {
    auto event = parse_impression(json);
    if (!event) return std::move(event).error();
    return take(*event, entered);
  }
  Result<void> take(const ImpressionEvent& event, Time entered) {
    if (auto valid = validate(event, options_.rules, options_.clock()); !valid) return valid;
    if (!options_.rules.is_sight(event)) {
      count(not_seen_, 1);
    } else if (event.anonymous) {
      count(anonymous_, 1);
      if (options_.anonymous) anonymous_events_.push_back(event);
    } else {
      auto user = detail::key_of_text<User>(event.user, "user");
      if (!user) return std::move(user).error();
      auto item = detail::key_of_text<Item>(event.item, "item");
      if (!item) return std::move(item).error();
      return take(Event{*std::move(user), *std::move(item), event.at, event.id}, entered);
    }
    return {};
  }
  Result<void> take(const Event& event, Time entered) {
    if (rate_limit_.admit(event.user, entered)) {
      events_.push_back(event);
    } else {
      count(rate_limited_, 1);
    }
    return {};
  }
  // Append

  Result<void> append() {
    if (auto done = sort_out(); !done) return done;
    before(IngestStep::append);
    if (auto done = log_anonymous(); !done) return done;
    if (!events_.empty()) {
      auto fresh = history_.append(std::span<const Event>(events_));
      if (!fresh) return std::move(fresh).error();
      count(appended_, *fresh);
      count(duplicates_, events_.size() - *fresh);
    }
    group();
    next_ = IngestStep::record;
    return {};
  }
  Result<void> log_anonymous() {
    if (anonymous_events_.empty()) return {};
    std::vector<ImpressionEvent> fresh;
    std::vector<std::uint64_t> names;
    std::unordered_set<std::uint64_t> batch;
    for (const ImpressionEvent& event : anonymous_events_) {
      const std::uint64_t name = detail::mix64(Xxh3Hash{}(event.user).value) ^ Xxh3Hash(1)(event.item).value;
      if (recent_.contains(name) || older_.contains(name) || !batch.insert(name).second) continue;
      fresh.push_back(event);
      names.push_back(name);
    }
    if (!fresh.empty()) {
      if (auto done = options_.anonymous(fresh); !done) return done;
    }
    count(duplicates_, anonymous_events_.size() - fresh.size());
    anonymous_events_.clear();
    for (const std::uint64_t name : names) {
      if (recent_.size() >= 65'536) older_ = std::exchange(recent_, {});
      recent_.insert(name);
    }
    return {};
  }

  // Record

  /// Puts each user's events together.
  void group() {
    groups_.assign(
        events_.size(), store_.hasher(), [&](std::size_t i) -> const User& { return events_[i].user; },
        [&](std::size_t i) { return std::move(events_[i].item); }, [&](std::size_t i) { return events_[i].seen_at; });
    unrecorded_requests_.assign(groups_.requests().begin(), groups_.requests().end());
  }
  /// All users in one go; again those whom waiting may help.
  Result<void> record() {
    before(IngestStep::record);
    const auto outcomes = detail::record_requests(store_, std::span<const Request>(unrecorded_requests_));
    Result<void> held;
    std::size_t next = 0;
    std::erase_if(unrecorded_requests_, [&](const Request& request) {
      const Result<RecordOutcome>& outcome = outcomes[next++];
      if (!outcome && may_pass(outcome.error().code)) return held = outcome.error(), false;
      count(outcome ? recorded_ : unrecorded_, request.batch.size());
      if (!outcome && options_.unrecorded) options_.unrecorded(outcome.error());
      return true;
    });
    if (!held) return held;
    next_ = IngestStep::acknowledge;
    return {};
  }

  Queue& queue_;
  History& history_;
  Store& store_;
  IngestOptions options_;
  RateLimit rate_limit_;

  // The batch in hand.
  IngestStep next_ = IngestStep::read;
  std::vector<Delivered> deliveries_;
  std::vector<typename Queue::receipt_type> receipts_;
  std::vector<Event> events_;
  std::vector<ImpressionEvent> anonymous_events_;
  detail::EventGroups<User, Item> groups_;
  std::vector<Request> unrecorded_requests_;
  std::size_t position_ = 0;  // of the delivery that comes next
  Time mark_{};
  std::unordered_set<std::uint64_t> recent_;  // what sessions saw, in two generations
  std::unordered_set<std::uint64_t> older_;

  std::atomic<std::int64_t> watermark_{all_time.time_since_epoch().count()};
  Counter read_{0}, buried_{0}, not_seen_{0}, anonymous_{0}, rate_limited_{0}, duplicates_{0}, appended_{0},
      recorded_{0}, unrecorded_{0}, acknowledged_{0}, failures_{0};
};

}  // namespace seenby
