// SPDX-License-Identifier: MIT
// MemoryStore with a rotating window, against an exact model under clocks that jump.

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "seenby/stores/memory_store.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Digest;
using Store = seenby::MemoryStore<std::uint64_t>;

static_assert(seenby::AgeingStore<Store>);
static_assert(seenby::BatchingStoreFor<Store, std::uint64_t>);

struct Fixture {
  std::shared_ptr<seenby::Time> now = std::make_shared<seenby::Time>(1'000'008'000s);
  seenby::StorePolicy policy;
  std::chrono::seconds slice;

  Fixture(std::chrono::seconds window, std::uint32_t slices, std::uint32_t users_per_request = 1)
      : slice(window / slices) {
    policy = {.wrong_hide_rate = 0.01, .users_per_request = users_per_request, .window = window, .slices = slices};
    policy.clock = seenby::Clock::simulated([now = now] { return *now; });
  }
  [[nodiscard]] std::int64_t slice_number() const { return now->time_since_epoch() / slice; }
};

Digest item(std::uint64_t i) { return seenby::Xxh3Hash{}(i); }

std::vector<std::uint8_t> ask(const Store& store, const std::vector<std::uint64_t>& users,
                              const std::vector<Digest>& digests) {
  std::vector<std::uint8_t> seen_by(digests.size());
  std::vector<seenby::UserStatus> status(users.size());
  store.check_digests(users, digests, seen_by, status);
  return seen_by;
}
bool sees(const Store& store, std::uint64_t user, std::uint64_t i) { return ask(store, {user}, {item(i)})[0] == 1; }
void record(Store& store, std::uint64_t user, std::uint64_t i) {
  const Digest digest = item(i);
  REQUIRE(store.record_digests(user, std::span(&digest, 1)));
}
std::uint8_t age_of(const Store& store, std::uint64_t user, std::uint64_t i) {
  const Digest digest = item(i);
  std::uint8_t age = 77;
  store.age(user, seenby::ItemBatch<std::uint64_t>{{}, {&digest, 1}}, {&age, 1});
  return age;
}

}  // namespace

TEST_CASE("what was seen stays seen for the window and is gone a slice after it [003-03]", "[003-03]") {
  Fixture with(30 * 24h, 6);
  Store store(with.policy);
  record(store, 1, 42);
  CHECK(age_of(store, 1, 42) == 0);
  *with.now += 30 * 24h;
  CHECK(sees(store, 1, 42));
  CHECK(age_of(store, 1, 42) == 6);
  *with.now += 5 * 24h;
  CHECK_FALSE(sees(store, 1, 42));
  CHECK(age_of(store, 1, 42) == 255);
  CHECK(store.users() == 1);
}

TEST_CASE("a clock that jumps back loses nothing and resurrects nothing") {
  Fixture with(6h, 6);
  Store store(with.policy);
  record(store, 1, 1);
  *with.now += 8h;
  CHECK_FALSE(sees(store, 1, 1));  // only read, never written: the slice must stay dropped all the same
  *with.now -= 8h;
  CHECK_FALSE(sees(store, 1, 1));
  record(store, 1, 2);
  CHECK(sees(store, 1, 2));
  *with.now += 8h + 30min;
  CHECK(sees(store, 1, 2));  // recorded into the newest slice there was
  *with.now += 6h;
  CHECK(sees(store, 1, 2));
  *with.now += 1h;
  CHECK_FALSE(sees(store, 1, 2));
}

TEST_CASE("one reading of a clock a year ahead ages nothing, and is counted") {
  auto now = std::make_shared<seenby::Time>(1'000'008'000s);
  auto steady = std::make_shared<std::chrono::seconds>(0);
  seenby::StorePolicy policy{.window = 10h, .slices = 10};
  policy.clock = seenby::Clock([now] { return *now; }, [steady] { return *steady; });
  Store store{policy};
  for (std::uint64_t user : {5U, 6U}) REQUIRE(store.record_digests(user, std::array{item(user)}));
  const auto pass = [&](std::chrono::seconds by) {
    *now += by;
    *steady += by;
  };
  *now += 365 * 24h;
  CHECK(sees(store, 5, 5));
  REQUIRE(store.record_digests(5, std::array{item(50)}));
  *now -= 365 * 24h;
  CHECK(store.counters().clock_jumps == 1);
  for (int hour = 0; hour < 9; ++hour) {
    pass(1h);
    CHECK(sees(store, 5, 5));
    CHECK(sees(store, 6, 6));
  }
  pass(3h);
  CHECK_FALSE(sees(store, 6, 6));  // what was recorded meanwhile ages as ever
  CHECK_FALSE(sees(store, 5, 50));
  // A clock that stays there is right: the machine slept.
  REQUIRE(store.record_digests(6, std::array{item(6)}));
  *now += 20h;
  CHECK(sees(store, 6, 6));
  for (int minute = 0; minute < 3; ++minute) {
    pass(1min);
    (void)sees(store, 6, 6);
  }
  CHECK_FALSE(sees(store, 6, 6));
}

TEST_CASE("a late event goes into the slice of its time, one from before the window nowhere") {
  auto now = std::make_shared<seenby::Time>(1'000'008'000s);
  seenby::StorePolicy policy{.window = 10h, .slices = 10};
  policy.clock = seenby::Clock::simulated([now] { return *now; });
  Store store{policy};
  const auto record = [&](std::uint64_t user, std::uint64_t what, seenby::Time when) {
    const std::array digests{item(what)};
    return store.record(user, seenby::ItemBatch<std::uint64_t>{{}, digests}, when);
  };
  for (const std::uint64_t user : {1U, 2U}) {
    REQUIRE(record(user, 1, *now));
    REQUIRE(record(user, 2, *now - 5h));
    REQUIRE(record(user, 3, *now + 24h));  // a clock ahead of ours: now
    REQUIRE(record(user, 4, *now - 12h));
    CHECK(sees(store, user, 2));
    CHECK_FALSE(sees(store, user, 4));
  }
  REQUIRE(record(3, 4, *now - 12h));
  CHECK(store.counters().users == 2);
  *now += 6h + 1min;
  for (const std::uint64_t user : {1U, 2U}) {
    CHECK(sees(store, user, 1));
    CHECK_FALSE(sees(store, user, 2));
    CHECK(sees(store, user, 3));
  }
  *now += 5h;
  CHECK_FALSE(sees(store, 1, 3));
}

TEST_CASE("sweep frees the slices that left the window") {
  Fixture with(6h, 6);
  Store store(with.policy, {.shards = 4});
  for (std::uint64_t user = 0; user < 2'000; ++user) {
    std::vector<Digest> batch;
    for (std::uint64_t i = 0; i < 200; ++i) batch.push_back(item(i));
    REQUIRE(store.record_digests(user, batch));
  }
  const auto full = store.memory_bytes();
  *with.now += 8h;
  store.sweep();
  CHECK(store.counters().slices_dropped == 2'000);
  CHECK(store.users() == 2'000);
  CHECK(store.memory_bytes() < full / 4);
  CHECK_FALSE(sees(store, 5, 5));
}

TEST_CASE("a slice is sized by the user's own volume in earlier slices") {
  Fixture with(6h, 6);
  Store store(with.policy, {.shards = 1});
  std::uint64_t next = 0;
  for (int slice = 0; slice < 5; ++slice) {
    for (int i = 0; i < 300; ++i) record(store, 1, next++);
    *with.now += 1h;
  }
  const auto growths = store.counters().growths;
  for (int i = 0; i < 300; ++i) record(store, 1, next++);
  CHECK(store.counters().growths == growths);
  CHECK(store.counters().over_budget == 0);
}

TEST_CASE("nothing within the window is lost and the rate holds for any slices and users [003-04]", "[003-04]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const std::uint32_t slices : {1U, 6U, 30U}) {
    for (const std::uint32_t per_request : {1U, 2U}) {
      CAPTURE(slices, per_request);
      Fixture with(30h, slices, per_request);
      Store store(with.policy, {.shards = 2});
      constexpr std::uint64_t users = 6;
      std::array<std::map<std::uint64_t, std::int64_t>, users> model;  // item -> slice it was last recorded in
      std::int64_t newest = 0;
      std::uint64_t next = 0;
      std::size_t lost = 0;
      std::size_t resurrected = 0;
      std::size_t old_items = 0;
      for (int step = 0; step < 400; ++step) {
        *with.now += std::chrono::seconds(random() % 3600);
        if (random() % 50 == 0) *with.now -= std::chrono::seconds(random() % 20'000);
        newest = std::max(newest, with.slice_number());
        const std::uint64_t user = random() % users;
        std::vector<Digest> batch;
        for (std::uint64_t i = 1 + random() % (20 * (user + 1)); i-- > 0; ++next) {
          batch.push_back(item(next));
          model[user][next] = newest;
        }
        if (!model[user].empty() && random() % 2 == 0) {  // seen again: lives on in the newest slice
          const auto again = std::next(model[user].begin(), static_cast<long>(random() % model[user].size()));
          batch.push_back(item(again->first));
          again->second = newest;
        }
        REQUIRE(store.record_digests(user, batch));
        if (step % 40 == 0) store.sweep();
        if (step % 8 != 0) continue;
        for (std::uint64_t u = 0; u < users; ++u) {
          std::vector<Digest> live;
          std::vector<Digest> dead;
          for (const auto& [i, slice] : model[u]) (newest - slice <= slices ? live : dead).push_back(item(i));
          for (const auto by : ask(store, {u}, live)) lost += by == 0 ? 1U : 0U;
          for (const auto by : ask(store, {u}, dead)) resurrected += by;
          old_items += dead.size();
        }
      }
      CHECK(lost == 0);
      CHECK(store.counters().over_budget == 0);
      const double user_rate = seenby::sizing::split_budget(0.01, per_request);
      // The same dead items are asked again and again: allow for hits that come in runs of 50.
      CHECK(static_cast<double>(resurrected) <= static_cast<double>(old_items) * user_rate +
                                                    5 * std::sqrt(50 * static_cast<double>(old_items) * user_rate) +
                                                    50);
      std::size_t hidden = 0;
      constexpr std::size_t trials = 20'000;
      std::vector<Digest> fresh;
      for (std::size_t i = 0; i < trials; ++i) fresh.push_back(item((std::uint64_t{1} << 40) + i));
      for (std::uint64_t u = 0; u + per_request <= users; u += per_request) {
        std::vector<std::uint64_t> asked;
        for (std::uint64_t a = u; a < u + per_request; ++a) asked.push_back(a);
        for (const auto by : ask(store, asked, fresh)) hidden += by > 0 ? 1U : 0U;
      }
      const double mean = 0.01 * trials * users / per_request;
      CHECK(static_cast<double>(hidden) <= mean + 4.9 * std::sqrt(mean));
    }
  }
}

TEST_CASE("users merge slice by slice and nothing either has seen is lost") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const bool windowed : {false, true}) {
    for (int round = 0; round < 40; ++round) {
      Fixture with(6h, 6);
      if (!windowed) with.policy.window = 0s, with.policy.slices = 1;
      Store store(with.policy, {.shards = round % 2 == 0 ? 1U : 64U});
      std::uint64_t next = 0;
      for (const std::uint64_t user : {1U, 2U}) {
        for (std::uint64_t slice = random() % 3; slice < 3; ++slice) {
          std::vector<Digest> batch;
          for (std::uint64_t i = random() % (1U << (random() % 10)); i-- > 0;) batch.push_back(item(next++));
          REQUIRE(store.record_digests(user, batch));
          *with.now += 1h;
        }
        *with.now -= 2h;
      }
      REQUIRE(store.merge_users(1, 2));
      std::vector<Digest> all;
      for (std::uint64_t i = 0; i < next; ++i) all.push_back(item(i));
      std::size_t lost = 0;
      for (const auto by : ask(store, {2}, all)) lost += by == 0 ? 1U : 0U;
      CHECK(lost == 0);
      CHECK(store.users() == (next > 0 ? 1U : 0U));  // two batches of nothing make no user
      CHECK_FALSE(store.forget(1).value());
      CHECK((store.counters().over_budget > 0 || store.expected_fpr(2) <= 0.0101));
    }
  }
}

TEST_CASE("merging users of equal filters unites their bits within the rate") {
  Store store{{.wrong_hide_rate = 0.01, .initial_items = 100}, {.shards = 1}};
  std::vector<Digest> few;
  for (std::uint64_t i = 0; i < 36; ++i) few.push_back(item(i));
  REQUIRE(store.record_digests(1, std::span(few).first(33)));
  REQUIRE(store.record_digests(2, std::span(few).last(33)));
  const auto bytes = store.user_bytes(2);
  REQUIRE(store.merge_users(1, 2));
  CHECK(store.counters().over_budget == 0);
  CHECK(store.user_bytes(2) <= bytes + 64);
  REQUIRE(store.merge_users(7, 2));  // nobody: nothing happens
  REQUIRE(store.merge_users(2, 2));
  REQUIRE(store.merge_users(2, 9));
  CHECK(store.users() == 1);
  for (const auto by : ask(store, {9}, few)) CHECK(by == 1);
}

TEST_CASE("many requests in one call are answered as one by one") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Store store{{.wrong_hide_rate = 0.05, .users_per_request = 2}};
  for (std::uint64_t user = 0; user < 100; ++user) {
    std::vector<Digest> batch;
    for (std::uint64_t i = random() % 3'000 >> (random() % 10); i-- > 0;) batch.push_back(item(random() % 1'000));
    if (!batch.empty()) REQUIRE(store.record_digests(user, batch));
  }
  constexpr std::size_t requests = 50;
  std::vector<std::vector<std::uint64_t>> users(requests);
  std::vector<std::vector<Digest>> digests(requests);
  std::vector<std::vector<std::uint8_t>> together(requests);
  std::vector<std::vector<seenby::UserStatus>> status(requests);
  std::vector<seenby::CheckRequest<std::uint64_t, std::uint64_t>> questions;
  for (std::size_t r = 0; r < requests; ++r) {
    for (std::uint64_t u = r % 12; u-- > 0;) users[r].push_back(random() % 120);
    for (std::uint64_t i = random() % 400; i-- > 0;) digests[r].push_back(item(random() % 2'000));
    together[r].assign(digests[r].size(), 99);
    status[r].resize(users[r].size());
    questions.push_back({users[r], {{}, digests[r]}, together[r], status[r]});
  }
  store.check_many(std::span<const seenby::CheckRequest<std::uint64_t, std::uint64_t>>(questions));
  for (std::size_t r = 0; r < requests; ++r) {
    CHECK(together[r] == ask(store, users[r], digests[r]));
    for (std::size_t u = 0; u < users[r].size(); ++u) {
      CHECK((status[r][u].state == seenby::UserState::known) == (store.user_bytes(users[r][u]) > 0));
    }
  }
}
