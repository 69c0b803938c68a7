// SPDX-License-Identifier: MIT
// The quiz article's layout: its keys are read and written, and each of its three faults shows and is mended.

#include "seenby/redis_article/article_store.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/sizing.hpp"
#include "support/article_code.hpp"
#include "support/counting_executor.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::ArticleAsPublished;
using seenby::test::RedisServer;

namespace {

using Store = ArticleStore<std::string, std::uint64_t>;
using Items = std::vector<std::uint64_t>;

static_assert(FilterStoreFor<Store, std::uint64_t>);
static_assert(FilterStoreFor<ArticleStore<std::uint64_t, std::string>, std::string>);

template <class AnyStore>
std::vector<Digest> digests_of(const AnyStore& store, const Items& items) {
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(store.hasher()(item));
  return digests;
}

struct CheckAnswer {
  std::vector<std::uint8_t> seen;
  std::vector<UserStatus> status;
};

template <class AnyStore>
CheckAnswer ask(const AnyStore& store, const std::vector<std::string>& users, const Items& items) {
  const auto digests = digests_of(store, items);
  CheckAnswer answer{std::vector<std::uint8_t>(items.size(), 9), std::vector<UserStatus>(users.size())};
  store.check(users, ItemBatch<std::uint64_t>{items, digests}, answer.seen, answer.status);
  return answer;
}

template <class AnyStore>
Result<RecordOutcome> add(AnyStore& store, const std::string& user, const Items& items) {
  const auto digests = digests_of(store, items);
  return store.record(user, ItemBatch<std::uint64_t>{items, digests});
}

Items numbers(std::uint64_t from, std::size_t count) {
  Items items(count);
  std::iota(items.begin(), items.end(), from);
  return items;
}

std::size_t seen_in(const CheckAnswer& answer) {
  return static_cast<std::size_t>(std::count_if(answer.seen.begin(), answer.seen.end(), [](int n) { return n > 0; }));
}

std::uint64_t position(std::uint64_t item, std::uint32_t i, std::uint64_t m) {
  return ArticleDoubleHash{}(item, Xxh3Hash{}(item), i) % m;
}

/// An item one of whose positions in 2,048 bits is this one.
std::uint64_t item_at(std::uint64_t wanted) {
  for (std::uint64_t item = 1'000'000;; ++item) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (position(item, i, 2'048) == wanted) return item;
    }
  }
}

std::shared_ptr<Executor> executor_of(const RedisServer& server) { return make_executor(server.socket_url()).value(); }

}  // namespace

TEST_CASE("Keys of the article's writer are read, and ours by the article's reader",
          "[redis][article][000-05][000-06]") {
  const RedisServer server;
  ArticleAsPublished article(executor_of(server));
  Store store(server.socket_url());
  Items theirs;
  // Items that hit the header are the first fault's, below.
  for (std::uint64_t item = 0; theirs.size() < 100; ++item) {
    bool hits_header = false;
    for (std::uint32_t i = 0; i < 4; ++i) hits_header = hits_header || position(item, i, 2'048) < 5;
    if (!hits_header) theirs.push_back(item);
  }
  article.set_exponent("seen:a", 11);
  for (const std::uint64_t item : theirs) article.add("seen:a", item, 2'048);
  const CheckAnswer answer = ask(store, {"a"}, theirs);
  CHECK(answer.status[0].state == UserState::known);
  CHECK(seen_in(answer) == theirs.size());

  REQUIRE(add(store, "b", theirs).value().newly_added > 90);
  CHECK(article.read_size_exponent("seen:b") == 11);
  CHECK(server.call_integer({"STRLEN", "seen:b"}) == 256);
  for (const bool contained : article.might_contain("seen:b", theirs, 2'048)) CHECK(contained);
  // Bit for bit the same string, but for trailing zeros that the article's writer leaves out.
  const std::string ours = server.call_string({"GET", "seen:b"});
  const std::string his = server.call_string({"GET", "seen:a"});
  CHECK(ours.substr(0, his.size()) == his);
  CHECK(ours.find_first_not_of('\0', his.size()) == std::string::npos);
  // Fresh items at the article's own rate: 100 items, k = 4, m = 2,048 is 0.1%, not 0.001%.
  const Items fresh = numbers(10'000'000, 20'000);
  const double rate = static_cast<double>(seen_in(ask(store, {"b"}, fresh))) / 20'000;
  CHECK(std::abs(sizing::textbook_fpr(100, 2'048, 4) - 0.00099) < 0.00002);
  CHECK(rate < 0.0025);
}

TEST_CASE("A user's size lives in the key, and another size than the default is answered for",
          "[redis][article][000-07][000-09]") {
  const RedisServer server;
  MemoryHistory<std::string, std::uint64_t> history;
  const Items many = numbers(0, 1'500);
  REQUIRE(history.append("power", many, system_time()));
  Store writer(server.socket_url());
  writer.set_item_replay(item_replay_of(history));
  REQUIRE(add(writer, "power", {0}));
  REQUIRE(add(writer, "casual", {1, 2, 3}));
  // Another process, which knows nothing but the keys.
  const Store reader(server.socket_url());
  const CheckAnswer answer = ask(reader, {"power", "casual"}, many);
  CHECK(answer.status[0].state == UserState::known);
  CHECK(answer.status[1].state == UserState::known);
  CHECK(seen_in(answer) == many.size());
  CHECK(answer.seen[1] == 2);
  CHECK(server.call({"BITFIELD", "seen:power", "GET", "u5", "0"}).array()->front().integer()[0] >= 14);
  CHECK(server.call_integer({"DBSIZE"}) == 2);
}

TEST_CASE("All positions of a request are one round trip, two where sizes differ", "[redis][article][000-05]") {
  const RedisServer server;
  Store store(server.socket_url());
  REQUIRE(add(store, "a", {1}));
  REQUIRE(add(store, "b", {2}));
  server.call({"CONFIG", "RESETSTAT"});
  CHECK(seen_in(ask(store, {"a", "b"}, numbers(1, 100))) >= 2);
  CHECK(server.info("commandstats", "cmdstat_bitfield_ro").starts_with("calls=2,"));
}

TEST_CASE("No position overwrites the header", "[redis][article][000-18]") {
  const RedisServer server;
  ArticleAsPublished article(executor_of(server));
  Store store(server.socket_url());
  // The fault: a position of 0 turns exponent 11 (01011) into 27 (11011), and every item before it is lost.
  const Items before = numbers(1, 20);
  article.set_exponent("seen:theirs", 11);
  for (const std::uint64_t item : before) article.add("seen:theirs", item, 2'048);
  article.add("seen:theirs", item_at(0), 2'048);
  CHECK(article.read_size_exponent("seen:theirs") == 27);
  const auto lost = article.might_contain("seen:theirs", before, std::uint64_t{1} << 27U);
  CHECK(std::count(lost.begin(), lost.end(), false) >= 15);
  // The damage is told, not answered with.
  const CheckAnswer damaged = ask(store, {"theirs"}, before);
  REQUIRE(damaged.status[0].state == UserState::unreachable);
  CHECK(damaged.status[0].error->code == ErrorCode::corrupt);
  CHECK(add(store, "theirs", {1}).error().code == ErrorCode::corrupt);

  // Mended: such items are added, found, and the exponent stays.
  Items hitting;
  for (std::uint64_t wanted = 0; wanted < 5; ++wanted) hitting.push_back(item_at(wanted));
  REQUIRE(add(store, "ours", before));
  REQUIRE(add(store, "ours", hitting));
  CHECK(article.read_size_exponent("seen:ours") == 11);
  CHECK(seen_in(ask(store, {"ours"}, before)) == before.size());
  CHECK(seen_in(ask(store, {"ours"}, hitting)) == hitting.size());
}

TEST_CASE("A missing key is unknown, and exponent 0 is never a size", "[redis][article][000-19]") {
  const RedisServer server;
  ArticleAsPublished article(executor_of(server));
  Store store(server.socket_url());
  // The fault: nothing there reads as m = 1, and every item as unseen.
  CHECK(article.read_size_exponent("seen:nobody") == 0);
  CHECK(article.might_contain("seen:nobody", Items{1}, 1) == std::vector<bool>{false});

  CheckAnswer answer = ask(store, {"nobody"}, {1, 2});
  CHECK(answer.status[0].state == UserState::missing);
  CHECK(answer.seen == std::vector<std::uint8_t>{0, 0});
  CHECK(server.call_integer({"EXISTS", "seen:nobody"}) == 0);
  REQUIRE(store.create("nobody"));
  answer = ask(store, {"nobody"}, {1, 2});
  CHECK(answer.status[0].state == UserState::known);
  REQUIRE(add(store, "nobody", {1}));
  REQUIRE(store.create("nobody"));
  CHECK(seen_in(ask(store, {"nobody"}, {1})) == 1);
  CHECK(store.forget("nobody").value());
  CHECK_FALSE(store.forget("nobody").value());

  server.call({"SETBIT", "seen:zero", "100", "1"});
  answer = ask(store, {"zero"}, {1});
  REQUIRE(answer.status[0].state == UserState::unreachable);
  CHECK(answer.status[0].error->code == ErrorCode::corrupt);
  CHECK(add(store, "zero", {1}).error().code == ErrorCode::corrupt);
}

TEST_CASE("Foreign values are typed errors, the others are answered", "[redis][article]") {
  const RedisServer server;
  Store store(server.socket_url());
  REQUIRE(add(store, "good", {1}));
  server.call({"RPUSH", "seen:list", "x"});
  server.call({"SET", "seen:text", "hello"});
  server.call({"SET", "seen:huge", std::string(1, '\xf8')});
  const CheckAnswer answer = ask(store, {"good", "list", "text", "huge"}, {1});
  CHECK(answer.status[0].state == UserState::known);
  CHECK(answer.seen[0] == 1);
  CHECK(answer.status[1].error->code == ErrorCode::wrong_type);
  CHECK(answer.status[2].error->code == ErrorCode::corrupt);
  CHECK(answer.status[3].error->code == ErrorCode::corrupt);
  for (std::size_t i = 1; i < 4; ++i) CHECK(answer.status[i].error->message.find("seen:") != std::string::npos);
  CHECK(add(store, "list", {1}).error().code == ErrorCode::wrong_type);
  CHECK(store.counters().write_failures == 1);
}

TEST_CASE("A filter grows by its budget, in one step, from the history", "[redis][article][000-08][000-17][000-20]") {
  const RedisServer server;
  MemoryHistory<std::string, std::uint64_t> history;
  Store store(server.socket_url(), {.time_to_live = TimeToLive::fixed, .ttl = 1000s});
  store.set_item_replay(item_replay_of(history));
  REQUIRE(store.create("u"));
  bool grew = false;
  std::uint64_t items = 0;
  while (!grew) {
    const Items next = numbers(items, 1);
    REQUIRE(history.append("u", next, system_time()));
    grew = add(store, "u", next).value().grew;
    ++items;
    REQUIRE(items < 400);
  }
  // Half full would be 355 items and 6.25%; 1% at k = 4 is a fill of 31.6%: ln(1 / 0.684) * 2048 / 4 = 195 items.
  CHECK(items > 175);
  CHECK(items < 215);
  CHECK(store.counters().growths == 1);
  CHECK(server.call_integer({"STRLEN", "seen:u"}) == 512);
  CHECK(server.call_integer({"TTL", "seen:u"}) > 900);
  CHECK(seen_in(ask(store, {"u"}, numbers(0, items))) == items);
  const Items fresh = numbers(50'000'000, 20'000);
  CHECK(static_cast<double>(seen_in(ask(store, {"u"}, fresh))) / 20'000 < 0.012);
}

TEST_CASE("A history that knows less than the filter does not replace it", "[redis][article]") {
  const RedisServer server;
  MemoryHistory<std::string, std::uint64_t> history;
  Store store(server.socket_url());
  REQUIRE(add(store, "u", numbers(0, 180)));
  store.set_item_replay(item_replay_of(history));
  REQUIRE(history.append("u", numbers(180, 40), system_time()));
  const auto outcome = add(store, "u", numbers(180, 40));
  REQUIRE(outcome);
  CHECK_FALSE(outcome->grew);
  CHECK(store.counters().over_budget == 1);
  CHECK(seen_in(ask(store, {"u"}, numbers(0, 220))) == 220);
  // The filter was let go at once: the next add does not wait.
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(add(store, "u", {5}));
  CHECK(std::chrono::steady_clock::now() - start < 1s);
}

TEST_CASE("A crashed builder holds a filter up no longer than it may", "[redis][article]") {
  const RedisServer server;
  Store store(server.socket_url(), {.rebuild_timeout = 300ms});
  ArticleProtocol crashed(executor_of(server), {.rebuild_timeout = 300ms});
  REQUIRE(add(store, "u", {1}));
  const std::string held = crashed.hold("seen:u").value();
  // Look-ups go on, adds wait.
  CHECK(seen_in(ask(store, {"u"}, {1})) == 1);
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(add(store, "u", {2}));
  const auto waited = std::chrono::steady_clock::now() - start;
  CHECK(waited > 200ms);
  CHECK(waited < 2s);
  // The late owner finds that it holds nothing any more, even though only item 1, which is there, is added again.
  const std::string late = crashed.hold("seen:u").value();
  std::this_thread::sleep_for(350ms);
  REQUIRE(add(store, "u", {1}));
  CHECK_FALSE(crashed.remove("seen:u", late).value());
  CHECK(seen_in(ask(store, {"u"}, {1, 2})) == 2);
}

TEST_CASE("The facade selects what neither learner has seen, and rebuilds a lost filter from its history",
          "[redis][article][000-01]") {
  const RedisServer server;
  MemoryHistory<std::string, std::uint64_t> history;
  SeenFilter filter(Store(server.socket_url()), history);
  REQUIRE(filter.record_all("alice", numbers(0, 30)));
  REQUIRE(filter.record_all("bob", numbers(20, 30)));
  const CandidatePool pool(numbers(0, 60));
  const std::vector<std::string> learners{"alice", "bob"};
  const auto unseen = [&] {
    Items picks;
    const auto page = filter.select_unseen(pool, learners);
    CHECK(page.unknown_users().empty());
    for (const Pick& pick : page.picks()) picks.push_back(pool[pick.index]);
    return picks;
  };
  CHECK(unseen() == numbers(50, 10));
  server.call({"DEL", "seen:alice"});
  CHECK(filter.select_unseen(pool, learners).unknown_users().size() == 1);
  REQUIRE(filter.record("alice", std::uint64_t{50}));
  CHECK(unseen() == numbers(51, 9));
}

TEST_CASE("A hash of one's own is read with", "[redis][article]") {
  struct Theirs {
    std::uint64_t operator()(const std::string& question, Digest, std::uint32_t i) const {
      // FNV-1a over the id and i, as a small JavaScript service might have it.
      std::uint32_t hash = 2'166'136'261U;
      for (const char c : question) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
      return (hash ^ i) * 16'777'619U;
    }
  };
  const RedisServer server;
  server.call({"BITFIELD", "seen:u", "SET", "u5", "#0", "11"});
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::string at = std::to_string(Theirs{}("q-42", {}, i) % 2'048);
    server.call({"BITFIELD", "seen:u", "SET", "u1", "#" + at, "1"});
  }
  const ArticleStore<std::string, std::string, Xxh3Hash, Theirs> store(server.socket_url());
  const std::vector<std::string> users{"u"};
  const std::vector<std::string> items{"q-42", "q-43"};
  const std::vector<Digest> digests(2);
  std::vector<std::uint8_t> seen(2);
  std::vector<UserStatus> status(1);
  store.check(users, {items, digests}, seen, status);
  CHECK(seen == std::vector<std::uint8_t>{1, 0});
}

TEST_CASE("migrate turns an article's key into ours, damaged headers included", "[redis][article][000-18]") {
  const RedisServer server;
  ArticleAsPublished article(executor_of(server));
  Store store(server.socket_url());
  RedisStore<std::string> ours(server.socket_url(), {.wrong_hide_rate = 0.01});
  const Items seen = numbers(0, 120);
  const Items catalogue = numbers(0, 5'000);
  for (const bool damage : {false, true}) {
    const std::string user = damage ? "damaged" : "whole";
    const std::string key = "seen:" + user;
    article.set_exponent(key, 11);
    for (const std::uint64_t item : seen) article.add(key, item, 2'048);
    if (damage) article.add(key, item_at(0), 2'048);
    const auto migration = store.migrate(user, catalogue, ours).value();
    CHECK(migration.exponent == 11);
    CHECK(migration.header_was_damaged == damage);
    CHECK(migration.items >= seen.size());
    CHECK(migration.items < seen.size() + 60);
    CHECK(server.call_integer({"EXISTS", key}) == 0);
    CHECK(seen_in(ask(ours, {user}, seen)) == seen.size());
    CHECK(seen_in(ask(ours, {user}, numbers(1'000'000, 1'000))) < 60);
    CHECK(store.migrate(user, catalogue, ours).error().code == ErrorCode::unknown_user);
  }
  // From the history nothing wrong comes along.
  REQUIRE(add(store, "exact", seen));
  CHECK(store.migrate("exact", seen, ours).value().items == seen.size());
}

TEST_CASE("A migration that the destination refuses leaves the old key as it was", "[redis][article]") {
  const RedisServer server;
  Store store(server.socket_url());
  REQUIRE(add(store, "u", {1, 2, 3}));
  const std::string before = server.call_string({"GET", "seen:u"});
  RedisStore<std::string> nowhere("redis://127.0.0.1:1?connect_timeout_ms=50", StorePolicy{});
  CHECK(store.migrate("u", numbers(0, 10), nowhere).error().code == ErrorCode::unreachable);
  CHECK(server.call_string({"GET", "seen:u"}) == before);
}

TEST_CASE("The exponent under an overwritten header is inferred from the length", "[redis][article][000-18]") {
  const auto value = [](std::uint32_t exponent, std::size_t bytes) {
    std::string text(bytes, '\0');
    text.front() = static_cast<char>(exponent << 3U);
    return text;
  };
  CHECK(inferred_exponent(value(11, 256)) == 11);
  CHECK(inferred_exponent(value(27, 256)) == 11);
  CHECK(inferred_exponent(value(31, 255)) == 11);
  CHECK(inferred_exponent(value(15, 250)) == 11);
  CHECK(inferred_exponent(value(14, 2'000)) == 14);
  CHECK(inferred_exponent(value(30, 2'000)) == 14);
  CHECK(inferred_exponent("") == 0);
}

TEST_CASE("Nonsense in the article's options is refused", "[redis][article]") {
  const std::string nowhere = "redis://127.0.0.1:1";
  CHECK_THROWS_AS(Store(nowhere, {.hash_count = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.default_exponent = 4}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.max_exponent = 32}), std::invalid_argument);
  CHECK_THROWS_AS(Store(nowhere, {.target_fpr = 0}), std::invalid_argument);
}

TEST_CASE("A look-up in the article's layout is one round trip for all users; a second for those that grew",
          "[redis][000-05]") {
  const RedisServer server;
  auto counting = std::make_shared<seenby::test::CountingExecutor>(executor_of(server));
  ArticleStore<> store(counting);
  const std::vector<std::uint64_t> users{1, 2, 3};
  for (const std::uint64_t user : users) REQUIRE(seenby::test::record(store, user, {user, 9}));
  counting->trips = counting->commands = 0;
  CHECK(seenby::test::ask(store, users, {1, 2, 3, 9}).seen() == 4);
  CHECK(counting->trips == 1);
  CHECK(counting->commands == 9);
  REQUIRE(seenby::test::record(store, 1, {77}));
  CHECK(counting->trips == 2);
}
