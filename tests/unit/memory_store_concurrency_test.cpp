// SPDX-License-Identifier: MIT
// MemoryStore under racing writers and readers: nothing acknowledged is ever unseen.

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "seenby/stores/memory_store.hpp"

namespace {

using seenby::Digest;
using Store = seenby::MemoryStore<std::uint64_t>;

Digest item(std::uint64_t user, std::uint64_t i) { return seenby::Xxh3Hash{}((user << 32) + i); }

constexpr std::uint64_t user_count = 24;

/// How many items of each user were acknowledged: the items are 0, 1, 2, ...
struct Acknowledged {
  std::array<std::atomic<std::uint64_t>, user_count> items{};
};

/// Records ever more items for the users of its own until told to stop.
void write_until(Store& store, Acknowledged& acknowledged, std::uint64_t first_user, std::uint64_t seed,
                 std::uint64_t items) {
  std::mt19937_64 random(seed);
  for (std::uint64_t done = 0; done < items;) {
    const std::uint64_t user = first_user + 2 * (random() % (user_count / 2));
    const std::uint64_t from = acknowledged.items[user].load();
    std::vector<Digest> batch;
    for (std::uint64_t i = 1 + random() % 9; i-- > 0;) batch.push_back(item(user, from + batch.size()));
    if (!store.record_digests(user, batch)) std::abort();
    acknowledged.items[user].store(from + batch.size(), std::memory_order_release);
    done += batch.size();
  }
}

/// Asks for acknowledged items of two users; returns how many were unseen.
std::uint64_t read_until(const Store& store, const Acknowledged& acknowledged, const std::atomic<bool>& stop,
                         std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uint64_t lost = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    const std::array<std::uint64_t, 2> users{random() % user_count, random() % user_count};
    for (std::size_t u = 0; u < 2; ++u) {
      const std::uint64_t known = acknowledged.items[users[u]].load(std::memory_order_acquire);
      if (known == 0) continue;
      std::vector<Digest> digests;
      for (int i = 0; i < 20; ++i) digests.push_back(item(users[u], random() % known));
      std::vector<std::uint8_t> seen_by(digests.size());
      std::array<seenby::UserStatus, 2> status;
      store.check_digests(users, digests, seen_by, status);
      for (const auto by : seen_by) lost += by == 0 ? 1U : 0U;
      lost += status[u].state == seenby::UserState::known ? 0U : 1U;
    }
  }
  return lost;
}

std::uint64_t race(Store& store, std::uint64_t items_a_writer, std::uint64_t seed) {
  Acknowledged acknowledged;
  std::atomic<bool> stop{false};
  std::array<std::uint64_t, 2> lost{};
  std::vector<std::thread> readers;
  for (std::size_t r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] { lost[r] = read_until(store, acknowledged, stop, seed + r); });
  }
  std::thread churn([&] {  // users that come and go beside the others, so that memory moves and the index shifts
    std::mt19937_64 random(seed + 7);
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint64_t user = 1000 + random() % 200;
      if (random() % 3 == 0) {
        (void)store.forget(user);
      } else {
        std::vector<Digest> batch;
        for (std::uint64_t i = random() % 300; i-- > 0;) batch.push_back(item(user, i));
        (void)store.record_digests(user, batch);
      }
    }
  });
  std::thread odd([&] { write_until(store, acknowledged, 1, seed + 3, items_a_writer); });
  write_until(store, acknowledged, 0, seed + 4, items_a_writer);
  odd.join();
  stop.store(true);
  churn.join();
  for (auto& reader : readers) reader.join();
  return lost[0] + lost[1];
}

// Under a sanitizer the largest tables, whose records cost their size, would take minutes.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t plain_writes = 200'000;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr std::uint64_t plain_writes = 200'000;
#else
constexpr std::uint64_t plain_writes = 600'000;
#endif
#else
constexpr std::uint64_t plain_writes = 600'000;
#endif
constexpr std::uint64_t writes = seenby::detail::every_access_atomic ? 60'000 : plain_writes;

}  // namespace

TEST_CASE("readers see every acknowledged item while users grow and others are forgotten [000-20]",
          "[concurrent][000-20]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}, {.shards = 2}};
  CHECK(race(store, writes, seed) == 0);
  CHECK(store.counters().growths > 0);
  CHECK(store.counters().over_budget == 0);
}

TEST_CASE("readers see every acknowledged item of a window while slices pass and tables grow", "[concurrent]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  using namespace std::chrono_literals;
  const auto hours = std::make_shared<std::atomic<std::int64_t>>(500'000);
  seenby::StorePolicy policy{.wrong_hide_rate = 0.01, .users_per_request = 2, .window = 100h, .slices = 100};
  policy.clock = seenby::Clock::simulated([hours] { return seenby::Time{hours->load() * 1h}; });
  Store store{policy, {.shards = 2}};
  std::atomic<bool> stop{false};
  std::thread time([&] {
    for (int passed = 0; passed < 90 && !stop.load(); ++passed) {
      ++*hours;
      store.sweep();
      std::this_thread::sleep_for(1ms);
    }
  });
  CHECK(race(store, writes / 4, seed) == 0);
  stop = true;
  time.join();
}

TEST_CASE("readers see every acknowledged item while filters are re-inserted from a history", "[concurrent]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}, {.shards = 2}};
  // The history is written before the filter: here it simply holds every item that will ever be recorded.
  store.set_replay([](const std::uint64_t& user, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    std::vector<seenby::SeenDigest> history;
    if (user >= user_count) return history;
    for (std::uint64_t i = 0; i < 6'000; ++i) history.push_back({item(user, i), {}});
    return history;
  });
  CHECK(race(store, writes / 10, seed) == 0);
}

TEST_CASE("items recorded while a rebuild reads the history are in the rebuilt filter", "[concurrent]") {
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
  std::mutex mutex;
  std::vector<seenby::SeenDigest> history;
  std::uint64_t beside = 0;
  bool inside = false;
  store.set_replay([&](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    std::vector<seenby::SeenDigest> copy;
    {
      const std::lock_guard lock(mutex);
      copy = history;
    }
    // Somebody records after the history was read and before the filter is replaced.
    if (!inside) {
      inside = true;
      for (int i = 0; i < 5; ++i) {
        const Digest digest = item(9, beside++);
        if (!store.record_digests(1, std::span(&digest, 1))) std::abort();
        const std::lock_guard lock(mutex);
        history.push_back({digest, {}});
      }
      inside = false;
    }
    return copy;
  });
  std::uint64_t recorded = 0;
  for (; recorded < 3'000; ++recorded) {
    const Digest digest = item(1, recorded);
    {
      const std::lock_guard lock(mutex);
      history.push_back({digest, {}});
    }
    REQUIRE(store.record_digests(1, std::span(&digest, 1)));
  }
  CHECK(beside > 0);
  CHECK(store.counters().rebuilds > 0);
  std::vector<Digest> all;
  for (std::uint64_t i = 0; i < recorded; ++i) all.push_back(item(1, i));
  for (std::uint64_t i = 0; i < beside; ++i) all.push_back(item(9, i));
  std::vector<std::uint8_t> seen_by(all.size());
  std::array<seenby::UserStatus, 1> status;
  const std::array<std::uint64_t, 1> users{1};
  store.check_digests(users, all, seen_by, status);
  CHECK(std::count(seen_by.begin(), seen_by.end(), std::uint8_t{0}) == 0);
}

TEST_CASE("a look-up follows no address beyond the store's, whatever its slot has become meanwhile") {
  // Exact digests that read as a slot of user 7 with a filter at the far end of the addresses.
  constexpr std::uint64_t filter_of_100_blocks = (std::uint64_t{100} << 19) | 3;
  const std::array<Digest, 4> crafted{{Digest{7}, Digest{0xFFFFFFFF00000000U | filter_of_100_blocks}, Digest{7},
                                       Digest{0xFFFFFFFE00000000U | filter_of_100_blocks}}};
  const std::array<std::uint64_t, 2> users{7, 7};
  const std::vector<Digest> asked(64, Digest{1});
  std::vector<std::uint8_t> seen_by(asked.size());
  std::array<seenby::UserStatus, 2> status;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Store store({.seed = seed}, {.shards = 1, .exact_items = 4});
    std::uint64_t id = 100;
    for (int i = 0; i < 5'000; ++i) REQUIRE(store.record_digests(++id, crafted));
    const auto expected = store.expect(users);
    for (int i = 0; i < 20'000; ++i) REQUIRE(store.record_digests(++id, crafted));
    store.check(std::span(users), seenby::ItemBatch<std::uint64_t>{{}, asked}, std::span(seen_by), std::span(status),
                expected);
    CHECK(seen_by == std::vector<std::uint8_t>(asked.size(), 0));
    CHECK(status[0].state == seenby::UserState::missing);
  }
}
