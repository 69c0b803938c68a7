// SPDX-License-Identifier: MIT
// StreamQueue: events wait in a Redis stream until a worker acknowledges them, whoever dies meanwhile.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/ingest/queue.hpp"
#include "seenby/redis/stream_queue.hpp"
#include "support/counting_executor.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_store_fixture.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using redis::StreamDelivery;
using redis::StreamQueue;
using redis::StreamQueueOptions;

static_assert(EventQueue<StreamQueue>);

StreamQueue queue_on(const RedisServer& server, StreamQueueOptions options = {}) {
  return {redis::make_executor(server.socket_url()).or_throw(), "events", std::move(options)};
}
std::vector<std::string> messages(const std::vector<StreamDelivery>& batch) {
  std::vector<std::string> texts;
  for (const auto& delivery : batch) texts.push_back(delivery.message);
  return texts;
}
std::vector<std::string> receipts(const std::vector<StreamDelivery>& batch) {
  std::vector<std::string> ids;
  for (const auto& delivery : batch) ids.push_back(delivery.receipt);
  return ids;
}
using Texts = std::vector<std::string>;

TEST_CASE("Events of a stream come in order, once to a group, and count as held until they are acknowledged",
          "[redis][ingest]") {
  for (const std::string& program : installed_servers()) {
    INFO(program);
    const RedisServer server(program);
    StreamQueue queue = queue_on(server);
    const Time before = system_time();
    queue.push(Texts{"a", "b", "c"}).or_throw();
    queue.push(std::string("nul \0 and \xff", 11)).or_throw();
    CHECK(queue.backlog().or_throw().unread == 4);
    const auto first = queue.read(2, 0ms).or_throw();
    CHECK(messages(first) == Texts{"a", "b"});
    CHECK(first[0].deliveries == 1);
    CHECK(first[0].entered >= before - 1s);
    CHECK(first[0].entered <= system_time());
    StreamQueue other = queue_on(server);
    CHECK(messages(other.read(9, 0ms).or_throw()) == Texts{"c", std::string("nul \0 and \xff", 11)});
    CHECK(queue.read(9, 0ms).or_throw().empty());
    StreamQueue of_another_group = queue_on(server, {.group = "analytics"});
    CHECK(of_another_group.read(9, 0ms).or_throw().size() == 4);
    auto backlog = queue.backlog().or_throw();
    CHECK(backlog.length == 4);
    CHECK(backlog.held == 4);
    CHECK(backlog.unread == 0);
    CHECK(backlog.oldest == first[0].entered);
    queue.acknowledge(receipts(first)).or_throw();
    queue.acknowledge(receipts(first)).or_throw();  // again is no error
    CHECK(queue.backlog().or_throw().held == 2);
    CHECK(queue.lost() == 0);
    CHECK(queue.overruns() == 0);
  }
}

TEST_CASE("A read waits for the first event, and no longer than it was told", "[redis][ingest]") {
  const RedisServer server;
  StreamQueue queue = queue_on(server, {.timeout = 500ms});
  const auto begin = std::chrono::steady_clock::now();
  CHECK(queue.read(9, 700ms).or_throw().empty());  // longer than a round trip may take
  CHECK(std::chrono::steady_clock::now() - begin >= 690ms);
  std::jthread writer([&] {
    std::this_thread::sleep_for(50ms);
    StreamQueue(queue_on(server)).push("late").or_throw();
  });
  CHECK(messages(queue.read(9, 20'000ms).or_throw()) == Texts{"late"});
  CHECK(std::chrono::steady_clock::now() - begin < 15s);
}

TEST_CASE("What a dead worker held is taken over once it is old enough, with how often it was handed out",
          "[redis][ingest]") {
  for (const std::string& program : installed_servers()) {
    INFO(program);
    const RedisServer server(program);
    {
      StreamQueue dies = queue_on(server);
      dies.push(Texts{"a", "b", "c", "d"}).or_throw();
      REQUIRE(dies.read(3, 0ms).or_throw().size() == 3);
    }
    StreamQueue patient = queue_on(server, {.claim_after = 1h});
    CHECK(messages(patient.read(9, 0ms).or_throw()) == Texts{"d"});
    std::this_thread::sleep_for(20ms);
    StreamQueue heir = queue_on(server, {.claim_after = 10ms});
    // What is claimed and what is new come together, so that a short batch means an empty stream.
    heir.push("e").or_throw();
    const auto taken = heir.read(9, 0ms).or_throw();
    CHECK(messages(taken) == Texts{"a", "b", "c", "d", "e"});
    CHECK(taken[0].deliveries == 2);
    CHECK(taken[4].deliveries == 1);
    std::this_thread::sleep_for(20ms);
    StreamQueue third = queue_on(server, {.claim_after = 10ms});
    const auto half = third.read(2, 0ms).or_throw();  // a scan that goes on with the next read
    CHECK(messages(half) == Texts{"a", "b"});
    CHECK(half[1].deliveries == 3);
    CHECK(messages(third.read(9, 0ms).or_throw()) == Texts{"c", "d", "e"});
    heir.acknowledge(receipts(taken)).or_throw();  // whoever holds it
    CHECK(third.backlog().or_throw().held == 0);
  }
}

/// Fails what reads new events, while it is told to.
class Blind final : public redis::Executor {
 public:
  explicit Blind(std::shared_ptr<redis::Executor> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Result<std::vector<redis::Reply>> execute(std::span<const redis::Command> batch,
                                                          redis::Deadline deadline) override {
    const redis::Command& last = batch.back();
    if (blind && last[last.size() - 1] == ">") return Error{ErrorCode::timed_out, "blind"};
    return inner_->execute(batch, deadline);
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  bool blind = false;

 private:
  std::shared_ptr<redis::Executor> inner_;
};

TEST_CASE("What is taken over before a read fails comes with the next, so that a short batch is all there is",
          "[redis][ingest]") {
  const RedisServer server;
  {
    StreamQueue dies = queue_on(server);
    dies.push(Texts{"a", "b", "c"}).or_throw();
    REQUIRE(dies.read(2, 0ms).or_throw().size() == 2);
  }
  const auto executor = std::make_shared<Blind>(redis::make_executor(server.socket_url()).or_throw());
  StreamQueue heir(executor, "events", {.claim_after = 0ms});
  executor->blind = true;
  for (int tries = 0; tries < 2; ++tries) CHECK(heir.read(9, 0ms).error().code == ErrorCode::timed_out);
  executor->blind = false;
  CHECK(messages(heir.read(1, 0ms).or_throw()) == Texts{"a"});
  CHECK(messages(heir.read(9, 0ms).or_throw()) == Texts{"b", "c"});
}

TEST_CASE("A worker that is started again under its name gets what it held at once", "[redis][ingest]") {
  const RedisServer server;
  const StreamQueueOptions named{.consumer = "worker-1"};
  {
    StreamQueue dies = queue_on(server, named);
    dies.push(Texts{"a", "b", "c"}).or_throw();
    REQUIRE(dies.read(3, 0ms).or_throw().size() == 3);
  }
  StreamQueue again = queue_on(server, named);
  const auto first = again.read(2, 0ms).or_throw();
  CHECK(messages(first) == Texts{"a", "b"});
  CHECK(first[0].deliveries == 2);
  again.push("d").or_throw();
  CHECK(messages(again.read(9, 0ms).or_throw()) == Texts{"c", "d"});
  CHECK(again.read(9, 0ms).or_throw().empty());
}

TEST_CASE("A buried event is in the dead letters with the reason, once, and is held no more", "[redis][ingest]") {
  const RedisServer server;
  StreamQueue queue = queue_on(server);
  CHECK(queue.dead_letters_key() == "{events}:dead");
  queue.push(Texts{"poison", "good"}).or_throw();
  server.call({"XADD", "events", "*", "other", "thing"});
  const auto batch = queue.read(9, 0ms).or_throw();
  REQUIRE(messages(batch) == Texts{"poison", "good", "other\nthing\n"});
  for (int times = 0; times < 2; ++times) queue.bury(batch[0], {ErrorCode::corrupt, "no event"}).or_throw();
  queue.bury(batch[2], {ErrorCode::corrupt, "no field"}).or_throw();
  CHECK(queue.backlog().or_throw().held == 1);
  CHECK(queue.backlog().or_throw().dead_letters == 2);
  const auto letters = server.call({"XRANGE", queue.dead_letters_key(), "-", "+"});
  std::vector<std::string> fields;
  for (const auto& field : *(*(*letters.array())[0].array())[1].array()) fields.push_back(*field.string());
  CHECK(fields == Texts{"event", "poison", "why", "no event", "id", batch[0].receipt, "deliveries", "1"});
  // Without the stream it is kept all the same: a server that was emptied must not hold up a worker.
  server.call({"DEL", "events"});
  queue.bury(batch[1], {ErrorCode::corrupt, "no event"}).or_throw();
  CHECK(queue.backlog().or_throw().dead_letters == 3);
}

TEST_CASE("A stream keeps about its length; what was dropped from it unread, or out of a worker's hands, is told",
          "[redis][ingest]") {
  const RedisServer server;
  StreamQueue queue = queue_on(server, {.max_length = 1'000, .claim_after = 0ms});
  queue.push(Texts(500, "held")).or_throw();
  const auto held = queue.read(100, 0ms).or_throw();
  REQUIRE(held.size() == 100);
  CHECK(queue.overruns() == 0);
  queue.push(Texts(5'000, "new")).or_throw();
  CHECK(queue.backlog().or_throw().length < 1'200);
  StreamQueue other = queue_on(server, {.max_length = 1'000, .claim_after = 0ms});
  CHECK(other.read(2'000, 0ms).or_throw().size() >= 1'000);
  CHECK(other.lost() == 100);
  CHECK(other.overruns() == 1);
  CHECK(other.read(2'000, 0ms).or_throw().size() >= 1'000);  // its own, again
  CHECK(other.lost() == 100);
  CHECK(other.overruns() == 1);
}

TEST_CASE("A stream that its server lost begins anew, and what is acknowledged late is no error", "[redis][ingest]") {
  RedisServer server;
  StreamQueue queue = queue_on(server);
  queue.push("a").or_throw();
  const auto batch = queue.read(9, 0ms).or_throw();
  server.call({"FLUSHALL"});
  queue.acknowledge(receipts(batch)).or_throw();
  CHECK(queue.read(9, 0ms).or_throw().empty());
  queue.push("b").or_throw();
  CHECK(messages(queue.read(9, 0ms).or_throw()) == Texts{"b"});
  server.kill_at_once();
  CHECK(queue.read(9, 0ms).error().code == ErrorCode::unreachable);
  server.start();
  queue.push("c").or_throw();
  CHECK(messages(queue.read(9, 0ms).or_throw()) == Texts{"c"});
}

TEST_CASE("A key that is no stream, and options that cannot be kept, are refused", "[redis][ingest]") {
  const RedisServer server;
  server.call({"SET", "events", "text"});
  StreamQueue queue = queue_on(server);
  CHECK(queue.push("a").error().code == ErrorCode::wrong_type);
  const auto refused = queue.read(9, 0ms);
  CHECK(refused.error().code == ErrorCode::wrong_type);
  CHECK(refused.error().message.find("\"events\"") != std::string::npos);
  CHECK_THROWS_AS(queue_on(server, {.group = ""}), std::invalid_argument);
  CHECK_THROWS_AS(queue_on(server, {.claim_after = -1ms}), std::invalid_argument);
  CHECK_THROWS_AS(queue_on(server, {.timeout = 0ms}), std::invalid_argument);
  CHECK_THROWS_AS(StreamQueue(nullptr, "events"), std::invalid_argument);
}

TEST_CASE("A push of many, an acknowledgement of many and a read are one round trip each", "[redis][ingest]") {
  const RedisServer server;
  const auto counting = std::make_shared<CountingExecutor>(redis::make_executor(server.socket_url()).or_throw());
  StreamQueue queue(counting, "events");
  queue.push(Texts(1'000, "event")).or_throw();
  CHECK(counting->trips == 1);
  auto batch = queue.read(500, 0ms).or_throw();  // makes the group, and looks once for dead workers' events
  counting->trips = 0;
  const auto more = queue.read(500, 0ms).or_throw();
  CHECK(counting->trips == 1);
  batch.insert(batch.end(), more.begin(), more.end());
  queue.acknowledge(receipts(batch)).or_throw();
  CHECK(counting->trips == 2);
  CHECK(queue.backlog().or_throw().held == 0);
}

TEST_CASE("In a cluster a stream and its dead letters are on one node, whatever the stream's own tag",
          "[redis][cluster]") {
  const RedisCluster cluster("redis-server", false);
  for (const char* key : {"events", "{shop}:events", "events-2"}) {
    INFO(key);
    StreamQueue queue(redis::make_executor(cluster.url()).or_throw(), key);
    queue.push(Texts{"a", "b"}).or_throw();
    const auto batch = queue.read(9, 10ms).or_throw();
    REQUIRE(messages(batch) == Texts{"a", "b"});
    queue.bury(batch[0], {ErrorCode::corrupt, "no event"}).or_throw();
    queue.acknowledge(receipts(batch)).or_throw();
    CHECK(queue.backlog().or_throw().held == 0);
    CHECK(queue.backlog().or_throw().dead_letters == 1);
  }
}

TEST_CASE("Several workers of a group share a stream, each event to one of them", "[redis][ingest][concurrent]") {
  const RedisServer server;
  constexpr std::size_t events = 3'000;
  std::vector<std::vector<std::string>> got(3);
  {
    std::vector<std::jthread> workers;
    for (auto& mine : got) {
      workers.emplace_back([&] {
        StreamQueue queue = queue_on(server);
        for (int idle = 0; idle < 20;) {
          const auto batch = queue.read(7, 20ms).or_throw();
          idle = batch.empty() ? idle + 1 : 0;
          for (const auto& delivery : batch) mine.push_back(delivery.message);
          queue.acknowledge(receipts(batch)).or_throw();
        }
      });
    }
    StreamQueue writer = queue_on(server);
    for (std::size_t n = 0; n < events; ++n) writer.push(std::to_string(n)).or_throw();
  }
  std::multiset<std::string> all;
  for (const auto& mine : got) all.insert(mine.begin(), mine.end());
  CHECK(all.size() == events);
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == events);
}

}  // namespace
