// SPDX-License-Identifier: MIT
// RedisBloomStore against the module itself where SEENBY_REDISBLOOM_MODULE names it, and against a server without it.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "redis/protocol/bloom_state.hpp"
#include "seenby/histories/memory_history.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/filter_store.hpp"
#include "support/redis_cluster.hpp"
#include "support/redis_server.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::RedisServer;

namespace {

using Store = RedisBloomStore<std::string, std::uint64_t>;

/// A server with the module, or null: then the test says so and ends.
std::unique_ptr<RedisServer> server_with_module() {
  const char* module = std::getenv("SEENBY_REDISBLOOM_MODULE");
  if (module == nullptr || *module == '\0') return nullptr;
  return std::make_unique<RedisServer>("redis-server", std::vector<std::string>{"--loadmodule", module});
}

#define SEENBY_NEED_MODULE(server)          \
  const auto server = server_with_module(); \
  if (server == nullptr) SKIP("SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so (2.8)")

struct CheckAnswer {
  std::vector<std::uint8_t> seen;
  std::vector<UserStatus> status;
};

template <class AnyStore>
CheckAnswer ask(const AnyStore& store, const std::vector<std::string>& users, const std::vector<std::uint64_t>& items) {
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(store.hasher()(item));
  CheckAnswer answer{std::vector<std::uint8_t>(items.size(), 9), std::vector<UserStatus>(users.size())};
  store.check(users, {items, digests}, answer.seen, answer.status);
  return answer;
}

Result<RecordOutcome> add(Store& store, const std::string& user, const std::vector<std::uint64_t>& items) {
  const std::vector<Digest> digests(items.size());
  return store.record(user, {items, digests});
}

std::vector<std::uint64_t> numbers(std::uint64_t from, std::size_t count) {
  std::vector<std::uint64_t> items(count);
  std::iota(items.begin(), items.end(), from);
  return items;
}

std::size_t count_seen(const CheckAnswer& answer) {
  return static_cast<std::size_t>(std::count(answer.seen.begin(), answer.seen.end(), 1));
}

static_assert(FilterStoreFor<Store, std::uint64_t>);
static_assert(FilterStoreFor<RedisBloomStore<std::uint64_t, std::string>, std::string>);
static_assert(BatchingStoreFor<Store, std::uint64_t>);
static_assert(RemoteStore<Store>);

}  // namespace

TEST_CASE("RedisBloom tells newly added from present, yes from no, and either from errors", "[redis][bloom][001-06]") {
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url(), {.capacity = 100});
  CHECK(store.module_state() == ModuleState::present);
  CHECK(add(store, "alice", {1, 2, 3}).value().newly_added == 3);
  CHECK(add(store, "alice", {2, 3, 4}).value().newly_added == 1);
  const CheckAnswer answer = ask(store, {"alice"}, {1, 2, 3, 4, 1'000'001});
  CHECK(answer.status[0].state == UserState::known);
  CHECK(answer.seen == std::vector<std::uint8_t>{1, 1, 1, 1, 0});
  CHECK(store.counters().records == 6);
  // Other clients find the items under the plain key and as plain text.
  CHECK(server->call_integer({"BF.EXISTS", "seen:alice", "4"}) == 1);
  server->call({"BF.MADD", "seen:alice", "77"});
  CHECK(ask(store, {"alice"}, {77}).seen[0] == 1);
  CHECK(store.forget("alice").value());
  CHECK_FALSE(store.forget("alice").value());
}

TEST_CASE("Reserving a filter twice is no error, and what is in it stays", "[redis][bloom][001-05]") {
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url(), {.capacity = 100, .error_rate = 0.001});
  REQUIRE(store.create("bob"));
  CHECK(add(store, "bob", {5}).value().newly_added == 1);
  REQUIRE(store.create("bob"));
  CHECK(ask(store, {"bob"}, {5}).seen[0] == 1);
  CHECK(store.info("bob").value().items == 1);
  CHECK(store.info("bob").value().capacity == 100);
  CHECK(store.info("nobody").error().code == ErrorCode::unknown_user);
}

TEST_CASE("An error rate of 1e-7 reaches the module as 1e-7", "[redis][bloom][001-07]") {
  for (const double rate : {1e-7, 1e-12, 0.01, 0.1, 0.3}) {
    CHECK(std::strtod(rate_text(rate).c_str(), nullptr) == rate);
  }
  SEENBY_NEED_MODULE(server);
  Store strict(server->socket_url(), {.capacity = 10'000, .error_rate = 1e-7, .prefix = "strict:"});
  Store loose(server->socket_url(), {.capacity = 10'000, .error_rate = 0.01, .prefix = "loose:"});
  REQUIRE(strict.create("u"));
  REQUIRE(loose.create("u"));
  // ln(1e-7) / ln(1e-2) = 3.5: only a rate that arrived makes a filter that much larger.
  const double ratio = static_cast<double>(strict.info("u").value().size_bytes) /
                       static_cast<double>(loose.info("u").value().size_bytes);
  CHECK(ratio > 3.0);
  CHECK(ratio < 4.5);
}

TEST_CASE("The creator marketplace's filter is 100,000 items at 1% for 30 days", "[redis][bloom][002-06]") {
  const RedisBloomOptions preset = creator_marketplace();
  CHECK(preset.prefix == "seen:");
  CHECK(preset.capacity == 100'000);
  CHECK(preset.error_rate == 0.01);
  CHECK(preset.ttl == std::chrono::hours{24 * 30});
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url(), preset);
  REQUIRE(add(store, "userA", {1, 2, 3}));
  CHECK(store.key_of("userA") == "seen:userA");
  CHECK(store.info("userA").value().capacity == 100'000);
  const std::int64_t left = server->call_integer({"TTL", "seen:userA"});
  CHECK(left > 2'591'990);
  CHECK(left <= 2'592'000);
}

TEST_CASE("A worker's flush is one BF.MADD a user, all in one round trip", "[redis][bloom][002-05]") {
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url(), creator_marketplace());
  REQUIRE(store.create("userA"));
  REQUIRE(store.create("userB"));
  server->call({"CONFIG", "RESETSTAT"});
  const std::vector<std::uint64_t> first{1, 2, 3};
  const std::vector<std::uint64_t> second{7, 9};
  const std::vector<RecordRequest<std::string, std::uint64_t>> flush{{"userA", {first, {}}}, {"userB", {second, {}}}};
  const auto outcomes = store.record_many(flush);
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[0].value().newly_added == 3);
  CHECK(outcomes[1].value().newly_added == 2);
  CHECK(server->info("commandstats", "cmdstat_bf.madd").starts_with("calls=2,"));
  CHECK(ask(store, {"userA", "userB"}, {1, 7, 9, 3}).seen == std::vector<std::uint8_t>{1, 1, 1, 1});
}

TEST_CASE("A missing filter is missing although BF.MEXISTS answers 0", "[redis][bloom][002-12]") {
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url());
  REQUIRE(add(store, "known", {1}));
  const CheckAnswer answer = ask(store, {"known", "lost"}, {1, 2});
  CHECK(answer.status[0].state == UserState::known);
  CHECK(answer.status[1].state == UserState::missing);
  CHECK(answer.seen == std::vector<std::uint8_t>{1, 0});
  CHECK(server->call_integer({"EXISTS", "seen:lost"}) == 0);
}

TEST_CASE("A lost filter is made anew from the history, at our size and in one step", "[redis][bloom][002-12]") {
  SEENBY_NEED_MODULE(server);
  MemoryHistory<std::string, std::uint64_t> history;
  const std::vector<std::uint64_t> past = numbers(1, 5'000);
  REQUIRE(history.append("alice", past, system_time()));
  Store store(server->socket_url(), {.capacity = 2'000, .expansion = 0});
  store.set_item_replay(item_replay_of(history));
  REQUIRE(add(store, "alice", {1}));
  const CheckAnswer answer = ask(store, {"alice"}, past);
  CHECK(answer.status[0].state == UserState::known);
  CHECK(count_seen(answer) == past.size());
  // Not the module's default of 100, and not the 2,000 that could not hold what is known.
  CHECK(store.info("alice").value().capacity >= 5'000);
  CHECK(store.bloom_counters().rebuilds == 1);
  server->call({"DEL", "seen:alice"});
  CHECK(ask(store, {"alice"}, {1}).status[0].state == UserState::missing);
  REQUIRE(add(store, "alice", {5'001}));
  CHECK(count_seen(ask(store, {"alice"}, past)) == past.size());
  CHECK(store.counters().rebuilds == 2);
}

TEST_CASE("The facade rebuilds a lost RedisBloom filter from its history", "[redis][bloom][002-12]") {
  SEENBY_NEED_MODULE(server);
  MemoryHistory<std::string, std::uint64_t> history;
  SeenFilter filter(Store(server->socket_url(), creator_marketplace()), history);
  REQUIRE(filter.record_all("alice", numbers(0, 30)));
  server->call({"DEL", "seen:alice"});
  const CandidatePool pool(numbers(0, 40));
  const std::vector<std::string> viewer{"alice"};
  CHECK(filter.select_unseen(pool, viewer).unknown_users().size() == 1);
  REQUIRE(filter.record("alice", std::uint64_t{30}));
  const auto page = filter.select_unseen(pool, viewer);
  CHECK(page.unknown_users().empty());
  CHECK(page.size() == 9);
}

TEST_CASE("A fixed time to live starts with the filter, a refreshed one with every write", "[redis][bloom][002-17]") {
  SEENBY_NEED_MODULE(server);
  Store cliff(server->socket_url(), {.time_to_live = TimeToLive::fixed, .ttl = 2s, .prefix = "cliff:"});
  Store endless(server->socket_url(), {.time_to_live = TimeToLive::refreshed, .ttl = 2s, .prefix = "endless:"});
  Store forever(server->socket_url(), {.prefix = "forever:"});
  for (Store* store : {&cliff, &endless, &forever}) REQUIRE(add(*store, "u", {1}));
  CHECK(server->call_integer({"PTTL", "forever:u"}) == -1);
  std::this_thread::sleep_for(1200ms);
  for (Store* store : {&cliff, &endless, &forever}) REQUIRE(add(*store, "u", {2}));
  CHECK(server->call_integer({"PTTL", "cliff:u"}) < 900);
  CHECK(server->call_integer({"PTTL", "endless:u"}) > 1500);
  std::this_thread::sleep_for(1000ms);
  // The cliff: everything comes back at once. The other: nothing ever does.
  CHECK(ask(cliff, {"u"}, {1}).status[0].state == UserState::missing);
  CHECK(ask(endless, {"u"}, {1}).seen[0] == 1);
  // An expired filter is not recreated at the module's default capacity of 100.
  REQUIRE(add(cliff, "u", {3}));
  CHECK(cliff.info("u").value().capacity == cliff.options().capacity);
  CHECK(server->call_integer({"PTTL", "cliff:u"}) > 1500);
}

TEST_CASE("What a full NONSCALING filter does not take is not acknowledged", "[redis][bloom]") {
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url(), {.capacity = 10, .error_rate = 1e-6, .expansion = 0});
  const auto outcome = add(store, "full", numbers(1, 25));
  REQUIRE(!outcome);
  CHECK(outcome.error().code == ErrorCode::too_large);
  CHECK(outcome.error().message.find("acknowledged 10 of 25") != std::string::npos);
  CHECK(outcome.error().message.find("seen:full") != std::string::npos);
  CHECK(store.counters().records == 10);
  CHECK(store.counters().write_failures == 15);
  CHECK(store.bloom_counters().full_filters == 1);
  CHECK(count_seen(ask(store, {"full"}, numbers(1, 10))) == 10);
  CHECK(store.info("full").value().expansion == 0);
  // One that may expand takes them all, a thousand at a time.
  Store scaling(server->socket_url(), {.capacity = 10, .expansion = 2});
  CHECK(add(scaling, "grows", numbers(1, 2'500)).has_value());
  CHECK(count_seen(ask(scaling, {"grows"}, numbers(1, 2'500))) == 2'500);
  CHECK(scaling.info("grows").value().filters > 1);
}

TEST_CASE("A key of another type is a wrong_type error that names it", "[redis][bloom]") {
  SEENBY_NEED_MODULE(server);
  Store store(server->socket_url());
  server->call({"SET", "seen:odd", "text"});
  REQUIRE(add(store, "even", {1}));
  const CheckAnswer answer = ask(store, {"odd", "even"}, {1});
  REQUIRE(answer.status[0].state == UserState::unreachable);
  CHECK(answer.status[0].error->code == ErrorCode::wrong_type);
  CHECK(answer.status[0].error->message.find("seen:odd") != std::string::npos);
  CHECK(answer.status[1].state == UserState::known);
  CHECK(answer.seen[0] == 1);
  for (const auto& error : {add(store, "odd", {1}).error(), store.info("odd").error()}) {
    CHECK(error.code == ErrorCode::wrong_type);
  }
  CHECK(store.create("odd").error().code == ErrorCode::wrong_type);
  CHECK(store.counters().write_failures == 1);
}

TEST_CASE("Concurrent adds to a filter that keeps getting lost lose nothing acknowledged for good",
          "[redis][bloom][concurrent]") {
  SEENBY_NEED_MODULE(server);
  MemoryHistory<std::string, std::uint64_t> history;
  Store store(server->socket_url(), {.capacity = 4'000, .timeout = 5s});
  store.set_item_replay(item_replay_of(history));
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t each = 300;
  std::atomic<int> failures{0};
  std::vector<std::thread> writers;
  for (std::uint64_t id = 0; id < threads; ++id) {
    writers.emplace_back([&, id] {
      for (std::uint64_t i = 0; i < each; ++i) {
        const std::vector<std::uint64_t> item{id * each + i};
        if (!history.append("hot", item, system_time()) || !add(store, "hot", item)) ++failures;
        if (i % 50 == 17) server->call({"DEL", "seen:hot"});
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(failures == 0);
  REQUIRE(add(store, "hot", {0}));
  CHECK(count_seen(ask(store, {"hot"}, numbers(0, threads * each))) == threads * each);
  CHECK(store.bloom_counters().rebuilds > 1);
}

TEST_CASE("RedisBloom on a cluster: every node's users in one request", "[redis][bloom][cluster]") {
  const char* module = std::getenv("SEENBY_REDISBLOOM_MODULE");
  if (module == nullptr || *module == '\0') {
    SKIP("SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so (2.8)");
  }
  seenby::test::RedisCluster cluster("redis-server", false, {"--loadmodule", module});
  Store store(cluster.url(), {.capacity = 100});
  std::vector<std::string> users;
  std::vector<RecordRequest<std::string, std::uint64_t>> flush;
  const std::vector<std::uint64_t> items = numbers(1, 20);
  for (int i = 0; i < 30; ++i) users.push_back("user" + std::to_string(i));
  for (const std::string& user : users) flush.push_back({user, {items, {}}});
  for (const auto& outcome : store.record_many(flush)) CHECK(outcome.value().newly_added == items.size());
  for (std::size_t i = 0; i < 3; ++i) CHECK(cluster.node(i).call_integer({"DBSIZE"}) > 2);
  const CheckAnswer answer = ask(store, users, items);
  for (const UserStatus& status : answer.status) CHECK(status.state == UserState::known);
  CHECK(answer.seen == std::vector<std::uint8_t>(items.size(), 30));
}

TEST_CASE("A server without the module is known at the start, refused at once, and counted", "[redis][bloom]") {
  for (const std::string program : {"redis-server", "valkey-server"}) {
    if (!RedisServer::installed(program)) SKIP("SKIPPED: " + program + " is not installed");
    const RedisServer server(program);
    Store store(server.socket_url());
    CHECK(store.module_state() == ModuleState::absent);
    const std::string before = server.info("stats", "total_commands_processed");
    const auto outcome = add(store, "u", {1, 2});
    REQUIRE(!outcome);
    CHECK(outcome.error().code == ErrorCode::unavailable);
    const CheckAnswer answer = ask(store, {"u"}, {1});
    REQUIRE(answer.status[0].state == UserState::unreachable);
    CHECK(answer.status[0].error->code == ErrorCode::unavailable);
    CHECK(answer.seen[0] == 0);
    CHECK(store.create("u").error().code == ErrorCode::unavailable);
    CHECK(store.info("u").error().code == ErrorCode::unavailable);
    CHECK(store.bloom_counters().unavailable == 4);
    CHECK(store.counters().write_failures == 2);
    // Only our own INFO was counted between: nothing was sent.
    CHECK(std::stoll(server.info("stats", "total_commands_processed")) == std::stoll(before) + 1);
  }
}

TEST_CASE("A module that could not be asked for at the start is missed by its first command", "[redis][bloom]") {
  RedisServer server;
  server.kill_at_once();
  Store store(server.tcp_url());
  CHECK(store.module_state() == ModuleState::unknown);
  CHECK(add(store, "u", {1}).error().code == ErrorCode::unreachable);
  server.start();
  const auto patience = Deadline::after(5s);
  while (store.module_state() == ModuleState::unknown && !patience.passed()) {
    CHECK(!add(store, "u", {1}));
    std::this_thread::sleep_for(10ms);
  }
  CHECK(store.module_state() == ModuleState::absent);
  CHECK(add(store, "u", {1}).error().code == ErrorCode::unavailable);
}

TEST_CASE("Options that cannot be kept are refused with what came", "[redis][bloom]") {
  const std::string nowhere = "redis://127.0.0.1:1?connect_timeout_ms=1";
  CHECK_THROWS_AS(Store(nowhere, {.capacity = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.error_rate = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.error_rate = 1}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.expansion = 1u << 20}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.time_to_live = TimeToLive::fixed, .ttl = 0s}), std::invalid_argument);
  CHECK_THROWS_AS(Store("http://nowhere"), BadResult);
}
