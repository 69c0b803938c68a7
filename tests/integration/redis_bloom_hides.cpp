// SPDX-License-Identifier: MIT
// What users of a RedisBloomStore hid, saw last and have in flight: beside the filter, for every process.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "redis/transport/cluster.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/bloom_peer.hpp"
#include "support/counting_executor.hpp"
#include "support/picks.hpp"
#include "support/redis_server.hpp"
#include "support/resp_peer.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using Store = RedisBloomStore<>;

static_assert(HidingStore<Store> && MarkingStore<Store>);
static_assert(FilterStoreFor<Store, std::uint64_t>);

namespace {

/// What two processes see of each other through one server.
void check_hides_over(const std::string& url) {
  const auto counting = std::make_shared<CountingExecutor>(make_executor(url).value());
  SeenFilter here{Store{url}};
  SeenFilter there{Store{counting}};
  REQUIRE(here.record_all(alice, range(0, 20)));
  REQUIRE(here.record(bob, 100));
  CHECK(here.hide(alice, 21).value());
  CHECK(here.hide(bob, 25).value());
  CHECK(here.hide(bob, 23).value());
  CHECK_FALSE(there.hide(bob, 25).value());

  const CandidatePool pool{range(0, 30)};
  const CandidatePool next{Ids{21, 31}};
  counting->trips = 0;
  CHECK(picked(there.select_unseen(pool, {bob, alice}, {.limit = 4})) == Ids{20, 22, 24, 26});
  CHECK(counting->trips == 1);
  const CandidatePool few{Ids{1, 21, 23, 24}};
  const SelectOptions<std::uint64_t> thin{.limit = 9, .relax = {SeenByAtMost{2}, NextPool{next}}};
  CHECK(picked(there.select_unseen(few, {bob, alice}, thin)) == Ids{24, 1, 31});
  CHECK(there.ask(bob, std::uint64_t{23}) == Answer::seen);
  CHECK(there.ask(bob, std::uint64_t{21}) == Answer::unseen);
  CHECK(there.hidden(bob).value() == Ids{25, 23});
  CHECK(there.unhide(bob, 25).value());
  CHECK_FALSE(here.unhide(bob, 25).value());
  CHECK(here.hidden(bob).value() == Ids{23});
  CHECK(here.ask(bob, std::uint64_t{25}) == Answer::unseen);

  // A user without a filter stays unknown, and their hides are heeded.
  REQUIRE(here.hide(3, 24));
  const auto unknown = there.select_unseen(few, {3});
  CHECK(picked(unknown) == Ids{1, 21, 23});
  CHECK(unknown.unknown_users().size() == 1);

  // The last items are certain, and so is what is in flight until its deadline.
  here.keep_last(2);
  REQUIRE(here.record_all(alice, Ids{40, 41, 42}));
  const Store& store = there.store();
  const Digest flying = store.hasher()(std::uint64_t{43});
  const Digest landed = store.hasher()(std::uint64_t{44});
  Store other{url};
  REQUIRE(other.mark_in_flight(alice, {&flying, 1}, system_time() + std::chrono::hours(1)));
  REQUIRE(other.mark_in_flight(alice, {&landed, 1}, system_time() - std::chrono::hours(1)));
  const CandidatePool recent{range(40, 46)};
  CHECK(picked(there.select_unseen(recent, {alice}, {.limit = 9, .relax = {SeenByAtMost{1}}})) == Ids{44, 45, 40});

  // Everything goes with a forget, of that user alone, whether they have a filter or hides alone.
  for (const std::uint64_t user : {alice, std::uint64_t{3}}) {
    CHECK(there.forget(user).value());
    CHECK_FALSE(there.forget(user).value());
    CHECK(here.hidden(user).value().empty());
  }
  CHECK(here.hidden(bob).value() == Ids{23});
  CHECK(here.ask(alice, std::uint64_t{21}) == Answer::unknown);
  CHECK(here.forget(bob).value());
}

}  // namespace

TEST_CASE("What one process hides beside RedisBloom's filter, another hides with its next request, in one round trip",
          "[redis][bloom][003-07]") {
  BloomPeer peer;
  check_hides_over(peer.url());
}

TEST_CASE("Hides beside the module's own filters", "[redis][bloom][003-07]") {
  const char* const module = std::getenv("SEENBY_REDISBLOOM_MODULE");
  if (module == nullptr || *module == '\0') {
    SKIP("SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so (2.8)");
  }
  const RedisServer server("redis-server", {"--loadmodule", module});
  check_hides_over(server.socket_url());
  CHECK(server.call_integer({"DBSIZE"}) == 0);
}

TEST_CASE("Hides need no module, and those that cannot be read make their user unreachable", "[redis][bloom][003-07]") {
  RedisServer server;
  Store store{server.socket_url()};
  const HiddenItem hidden{store.hasher()(std::uint64_t{7}), detail::text_of_item(std::uint64_t{7}), Time{}};
  CHECK(store.hide(alice, {&hidden, 1}).value() == 1);
  CHECK(store.hidden(alice).value() == std::vector<HiddenItem>{hidden});
  CHECK(server.call_integer({"TTL", "{seen:1}:hides"}) == -1);
  CHECK(store.forget(alice).value());
  CHECK(server.call_integer({"DBSIZE"}) == 0);

  server.call({"SET", "{seen:1}:hides", "damaged"});
  server.call({"RPUSH", "{seen:2}:hides", "a list"});
  CHECK(store.hide(alice, {&hidden, 1}).error().code == ErrorCode::corrupt);
  CHECK(store.hidden(bob).error().code == ErrorCode::wrong_type);
  const HiddenItem huge{Digest{1}, std::string(70'000, 'x'), Time{}};
  CHECK(store.hide(3, {&huge, 1}).error().code == ErrorCode::too_large);

  RespPeer peer([](const RespPeer::Words& words) -> std::optional<std::string> {
    if (words[0] == "GET") return resp::bulk("damaged");
    return words[0] == "TYPE" ? resp::status("MBbloom--") : resp::integers({0, 0});
  });
  const SeenFilter filter{Store{peer.url()}};
  const CandidatePool pool{Ids{1, 2}};
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 9});
  REQUIRE(page.unknown_users().size() == 1);
  CHECK(page.unknown_users()[0].error->code == ErrorCode::corrupt);
  CHECK(page.unknown_users()[0].error->message.find("{seen:1}:hides") != std::string::npos);
}

TEST_CASE("A user's hides are in the cluster slot of the user's filter, under a key of their own",
          "[redis][bloom][003-07]") {
  const std::vector<std::string> keys{"seen:u",   "seen:v",  "seen:{u}", "seen:{u}:hides", "{a}seen:u",
                                      "seen:{}u", "seen:{u", "seen:",    "seen:{{u}}",     "seen:{v}"};
  std::set<std::string> all(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    INFO(key);
    const std::string beside = BloomProtocol::exact_key(key);
    CHECK(all.insert(beside).second);
    if (key != "seen:{}u") CHECK(key_slot(beside) == key_slot(key));
  }
}
