// SPDX-License-Identifier: MIT
// MemoryStore against an exact model: what it promises to any single thread.

#include "seenby/stores/memory_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

using seenby::Digest;
using Store = seenby::MemoryStore<std::uint64_t>;

static_assert(seenby::FilterStoreFor<Store, std::uint64_t>);
static_assert(seenby::FilterStoreFor<seenby::MemoryStore<std::string>, std::string>);
static_assert(seenby::ReplayableStore<Store>);

#if defined(__SANITIZE_ADDRESS__)
constexpr bool address_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif
#else
constexpr bool address_sanitizer = false;
#endif

Digest item(std::uint64_t i) { return seenby::Xxh3Hash{}(i); }

std::vector<Digest> digests_of(std::uint64_t first, std::uint64_t count) {
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(seenby::Xxh3Hash{}(first + i));
  return digests;
}

template <class AnyStore, class User>
std::vector<std::uint8_t> ask(const AnyStore& store, const std::vector<User>& users, std::span<const Digest> digests,
                              std::vector<seenby::UserState>* states = nullptr) {
  std::vector<std::uint8_t> seen_by(digests.size(), 77);
  std::vector<seenby::UserStatus> status(users.size());
  store.check_digests(users, digests, seen_by, status);
  if (states != nullptr) {
    states->clear();
    for (const auto& one : status) states->push_back(one.state);
  }
  return seen_by;
}

std::size_t count_seen(const Store& store, std::uint64_t user, std::span<const Digest> digests) {
  std::size_t seen = 0;
  for (const auto by : ask(store, std::vector{user}, digests)) seen += by;
  return seen;
}

/// The most hits that `trials` independent ones at `rate` give with all but one chance in a million.
double binomial_bound(std::size_t trials, double rate) {
  const double mean = static_cast<double>(trials) * rate;
  return mean + 4.9 * std::sqrt(mean) + 5;
}

}  // namespace

TEST_CASE("a missing user, an explicit empty user and a recorded user are told apart") {
  Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}};
  REQUIRE(store.create(2));
  REQUIRE(store.record_digests(3, digests_of(0, 5)));
  std::vector<seenby::UserState> states;
  const auto seen = ask(store, std::vector<std::uint64_t>{1, 2, 3}, digests_of(0, 10), &states);
  CHECK(states == std::vector{seenby::UserState::missing, seenby::UserState::known, seenby::UserState::known});
  CHECK(seen == std::vector<std::uint8_t>{1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
  CHECK(store.users() == 2);
  REQUIRE(store.create(3));
  CHECK(count_seen(store, 3, digests_of(0, 5)) == 5);
}

TEST_CASE("short histories are exact and count each item once") {
  Store store{{}, {.exact_items = 8}};
  const auto digests = digests_of(0, 8);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < digests.size(); ++i) {
      const auto outcome = store.record_digests(7, std::span(&digests[i], 1));
      REQUIRE(outcome);
      CHECK(outcome->newly_added == (round == 0 ? 1U : 0U));
      CHECK_FALSE(outcome->grew);
    }
  }
  CHECK(count_seen(store, 7, digests) == 8);
  CHECK(count_seen(store, 7, digests_of(1'000'000, 1'000'000)) == 0);
  CHECK(store.user_bytes(7) == 64 + 20);
}

TEST_CASE("no recorded item is ever unseen and the wrong-hide rate stays within budget [000-02]", "[000-02]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::uint32_t users_per_request : {1U, 2U}) {
    Store store{{.wrong_hide_rate = 0.01, .users_per_request = users_per_request}, {.shards = 4}};
    std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> model;
    std::lognormal_distribution<double> volume(std::log(40.0), 1.5);
    for (std::uint64_t user = 0; user < 300; ++user) {
      const auto items = static_cast<std::uint64_t>(volume(random)) + 1;
      while (model[user].size() < items) {
        std::vector<Digest> batch;
        for (std::uint64_t i = 1 + random() % (1 + items / 2); i-- > 0;) {
          const std::uint64_t item = random() % (1U << 20);
          batch.push_back(store.hasher()(item));
          model[user].insert(item);
        }
        REQUIRE(store.record_digests(user, batch));
      }
    }
    CHECK(store.counters().over_budget == 0);
    std::size_t fresh = 0;
    std::size_t hidden = 0;
    for (std::uint64_t user = 0; user + users_per_request <= 300; user += users_per_request) {
      std::vector<std::uint64_t> users;
      std::vector<Digest> recorded;
      for (std::uint64_t u = user; u < user + users_per_request; ++u) {
        users.push_back(u);
        for (const auto item : model[u]) recorded.push_back(store.hasher()(item));
      }
      std::size_t lost = 0;
      for (const auto by : ask(store, users, recorded)) lost += by == 0 ? 1U : 0U;
      REQUIRE(lost == 0);
      const auto candidates = digests_of((std::uint64_t{1} << 32) + user * 1000, 3000);
      for (const auto by : ask(store, users, candidates)) hidden += by > 0 ? 1U : 0U;
      fresh += candidates.size();
    }
    CHECK(static_cast<double>(hidden) <= binomial_bound(fresh, 0.01));
    CHECK(hidden > 0);
  }
}

TEST_CASE("a chain of filters stays within budget to a thousand times the first capacity [003-06]", "[003-06]") {
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
  std::size_t growths = 0;
  std::uint64_t recorded = 0;
  for (; recorded < 16'000; recorded += 7) {
    const auto outcome = store.record_digests(1, digests_of(recorded, 7));
    REQUIRE(outcome);
    growths += outcome->grew ? 1U : 0U;
  }
  CHECK(growths >= 9);
  CHECK(store.counters().growths == growths);
  CHECK(store.counters().over_budget == 0);
  CHECK(count_seen(store, 1, digests_of(0, recorded)) == recorded);
  constexpr std::size_t trials = 400'000;
  CHECK(static_cast<double>(count_seen(store, 1, digests_of(1U << 30, trials))) <= binomial_bound(trials, 0.01));
}

TEST_CASE("a first batch of any size gets a filter of its size") {
  for (const std::uint64_t items : {9U, 100U, 3'000U, 70'000U, 300'000U}) {
    Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
    const auto outcome = store.record_digests(1, digests_of(0, items));
    REQUIRE(outcome);
    CHECK_FALSE(outcome->grew);
    CHECK(outcome->newly_added <= items);
    CHECK(static_cast<double>(outcome->newly_added) >= static_cast<double>(items) * 0.99);
    CHECK(count_seen(store, 1, digests_of(0, items)) == items);
    CHECK(static_cast<double>(store.user_bytes(1)) < static_cast<double>(items) * 1.6 + 60);
    constexpr std::size_t trials = 100'000;
    CHECK(static_cast<double>(count_seen(store, 1, digests_of(1U << 30, trials))) <= binomial_bound(trials, 0.01));
    CHECK(store.counters().over_budget == 0);
  }
}

TEST_CASE("a history lets a full filter be re-inserted at its size") {
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
  std::vector<seenby::SeenDigest> history;
  store.set_replay(
      [&](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> { return history; });
  for (const Digest digest : digests_of(0, 20'000)) {
    history.push_back({digest, {}});
    REQUIRE(store.record_digests(1, std::span(&digest, 1)));
  }
  CHECK(count_seen(store, 1, digests_of(0, 20'000)) == 20'000);
  CHECK(store.counters().rebuilds >= 9);
  CHECK(store.counters().over_budget == 0);
  CHECK(store.user_bytes(1) < 20'000 * 11 / 8 * 2 + 200);  // one filter of at most twice the size
  constexpr std::size_t trials = 200'000;
  CHECK(static_cast<double>(count_seen(store, 1, digests_of(1U << 30, trials))) <= binomial_bound(trials, 0.01));
}

TEST_CASE("a history that lacks items loses none of them, and the counters say so") {
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
  std::vector<seenby::SeenDigest> history;
  bool readable = true;
  store.set_replay([&](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    if (!readable) return seenby::Error{seenby::ErrorCode::unreachable, "seenby: the history is away"};
    return history;
  });
  for (const Digest digest : digests_of(0, 3'000)) {
    if (digest.value % 3 != 0) history.push_back({digest, {}});
    REQUIRE(store.record_digests(1, std::span(&digest, 1)));
  }
  CHECK(count_seen(store, 1, digests_of(0, 3'000)) == 3'000);
  CHECK(store.counters().over_budget > 0);

  readable = false;
  const auto refused = store.record_digests(2, digests_of(0, 10));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == seenby::ErrorCode::unreachable);
  CHECK(store.counters().write_failures == 10);
  std::vector<seenby::UserState> states;
  (void)ask(store, std::vector<std::uint64_t>{2}, digests_of(0, 1), &states);
  CHECK(states[0] == seenby::UserState::missing);
  REQUIRE(store.record_digests(1, digests_of(3'000, 3'000)));  // known: the chain serves without a history
  CHECK(count_seen(store, 1, digests_of(0, 6'000)) == 6'000);
}

TEST_CASE("a missing user is created from the history [002-15]", "[002-15]") {
  Store store{{.wrong_hide_rate = 0.01}};
  store.set_replay([](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    std::vector<seenby::SeenDigest> history;
    for (const Digest digest : digests_of(0, 500)) history.push_back({digest, {}});
    return history;
  });
  const auto outcome = store.record_digests(1, digests_of(500, 1));
  REQUIRE(outcome);
  CHECK(outcome->newly_added == 1);
  CHECK(count_seen(store, 1, digests_of(0, 501)) == 501);
  CHECK(store.counters().records == 1);
}

TEST_CASE("what a missing user's history holds already is not newly added") {
  for (const bool windowed : {false, true}) {
    INFO((windowed ? "a window" : "no window"));
    Store store{windowed ? seenby::StorePolicy{.window = std::chrono::hours{240}, .slices = 10}
                         : seenby::StorePolicy{}};
    const seenby::Time now = store.policy().clock();
    store.set_replay([now](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
      std::vector<seenby::SeenDigest> history;
      for (const Digest digest : digests_of(0, 5)) history.push_back({digest, now});
      return history;
    });
    CHECK(store.record_digests(1, digests_of(0, 2)).or_throw().newly_added == 0);
    CHECK(store.record_digests(2, digests_of(4, 3)).or_throw().newly_added == 2);
    // In an older slice than the history's.
    const std::vector<Digest> late = digests_of(9, 2);
    const seenby::ItemBatch<std::uint64_t> batch{{}, late};
    CHECK(store.record(3, batch, now - std::chrono::hours{72}).or_throw().newly_added == 2);
    CHECK(count_seen(store, 3, digests_of(0, 5)) == 5);
    CHECK(count_seen(store, 3, late) == 2);
  }
}

TEST_CASE("a missing user's history is read again for their own forget alone, and a few times at most") {
  Store store{{}, {.shards = 1}};
  std::uint64_t reads = 0;
  std::uint64_t forgotten = 0;
  store.set_replay([&](const std::uint64_t& user, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    ++reads;
    if (user == 1) (void)store.forget(++forgotten + 100);  // others of the shard go meanwhile
    if (user == 2) (void)store.forget(2);
    if (user == 3 && reads == 1) (void)store.forget(3);
    return std::vector<seenby::SeenDigest>{{item(user * 10), seenby::Time{}}};
  });
  REQUIRE(store.record_digests(1, std::array{item(1)}));
  CHECK(reads == 1);
  reads = 0;
  const auto refused = store.record_digests(2, std::array{item(1)});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == seenby::ErrorCode::unavailable);
  CHECK(reads == 4);
  CHECK(store.user_bytes(2) == 0);
  reads = 0;
  REQUIRE(store.record_digests(3, std::array{item(1)}));
  CHECK(reads == 2);
}

TEST_CASE("what is there already costs nothing, and a first batch is sized by its different items") {
  Store store{{}};
  REQUIRE(store.record_digests(1, std::vector<Digest>(100'000, item(1))));
  CHECK(store.user_bytes(1) < 100);
  std::vector<Digest> ten;
  for (std::uint64_t i = 0; i < 10; ++i) ten.push_back(item(i));
  REQUIRE(store.record_digests(2, ten));
  const std::uint64_t bytes = store.user_bytes(2);
  for (int i = 0; i < 10'000; ++i) REQUIRE(store.record_digests(2, ten));
  CHECK(store.user_bytes(2) == bytes);
}

TEST_CASE("the smallest growth factor costs a user no multiple of their items") {
  Store store{{.wrong_hide_rate = 0.01, .growth_factor = 1.1}};
  for (std::uint64_t i = 0; i < 20'000; ++i) REQUIRE(store.record_digests(1, std::array{item(i)}));
  CHECK(store.user_bytes(1) < 200'000);
}

TEST_CASE("a batch of nothing makes no user known") {
  Store store{{}};
  REQUIRE(store.record_digests(1, {}));
  CHECK(store.counters().users == 0);
}

TEST_CASE("forget leaves no user, no answer and no bytes") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 8}};
  const std::uint64_t empty_bytes = store.memory_bytes();
  for (std::uint64_t user = 0; user < 5'000; ++user) {
    REQUIRE(store.record_digests(user, digests_of(user * 1000, 1 + random() % 400)));
  }
  const std::uint64_t full_bytes = store.memory_bytes();
  std::vector<std::uint64_t> order(5'000);
  for (std::uint64_t user = 0; user < 5'000; ++user) order[user] = user;
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < order.size(); ++i) {
    REQUIRE(store.forget(order[i]).value());
    CHECK_FALSE(store.forget(order[i]).value());
    if (i % 500 != 0) continue;
    for (std::size_t j = i + 1; j < order.size(); j += 97) {
      CHECK(count_seen(store, order[j], digests_of(order[j] * 1000, 1)) == 1);
    }
  }
  CHECK(store.users() == 0);
  CHECK(store.user_bytes(3) == 0);
  CHECK(store.memory_bytes() < empty_bytes + (full_bytes - empty_bytes) / 10);
}

TEST_CASE("memory goes back to the system when users are forgotten") {
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("RssAnon:", 0) == 0) return std::stod(line.substr(8));
    }
    return 0.0;
  };
  if (resident_kib() == 0 || address_sanitizer) SKIP("resident memory cannot be told, or is mostly a sanitizer's");
  const double before = resident_kib();
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 64}};
  for (std::uint64_t user = 0; user < 40'000; ++user) REQUIRE(store.record_digests(user, digests_of(user, 230)));
  const double loaded = resident_kib() - before;
  for (std::uint64_t user = 0; user < 40'000; ++user) {
    if (user % 10 != 0) REQUIRE(store.forget(user).value());
  }
  const double tenth = resident_kib() - before;
  CAPTURE(loaded, tenth);
  CHECK(static_cast<double>(store.memory_bytes()) < loaded * 1024 / 4);
  CHECK(tenth < loaded / 3);
}

TEST_CASE("users may be strings, and a request may ask many") {
  seenby::MemoryStore<std::string> store{{.wrong_hide_rate = 0.01, .users_per_request = 8}};
  std::vector<std::string> users;
  for (std::uint64_t i = 0; i < 8; ++i) {
    users.push_back("user-" + std::to_string(i));
    REQUIRE(store.record_digests(users.back(), digests_of(i * 100, i < 4 ? 3 : 60)));
  }
  const auto seen = ask(store, users, digests_of(0, 800));
  for (std::uint64_t i = 0; i < 800; ++i) {
    const std::uint64_t recorded = i / 100 < 4 ? 3 : 60;
    if (i % 100 < recorded) CHECK(seen[i] >= 1);
  }
  REQUIRE(store.forget("user-1").value());
  CHECK(store.users() == 7);
}

TEST_CASE("memory over the limit is refused and nothing that was recorded is lost") {
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1, .max_bytes = 256 * 1024}};
  std::uint64_t user = 0;
  seenby::Result<seenby::RecordOutcome> outcome = store.record_digests(user, digests_of(0, 1'000));
  while (outcome && user < 10'000) outcome = store.record_digests(++user, digests_of(0, 1'000));
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == seenby::ErrorCode::too_large);
  CHECK(store.counters().write_failures == 1'000);
  for (std::uint64_t known = 0; known < user; ++known) CHECK(count_seen(store, known, digests_of(0, 1'000)) == 1'000);
  REQUIRE(store.forget(0).value());
  REQUIRE(store.record_digests(10'001, digests_of(0, 900)));
}

TEST_CASE("policies and options outside their ranges are refused with what was expected") {
  CHECK_THROWS_AS(Store({.wrong_hide_rate = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.wrong_hide_rate = 1}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.wrong_hide_rate = std::nan("")}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.users_per_request = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.growth_factor = 1}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.initial_items = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.initial_items = std::uint64_t{1} << 60}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.window = std::chrono::seconds(-1)}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.window = std::chrono::seconds(3), .slices = 6}), std::invalid_argument);
  CHECK_THROWS_AS(Store({.window = std::chrono::seconds::max(), .slices = 30}), std::invalid_argument);
  CHECK_THROWS_WITH(Store({.slices = 6}),
                    "seenby: expected a window for 6 slices, got none (0 s, which remembers for ever)");
  CHECK_THROWS_AS(Store({}, {.shards = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Store({}, {.exact_items = 65}), std::invalid_argument);
}

TEST_CASE("an item recorded again costs no more however many a user has") {
  // The quickest of many calls says how much is done under the shard's lock, whatever else runs on the machine. A look
  // at every item would be a thousand times as much.
  const auto quickest = [](Store& store, std::uint64_t user) {
    const auto again = digests_of(25, 1);
    auto best = std::chrono::nanoseconds::max();
    for (int i = 0; i < 2'000; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto outcome = store.record_digests(user, again);
      best = std::min(best, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
      if (outcome->newly_added != 0) FAIL("newly added again");
    }
    return best;
  };
  for (const bool windowed : {false, true}) {
    for (const bool history : {false, true}) {
      CAPTURE(windowed, history);
      Store store{
          {.window = windowed ? std::chrono::hours(24 * 30) : std::chrono::hours(0), .slices = windowed ? 30U : 1U},
          {.shards = 1}};
      if (history) {
        store.set_replay(
            [](const std::uint64_t& user, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
              if (user == 2) return std::vector<seenby::SeenDigest>{};
              return seenby::Error{seenby::ErrorCode::io, "a history that is slow, and of no use here"};
            });
      }
      REQUIRE(store.create(1));
      for (std::uint64_t i = 0; i < 200'000; i += 2'000) REQUIRE(store.record_digests(1, digests_of(i, 2'000)));
      REQUIRE(store.record_digests(2, digests_of(0, 50)));
      const auto few = quickest(store, 2);
      const auto many = quickest(store, 1);
      CAPTURE(few.count(), many.count());
      CHECK(many <= 20 * few);
    }
  }
}

TEST_CASE("a skewed population costs at most 340 bytes a user at a mean rate of half a percent", "[000-15]") {
  // Median 40 items, 90th percentile 440, 99th 3,100, mean 230. A history promises re-insertion, so filters may use
  // their whole rate.
  Store store{{.wrong_hide_rate = 0.025, .users_per_request = 2}, {.shards = 64}};
  store.set_replay([](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    return std::vector<seenby::SeenDigest>{};
  });
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> volume(std::log(40.0), std::log(11.0) / 1.28155);
  constexpr std::uint64_t users = 30'000;
  const std::uint64_t before = store.memory_bytes();
  for (std::uint64_t user = 0; user < users; ++user) {
    const auto items = static_cast<std::uint64_t>(std::clamp(volume(random), 1.0, 50'000.0));
    REQUIRE(store.record_digests(user, digests_of(user << 20, items)));
  }
  double fpr = 0;
  std::size_t hits = 0;
  const auto fresh = digests_of(std::uint64_t{1} << 50, 100);
  for (std::uint64_t user = 0; user < users; user += 3) {
    fpr += store.expected_fpr(user) / (users / 3.0);
    hits += count_seen(store, user, fresh);
  }
  const double measured = static_cast<double>(hits) / (users / 3.0 * 100);
  CAPTURE(fpr, measured);
  CHECK(fpr <= 0.005);
  CHECK(std::abs(measured - fpr) <= 6 * std::sqrt(fpr / (users / 3.0 * 100)) + 0.03 * fpr);
  CHECK((store.memory_bytes() - before) / users <= 340);
}
