// SPDX-License-Identifier: MIT
// The feed as a service of many processes: events in a Redis stream, impressions in PostgreSQL, filters in Redis.
//   feed_pipeline --redis URL --postgres ADDRESS [--port N] [--data FOLDER] [--posts N]     --data keeps the cookies'
//   secret
#include <chrono>
#include <seenby/postgres/history.hpp>
#include <seenby/redis/store.hpp>
#include <seenby/redis/stream_queue.hpp>
#include <span>
#include <string>
#include <vector>

#include "feed.hpp"

namespace {

struct Pipeline {
  using History = seenby::PostgresHistory<std::string, feed::PostId>;
  using Store = seenby::redis::RedisStore<std::string>;
  using Queue = seenby::redis::StreamQueue;
  static constexpr bool appends_first = false;  // the stream keeps events until the worker has appended them

  static History history(const feed::Options& options) { return History::open(options.postgres).or_throw(); }
  static Store store(const feed::Options& options, const seenby::StorePolicy& policy) {
    return Store(options.redis, policy, {.prefix = "feed:"});
  }
  static Queue queue(const feed::Options& options) {
    // What a killed process held, another goes on with after five seconds.
    return Queue(seenby::redis::make_executor(options.redis).or_throw(), "feed:impressions",
                 {.claim_after = std::chrono::seconds{5}});
  }

  static std::size_t submit(History&, Queue& queue, std::span<const seenby::ImpressionEvent> events) {
    std::vector<std::string> lines;
    for (const auto& event : events) lines.push_back(format_impression(event).or_throw());
    if (!lines.empty()) queue.push(std::span<const std::string>(lines)).or_throw();
    return 0;  // the worker finds out
  }
  static std::uint64_t waiting(const Queue& queue) {
    const auto backlog = queue.backlog();
    return backlog ? backlog->held + backlog->unread.value_or(0) : 0;
  }
};

}  // namespace

int main(int count, char** arguments) { return feed::run<Pipeline>(count, arguments); }
