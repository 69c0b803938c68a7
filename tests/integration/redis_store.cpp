// SPDX-License-Identifier: MIT
// RedisStore on redis-server and valkey-server: what a look-up answers and what a record leaves behind.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "redis/transport/pool.hpp"
#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using namespace std::chrono_literals;

static_assert(FilterStore<RedisStore<std::uint64_t>>);
static_assert(FilterStoreFor<RedisStore<std::string>, std::string>);
static_assert(BatchingStoreFor<RedisStore<std::uint64_t>, std::uint64_t>);
static_assert(ReplayableStore<RedisStore<std::uint64_t>>);
static_assert(AgeingStore<RedisStore<std::uint64_t>>);
static_assert(RemoteStore<RedisStore<std::uint64_t>>);

namespace {

/// At most so many of n fresh candidates may be hidden if the rate is p: the mean and five standard deviations.
std::size_t binomial_bound(std::size_t n, double p) {
  const double mean = static_cast<double>(n) * p;
  return static_cast<std::size_t>(mean + 5 * std::sqrt(mean) + 5);
}

}  // namespace

TEST_CASE("What was recorded is seen by the users who saw it, and fresh items are not", "[redis][000-05]") {
  for (const std::string& program : installed_servers()) {
    INFO(program);
    const RedisServer server(program);
    RedisStore<> store(server.socket_url(), {.wrong_hide_rate = 0.01, .users_per_request = 2});
    REQUIRE(record(store, 1, sequence(0, 20)).value().newly_added == 20);
    REQUIRE(record(store, 2, sequence(10, 20)));
    const auto answer = ask(store, {1, 2}, sequence(0, 30));
    for (std::size_t i = 0; i < 30; ++i) {
      const int users = (i < 20 ? 1 : 0) + (i >= 10 ? 1 : 0);
      CHECK(answer.seen_by[i] >= users);
    }
    CHECK(answer.status[0].state == UserState::known);
    CHECK(ask(store, {1, 2}, sequence(1'000'000, 10'000)).seen() <= binomial_bound(10'000, 0.01));
    // No module, no second key: one string a user.
    CHECK(server.call_string({"TYPE", store.key_of(1)}) == "string");
    CHECK(server.call_integer({"DBSIZE"}) == 2 + 1);  // and the kind of the store's items
  }
}

TEST_CASE("A look-up is one round trip for all users, slices and requests", "[redis][000-05]") {
  const RedisServer server;
  auto executor = std::make_shared<PooledExecutor>(server.socket(), ConnectionOptions{});
  class Counting final : public Executor {
   public:
    explicit Counting(std::shared_ptr<Executor> inner) : inner_(std::move(inner)) {}
    Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override {
      ++trips;
      return inner_->execute(batch, deadline);
    }
    std::string name() const override { return inner_->name(); }
    bool is_local() const override { return true; }
    int trips = 0;

   private:
    std::shared_ptr<Executor> inner_;
  };
  auto counting = std::make_shared<Counting>(executor);
  SECTION("with and without a window") {
    for (const auto window : {0s, 2'592'000s}) {
      RedisStore<> store(counting, {.window = window, .slices = window == 0s ? 1U : 6U},
                         {.prefix = std::to_string(window.count())});
      for (std::uint64_t user = 0; user < 8; ++user) REQUIRE(record(store, user, sequence(user * 100, 10)));
      counting->trips = 0;
      CHECK(ask(store, {0, 1, 2, 3, 4, 5, 6, 7}, sequence(0, 100)).seen() >= 10);
      CHECK(counting->trips == 1);
      const auto items = sequence(0, 10);
      const auto digests = digests_of(items);
      std::vector<std::vector<std::uint64_t>> users;
      std::vector<CheckAnswer> answers(100);
      std::vector<CheckRequest<std::uint64_t, std::uint64_t>> requests;
      for (std::uint64_t i = 0; i < 100; ++i) users.push_back({i % 8, (i + 1) % 8});
      for (std::size_t i = 0; i < 100; ++i) {
        answers[i] = {std::vector<std::uint8_t>(10), std::vector<UserStatus>(2)};
        requests.push_back({users[i], {items, digests}, answers[i].seen_by, answers[i].status});
      }
      counting->trips = 0;
      store.check_many(std::span<const CheckRequest<std::uint64_t, std::uint64_t>>(requests));
      CHECK(counting->trips == 1);
      for (std::size_t i = 0; i < 100; ++i) {
        const bool user_0_asked = i % 8 == 0 || (i + 1) % 8 == 0;
        CHECK((answers[i].seen() == 10) == user_0_asked);
      }
    }
  }
  SECTION("by block for large values, once their shape is known") {
    RedisStore<> store(counting, {.initial_items = 30'000}, {.whole_read_bytes = 16'384});
    REQUIRE(record(store, 1, sequence(0, 20'000)));
    CHECK(ask(store, {1}, sequence(0, 100)).seen() == 100);
    counting->trips = 0;
    const auto before = std::stoll(server.info("stats", "total_net_output_bytes"));
    CHECK(ask(store, {1}, sequence(19'950, 100)).seen() >= 50);
    const auto bytes = std::stoll(server.info("stats", "total_net_output_bytes")) - before;
    CHECK(counting->trips == 1);
    CHECK(bytes < 16'384);
    CHECK(ask(store, {1}, sequence(1'000'000, 5'000)).seen() <= binomial_bound(5'000, 0.01));
    // It changes under us: the remembered shape is not believed.
    RedisStore<> other(counting, {.initial_items = 16}, {.whole_read_bytes = 16'384});
    REQUIRE(other.forget(1).value());
    REQUIRE(record(other, 1, sequence(500'000, 30'000)));
    CHECK(ask(store, {1}, sequence(500'000, 100)).seen() == 100);
    CHECK(ask(store, {1}, sequence(0, 100)).seen() <= 10);
  }
}

TEST_CASE("Large values are read whole for many candidates and by block for few, a megabyte a trip",
          "[redis][000-05]") {
  const RedisServer server;
  class Counting final : public Executor {
   public:
    explicit Counting(std::shared_ptr<Executor> inner) : inner_(std::move(inner)) {}
    Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override {
      commands.push_back(batch.size());
      return inner_->execute(batch, deadline);
    }
    std::string name() const override { return inner_->name(); }
    bool is_local() const override { return true; }
    std::vector<std::size_t> commands;

   private:
    std::shared_ptr<Executor> inner_;
  };
  auto counting = std::make_shared<Counting>(make_executor(server.socket_url()).value());
  RedisStore<> store(counting, {.initial_items = 100'000});
  constexpr std::uint64_t users = 24;
  for (std::uint64_t user = 0; user < users; ++user) REQUIRE(record(store, user, sequence(user * 1'000, 900)));
  REQUIRE(server.call_integer({"STRLEN", store.key_of(1)}) > 128 << 10);
  std::vector<std::vector<std::uint64_t>> pairs;
  for (std::uint64_t user = 0; user < users; user += 2) pairs.push_back({user, user + 1});
  // The first tick does not know the sizes, the second does; each request asks for a hundred items of its own users.
  for (const bool sizes_known : {false, true}) {
    std::vector<std::vector<std::uint64_t>> items;
    std::vector<std::vector<Digest>> digests;
    std::vector<CheckAnswer> answers;
    std::vector<CheckRequest<std::uint64_t, std::uint64_t>> requests;
    for (const auto& pair : pairs) {
      items.push_back(sequence(pair[1] * 1'000 - 50, 100));
      digests.push_back(digests_of(items.back()));
      answers.push_back({std::vector<std::uint8_t>(100), std::vector<UserStatus>(2)});
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      requests.push_back({pairs[i], {items[i], digests[i]}, answers[i].seen_by, answers[i].status});
    }
    counting->commands.clear();
    store.check_many(std::span<const CheckRequest<std::uint64_t, std::uint64_t>>(requests));
    std::size_t asked = 0;
    for (const std::size_t commands : counting->commands) asked += commands;
    CHECK(asked == 2 * users);  // the filter, and hides
    CHECK((counting->commands.size() > 1) == sizes_known);
    for (const CheckAnswer& answer : answers) {
      for (const UserStatus& status : answer.status) REQUIRE(status.state == UserState::known);
      // The second user saw the second half; before it lie a hundred numbers that nobody saw.
      for (std::size_t i = 50; i < 100; ++i) REQUIRE(answer.seen_by[i] >= 1);
      REQUIRE(answer.seen() <= 50 + binomial_bound(100, 0.01));
    }
  }
  // Ten blocks of 32 bytes, the header twice, and hides, instead of 128 KiB.
  counting->commands.clear();
  CHECK(ask(store, {3}, sequence(3'000, 10)).seen() == 10);
  CHECK(counting->commands == std::vector<std::size_t>{13});
  counting->commands.clear();
  CHECK(ask(store, {3}, sequence(3'000, 100)).seen() == 100);
  CHECK(counting->commands == std::vector<std::size_t>{2});
}

TEST_CASE("An executor may run another look-up on the thread that waits for it", "[redis]") {
  const RedisServer server;
  class Nesting final : public Executor {
   public:
    explicit Nesting(std::shared_ptr<Executor> inner) : inner_(std::move(inner)) {}
    Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override {
      if (store != nullptr && std::exchange(nest, false)) { inner_answer = ask(*store, {2}, sequence(0, 40)); }
      return inner_->execute(batch, deadline);
    }
    std::string name() const override { return inner_->name(); }
    const RedisStore<>* store = nullptr;
    bool nest = false;
    CheckAnswer inner_answer;

   private:
    std::shared_ptr<Executor> inner_;
  };
  auto nesting = std::make_shared<Nesting>(make_executor(server.socket_url()).value());
  RedisStore<> store(nesting, {});
  nesting->store = &store;
  REQUIRE(record(store, 1, sequence(0, 20)));
  REQUIRE(record(store, 2, sequence(20, 20)));
  nesting->nest = true;
  const auto outer = ask(store, {1}, sequence(0, 40));
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(outer.seen_by[i] == 1);
    CHECK(nesting->inner_answer.seen_by[20 + i] == 1);
  }
  CHECK(outer.seen() <= 20 + binomial_bound(20, 0.01));
  CHECK(nesting->inner_answer.seen() <= 20 + binomial_bound(20, 0.01));
}

TEST_CASE("A user's size lives in the user's own key and any process recovers it from there", "[redis][000-07]") {
  const RedisServer server;
  RedisStore<> writer(server.socket_url(), {});
  for (const std::uint64_t user : {1U, 2U, 3U}) {
    REQUIRE(record(writer, user, sequence(0, static_cast<std::size_t>(std::pow(30, user)))));
  }
  CHECK(server.call_integer({"STRLEN", writer.key_of(1)}) < server.call_integer({"STRLEN", writer.key_of(2)}));
  CHECK(server.call_integer({"STRLEN", writer.key_of(2)}) < server.call_integer({"STRLEN", writer.key_of(3)}));
  const RedisStore<> reader(server.tcp_url(), {.initial_items = 7'777});
  CHECK(ask(reader, {1}, sequence(0, 30)).seen() == 30);
  CHECK(ask(reader, {2}, sequence(0, 900)).seen() == 900);
  CHECK(ask(reader, {3}, sequence(0, 27'000)).seen() == 27'000);
}

TEST_CASE("No position overwrites the header, the first block included", "[redis][000-18]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {});
  REQUIRE(store.create(1));
  REQUIRE(server.call_integer({"STRLEN", store.key_of(1)}) == 64);
  const std::string identity = server.call_string({"GETRANGE", store.key_of(1), "0", "15"});
  const std::string rest = server.call_string({"GETRANGE", store.key_of(1), "24", "31"});
  // One block: every item sets bits in the 32 bytes right behind the header.
  for (std::uint64_t item = 0; item < 20; ++item) REQUIRE(record(store, 1, {item}));
  CHECK(server.call_integer({"STRLEN", store.key_of(1)}) == 64);
  CHECK(server.call_string({"GETRANGE", store.key_of(1), "0", "15"}) == identity);
  CHECK(server.call_string({"GETRANGE", store.key_of(1), "24", "31"}) == rest);
  // Sequence 20 and items 20, little-endian.
  CHECK(server.call_string({"GETRANGE", store.key_of(1), "16", "23"}) == std::string("\x14\0\0\0\x14\0\0\0", 8));
  CHECK(ask(store, {1}, sequence(0, 20)).seen() == 20);
}

TEST_CASE("A missing key is unknown, not an empty filter; a new user gets an explicit empty one", "[redis][000-19]") {
  for (const std::string& program : installed_servers()) {
    const RedisServer server(program);
    RedisStore<> store(server.socket_url(), {});
    const auto unknown = ask(store, {1}, sequence(0, 100));
    CHECK(unknown.status[0].state == UserState::missing);
    CHECK(unknown.seen() == 0);
    REQUIRE(store.create(1));
    const auto empty = ask(store, {1}, sequence(0, 100));
    CHECK(empty.status[0].state == UserState::known);
    CHECK(empty.seen() == 0);
    REQUIRE(record(store, 1, {5}));
    REQUIRE(store.create(1));
    CHECK(ask(store, {1}, {5}).seen() == 1);
    CHECK(store.forget(1).value());
    CHECK_FALSE(store.forget(1).value());
    CHECK(ask(store, {1}, {5}).status[0].state == UserState::missing);
    CHECK(server.call_integer({"DBSIZE"}) == 1);  // the kind of the store's items
  }
}

TEST_CASE("A filter grows from a history at double the size and keeps its rate", "[redis][000-08][000-17]") {
  for (const std::string& program : installed_servers()) {
    const RedisServer server(program);
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), {.wrong_hide_rate = 0.01, .users_per_request = 1});
    std::uint64_t readings = 0;
    store.set_replay([&, read = history.replay()](const std::uint64_t& user, Time since) {
      ++readings;
      return read(user, since);
    });
    std::size_t largest = 0;
    for (std::uint64_t item = 0; item < 2'000; ++item) {
      history.append(1, {{item}});
      REQUIRE(record(store, 1, {item}));
      const auto bytes = static_cast<std::size_t>(server.call_integer({"STRLEN", store.key_of(1)}));
      CHECK(bytes >= largest);
      largest = bytes;
    }
    CHECK(ask(store, {1}, sequence(0, 2'000)).seen() == 2'000);
    CHECK(ask(store, {1}, sequence(1'000'000, 20'000)).seen() <= binomial_bound(20'000, 0.01));
    CHECK(store.counters().growths >= 5);
    CHECK(readings == store.counters().growths + 1);  // and one for the creation
    CHECK(store.counters().over_budget == 0);
    CHECK(store.counters().records == 2'000);
  }
}

TEST_CASE("Without a history a full filter is succeeded by a larger, tighter one in the same value",
          "[redis][003-06]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.wrong_hide_rate = 0.01});
  for (std::uint64_t item = 0; item < 3'000; ++item) REQUIRE(record(store, 1, {item}));
  CHECK(ask(store, {1}, sequence(0, 3'000)).seen() == 3'000);
  CHECK(ask(store, {1}, sequence(1'000'000, 20'000)).seen() <= binomial_bound(20'000, 0.01));
  CHECK(store.counters().growths >= 5);
  CHECK(store.counters().over_budget == 0);
  CHECK(server.call_integer({"DBSIZE"}) == 1 + 1);
}

TEST_CASE("Large batches go in whole, and every item counts once", "[redis]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.initial_items = 20'000});
  REQUIRE(record(store, 1, sequence(0, 1)));
  const auto first = record(store, 1, sequence(0, 10'000)).value();
  CHECK(first.newly_added >= 9'900);
  CHECK(first.newly_added <= 9'999);
  const auto again = record(store, 1, sequence(0, 10'000)).value();
  CHECK(again.newly_added == 0);
  CHECK(ask(store, {1}, sequence(0, 10'000)).seen() == 10'000);
}

TEST_CASE("The sequence moves with every add, even one that changes no bit", "[redis][000-20]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {});
  REQUIRE(record(store, 1, {5}));
  const auto sequence_now = [&] { return server.call_string({"GETRANGE", store.key_of(1), "16", "19"}); };
  std::string before = sequence_now();
  for (int i = 0; i < 3; ++i) {
    CHECK(record(store, 1, {5}).value().newly_added == 0);
    CHECK(sequence_now() != before);
    before = sequence_now();
  }
}

TEST_CASE("A lost filter is rebuilt from the history by the next record", "[redis][002-12][002-15]") {
  for (const std::string& program : installed_servers()) {
    const RedisServer server(program);
    TruthfulHistory history;
    RedisStore<> store(server.socket_url(), {});
    store.set_replay(history.replay());
    history.append(1, sequence(0, 500));
    REQUIRE(record(store, 1, sequence(0, 500)));
    REQUIRE(server.call_integer({"DEL", store.key_of(1)}) == 1);
    CHECK(ask(store, {1}, {3}).status[0].state == UserState::missing);
    // Nothing but freshness was lost: the history is whole, and from it the filter.
    CHECK(history.items(1).size() == 500);
    history.append(1, {{900}});
    REQUIRE(record(store, 1, {900}));
    auto all = sequence(0, 500);
    all.push_back(900);
    const auto answer = ask(store, {1}, all);
    CHECK(answer.status[0].state == UserState::known);
    CHECK(answer.seen() == all.size());
    CHECK(store.counters().rebuilds == 2);
  }
}

TEST_CASE("A suspiciously empty filter is rebuilt on request", "[redis][002-15]") {
  const RedisServer server;
  TruthfulHistory history;
  history.append(1, sequence(0, 300));
  RedisStore<> store(server.socket_url(), {});
  REQUIRE(store.create(1));
  CHECK(store.rebuild(1).error().code == ErrorCode::invalid_argument);
  store.set_replay(history.replay());
  REQUIRE(store.rebuild(1));
  CHECK(ask(store, {1}, sequence(0, 300)).seen() == 300);
  REQUIRE(store.rebuild(2));
  CHECK(ask(store, {2}, sequence(0, 300)).status[0].state == UserState::known);
}

TEST_CASE("Merged users: the one has seen what both had, the other is forgotten", "[redis]") {
  for (const std::string& program : installed_servers()) {
    for (const auto window : {0s, 2'592'000s}) {
      INFO(program << ", window " << window.count());
      const RedisServer server(program);
      TruthfulHistory history;
      RedisStore<> store(server.socket_url(),
                         {.wrong_hide_rate = 0.01, .window = window, .slices = window == 0s ? 1U : 3U});
      REQUIRE(record(store, 1, sequence(0, 5)));
      CHECK(store.merge_users(1, 2).error().code == ErrorCode::invalid_argument);
      CHECK(ask(store, {1}, sequence(0, 5)).seen() == 5);
      store.set_replay(history.replay());
      history.append(1, sequence(0, 300));
      history.append(2, sequence(250, 50));
      REQUIRE(record(store, 1, sequence(0, 300)));
      REQUIRE(record(store, 2, sequence(250, 50)));
      // 3 has no filter yet; to itself a user is merged already.
      history.append(3, sequence(900, 10));
      for (const std::uint64_t from : {1U, 3U, 2U}) {
        history.append(2, history.items(from));
        REQUIRE(store.merge_users(from, 2));
      }
      auto all = sequence(0, 300);
      for (const std::uint64_t item : sequence(900, 10)) all.push_back(item);
      const auto answer = ask(store, {1, 2}, all);
      CHECK(answer.status[0].state == UserState::missing);
      CHECK(answer.status[1].state == UserState::known);
      CHECK(answer.seen() == all.size());
      CHECK(ask(store, {2}, sequence(1'000'000, 10'000)).seen() <= binomial_bound(10'000, 0.01));
      CHECK(store.counters().over_budget == 0);
    }
  }
}

TEST_CASE("While a filter is built from the history the user is unknown, and adds meanwhile are kept",
          "[redis][000-20]") {
  const RedisServer server;
  TruthfulHistory history;
  history.append(1, sequence(0, 200));
  RedisStore<> builder(server.socket_url(), {});
  RedisStore<> other(server.socket_url(), {});
  const RedisStore<> reader(server.socket_url(), {});
  auto slow = history.replay();
  int readings = 0;
  builder.set_replay([&](const std::uint64_t& user, Time since) {
    auto digests = slow(user, since);
    // What another process sees and does between our reading of the history and our write. (The second reading is
    // for merging what raced.)
    if (++readings > 1) return digests;
    CHECK(ask(reader, {1}, sequence(0, 200)).status[0].state == UserState::missing);
    history.append(1, {{777}});
    CHECK(record(other, 1, {777}));
    CHECK(ask(reader, {1}, {777}).status[0].state == UserState::missing);
    return digests;
  });
  REQUIRE(record(builder, 1, {5}));
  auto all = sequence(0, 200);
  all.push_back(777);
  const auto answer = ask(reader, {1}, all);
  CHECK(answer.status[0].state == UserState::known);
  CHECK(answer.seen() == all.size());
  CHECK(readings == 2);
  CHECK(server.call_integer({"PTTL", reader.key_of(1)}) == -1);
}

TEST_CASE("A filter deleted and made again while a builder was reading is not overwritten by the stale reading",
          "[redis][000-20]") {
  const RedisServer server;
  TruthfulHistory history;
  history.append(1, sequence(0, 50));
  RedisStore<> slow_builder(server.socket_url(), {});
  RedisStore<> other(server.socket_url(), {});
  other.set_replay(history.replay());
  int calls = 0;
  slow_builder.set_replay([&](const std::uint64_t& user, Time since) {
    auto digests = history.replay()(user, since);
    if (++calls == 1) {
      server.call({"DEL", other.key_of(1)});
      history.append(1, {{888}});
      CHECK(record(other, 1, {888}));
      server.call({"DEL", other.key_of(1)});
    }
    return digests;
  });
  const auto recorded = record(slow_builder, 1, {5});
  INFO((recorded ? "" : recorded.error().message));
  REQUIRE(recorded);
  const auto answer = ask(other, {1}, {888});
  REQUIRE(answer.status[0].state == UserState::known);
  CHECK(answer.seen() == 1);
  CHECK(calls == 2);
}

TEST_CASE("A history that knows less than the filter does not replace it", "[redis]") {
  const RedisServer server;
  TruthfulHistory history;
  RedisStore<> store(server.socket_url(), {});
  REQUIRE(record(store, 1, sequence(0, 500)));
  store.set_replay(history.replay());  // which is empty
  REQUIRE(store.rebuild(1));
  for (std::uint64_t item = 1'000; item < 1'600; ++item) {
    history.append(1, {{item}});
    REQUIRE(record(store, 1, {item}));
  }
  CHECK(ask(store, {1}, sequence(0, 500)).seen() == 500);
  CHECK(ask(store, {1}, sequence(1'000, 600)).seen() == 600);
}

TEST_CASE("Names of users with braces and colons keep to one key and one slot each", "[redis]") {
  const RedisServer server;
  RedisStore<std::string> store(server.socket_url(), {});
  const std::vector<std::string> users{"a", "{a}", "a}", "a:5", "%7Ba%7D", "", "ü\n\0x"};
  const std::vector<std::string> items{"i"};
  const std::vector<Digest> digests{store.hasher()("i")};
  for (const std::string& user : users) REQUIRE(store.record(user, ItemBatch<std::string>{items, digests}));
  CHECK(server.call_integer({"DBSIZE"}) == static_cast<std::int64_t>(users.size()) + 1);
  CHECK(store.key_of("{a}") == "seenby:{%7Ba%7D}");
  CHECK(store.key_of("a") == "seenby:{a}");
}

TEST_CASE("Nonsense in a policy or in options is refused at construction", "[redis]") {
  const auto make = [](StorePolicy policy, RedisStoreOptions options) {
    return RedisStore<>("redis://127.0.0.1:1", std::move(policy), std::move(options));
  };
  CHECK_NOTHROW(make({}, {}));
  CHECK_THROWS_AS(make({.wrong_hide_rate = 0}, {}), std::invalid_argument);
  CHECK_THROWS_AS(make({}, {.prefix = "a{b"}), std::invalid_argument);
  CHECK_THROWS_AS(make({}, {.timeout = 0ms}), std::invalid_argument);
  CHECK_THROWS_AS(make({}, {.time_to_live = TimeToLive::fixed, .ttl = 0s}), std::invalid_argument);
  CHECK_THROWS_AS(RedisStore<>("nonsense", {}), BadResult);
}
