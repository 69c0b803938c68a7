// SPDX-License-Identifier: MIT
// MemoryStore's users past one table: several tables split by the digests' top bits, made to appear at a few hundred
// items.

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "seenby/stores/memory_store.hpp"
#include "support/binomial.hpp"
#include "support/random.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Digest;
using seenby::test::Random;
using Store = seenby::MemoryStore<std::uint64_t>;

/// A table of 2 KiB holds 900 items or so, and its segments are changed in copies; 32 KiB ones have segments that are
/// changed in place.
constexpr std::array<std::uint32_t, 2> table_sizes{2'048, 32'768};

Digest item(std::uint64_t i) { return seenby::Xxh3Hash{}(i); }
std::vector<Digest> items(std::uint64_t first, std::uint64_t count) {
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(item(first + i));
  return digests;
}
std::vector<std::uint8_t> answers(const Store& store, std::uint64_t user, const std::vector<Digest>& digests) {
  std::vector<std::uint8_t> seen_by(digests.size());
  std::array<seenby::UserStatus, 1> status;
  store.check_digests(std::array{user}, digests, seen_by, status);
  return seen_by;
}
std::size_t seen(const Store& store, std::uint64_t user, const std::vector<Digest>& digests) {
  const auto all = answers(store, user, digests);
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), 1));
}
seenby::StorePolicy window_of(const std::shared_ptr<seenby::Time>& now) {
  seenby::StorePolicy policy{.wrong_hide_rate = 0.01, .window = 6h, .slices = 6};
  policy.clock = seenby::Clock::simulated([now] { return *now; });
  return policy;
}
/// Records all items of a range, a few at a time.
void record(Store& store, std::uint64_t user, std::uint64_t first, std::uint64_t count, std::uint64_t batch = 100) {
  for (std::uint64_t i = 0; i < count; i += batch) {
    REQUIRE(store.record_digests(user, items(first + i, std::min(batch, count - i))));
  }
}
std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a user past one table costs what a table costs, keeps to the rate, and a copy in a snapshot too") {
  for (const std::uint32_t table_bytes : {2'048U, 32'768U, 131'040U}) {
    CAPTURE(table_bytes);
    Store store{{.wrong_hide_rate = 0.01, .users_per_request = 2}, {.table_bytes = table_bytes}};
    constexpr std::uint64_t count = 150'000;
    REQUIRE(store.record_digests(1, items(0, 1)));
    std::uint64_t added = 1;
    for (std::uint64_t i = 1; i < count; i += 7) added += store.record_digests(1, items(i, 7)).or_throw().newly_added;
    CHECK(added > count * 99 / 100);
    CHECK(seen(store, 1, items(0, count)) == count);
    CHECK(store.counters().over_budget == 0);
    // A table of 1 KiB leaves up to half of it as room.
    CHECK(static_cast<double>(store.user_bytes(1)) * 8 / count < (table_bytes == 2'048 ? 34 : 19));
    const double share = seenby::sizing::split_budget(0.01, 2);
    constexpr std::uint64_t asked = 200'000;
    const std::size_t wrong = seen(store, 1, items(1U << 30, asked));
    CHECK(wrong <= seenby::test::most_hits(asked, share));
    CHECK(wrong >= seenby::test::fewest_hits(asked, store.expected_fpr(1)));
    CHECK(wrong <= seenby::test::most_hits(asked, store.expected_fpr(1)));

    const seenby::test::TemporaryFolder folder;
    REQUIRE(store.snapshot(folder.path("s")));
    Store other{{.wrong_hide_rate = 0.01, .users_per_request = 2}};
    const auto restored = other.restore(folder.path("s"));
    INFO((restored ? std::string() : restored.error().message));
    REQUIRE(restored);
    CHECK(other.user_bytes(1) == store.user_bytes(1));
    CHECK(answers(other, 1, items(0, count)) == answers(store, 1, items(0, count)));
    CHECK(answers(other, 1, items(1U << 30, asked)) == answers(store, 1, items(1U << 30, asked)));
    record(other, 1, count, 5'000);
    CHECK(seen(other, 1, items(0, count + 5'000)) == count + 5'000);
  }
}

TEST_CASE("random records, merges, forgets and snapshots of large users agree with exact sets", "[property]") {
  SEENBY_RANDOM(random);
  for (const std::uint32_t table_bytes : table_sizes) {
    const seenby::test::TemporaryFolder folder;
    auto store =
        std::make_unique<Store>(seenby::StorePolicy{}, seenby::MemoryOptions{.shards = 2, .table_bytes = table_bytes});
    std::map<std::uint64_t, std::map<std::uint64_t, bool>> model;
    for (int step = 0; step < 250; ++step) {
      const std::uint64_t user = random.below(4);
      const std::uint64_t what = random.below(100);
      if (what < 88) {
        const std::uint64_t count = 1 + random.below(random.below(6) == 0 ? 3'000 : 120);
        std::vector<Digest> batch;
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::uint64_t id = random.below(20'000);
          batch.push_back(item(id));
          model[user][id] = true;
        }
        REQUIRE(store->record_digests(user, batch));
      } else if (what < 92) {
        CHECK(store->forget(user).or_throw() == (model.erase(user) > 0));
      } else if (what < 96) {
        const std::uint64_t into = (user + 1) % 4;
        if (!model.contains(user)) continue;
        REQUIRE(store->merge_users(user, into));
        model[into].merge(model[user]);
        model.erase(user);
      } else {
        REQUIRE(store->snapshot(folder.path("s")));
        if (what == 99)
          store = std::make_unique<Store>(seenby::StorePolicy{},
                                          seenby::MemoryOptions{.shards = 8, .table_bytes = table_bytes});
        REQUIRE(store->restore(folder.path("s")));
      }
      if (step % 10 != 0) continue;
      for (std::uint64_t of = 0; of < 4; ++of) {
        std::vector<Digest> all;
        for (const auto& [id, there] : model[of]) all.push_back(item(id));
        REQUIRE(seen(*store, of, all) == all.size());
        if (model[of].empty()) model.erase(of);
        if (!model.contains(of)) REQUIRE(seen(*store, of, items(0, 2'000)) == 0);
      }
    }
  }
}

TEST_CASE("a window on large users tells ages, drops what left it, and loses nothing else", "[property]") {
  SEENBY_RANDOM(random);
  for (const std::uint32_t table_bytes : table_sizes) {
    const auto now = std::make_shared<seenby::Time>(1'000'008'000s);
    Store store(window_of(now), {.shards = 1, .table_bytes = table_bytes});
    std::unordered_map<std::uint64_t, std::int64_t> last;  // item, hour
    const std::uint64_t steps = table_bytes == 2'048 ? 400 : 150;
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (random.below(20) == 0) *now += random.below(40) == 0 ? 400h : 1h * static_cast<int>(random.below(4));
      const std::int64_t hour = now->time_since_epoch() / 1h;
      std::vector<Digest> batch;
      for (std::uint64_t i = 1 + random.below(400); i-- > 0;) {
        const std::uint64_t id = random.below(30'000);
        batch.push_back(item(id));
        last[id] = hour;
      }
      REQUIRE(store.record_digests(1, batch));
      if (random.below(30) == 0) store.sweep();
      if (step % 20 != 0) continue;
      std::vector<Digest> live;
      std::vector<std::uint8_t> ages;
      std::vector<Digest> dead;
      for (const auto& [id, at] : last) {
        (hour - at <= 6 ? live : dead).push_back(item(id));
        if (hour - at <= 6) ages.push_back(static_cast<std::uint8_t>(hour - at));
      }
      REQUIRE(seen(store, 1, live) == live.size());
      CHECK(seen(store, 1, dead) <= seenby::test::most_hits(dead.size() + 1, 0.01));
      std::vector<std::uint8_t> told(live.size());
      store.age(1, seenby::ItemBatch<std::uint64_t>{{}, live}, told);
      std::size_t younger = 0;
      for (std::size_t i = 0; i < told.size(); ++i) {
        REQUIRE(told[i] <= ages[i]);
        younger += told[i] < ages[i] ? 1U : 0U;
      }
      CHECK(younger <= seenby::test::most_hits(live.size() + 1, 0.01));
    }
    // One slice of the window after the other goes, and the memory with it.
    record(store, 1, 50'000, 4'000);
    const std::uint64_t before = store.user_bytes(1);
    *now += 3h;
    record(store, 1, 60'000, 10);
    *now += 4h;
    store.sweep();
    CHECK(seen(store, 1, items(60'000, 10)) == 10);
    CHECK(store.user_bytes(1) < before);
    CHECK(store.counters().slices_dropped > 0);
    *now += 300h;
    CHECK(seen(store, 1, items(60'000, 10)) == 0);
    store.sweep();
    CHECK(store.user_bytes(1) <= 32);
  }
}

TEST_CASE("a record restored under a stricter rate grows on, and loses nothing") {
  const seenby::test::TemporaryFolder folder;
  for (const std::uint64_t count : {100U, 3'000U}) {
    Store store{{.wrong_hide_rate = 0.3}, {.shards = 1, .table_bytes = 2'048}};
    record(store, 1, 0, count, 1);
    REQUIRE(store.snapshot(folder.path("s")));
    Store strict{{.wrong_hide_rate = 1e-9}, {.shards = 1, .table_bytes = 2'048}};
    REQUIRE(strict.restore(folder.path("s")));
    CHECK(strict.counters().over_budget > 0);
    record(strict, 1, count, 3 * count, 3);
    CHECK(seen(strict, 1, items(0, 4 * count)) == 4 * count);
  }
}

TEST_CASE("a window's first batch may be larger than any table") {
  const auto now = std::make_shared<seenby::Time>(1'000'008'000s);
  Store store(window_of(now));
  const auto outcome = store.record_digests(1, items(0, 200'000));
  REQUIRE(outcome);
  CHECK(outcome->newly_added > 199'000);
  CHECK(seen(store, 1, items(0, 200'000)) == 200'000);
  CHECK(store.user_bytes(1) < 200'000 * 4);
}

TEST_CASE("items chosen to share their first bits are refused or found, and other users serve on") {
  Store store{{}, {.shards = 1, .table_bytes = 2'048}};
  std::vector<Digest> chosen;
  for (std::uint64_t i = 0; i < 60'000; ++i) chosen.push_back(Digest{item(i).value >> 20});
  std::vector<Digest> acknowledged;
  REQUIRE(store.record_digests(1, items(0, 3'000)));
  for (std::size_t at = 0; at < chosen.size(); at += 500) {
    const std::span<const Digest> batch = std::span(chosen).subspan(at, 500);
    if (store.record_digests(1, batch)) acknowledged.insert(acknowledged.end(), batch.begin(), batch.end());
  }
  CHECK(seen(store, 1, acknowledged) == acknowledged.size());
  CHECK(seen(store, 1, items(0, 3'000)) == 3'000);
  CHECK(store.user_bytes(1) < 1'200'000);
  record(store, 2, 0, 3'000);
  CHECK(seen(store, 2, items(0, 3'000)) == 3'000);
}

TEST_CASE("a large user who finds no room loses nothing that was acknowledged, and a forget gives all of it back") {
  Store store{{}, {.shards = 1, .max_bytes = 200'000, .table_bytes = 8'192}};
  REQUIRE(store.record_digests(1, items(0, 3)));
  std::uint64_t recorded = 3;
  int refused = 0;
  for (std::uint64_t next = 3; refused < 40; next += 97) {
    if (store.record_digests(1, items(next, 97))) {
      if (recorded == next) recorded += 97;
    } else {
      ++refused;
    }
    if (refused % 8 == 1) REQUIRE(seen(store, 1, items(0, recorded)) == recorded);
  }
  CHECK(recorded > 30'000);
  CHECK(seen(store, 1, items(0, recorded)) == recorded);
  const Store empty{{}, {.shards = 1, .max_bytes = 200'000, .table_bytes = 8'192}};
  CHECK(store.forget(1).or_throw());
  CHECK(store.memory_bytes() < empty.memory_bytes() + 16'384);
  // Failed merges leave both users as they were.
  record(store, 1, 0, 8'000);
  recorded = 0;
  while (store.record_digests(2, items(50'000 + recorded, 50))) recorded += 50;
  CHECK_FALSE(store.merge_users(2, 1));
  CHECK(seen(store, 1, items(0, 8'000)) == 8'000);
  CHECK(seen(store, 2, items(50'000, recorded)) == recorded);
  CHECK(store.forget(1).or_throw());
  CHECK(store.forget(2).or_throw());
  CHECK(store.memory_bytes() < empty.memory_bytes() + 16'384);
}

TEST_CASE("a history that was away leaves a table beside the filter, and replaces both when it is back") {
  for (const std::uint64_t more : {40U, 5'000U}) {  // a table, segments
    Store store{{.wrong_hide_rate = 0.01}, {.shards = 1, .table_bytes = 2'048}};
    std::vector<seenby::SeenDigest> history;
    bool readable = true;
    store.set_replay([&](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
      if (!readable) return seenby::Error{seenby::ErrorCode::unreachable, "seenby: the history is away"};
      return history;
    });
    std::uint64_t next = 0;
    const auto record_next = [&] {
      history.push_back({item(next++), {}});
      REQUIRE(store.record_digests(1, std::array{history.back().digest}));
    };
    while (next < 100) record_next();
    const std::uint64_t rebuilds = store.counters().rebuilds;
    readable = false;
    while (next < 200 + more) record_next();
    CHECK(seen(store, 1, items(0, next)) == next);
    CHECK(store.counters().over_budget > 0);
    CHECK(store.counters().rebuilds == rebuilds);
    readable = true;
    const std::uint64_t until = next + next / 2 + 40;
    while (next < until) record_next();
    CHECK(store.counters().rebuilds > rebuilds);
    CHECK(seen(store, 1, items(0, next)) == next);
    CHECK(store.user_bytes(1) < next * 3 + 100);
    constexpr std::uint64_t asked = 50'000;
    CHECK(seen(store, 1, items(1U << 30, asked)) <= seenby::test::most_hits(asked, 0.01));
    // An item that the history does not know stays seen.
    readable = false;
    std::vector<Digest> unknown;
    for (std::uint64_t i = 0; i < 400; ++i) unknown.push_back(item(1'000'000 + i));
    REQUIRE(store.record_digests(1, unknown));
    while (next < until * 2) record_next();
    readable = true;
    while (next < until * 3) record_next();
    CHECK(seen(store, 1, unknown) == unknown.size());
    CHECK(seen(store, 1, items(0, next)) == next);
  }
}

TEST_CASE("whatever byte of a large user's snapshot is damaged, it is refused or restored whole", "[golden]") {
  SEENBY_RANDOM(random);
  const seenby::test::TemporaryFolder folder;
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1, .table_bytes = 2'048}};
  record(store, 1, 0, 2'500);
  record(store, 2, 0, 3);
  REQUIRE(store.snapshot(folder.path("s")));
  const std::string whole = bytes_of(folder.path("s"));
  constexpr std::size_t records = 64 + 32;
  const std::uint64_t size = seenby::detail::load_le<std::uint64_t>(reinterpret_cast<const std::byte*>(&whole[80]));
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes = whole;
    // The fields before the first tables' bytes, or anything; the checksum is made to agree.
    const std::size_t at = records + random.below(i % 2 == 0 ? 80 : size);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
    const std::uint64_t sum = seenby::detail::xxh3_bytes(reinterpret_cast<const std::byte*>(&bytes[records]), size, 0);
    seenby::detail::store_le(reinterpret_cast<std::byte*>(&bytes[records + size]), sum);
    std::filesystem::remove(folder.path("d"));
    std::ofstream(folder.path("d"), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Store other{{.wrong_hide_rate = 0.01}, {.shards = 1, .table_bytes = 2'048}};
    if (!other.restore(folder.path("d"))) continue;
    static_cast<void>(seen(other, 1, items(0, 2'500)));
    REQUIRE(other.record_digests(1, items(5'000, 300)));
    REQUIRE(seen(other, 1, items(5'000, 300)) == 300);
  }
}

TEST_CASE("readers of a large user who grows never miss an acknowledged item", "[concurrent]") {
  for (const std::uint32_t table_bytes : table_sizes) {
    Store store{{}, {.shards = 1, .table_bytes = table_bytes}};
    std::atomic<std::uint64_t> acknowledged{0};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> lost{0};
    std::vector<std::thread> readers;
    for (std::uint64_t r = 0; r < 2; ++r) {
      readers.emplace_back([&, r] {
        Random random(r);
        while (!stop.load(std::memory_order_relaxed)) {
          const std::uint64_t known = acknowledged.load(std::memory_order_acquire);
          if (known == 0) continue;
          std::vector<Digest> asked;
          for (int i = 0; i < 30; ++i) asked.push_back(item(random.below(known)));
          if (seen(store, 1, asked) != asked.size()) lost.fetch_add(1);
        }
      });
    }
    std::thread other([&] {  // users come, merge and go beside
      Random random(9);
      while (!stop.load(std::memory_order_relaxed)) {
        static_cast<void>(store.record_digests(2, items(random.below(1'000'000), 700)));
        if (random.below(4) == 0) static_cast<void>(store.merge_users(2, 3));
        if (random.below(8) == 0) static_cast<void>(store.forget(3));
      }
    });
    const std::uint64_t until = table_bytes == 2'048 ? 12'000 : 30'000;
    for (std::uint64_t i = 0; i < until; i += 60) {
      if (!store.record_digests(1, items(i, 60))) std::abort();
      acknowledged.store(i + 60, std::memory_order_release);
    }
    stop = true;
    for (auto& reader : readers) reader.join();
    other.join();
    CHECK(lost == 0);
    CHECK(seen(store, 1, items(0, until)) == until);
  }
}
