// SPDX-License-Identifier: MIT
// SeenFilter over MemoryStore: windows, ages, merged users, growth and threads, seen through the facade.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/binomial.hpp"
#include "support/picks.hpp"
#include "support/random.hpp"

using namespace seenby;
using namespace std::chrono_literals;
using test::Ids;
using test::picked;
using test::range;
using Store = MemoryStore<std::uint64_t>;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
constexpr auto day = std::chrono::seconds(86400);

}  // namespace

TEST_CASE("what leaves the window comes back, oldest first where the page is thin", "[003-03][000-12]") {
  Time now{1000 * day};
  SeenFilter filter{Store{
      {.wrong_hide_rate = 1e-6, .window = 30 * day, .slices = 6, .clock = Clock::simulated([&now] { return now; })}}};
  for (std::uint64_t item = 0; item < 5; ++item) {
    REQUIRE(filter.record(alice, item));
    now += 5 * day;
  }
  const CandidatePool pool{range(0, 6)};
  CHECK(picked(pool, filter.select_unseen(pool, {alice})) == Ids{5});
  const auto relaxed = filter.select_unseen(pool, {alice}, {.limit = 4, .relax = {OldestSeenFirst{}}});
  CHECK(picked(pool, relaxed) == Ids{5, 0, 1, 2});
  CHECK(relaxed[1].reason == PickReason::seen_long_ago);
  now += 11 * day;  // 36 days after item 0: its slice has left
  CHECK(picked(pool, filter.select_unseen(pool, {alice})) == Ids{0, 5});
}

TEST_CASE("users merge: what either saw is seen, and the one that is gone is unknown") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{{.wrong_hide_rate = 1e-6}}, history};
  REQUIRE(filter.record_all(alice, range(0, 300)));
  REQUIRE(filter.record_all(bob, range(200, 900)));
  REQUIRE(filter.hide(alice, std::uint64_t{5000}));
  filter.mark_in_flight(alice, Ids{5001});
  REQUIRE(filter.merge_users(alice, bob));
  const CandidatePool pool{range(0, 1000)};
  CHECK(picked(pool, filter.select_unseen(pool, {bob})) == range(900, 1000));
  CHECK(filter.ask(bob, std::uint64_t{5000}) == Answer::seen);
  CHECK(filter.ask(bob, std::uint64_t{5001}) == Answer::seen);
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
  CHECK(history.seen_since(alice)->empty());
  CHECK(history.seen_since(bob)->size() == 900);
}

TEST_CASE("pairs of skewed users stay within the wrong-hide rate, with and without a history",
          "[000-15][000-16][000-17]") {
  SEENBY_RANDOM(seeds);
  const std::uint64_t seed = seeds();
  constexpr double budget = 0.02;
  const auto measure = [&](auto& filter) {
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> items_of(std::log(40.0), 1.5);
    constexpr std::uint64_t users = 300;
    for (std::uint64_t user = 0; user < users; ++user) {
      const auto count = static_cast<std::uint64_t>(std::clamp(items_of(random), 1.0, 3000.0));
      for (std::uint64_t i = 0; i < count; ++i) REQUIRE(filter.record(user, random() >> 1));
    }
    // Nobody saw any of these: the recorded ones have their top bit clear.
    std::uint64_t offered = 0;
    std::uint64_t hidden = 0;
    for (std::uint64_t request = 0; request < 400; ++request) {
      Ids fresh(100);
      for (auto& item : fresh) item = random() | (std::uint64_t{1} << 63);
      const CandidatePool pool{fresh};
      const auto page = filter.select_unseen(pool, {random() % users, random() % users});
      offered += fresh.size();
      hidden += page.removed();
    }
    INFO("hidden " << hidden << " of " << offered);
    // One-sided at 1e-9: candidates are drawn anew for each request, so their hides are independent given the filters.
    CHECK(hidden <= test::most_hits(offered, budget));
    CHECK(filter.counters().store.over_budget == 0);
    CHECK(filter.counters().store.growths > users);
  };
  SECTION("chained") {
    SeenFilter filter{Store{{.wrong_hide_rate = budget, .users_per_request = 2}}};
    measure(filter);
  }
  SECTION("re-inserted") {
    MemoryHistory<std::uint64_t, std::uint64_t> history;
    SeenFilter filter{Store{{.wrong_hide_rate = budget, .users_per_request = 2}}, history};
    measure(filter);
  }
}

TEST_CASE("against an exact model with a random clock: nothing within the window is shown", "[000-02][003-03]") {
  SEENBY_RANDOM(seeds);
  const std::uint64_t seed = seeds();
  for (const std::uint32_t slices : {1U, 6U, 30U}) {
    std::mt19937_64 random(seed + slices);
    Time now{20000 * day};
    Time latest{};  // of the times the store was asked at: it knows of no other
    SeenFilter filter{Store{{.wrong_hide_rate = 0.05,
                             .users_per_request = 2,
                             .window = 30 * day,
                             .slices = slices,
                             .clock = Clock::simulated([&now] { return now; })}}};
    std::map<std::pair<std::uint64_t, std::uint64_t>, Time> seen;
    std::map<std::pair<std::uint64_t, std::uint64_t>, bool> hides;
    const CandidatePool pool{range(0, 200)};
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t user = random() % 3;
      const std::uint64_t item = random() % 200;
      switch (random() % 8) {
        case 0: now += std::chrono::seconds(static_cast<std::int64_t>(random() % 200'000)); break;
        case 1:
          if (random() % 10 == 0) now -= std::chrono::seconds(static_cast<std::int64_t>(random() % 2'000'000));
          break;
        case 2: static_cast<void>(filter.hide(user, item).value()), hides[{user, item}] = true; break;
        case 3: static_cast<void>(filter.unhide(user, item).value()), hides[{user, item}] = false; break;
        case 4: {
          const std::uint64_t other = random() % 3;
          latest = std::max(latest, now);
          for (const auto& pick : filter.select_unseen(pool, {user, other})) {
            for (const std::uint64_t who : {user, other}) {
              const auto key = std::pair(who, pick.item);
              REQUIRE_FALSE(hides[key]);
              // By the latest time there was: a clock that jumps back does not prolong the window.
              if (const auto found = seen.find(key); found != seen.end()) REQUIRE(latest - found->second >= 30 * day);
            }
          }
          break;
        }
        default:
          latest = std::max(latest, now);
          REQUIRE(filter.record(user, item));
          // It goes into the newest slice there ever was.
          seen[{user, item}] = latest;
      }
    }
    CHECK(filter.counters().store.over_budget == 0);
  }
}

TEST_CASE("many threads select while users grow, and nothing acknowledged is missed", "[concurrent][000-20]") {
  SeenFilter filter{Store{{.wrong_hide_rate = 0.05, .users_per_request = 2, .initial_items = 4}}};
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<bool> wrong{false};
  constexpr std::uint64_t items = 3000;
  std::thread writer([&] {
    for (std::uint64_t item = 0; item < items; ++item) {
      if (!filter.record(alice, item)) wrong = true;
      acknowledged.store(item + 1, std::memory_order_release);
    }
  });
  REQUIRE(filter.create(bob));
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(static_cast<std::uint64_t>(reader));
      Selection<std::uint64_t> page;
      const Ids both{alice, bob};
      for (std::uint64_t done = 0; done < items;) {
        done = acknowledged.load(std::memory_order_acquire);
        if (done == 0) continue;
        Ids asked(50);
        for (auto& item : asked) item = random() % done;
        const CandidatePool pool{asked};
        filter.select_unseen(pool, std::span<const std::uint64_t>(both), {}, page);
        if (!page.empty()) wrong = true;
      }
    });
  }
  writer.join();
  for (auto& reader : readers) reader.join();
  CHECK_FALSE(wrong);
}

TEST_CASE("a store that asks with digests of its own gets their answers, not those of the pool's lanes") {
  Store store{{.wrong_hide_rate = 1e-3}};  // a filter of few blocks: the kind whose checks use lanes
  std::vector<Digest> others;
  for (const std::uint64_t id : range(500, 600)) others.push_back(Xxh3Hash{}(id));
  REQUIRE(store.record_digests(alice, others));

  const CandidatePool pool{range(0, 100)};
  std::vector<std::uint8_t> seen_by(100);
  std::vector<UserStatus> status(1);
  ItemBatch<std::uint64_t> batch = pool.distinct();
  store.check(std::span(&alice, 1), batch, std::span(seen_by), std::span(status));
  CHECK(std::count(seen_by.begin(), seen_by.end(), 1) <= 3);  // the filter's own errors, of which 0.1 are due
  batch.digests = others;
  store.check(std::span(&alice, 1), batch, std::span(seen_by), std::span(status));
  CHECK(seen_by == std::vector<std::uint8_t>(100, 1));
  store.check(std::span(&alice, 1), batch.subspan(64, 36), std::span(seen_by).first(36), std::span(status));
  CHECK(seen_by == std::vector<std::uint8_t>(100, 1));
}
