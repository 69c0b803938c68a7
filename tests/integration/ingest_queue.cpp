// SPDX-License-Identifier: MIT
// BoundedQueue: what is in it is delivered until it is acknowledged; what is too much is told.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "seenby/ingest/queue.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace std::chrono_literals;
using test::wait_until;
using Queue = BoundedQueue<std::string>;

static_assert(EventQueue<Queue>);

std::vector<std::string> messages(const std::vector<Queue::Delivered>& batch) {
  std::vector<std::string> texts;
  for (const auto& delivery : batch) texts.push_back(delivery.message);
  return texts;
}

TEST_CASE("Messages come in order, and again until they are acknowledged", "[ingest]") {
  Queue queue;
  for (const char* text : {"a", "b", "c"}) queue.push(text).or_throw();
  const auto first = queue.read(2, 0ms).or_throw();
  CHECK(messages(first) == std::vector<std::string>{"a", "b"});
  CHECK(queue.backlog() == 3);
  queue.acknowledge(std::vector{first[1].receipt}).or_throw();
  queue.redeliver();
  const auto second = queue.read(10, 0ms).or_throw();
  CHECK(messages(second) == std::vector<std::string>{"a", "c"});
  CHECK(second[0].deliveries == 2);
  CHECK(second[1].deliveries == 1);
  queue.acknowledge(std::vector{second[0].receipt, second[1].receipt, first[1].receipt}).or_throw();
  CHECK(queue.backlog() == 0);
  CHECK(queue.read(10, 0ms).or_throw().empty());
}

TEST_CASE("A full queue refuses, drops its oldest or makes the writer wait, as it was told", "[ingest]") {
  Queue refusing({.capacity = 2, .when_full = WhenFull::refuse});
  refusing.push("a").or_throw();
  refusing.push("b").or_throw();
  CHECK(refusing.push("c").error().code == ErrorCode::refused);
  CHECK(refusing.dropped() == 1);
  CHECK(messages(refusing.read(9, 0ms).or_throw()) == std::vector<std::string>{"a", "b"});
  CHECK(refusing.push("c").error().code == ErrorCode::refused);  // what a reader holds takes room as well

  Queue dropping({.capacity = 2, .when_full = WhenFull::drop_oldest});
  for (const char* text : {"a", "b", "c"}) dropping.push(text).or_throw();
  CHECK(dropping.dropped() == 1);
  CHECK(messages(dropping.read(9, 0ms).or_throw()) == std::vector<std::string>{"b", "c"});
  CHECK(dropping.push("d").error().code == ErrorCode::refused);  // what a reader holds is never dropped

  Queue blocking({.capacity = 1, .when_full = WhenFull::block});
  blocking.push("a").or_throw();
  std::atomic<bool> in{false};
  std::thread writer([&] {
    blocking.push("b").or_throw();
    in = true;
  });
  const auto batch = blocking.read(1, 1s).or_throw();
  CHECK_FALSE(wait_until([&] { return in.load(); }, 20ms));
  blocking.acknowledge(std::vector{batch[0].receipt}).or_throw();
  writer.join();
  CHECK(messages(blocking.read(1, 1s).or_throw()) == std::vector<std::string>{"b"});
}

TEST_CASE("Closing a queue wakes who waits, and leaves what is in it", "[ingest]") {
  Queue queue({.capacity = 1, .when_full = WhenFull::block});
  queue.push("a").or_throw();
  std::atomic<bool> refused{false};
  std::thread writer([&] { refused = !queue.push("b").has_value(); });
  CHECK_FALSE(wait_until([&] { return refused.load(); }, 20ms));
  queue.close();
  writer.join();
  CHECK(refused);
  CHECK(messages(queue.read(9, 10s).or_throw()) == std::vector<std::string>{"a"});
  CHECK(queue.read(9, 10s).or_throw().empty());  // at once
  CHECK(queue.push("c").error().code == ErrorCode::unavailable);
}

TEST_CASE("A buried message is kept with its reason, and not delivered again", "[ingest]") {
  Queue queue({.dead_letters = 2});
  for (const char* text : {"a", "b", "c"}) queue.push(text).or_throw();
  for (const auto& delivery : queue.read(9, 0ms).or_throw()) {
    queue.bury(delivery, {ErrorCode::corrupt, "no event"}).or_throw();
  }
  CHECK(queue.backlog() == 0);
  REQUIRE(queue.dead_letters().size() == 2);
  CHECK(queue.dead_letters()[0].message == "b");
  CHECK(queue.dead_letters()[0].why.message == "no event");
  CHECK_THROWS_AS(Queue({.capacity = 0}), std::invalid_argument);
}

}  // namespace
