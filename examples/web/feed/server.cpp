// SPDX-License-Identifier: MIT
// The feed in one process: impressions in SQLite, filters in LMDB, both in one folder.
//   feed [--port N] [--data FOLDER] [--posts N]
#include <seenby/ingest/queue.hpp>
#include <seenby/lmdb/store.hpp>
#include <seenby/sqlite/history.hpp>
#include <span>
#include <string>
#include <vector>

#include "feed.hpp"

namespace {

using Event = seenby::SeenEvent<std::string, feed::PostId>;

struct Embedded {
  using History = seenby::SqliteHistory<std::string, feed::PostId>;
  using Store = seenby::LmdbStore<std::string>;
  using Queue = seenby::BoundedQueue<Event>;
  static constexpr bool appends_first = true;  // the queue is in memory

  static History history(const feed::Options& options) {
    return History::open(options.data + "/impressions.sqlite").or_throw();
  }
  static Store store(const feed::Options& options, const seenby::StorePolicy& policy) {
    return Store::open(options.data + "/seen.lmdb", policy).or_throw();
  }
  static Queue queue(const feed::Options&) { return Queue({.capacity = 100'000}); }

  /// How many of them the history had.
  static std::size_t submit(History& history, Queue& queue, std::span<const seenby::ImpressionEvent> reported) {
    std::vector<Event> events;
    for (const auto& each : reported) events.push_back({each.user, std::stoull(each.item), each.at, each.id});
    const std::size_t fresh = history.append(std::span<const Event>(events)).or_throw();
    for (const Event& event : events) queue.push(event).or_throw();
    return events.size() - fresh;
  }
  static std::size_t waiting(const Queue& queue) { return queue.backlog(); }
};

}  // namespace

int main(int count, char** arguments) { return feed::run<Embedded>(count, arguments); }
