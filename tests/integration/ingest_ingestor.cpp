// SPDX-License-Identifier: MIT
// Ingestor: history first, then the filter, then the acknowledgement; whatever fails or dies in between.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/ingest/ingestor.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/history_contract.hpp"
#include "support/random.hpp"
#include "support/test_clock.hpp"
#include "support/wait_until.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using History = MemoryHistory<std::string, std::string>;
using Queue = BoundedQueue<std::string>;
using Store = MemoryStore<std::string>;

/// A history and a store that fail when they are told to, and note what they were asked in which order.
class FailingHistory {
 public:
  using user_type = std::string;
  using item_type = std::string;
  using Event = SeenEvent<std::string, std::string>;
  Result<std::size_t> append(std::span<const Event> events) {
    if (down) return Error{ErrorCode::unreachable, "the database is down"};
    ++appends;
    return rows.append(events);
  }
  std::atomic<bool> down = false;
  int appends = 0;
  History rows;
};
class FailingStore {
 public:
  using user_type = std::string;
  using hasher_type = Xxh3Hash;
  explicit FailingStore(StorePolicy policy = {.wrong_hide_rate = 0.001}) : store_(std::move(policy)) {}
  [[nodiscard]] const StorePolicy& policy() const noexcept { return store_.policy(); }
  [[nodiscard]] Xxh3Hash hasher() const noexcept { return store_.hasher(); }
  template <class Item>
  void check(std::span<const std::string> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const {
    store_.check(users, batch, seen_by, status);
  }
  template <class Item>
  Result<RecordOutcome> record(const std::string& user, const ItemBatch<Item>& batch) {
    if (failure) return *failure;
    if (corrupt_user == user) return Error{ErrorCode::corrupt, "its filter is damaged"};
    records.emplace_back(user, batch.size());
    return store_.record(user, batch);
  }
  Result<void> create(const std::string& user) { return store_.create(user); }
  Result<bool> forget(const std::string& user) { return store_.forget(user); }
  [[nodiscard]] StoreCounters counters() const { return store_.counters(); }

  std::optional<Error> failure;
  std::string corrupt_user;
  std::vector<std::pair<std::string, std::size_t>> records;

 private:
  Store store_;
};

std::string line(const std::string& user, const std::string& item, std::int64_t when, const std::string& id = {}) {
  return format_impression({.id = id, .user = user, .item = item, .at = at(when)}).or_throw();
}
template <class AnyStore>
bool knows(const AnyStore& store, const std::string& user, const std::string& item) {
  const Digest digest = store.hasher()(item);
  std::uint8_t seen = 0;
  UserStatus status;
  store.check(std::span(&user, 1), ItemBatch<std::string>{{&item, 1}, {&digest, 1}}, {&seen, 1}, {&status, 1});
  return status.state == UserState::known && seen != 0;
}

TEST_CASE("Events go into the history, then a record a user into the store, then they are acknowledged",
          "[ingest][002-04][002-05]") {
  Queue queue;
  FailingHistory history;
  FailingStore store;
  std::vector<IngestStep> steps;
  Ingestor ingestor(queue, history, store, {.wait = 0ms, .before = [&](IngestStep step) {
                                              steps.push_back(step);
                                              if (step == IngestStep::append) {
                                                CHECK_FALSE(knows(store, "alice", "m1"));
                                              }
                                              if (step == IngestStep::record) {
                                                CHECK(contained(history.rows, "alice", {"m1"})[0] == 1);
                                                CHECK_FALSE(knows(store, "alice", "m1"));
                                              }
                                              if (step == IngestStep::acknowledge) {
                                                CHECK(knows(store, "alice", "m1"));
                                                CHECK(queue.backlog() == 5);
                                              }
                                            }});
  // Interleaved users: A sees 1, 2, 3, B sees 7, 9.
  for (const auto& [user, item] :
       {std::pair{"alice", "m1"}, {"bob", "m7"}, {"alice", "m2"}, {"bob", "m9"}, {"alice", "m3"}}) {
    queue.push(line(user, item, 100)).or_throw();
  }
  CHECK(ingestor.step().or_throw() == 5);
  CHECK(steps == std::vector{IngestStep::read, IngestStep::append, IngestStep::record, IngestStep::acknowledge});
  CHECK(store.records == std::vector<std::pair<std::string, std::size_t>>{{"alice", 3}, {"bob", 2}});
  CHECK(history.appends == 1);
  CHECK(queue.backlog() == 0);
  CHECK(ingestor.counters().appended == 5);
  CHECK(ingestor.counters().recorded == 5);
  CHECK(ingestor.step().or_throw() == 0);
}

TEST_CASE("What was returned but not seen stays eligible", "[ingest][002-01][002-02]") {
  Queue queue;
  History history;
  Store store{{.wrong_hide_rate = 0.001}};
  Ingestor ingestor(queue, history, store, {.wait = 0ms});
  // A page of 20: five were on the screen, five were loaded below the fold, of ten nothing was heard.
  for (int n = 0; n < 10; ++n) {
    queue
        .push(format_impression({.user = "alice", .item = "m" + std::to_string(n), .at = at(1), .visible = n < 5})
                  .or_throw())
        .or_throw();
  }
  ingestor.step().or_throw();
  CHECK(ingestor.counters().not_seen == 5);
  CHECK(history.item_count("alice").or_throw() == 5);
  SeenFilter filter{std::move(store)};
  std::vector<std::string> page;
  for (int n = 0; n < 20; ++n) page.push_back("m" + std::to_string(n));
  const CandidatePool<std::string> pool(page);
  CHECK(filter.select_unseen(pool, {std::string("alice")}).size() == 15);
}

TEST_CASE("What is delivered twice is once in the history; what is no event is buried with its reason", "[ingest]") {
  Queue queue;
  History history;
  Store store{{}};
  Ingestor ingestor(queue, history, store, {.wait = 0ms});
  queue.push(line("alice", "a", 5, "e1")).or_throw();
  queue.push("no json").or_throw();
  queue.push(line("alice", "a", 5, "e1")).or_throw();
  queue.push(line("alice", "a", 4'000'000'000'000, "far ahead")).or_throw();
  CHECK(ingestor.step().or_throw() == 4);
  queue.push(line("alice", "a", 5, "e1")).or_throw();
  CHECK(ingestor.step().or_throw() == 1);
  CHECK(history.event_count("a").or_throw() == 1);
  const auto counters = ingestor.counters();
  CHECK(counters.duplicates == 2);
  CHECK(counters.buried == 2);
  CHECK(counters.acknowledged == 3);
  REQUIRE(queue.dead_letters().size() == 2);
  CHECK(queue.dead_letters()[0].message == "no json");
  CHECK(queue.dead_letters()[1].why.message.find("ahead") != std::string::npos);
  CHECK(queue.backlog() == 0);
}

TEST_CASE("Users and items that are no keys of the history's type are buried", "[ingest]") {
  Queue queue;
  MemoryHistory<std::int64_t, std::uint64_t> history;
  MemoryStore<std::int64_t> store{{}};
  Ingestor ingestor(queue, history, store, {.wait = 0ms});
  for (const char* user : {"-7", "7", "7x", "", "1e3", " 7"}) {
    for (const char* item : {"18446744073709551615", "18446744073709551616", "0x1"}) {
      queue.push(format_impression({.user = user, .item = item, .at = at(1)}).or_throw()).or_throw();
    }
  }
  ingestor.step().or_throw();
  CHECK(ingestor.counters().appended == 2);
  CHECK(ingestor.counters().buried == 16);
  CHECK(contained(history, -7, {~std::uint64_t{0}})[0] == 1);
}

TEST_CASE("A number that the key's type does not hold names no other key", "[ingest]") {
  CHECK(detail::key_of_text<std::int64_t>("-9223372036854775808", "user").or_throw() ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(detail::key_of_text<std::int64_t>("9223372036854775807", "user").or_throw() ==
        std::numeric_limits<std::int64_t>::max());
  CHECK(detail::key_of_text<std::uint64_t>("18446744073709551615", "user").or_throw() == ~std::uint64_t{0});
  CHECK(detail::key_of_text<std::uint8_t>("255", "user").or_throw() == 255);
  CHECK(detail::key_of_text<std::int8_t>("-128", "user").or_throw() == -128);
  enum class Small : std::int8_t {};
  CHECK(detail::key_of_text<Small>("-1", "user").or_throw() == Small{-1});
  for (const char* text : {"-1", "-9223372036854775808", "-18446744073709551615", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK(detail::key_of_text<std::uint64_t>(text, "user").error().code == ErrorCode::invalid_argument);
  }
  for (const char* text : {"9223372036854775808", "18446744073709551615", "-9223372036854775809"}) {
    CAPTURE(text);
    CHECK_FALSE(detail::key_of_text<std::int64_t>(text, "user"));
  }
  CHECK_FALSE(detail::key_of_text<std::uint8_t>("256", "user"));
  CHECK_FALSE(detail::key_of_text<std::int8_t>("128", "user"));
  CHECK_FALSE(detail::key_of_text<Small>("255", "user"));
}

TEST_CASE("Anonymous events stay out of history and filters; a session's duplicates are dropped", "[ingest][002-07]") {
  Queue queue;
  History history;
  Store store{{}};
  std::vector<std::string> logged;
  bool down = true;
  Ingestor ingestor(queue, history, store, {.wait = 0ms, .anonymous = [&](std::span<const ImpressionEvent> events) {
                                              if (down) return Result<void>(Error{ErrorCode::unreachable, "down"});
                                              for (const auto& event : events)
                                                logged.push_back(event.user + " " + event.item);
                                              return Result<void>{};
                                            }});
  const auto push = [&](const std::string& session, const std::string& item) {
    queue.push(format_impression({.user = session, .item = item, .at = at(1), .anonymous = true}).or_throw())
        .or_throw();
  };
  push("s1", "a");
  push("s1", "a");
  push("s2", "a");
  CHECK_FALSE(ingestor.step());
  down = false;
  CHECK(ingestor.step().or_throw() == 3);
  push("s1", "a");
  push("s1", "b");
  CHECK(ingestor.step().or_throw() == 2);
  CHECK(logged == std::vector<std::string>{"s1 a", "s2 a", "s1 b"});
  CHECK(ingestor.counters().anonymous == 5);
  CHECK(ingestor.counters().duplicates == 2);
  CHECK(all_users(history, 10).empty());
  CHECK(store.counters().users == 0);
}

TEST_CASE("A user who sends too much is cut down, and the others are not", "[ingest][002-04]") {
  TestClock clock;
  BoundedQueue<SeenEvent<std::string, std::string>> queue({.clock = clock.clock()});
  History history;
  Store store{{}};
  Ingestor ingestor(queue, history, store,
                    {.wait = 0ms, .rate_limit = {.events_per_second = 2, .burst = 10}, .clock = clock.clock()});
  const auto flood = [&](const std::string& user, int events) {
    for (int n = 0; n < events; ++n) queue.push({user, "i" + std::to_string(n), at(n), {}}).or_throw();
    ingestor.step().or_throw();
  };
  flood("robot", 100);
  flood("alice", 5);
  CHECK(ingestor.counters().rate_limited == 90);
  CHECK(history.item_count("robot").or_throw() == 10);
  CHECK(history.item_count("alice").or_throw() == 5);
  clock.advance(3s);
  flood("robot", 100);
  CHECK(ingestor.counters().rate_limited == 90 + 94);
}

TEST_CASE("While the history is down nothing is in the filter; the batch is held, and nothing is lost", "[ingest]") {
  Queue queue;
  FailingHistory history;
  FailingStore store;
  Ingestor ingestor(queue, history, store, {.wait = 0ms});
  queue.push(line("alice", "a", 1)).or_throw();
  history.down = true;
  for (int n = 0; n < 3; ++n) CHECK(ingestor.step().error().code == ErrorCode::unreachable);
  CHECK(ingestor.busy());
  CHECK_FALSE(knows(store, "alice", "a"));
  CHECK(queue.backlog() == 1);
  history.down = false;
  store.failure = Error{ErrorCode::timed_out, "the store is slow"};
  CHECK(ingestor.step().error().code == ErrorCode::timed_out);
  CHECK(history.appends == 1);
  CHECK(queue.backlog() == 1);
  store.failure.reset();
  CHECK(ingestor.step().or_throw() == 1);
  CHECK(history.appends == 1);  // it went on where it stopped
  CHECK(knows(store, "alice", "a"));
  CHECK(ingestor.counters().failures == 4);
}

TEST_CASE("One user's damaged filter holds nobody else up, and is told of", "[ingest][002-13]") {
  Queue queue;
  FailingHistory history;
  FailingStore store;
  std::vector<std::string> told;
  Ingestor ingestor(queue, history, store,
                    {.wait = 0ms, .unrecorded = [&](const Error& error) { told.push_back(error.message); }});
  for (const char* user : {"alice", "bob", "carol"}) queue.push(line(user, "a", 1)).or_throw();
  store.corrupt_user = "bob";
  CHECK(ingestor.step().or_throw() == 3);
  CHECK(told == std::vector<std::string>{"its filter is damaged"});
  CHECK(knows(store, "carol", "a"));
  CHECK(contained(history.rows, "bob", {"a"})[0] == 1);
  CHECK(ingestor.counters().unrecorded == 1);
}

TEST_CASE("A worker that dies before any step leaves every event once in the history, and in the filter", "[ingest]") {
  SEENBY_RANDOM(random);
  Queue queue;
  History history;
  Store store{{.wrong_hide_rate = 0.001}};
  std::map<std::string, int> expected;
  for (int n = 0; n < 500; ++n) {
    const std::string item = "i" + std::to_string(n % 400);  // every fifth is a second sight
    queue.push(line("u" + std::to_string(n % 7), item, n, "e" + std::to_string(n))).or_throw();
    ++expected[item];
  }
  struct Killed : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  int deaths = 0;
  for (bool done = false; !done;) {
    std::uint64_t left = random.below(6);
    // The worker: dies with all it holds in memory; queue, history and store outlive it.
    Ingestor worker(queue, history, store, {.batch = 20, .wait = 0ms, .before = [&](IngestStep) {
                                              if (left-- == 0) throw Killed("killed");
                                            }});
    try {
      while (worker.step().or_throw() != 0) {}
      done = true;
    } catch (const Killed&) {
      ++deaths;
      queue.redeliver();
    }
  }
  CHECK(deaths > 10);
  CHECK(queue.backlog() == 0);
  for (const auto& [item, events] : expected) {
    if (history.event_count(item).or_throw() != static_cast<std::uint64_t>(events)) FAIL(item);
  }
  for (int n = 0; n < 500; ++n) CHECK(knows(store, "u" + std::to_string(n % 7), "i" + std::to_string(n % 400)));
}

TEST_CASE("A log ingested in random order gives the same windowed answers as in order", "[ingest]") {
  SEENBY_RANDOM(random);
  TestClock clock;
  const StorePolicy policy{.wrong_hide_rate = 0.0001, .window = 30 * day, .slices = 10, .clock = clock.clock()};
  std::vector<SeenEvent<std::string, std::string>> log;
  for (int n = 0; n < 200; ++n) {
    const auto age = std::chrono::seconds{static_cast<std::int64_t>(random.below(60 * 86'400))};
    log.push_back({"alice", "i" + std::to_string(n), clock.now() - age, {}});
  }
  const auto answers = [&](const std::vector<SeenEvent<std::string, std::string>>& events) {
    BoundedQueue<SeenEvent<std::string, std::string>> queue({.clock = clock.clock()});
    History history;
    Store store{policy};
    Ingestor ingestor(queue, history, store, {.batch = 7, .wait = 0ms, .clock = clock.clock()});
    for (const auto& event : events) queue.push(event).or_throw();
    while (ingestor.step().or_throw() != 0) {}
    std::vector<bool> seen;
    for (int n = 0; n < 200; ++n) seen.push_back(knows(store, "alice", "i" + std::to_string(n)));
    return seen;
  };
  auto shuffled = log;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  std::stable_sort(log.begin(), log.end(), [](const auto& a, const auto& b) { return a.seen_at < b.seen_at; });
  const auto in_order = answers(log);
  CHECK(in_order == answers(shuffled));
  for (const auto& event : log) {
    const bool known = in_order[static_cast<std::size_t>(std::stoi(event.item.substr(1)))];
    if (event.seen_at > clock.now() - 30 * day) CHECK(known);
    if (event.seen_at < clock.now() - 34 * day) CHECK_FALSE(known);
  }
}

TEST_CASE("How stale the filters may be can be read", "[ingest][000-13][002-11]") {
  TestClock clock;
  BoundedQueue<SeenEvent<std::string, std::string>> queue({.clock = clock.clock()});
  FailingHistory history;
  FailingStore store;
  Ingestor ingestor(queue, history, store, {.batch = 2, .wait = 0ms, .clock = clock.clock()});
  CHECK(ingestor.staleness() == std::chrono::seconds::max());
  for (int n = 0; n < 3; ++n) {
    queue.push({"alice", "i" + std::to_string(n), clock.now(), {}}).or_throw();
    clock.advance(10s);
  }
  // A full batch: only what entered before its last event is known to be in.
  ingestor.step().or_throw();
  CHECK(ingestor.staleness() == 20s);
  history.down = true;
  clock.advance(100s);
  CHECK_FALSE(ingestor.step());
  CHECK(ingestor.staleness() == 120s);
  history.down = false;
  ingestor.step().or_throw();
  CHECK(ingestor.staleness() == 0s);
  clock.advance(5s);
  CHECK(ingestor.staleness() == 5s);
  CHECK(ingestor.step().or_throw() == 0);  // nothing waits: nothing is stale
  CHECK(ingestor.staleness() == 0s);
}

TEST_CASE("A worker that is asked to stop ends its batch first, and says when it could not", "[ingest][concurrent]") {
  Queue queue;
  FailingHistory history;
  FailingStore store;
  for (int n = 0; n < 100; ++n) queue.push(line("alice", "i" + std::to_string(n), n)).or_throw();
  Ingestor ingestor(queue, history, store, {.batch = 10, .wait = 5ms});
  bool ended = false;
  std::jthread worker([&](std::stop_token stop) { ended = ingestor.run(stop); });
  REQUIRE(wait_until([&] { return queue.backlog() == 0; }));
  history.down = true;
  queue.push(line("bob", "late", 1)).or_throw();
  REQUIRE(wait_until([&] { return ingestor.counters().failures != 0; }));
  worker.request_stop();
  std::this_thread::sleep_for(20ms);
  history.down = false;
  worker.join();
  CHECK(ended);
  CHECK(queue.backlog() == 0);
  CHECK(history.rows.item_count("alice").or_throw() == 100);
  CHECK(knows(store, "bob", "late"));

  history.down = true;
  queue.push(line("bob", "lost", 1)).or_throw();
  CHECK_FALSE(ingestor.step());
  std::stop_source stopped;
  stopped.request_stop();
  CHECK_FALSE(ingestor.run(stopped.get_token(), 100ms));
  CHECK(queue.backlog() == 1);
}

TEST_CASE("What fails is tried again after pauses that grow, before a stop and after it", "[ingest][concurrent]") {
  Queue queue;
  FailingHistory history;
  FailingStore store;
  history.down = true;
  queue.push(line("bob", "late", 1)).or_throw();
  Ingestor ingestor(queue, history, store, {.wait = 5ms});
  std::stop_source stop;
  bool ended = true;
  std::jthread worker([&] { ended = ingestor.run(stop.get_token(), 300ms); });
  std::this_thread::sleep_for(200ms);
  CHECK(ingestor.counters().failures <= 10);  // after 0, 50 and 150 ms
  CHECK(wait_until([&] { return ingestor.counters().failures >= 3; }));
  stop.request_stop();
  worker.join();
  CHECK_FALSE(ended);
  CHECK(ingestor.counters().failures <= 20);

  // The longest pause may be shorter than the first would be.
  Ingestor hasty(queue, history, store, {.wait = 0ms, .longest_pause = 10ms});
  queue.redeliver();
  std::jthread other([&](std::stop_token asked) { hasty.run(asked, 0ms); });
  CHECK(wait_until([&] { return hasty.counters().failures >= 5; }));
  for (const IngestOptions& wrong : {IngestOptions{.batch = 0}, IngestOptions{.longest_pause = 0ms}}) {
    CHECK_THROWS_AS(Ingestor(queue, history, store, wrong), std::invalid_argument);
  }
}

}  // namespace
