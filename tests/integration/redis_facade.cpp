// SPDX-License-Identifier: MIT
// SeenFilter over RedisStore: what a page does when the store fails is the caller's choice, and the page says so.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/counting_executor.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;

}  // namespace

TEST_CASE("When the store fails the policy chooses: show and say so, hide all, fail, or throw", "[redis][002-12]") {
  RedisServer server;
  SeenFilter filter{RedisStore<>(server.socket_url(), {.users_per_request = 2})};
  const auto pool = filter.pool(std::vector<std::uint64_t>{10, 11, 12, 13});
  REQUIRE(filter.record(alice, std::uint64_t{10}));
  REQUIRE(filter.create(bob));
  CHECK(filter.select_unseen(pool, {alice, bob}).size() == 3);
  server.kill_at_once();

  const auto shown = filter.select_unseen(pool, {alice, bob}, {.on_unknown = OnUnknown::show});
  CHECK(shown.size() == 4);
  for (const Pick& pick : shown.picks()) CHECK(pick.reason == PickReason::unknown_user);
  REQUIRE(shown.unknown_users().size() == 2);
  CHECK(shown.unknown_users()[1].state == UserState::unreachable);
  REQUIRE(shown.unknown_users()[1].error != nullptr);
  CHECK(shown.unknown_users()[1].error->code == ErrorCode::unreachable);

  const auto hidden = filter.select_unseen(pool, {alice, bob}, {.on_unknown = OnUnknown::hide});
  CHECK(hidden.empty());
  CHECK(hidden.unknown_users().size() == 2);

  const auto failed = filter.select_unseen(pool, {alice, bob}, {.on_unknown = OnUnknown::fail});
  CHECK(failed.empty());
  REQUIRE(failed.error().has_value());

  CHECK_THROWS_AS(filter.select_unseen(pool, {alice, bob}, {.on_unknown = OnUnknown::raise}), BadResult);

  // A user whom the store does not have is another matter than a store that is down.
  const auto apart =
      filter.select_unseen(pool, {alice}, {.on_unknown = OnUnknown::hide, .on_unreachable = OnUnknown::show});
  CHECK(apart.size() == 4);
  CHECK(filter.counters().unknown_users == 9);
}

TEST_CASE("A partial failure answers for the users that could be asked", "[redis]") {
  const RedisServer server;
  SeenFilter filter{RedisStore<>(server.socket_url(), {.users_per_request = 2})};
  const auto pool = filter.pool(std::vector<std::uint64_t>{10, 11, 12, 13});
  REQUIRE(filter.record(alice, std::uint64_t{10}));
  server.call({"RPUSH", filter.store().key_of(bob), "not a filter"});
  const auto page = filter.select_unseen(pool, {alice, bob}, {.on_unknown = OnUnknown::show});
  CHECK(page.size() == 3);
  REQUIRE(page.unknown_users().size() == 1);
  CHECK(page.unknown_users()[0].user_index == 1);
  CHECK(page.unknown_users()[0].error->code == ErrorCode::wrong_type);
}

TEST_CASE("A failed filter write repeats an item at worst: the history has it, it is counted, and a rebuild mends it",
          "[redis][002-13][002-16]") {
  RedisServer server;
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter(RedisStore<>(server.socket_url(), {}), history);
  REQUIRE(filter.record(alice, std::uint64_t{10}));
  server.kill_at_once();
  const auto failed = filter.record(alice, std::uint64_t{11});
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == ErrorCode::unreachable);
  CHECK(filter.counters().write_failures == 1);
  CHECK(filter.counters().store.write_failures == 1);
  CHECK(history.seen_since(alice).value().size() == 2);
  server.start();
  const auto patience = Deadline::after(std::chrono::seconds(10));
  Result<RecordOutcome> back = failed;
  while (!(back = filter.record(alice, std::uint64_t{12})) && !patience.passed()) {}
  REQUIRE(back.has_value());
  const auto pool = filter.pool(std::vector<std::uint64_t>{10, 11, 12, 13});
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 3});
  REQUIRE(page.size() == 1);
  CHECK(page[0].index == 3);
  CHECK(page.underfilled());
  CHECK(filter.counters().underfilled_pages == 1);
  CHECK(filter.counters().removed >= 3);
}

TEST_CASE("After a login the pages of the known user hide what the anonymous one saw", "[redis]") {
  const RedisServer server;
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter(RedisStore<>(server.socket_url(), {}), history);
  REQUIRE(filter.record_all(alice, std::vector<std::uint64_t>{10, 11}));
  REQUIRE(filter.record_all(bob, std::vector<std::uint64_t>{12}));
  REQUIRE(filter.merge_users(alice, bob));
  const auto pool = filter.pool(std::vector<std::uint64_t>{10, 11, 12, 13});
  const auto page = filter.select_unseen(pool, {bob}, {.limit = 1});
  REQUIRE(page.size() == 1);
  CHECK(page[0].index == 3);
  CHECK(server.call_integer({"DBSIZE"}) == 1 + 1);  // and the kind of the store's items
}

TEST_CASE("A request is one round trip through the facade, however large its pool and however many its users",
          "[redis][000-05]") {
  const RedisServer server;
  auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  SeenFilter filter{RedisStore<>(counting, {.users_per_request = 3, .window = std::chrono::hours{24}, .slices = 4})};
  const auto pool = filter.pool(sequence(0, 3'000));
  for (const std::uint64_t user : {1U, 2U, 3U}) {
    REQUIRE(filter.record_all(user, sequence(user * 1'000 - 1'000, 1'000)));
  }
  counting->trips = 0;
  // Nothing is left: every candidate is asked about, of all users.
  CHECK(filter.select_unseen(pool, {1, 2, 3}).size() <= 3);
  CHECK(counting->trips == 1);
  CHECK(filter.select_unseen(pool, {1, 3}, {.limit = 10}).size() == 10);
  CHECK(counting->trips == 2);
}

TEST_CASE("A tick's many pages are one round trip through the facade, too", "[redis]") {
  const RedisServer server;
  using Filter = SeenFilter<RedisStore<>>;
  auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  Filter filter{RedisStore<>(counting, {.users_per_request = 2})};
  std::vector<std::uint64_t> items(100);
  for (std::uint64_t i = 0; i < 100; ++i) items[i] = i;
  const auto pool = filter.pool(items);
  for (std::uint64_t user = 0; user < 20; ++user)
    REQUIRE(filter.record_all(user, std::vector<std::uint64_t>{user, user + 1}));
  std::vector<std::vector<std::uint64_t>> users;
  for (std::uint64_t user = 0; user < 20; ++user) users.push_back({user, (user + 10) % 20});
  std::vector<Filter::Request<std::uint64_t>> requests;
  for (const auto& pair : users) requests.emplace_back(pool, pair, SelectOptions<std::uint64_t>{.limit = 10});
  std::vector<Selection<std::uint64_t>> pages(requests.size());
  counting->trips = 0;
  filter.select_many(requests, pages);
  CHECK(counting->trips == 1);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto alone = filter.select_unseen(pool, std::span<const std::uint64_t>(users[i]), {.limit = 10});
    REQUIRE(pages[i].size() == 10);
    for (std::size_t j = 0; j < 10; ++j) CHECK(pages[i][j].index == alone[j].index);
  }
}
