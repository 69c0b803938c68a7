// SPDX-License-Identifier: MIT
// MemoryStore's smallest users: what they have seen is in the index entry itself.

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "seenby/stores/memory_store.hpp"
#include "support/temporary_folder.hpp"

namespace {

using seenby::Digest;
using seenby::test::TemporaryFolder;
using Store = seenby::MemoryStore<std::uint64_t>;

const seenby::StorePolicy usual{.wrong_hide_rate = 0.01, .users_per_request = 2};

Digest item(std::uint64_t user, std::uint64_t i) { return seenby::Xxh3Hash{}((user << 32) + i); }
std::vector<Digest> items(std::uint64_t user, std::uint64_t first, std::uint64_t count) {
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(item(user, first + i));
  return digests;
}
/// How many of the candidates each of the users has seen, asked for all users at once.
std::size_t seen(const Store& store, const std::vector<std::uint64_t>& users, const std::vector<Digest>& candidates) {
  std::vector<std::uint8_t> seen_by(candidates.size());
  std::vector<seenby::UserStatus> status(users.size());
  store.check_digests(users, candidates, seen_by, status);
  std::size_t hits = 0;
  for (const auto by : seen_by) hits += by;
  for (const auto& each : status) CHECK(each.state == seenby::UserState::known);
  return hits;
}
/// Bytes of a user beyond their entry in the index.
std::uint64_t outside_index(const Store& store, std::uint64_t user) { return store.user_bytes(user) - 20; }

}  // namespace

TEST_CASE("users of two items cost 24 bytes each, everything included") {
  const std::uint64_t users = std::getenv("SEENBY_SOAK") != nullptr ? 5'000'000 : 200'000;
  Store store{usual};
  for (std::uint64_t i = 0; i < 2; ++i) {
    for (std::uint64_t user = 0; user < users; ++user) REQUIRE(store.record_digests(user, std::array{item(user, i)}));
  }
  const double bytes = static_cast<double>(store.memory_bytes()) / static_cast<double>(users);
  CHECK(bytes <= 24);
  for (std::uint64_t user = 0; user < users; user += 997) CHECK(seen(store, {user}, items(user, 0, 2)) == 2);
}

TEST_CASE("from the first item to the hundredth nothing is lost, for one user and for two") {
  Store store{usual};
  REQUIRE(store.create(1));
  std::size_t missed = 0;  // taken for seen before
  for (std::uint64_t i = 0; i < 100; ++i) {
    for (const std::uint64_t user : {1U, 2U}) {
      const auto outcome = store.record_digests(user, std::array{item(user, i)});
      REQUIRE(outcome);
      missed += 1 - outcome->newly_added;
      REQUIRE(store.record_digests(user, items(user, 0, i + 1))->newly_added == 0);  // repeats count once
      REQUIRE(seen(store, {user}, items(user, 0, i + 1)) == i + 1);
      REQUIRE((outside_index(store, user) == 0) == (i < 3));
    }
    REQUIRE(seen(store, {1, 2}, items(1, 0, i + 1)) >= i + 1);
    REQUIRE(seen(store, {1, 2}, items(2, 0, i + 1)) >= i + 1);
    std::vector<std::uint8_t> ages(i + 1, 9);
    const auto all = items(1, 0, i + 1);
    store.age(1, seenby::ItemBatch<std::uint64_t>{{}, all}, ages);
    REQUIRE(ages == std::vector<std::uint8_t>(i + 1, 0));
  }
  CHECK(missed <= 3);
  CHECK(store.counters().over_budget == 0);
}

TEST_CASE("every size of a batch behind every number of items, and every number of candidates") {
  Store store{usual};
  std::uint64_t user = 0;
  for (std::uint64_t before = 0; before <= 5; ++before) {
    for (std::uint64_t batch = 1; batch <= 40; ++batch) {
      ++user;
      for (std::uint64_t i = 0; i < before; ++i) REQUIRE(store.record_digests(user, std::array{item(user, i)}));
      REQUIRE(store.record_digests(user, items(user, before, batch)));
      for (const std::size_t count : {std::size_t{1}, std::size_t{2}, static_cast<std::size_t>(before + batch)}) {
        if (count > before + batch) continue;
        REQUIRE(seen(store, {user}, items(user, 0, count)) == count);
      }
    }
  }
  for (std::uint64_t count = 1; count < 70; ++count) {  // one of them the user's
    const auto candidates = items(1'000'000, 0, count);
    ++user;
    REQUIRE(store.record_digests(user, std::array{candidates[count / 2]}));
    std::vector<std::uint8_t> seen_by(count);
    std::vector<std::uint8_t> expected(count);
    expected[count / 2] = 1;
    std::array<seenby::UserStatus, 1> status;
    store.check_digests(std::array{user}, candidates, seen_by, status);
    REQUIRE(seen_by == expected);
  }
}

TEST_CASE("three items in an index entry hide 3 of 2^15 candidates") {
  constexpr std::uint64_t users = 2'000;
  constexpr std::uint64_t asked = 2'000;
  Store store{usual};
  std::size_t hidden = 0;
  for (std::uint64_t user = 0; user < users; ++user) {
    REQUIRE(store.record_digests(user, items(user, 0, 3)));
    CHECK(store.expected_fpr(user) <= 3.0 / 32768);
    hidden += seen(store, {user}, items(1'000'000 + user, 0, asked));
  }
  const double expected = 3.0 / 32768 * users * asked;
  CHECK(static_cast<double>(hidden) > expected - 5 * std::sqrt(expected));
  CHECK(static_cast<double>(hidden) < expected + 5 * std::sqrt(expected));
}

TEST_CASE("digests stay whole where a history is read again, for tight rates, and where the caller wants them") {
  const auto outside = [](seenby::StorePolicy policy, seenby::MemoryOptions options, bool history) {
    Store store{std::move(policy), options};
    if (history) {
      store.set_replay([](const std::uint64_t&, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
        return std::vector<seenby::SeenDigest>{};
      });
    }
    REQUIRE(store.record_digests(1, items(1, 0, 2)));
    CHECK(seen(store, {1}, items(1, 0, 2)) == 2);
    return outside_index(store, 1);
  };
  CHECK(outside(usual, {}, false) == 0);
  CHECK(outside(usual, {}, true) == 32);
  CHECK(outside({.wrong_hide_rate = 0.0001}, {}, false) == 32);
  CHECK(outside(usual, {.exact_items = 8}, false) == 32);
  CHECK(outside(usual, {.exact_items = 0}, false) == 32);
}

TEST_CASE("a history set later finds every item of a small user again") {
  Store store{usual};
  REQUIRE(store.record_digests(1, items(1, 0, 3)));
  store.set_replay([](const std::uint64_t& user, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    std::vector<seenby::SeenDigest> history;
    for (const Digest digest : items(user, 0, 30)) history.push_back({digest, {}});
    return history;
  });
  for (std::uint64_t i = 3; i < 30; ++i) {
    REQUIRE(store.record_digests(1, std::array{item(1, i)}));
    REQUIRE(seen(store, {1}, items(1, 0, i + 1)) == i + 1);
  }
}

TEST_CASE("a snapshot holds small users, and they stay small") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/snapshot";
  Store store{usual};
  for (std::uint64_t user = 0; user < 1'000; ++user) {
    REQUIRE(store.record_digests(user, items(user, 0, user % 8)));
    if (user % 8 == 0) REQUIRE(store.create(user));
  }
  REQUIRE(store.snapshot(path));
  Store restored{usual};
  REQUIRE(restored.restore(path));
  for (std::uint64_t user = 0; user < 1'000; ++user) {
    CHECK(seen(restored, {user}, items(user, 0, user % 8)) == user % 8);
    CHECK((outside_index(restored, user) == 0) == (user % 8 < 4));
    REQUIRE(restored.record_digests(user, items(user, 10, 4)));
    CHECK(seen(restored, {user}, items(user, 10, 4)) == 4);
  }
  // A store that keeps digests whole takes them as tables.
  Store other{usual, {.exact_items = 0}};
  REQUIRE(other.restore(path));
  CHECK(seen(other, {3}, items(3, 0, 3)) == 3);
  CHECK(outside_index(other, 3) == 32);
}

TEST_CASE("users of every size merge without a loss, small ones into one table") {
  // So many items in a first batch, and so many one by one: in the entry, exact, in a table, in a filter, in several.
  constexpr std::array<std::array<std::uint64_t, 2>, 8> sizes{
      {{0, 0}, {0, 2}, {3, 0}, {4, 0}, {0, 8}, {0, 60}, {100, 0}, {100, 2'000}}};
  for (const auto& from : sizes) {
    for (const auto& into : sizes) {
      Store store{usual};
      for (const auto& [user, size] : {std::pair{1U, from}, std::pair{2U, into}}) {
        REQUIRE(store.create(user));
        REQUIRE(store.record_digests(user, items(user, 0, size[0])));
        for (std::uint64_t i = 0; i < size[1]; ++i) {
          REQUIRE(store.record_digests(user, std::array{item(user, size[0] + i)}));
        }
      }
      const auto theirs = items(1, 0, from[0] + from[1]);
      const auto own = items(2, 0, into[0] + into[1]);
      REQUIRE(store.merge_users(1, 2));
      CHECK(seen(store, {2}, theirs) == theirs.size());
      CHECK(seen(store, {2}, own) == own.size());
      if (theirs.size() + own.size() <= 3) CHECK(outside_index(store, 2) == 0);
      REQUIRE(store.record_digests(2, items(3, 0, 20)));
      CHECK(seen(store, {2}, items(3, 0, 20)) == 20);
      CHECK(seen(store, {2}, theirs) == theirs.size());
      CHECK(seen(store, {2}, own) == own.size());
      if (theirs.size() + own.size() < 20) {
        CHECK(store.counters().over_budget == 0);
        CHECK(outside_index(store, 2) <= 160);
      }
    }
  }
}

TEST_CASE("a small user is forgotten whole") {
  Store store{usual};
  REQUIRE(store.record_digests(1, items(1, 0, 3)));
  REQUIRE(store.forget(1));
  REQUIRE(store.create(1));
  CHECK(seen(store, {1}, items(1, 0, 3)) == 0);
}
