// SPDX-License-Identifier: MIT
// MemoryStore's tables: what users cost who grow item by item without a history, or in a window of many slices.

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "seenby/stores/memory_store.hpp"
#include "support/binomial.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Digest;
using Store = seenby::MemoryStore<std::uint64_t>;

Digest item(std::uint64_t user, std::uint64_t i) { return seenby::Xxh3Hash{}((user << 32) + i); }

/// How many of these items of user `of` a request of the user sees.
std::size_t seen(const Store& store, std::uint64_t user, std::uint64_t of, std::uint64_t first, std::uint64_t count) {
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(item(of, first + i));
  std::vector<std::uint8_t> seen_by(digests.size());
  std::array<seenby::UserStatus, 1> status;
  store.check_digests(std::array{user}, digests, seen_by, status);
  std::size_t hits = 0;
  for (const auto by : seen_by) hits += by;
  return hits;
}

}  // namespace

TEST_CASE("users who grow item by item cost 20 bits an item, and each keeps to its rate") {
  constexpr std::uint64_t users = 500;
  constexpr std::uint64_t per_user = 220;
  constexpr std::uint64_t asked = 20'000;
  Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}};
  for (std::uint64_t i = 0; i < per_user; ++i) {
    for (std::uint64_t user = 0; user < users; ++user) {
      REQUIRE(store.record_digests(user, std::array{item(user, i)}));
    }
  }
  CHECK(store.counters().over_budget == 0);
  std::uint64_t bytes = 0;
  for (std::uint64_t user = 0; user < users; ++user) {
    bytes += store.user_bytes(user);
    CHECK(seen(store, user, user, 0, per_user) == per_user);
  }
  CHECK(static_cast<double>(bytes) * 8 / (users * per_user) <= 20.5);
  const double share = seenby::sizing::split_budget(0.01, 2);
  for (std::uint64_t user = 0; user < 50; ++user) {
    const double most = asked * share + 5 * std::sqrt(asked * share);
    CHECK(static_cast<double>(seen(store, user, 1'000'000, 0, asked)) <= most);
    CHECK(store.expected_fpr(user) <= share);
  }
}

TEST_CASE("thirty slices cost 32 bits a live item and 36 bytes a user") {
  const auto now = std::make_shared<seenby::Time>(20'000 * 24h);
  seenby::StorePolicy policy{.wrong_hide_rate = 0.01, .users_per_request = 2, .window = 720h, .slices = 30};
  policy.clock = seenby::Clock::simulated([now] { return *now; });
  for (const std::uint64_t a_day : {1U, 2U}) {
    Store store{policy};
    constexpr std::uint64_t users = 200;
    for (std::uint64_t day = 0; day < 70; ++day, *now += 24h) {
      for (std::uint64_t user = 0; user < users; ++user) {
        for (std::uint64_t i = 0; i < a_day; ++i) {
          REQUIRE(store.record_digests(user, std::array{item(user, day * a_day + i)}));
        }
      }
    }
    *now -= 24h;
    const std::uint64_t live = 31 * a_day;
    std::uint64_t bytes = 0;
    for (std::uint64_t user = 0; user < users; ++user) {
      bytes += store.user_bytes(user);
      CHECK(seen(store, user, user, 70 * a_day - live, live) == live);
      CHECK(seen(store, user, user, 0, 30 * a_day) <= 2);
    }
    CHECK(bytes / users <= live * 4 + 36);
    CHECK(store.counters().slices_dropped >= users * 38);
    // An item seen again is renewed, and its age is that of the last time.
    std::array<std::uint8_t, 2> ages{};
    const std::array digests{item(1, 69 * a_day), item(1, 60 * a_day)};
    store.age(1, seenby::ItemBatch<std::uint64_t>{{}, digests}, ages);
    CHECK(ages[0] == 0);
    CHECK(ages[1] == 9);
    REQUIRE(store.record_digests(1, std::span(digests).last(1)));
    store.age(1, seenby::ItemBatch<std::uint64_t>{{}, digests}, ages);
    CHECK(ages[1] == 0);
    // After the window, and after so long that slice numbers come round, nothing is left.
    for (const auto later : {32 * 24h, 256 * 24h}) {
      *now += later;
      CHECK(seen(store, 1, 1, 0, 70 * a_day) == 0);
      REQUIRE(store.record_digests(1, std::array{item(1, 999)}));
      CHECK(seen(store, 1, 1, 0, 70 * a_day) <= 1);
    }
    *now += 300 * 24h;
    store.sweep();
    CHECK(store.user_bytes(2) <= 32);
  }
}

TEST_CASE("however the bits of a first filter fell, each user keeps to their share and none pays for 24 bits") {
  constexpr std::uint64_t users = 300;
  constexpr std::uint64_t asked = 200'000;
  Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}};
  const double share = seenby::sizing::split_budget(0.01, 2);
  for (std::uint64_t user = 0; user < users; ++user) {
    std::vector<Digest> first;
    for (std::uint64_t i = 0; i < 5 + user % 70; ++i) first.push_back(item(user, i));
    REQUIRE(store.record_digests(user, first));
    for (std::uint64_t i = first.size(); i < 120; ++i) REQUIRE(store.record_digests(user, std::array{item(user, i)}));
    CHECK(seen(store, user, user, 0, 120) == 120);
    CAPTURE(user);
    CHECK(seen(store, user, 1'000'000, 0, asked) <= seenby::test::most_hits(asked, share));
  }
  CHECK(store.counters().over_budget == 0);
  // After a thousand at once, two hundred thousand in batches.
  std::uint64_t next = 0;
  for (std::vector<Digest> batch; next < 200'000; batch.clear()) {
    for (int i = 0; i < 1'000; ++i) batch.push_back(item(users, next++));
    REQUIRE(store.record_digests(users, batch));
  }
  CHECK(static_cast<double>(store.user_bytes(users)) * 8 / static_cast<double>(next) <= 20);
  CHECK(seen(store, users, users, 0, next) == next);
  CHECK(seen(store, users, 1'000'000, 0, asked) <= seenby::test::most_hits(asked, share));
}

TEST_CASE("a user who outgrows a table, or had a large first batch, loses nothing") {
  Store store{{.wrong_hide_rate = 0.01}};
  std::vector<Digest> batch;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    batch.push_back(item(1, i));
    if (batch.size() < 1'000) continue;
    REQUIRE(store.record_digests(1, batch));
    REQUIRE(store.record_digests(2, batch));
    batch.clear();
  }
  for (std::uint64_t i = 0; i < 300; ++i) REQUIRE(store.record_digests(3, std::array{item(1, i)}));
  CHECK(store.counters().over_budget == 0);  // a table that is too large is succeeded within the rate
  CHECK(seen(store, 1, 1, 0, 100'000) == 100'000);
  CHECK(seen(store, 2, 1, 0, 100'000) == 100'000);
  CHECK(seen(store, 3, 1, 0, 300) == 300);
  REQUIRE(store.merge_users(3, 4));
  REQUIRE(store.merge_users(2, 4));
  CHECK(seen(store, 4, 1, 0, 100'000) == 100'000);
  CHECK(store.forget(4).value());
  CHECK(seen(store, 4, 1, 0, 100'000) == 0);
}

TEST_CASE("a snapshot after a record that found no room is restored") {
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1, .max_bytes = 26 * 1'024}};
  std::uint64_t next = 0;
  const auto batch_of = [&](std::size_t count) {
    std::vector<Digest> batch;
    for (std::size_t i = 0; i < count; ++i) batch.push_back(item(1, next++));
    return batch;
  };
  REQUIRE(store.record_digests(1, batch_of(150)));  // a filter, and a table beside it for what comes later
  std::uint64_t recorded = next;
  while (store.record_digests(1, batch_of(50))) recorded = next;
  const seenby::test::TemporaryFolder folder;
  REQUIRE(store.snapshot(folder.path("snapshot")));
  Store restored{{.wrong_hide_rate = 0.01}};
  const auto result = restored.restore(folder.path("snapshot"));
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  CHECK(seen(restored, 1, 1, 0, recorded) == recorded);
}

TEST_CASE("two users asked together are seen by as many as alone, whatever their records") {
  const auto now = std::make_shared<seenby::Time>(20'000 * 24h);
  seenby::StorePolicy in_window{.wrong_hide_rate = 0.01, .users_per_request = 2, .window = 48h, .slices = 2};
  in_window.clock = seenby::Clock::simulated([now] { return *now; });
  for (const auto& policy : {seenby::StorePolicy{.wrong_hide_rate = 0.01, .users_per_request = 2}, in_window}) {
    Store store{policy};
    constexpr std::uint64_t sizes[] = {0, 2, 5, 20, 60, 200, 2'000, 40'000};  // 0 is a user who is not there
    constexpr std::uint64_t users = 2 * std::size(sizes);                     // item by item, then at once
    for (std::uint64_t user = 0; user < users; ++user) {
      std::vector<Digest> all;
      for (std::uint64_t i = 0; i < sizes[user / 2]; ++i) all.push_back(item(user, i));
      if (user % 2 == 1 && !all.empty()) REQUIRE(store.record_digests(user, all));
      for (std::size_t i = 0; user % 2 == 0 && i < all.size(); ++i) {
        REQUIRE(store.record_digests(user, std::span(all).subspan(i, 1)));
      }
    }
    for (int day = 0; day < 4; ++day, *now += 24h) {
      CAPTURE(policy.slices, day);
      for (std::uint64_t first = 0; first < users; ++first) {
        for (std::uint64_t second = 0; second < users; ++second) {
          CAPTURE(first, second);
          std::vector<Digest> asked;
          for (std::uint64_t i = 0; i < 100; ++i) asked.push_back(item(i % 2 == 0 ? first : second, i / 2));
          const auto ask = [&](std::span<const std::uint64_t> who, std::span<seenby::UserStatus> status) {
            std::vector<std::uint8_t> seen_by(asked.size());
            store.check_digests(who, asked, seen_by, status);
            return seen_by;
          };
          std::array<seenby::UserStatus, 2> together;
          std::array<seenby::UserStatus, 1> one;
          std::array<seenby::UserStatus, 1> other;
          const auto by_both = ask(std::array{first, second}, together);
          auto expected = ask(std::array{first}, one);
          const auto by_second = ask(std::array{second}, other);
          for (std::size_t i = 0; i < asked.size(); ++i) {
            expected[i] = static_cast<std::uint8_t>(expected[i] + by_second[i]);
          }
          REQUIRE(by_both == expected);
          REQUIRE(together[0].state == one[0].state);
          REQUIRE(together[1].state == other[0].state);
          if (day == 0 && sizes[first / 2] > 0) REQUIRE(by_both[0] >= 1);
        }
      }
    }
  }
}
