// SPDX-License-Identifier: MIT
// What users hid and saw last, in Redis: for every process, in the round trip that a request takes anyway.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/counting_executor.hpp"
#include "support/picks.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using Store = RedisStore<>;

static_assert(HidingStore<Store>);

namespace {

const StorePolicy rare{.wrong_hide_rate = 1e-6, .users_per_request = 2};

}  // namespace

TEST_CASE("What one process hides in Redis, another hides with its next request, in one round trip",
          "[redis][003-07]") {
  for (const std::string& program : installed_servers()) {
    CAPTURE(program);
    RedisServer server(program);
    const auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
    SeenFilter here{Store{server.socket_url(), rare}};
    SeenFilter there{Store{counting, rare}};
    REQUIRE(here.record_all(alice, range(0, 200)));
    REQUIRE(here.create(bob));
    const CandidatePool pool{range(0, 300)};
    CHECK(there.select_unseen(pool, {alice, bob}, {.limit = 4}).size() == 4);
    CHECK(here.hide(alice, 201).value());
    CHECK(here.hide(bob, 203).value());
    CHECK_FALSE(there.hide(bob, 203).value());
    counting->trips = 0;
    const auto page = there.select_unseen(pool, {bob, alice}, {.limit = 4, .relax = {SeenByAtMost{2}}});
    CHECK(picked(page) == Ids{200, 202, 204, 205});
    CHECK(counting->trips == 1);
    CHECK(there.ask(bob, std::uint64_t{203}) == Answer::seen);
    CHECK(there.hidden(bob).value() == Ids{203});
    CHECK(here.unhide(bob, 203).value());
    CHECK_FALSE(here.unhide(bob, 203).value());
    CHECK(picked(there.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{200, 202, 203, 204});
    const CandidatePool few{Ids{201, 299}};
    CHECK(picked(there.select_unseen(few, {alice}, {.limit = 4, .relax = {SeenByAtMost{1}}})) == Ids{299});
    // A user without a filter stays unknown, and their hides are heeded.
    REQUIRE(here.hide(3, 299));
    const auto unknown = there.select_unseen(few, {3});
    CHECK(picked(unknown) == Ids{201});
    CHECK(unknown.unknown_users().size() == 1);
  }
}

TEST_CASE("The last items are kept in Redis, within the window", "[redis][003-07]") {
  RedisServer server;
  TestClock clock;
  const StorePolicy policy{.wrong_hide_rate = 1e-6, .window = 30 * day, .slices = 3, .clock = clock.clock()};
  SeenFilter here{Store{server.socket_url(), policy}};
  SeenFilter there{Store{server.socket_url(), policy}};
  here.keep_last(2);
  REQUIRE(here.record_all(alice, Ids{1, 2, 3}));
  REQUIRE(here.hide(alice, 4));
  const CandidatePool pool{range(1, 6)};
  const SelectOptions<std::uint64_t> thin{.limit = 9, .relax = {OldestSeenFirst{}}};
  CHECK(picked(there.select_unseen(pool, {alice}, thin)) == Ids{5, 1});
  clock.advance(29 * day);
  CHECK(picked(there.select_unseen(pool, {alice}, thin)) == Ids{5, 1});
  clock.advance(2 * day);
  CHECK(picked(there.select_unseen(pool, {alice}, thin)) == Ids{5, 1, 2, 3});
}

TEST_CASE("Forget and merge take along what Redis keeps of hides and last items", "[redis][003-07]") {
  RedisServer server;
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{server.socket_url(), rare}, history};
  filter.keep_last(2);
  REQUIRE(filter.record_all(alice, Ids{1, 2}));
  REQUIRE(filter.record(bob, 3));
  REQUIRE(filter.hide(alice, 4));
  REQUIRE(filter.hide(bob, 5));
  REQUIRE(filter.merge_users(alice, bob));
  const CandidatePool pool{range(0, 7)};
  CHECK(picked(filter.select_unseen(pool, {bob}, {.limit = 9, .relax = {SeenByAtMost{1}}})) == Ids{0, 6});
  CHECK(filter.hidden(bob).value() == Ids{5, 4});
  CHECK(filter.hidden(alice).value().empty());
  CHECK(filter.forget(bob).value());
  CHECK(filter.hidden(bob).value().empty());
  CHECK_FALSE(filter.forget(bob).value());
  REQUIRE(filter.hide(bob, 5));  // no filter, hides alone
  CHECK(filter.forget(bob).value());
  CHECK(server.call({"KEYS", "*:hides"}).array()->empty());
}

TEST_CASE("Hides of many writers are all kept", "[redis][003-07]") {
  RedisServer server;
  std::atomic<int> failed{0};
  {
    std::vector<std::jthread> writers;
    for (std::uint64_t writer = 0; writer < 4; ++writer) {
      writers.emplace_back([&, writer] {
        SeenFilter filter{Store{server.socket_url(), rare, {.timeout = std::chrono::seconds(20)}}};
        for (std::uint64_t i = 0; i < 25; ++i) failed += filter.hide(alice, writer * 100 + i) ? 0 : 1;
      });
    }
  }
  CHECK(failed == 0);
  SeenFilter filter{Store{server.socket_url(), rare}};
  CHECK(filter.hidden(alice).value().size() == 100);
}

TEST_CASE("Hides that cannot be read make their user unreachable, and a server that is down refuses a hide",
          "[redis][003-07]") {
  RedisServer server;
  SeenFilter filter{Store{server.socket_url(), rare}};
  REQUIRE(filter.create(alice));
  REQUIRE(filter.create(bob));
  server.call({"SET", filter.store().key_of(alice) + ":hides", "damaged"});
  server.call({"RPUSH", filter.store().key_of(bob) + ":hides", "a list"});
  const CandidatePool pool{Ids{1, 2}};
  const auto page = filter.select_unseen(pool, {alice, bob}, {.limit = 9});
  REQUIRE(page.unknown_users().size() == 2);
  CHECK(page.unknown_users()[0].error->code == ErrorCode::corrupt);
  CHECK(page.unknown_users()[0].error->message.find("{1}:hides") != std::string::npos);
  CHECK(page.unknown_users()[1].error->code == ErrorCode::wrong_type);
  CHECK(filter.hide(alice, 1).error().code == ErrorCode::corrupt);
  CHECK(filter.hidden(bob).error().code == ErrorCode::wrong_type);
  server.kill_at_once();
  CHECK_FALSE(filter.hide(3, 1));
  CHECK_FALSE(filter.hidden(3));
}
