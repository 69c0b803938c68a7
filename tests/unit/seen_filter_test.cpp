// SPDX-License-Identifier: MIT
// SeenFilter over a store of blobs: what is acknowledged is never picked, lost filters are rebuilt.

#include "seenby/select/seen_filter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/stores/blob_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::MapBlobs;
using test::picked;
using test::range;
using Store = BlobStore<MapBlobs>;

namespace {

StorePolicy pair_policy() { return {.wrong_hide_rate = 1e-6, .users_per_request = 2}; }

}  // namespace

TEST_CASE("nothing acknowledged is ever picked", "[000-02]") {
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.05, .initial_items = 8}}};
  const CandidatePool pool{range(0, 3000)};
  for (std::uint64_t item = 0; item < 1500; ++item) REQUIRE(filter.record(alice, item * 2));
  const auto page = filter.select_unseen(pool, {alice});
  for (const auto& pick : page) REQUIRE(pick.item % 2 == 1);
  CHECK(page.size() > 1400);
}

TEST_CASE("a writer that always loses its swap gives up with a conflict") {
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, pair_policy()}};
  blobs.state().refuse_swaps = true;
  const auto lost = filter.record(alice, std::uint64_t{1});
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::conflict);
}

TEST_CASE("strings are users and items as numbers are") {
  SeenFilter filter{BlobStore<MapBlobs, std::string>{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record("alice", "question-1"));
  REQUIRE(filter.record("alice", std::string_view("question-2")));
  const CandidatePool<std::string> pool{{"question-1", "question-2", "question-3"}};
  const auto page = filter.select_unseen(pool, {"alice"});
  REQUIRE(page.size() == 1);
  CHECK(page[0].item == "question-3");
}

TEST_CASE("a lost filter costs freshness only: the history remains, and rebuilds it at the next record",
          "[002-12][002-15]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, pair_policy()}, history};
  REQUIRE(filter.record_all(alice, range(0, 100)));
  blobs.state().values.clear();
  CHECK(filter.ask(alice, std::uint64_t{5}) == Answer::unknown);
  CHECK(history.item_count(alice).or_throw() == 100);
  REQUIRE(filter.record(alice, std::uint64_t{200}));
  CHECK(history.item_count(alice).or_throw() == 101);
  CHECK(filter.ask(alice, std::uint64_t{5}) == Answer::seen);
  CHECK(filter.ask(alice, std::uint64_t{200}) == Answer::seen);
  CHECK(filter.counters().store.rebuilds >= 1);
}

TEST_CASE("threads recording and selecting through one blob store lose nothing", "[concurrent][000-20]") {
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.05, .initial_items = 4}}};
  std::vector<std::thread> writers;
  for (std::uint64_t w = 0; w < 2; ++w) {
    writers.emplace_back([&filter, w] {
      for (std::uint64_t i = 0; i < 150; ++i) {
        const std::uint64_t item = i * 2 + w;
        // A conflict is an answer: the item was not acknowledged, so try again.
        while (!filter.record(alice, item)) {}
        const CandidatePool pool{Ids{item}};
        if (!filter.select_unseen(pool, {alice}).empty()) std::abort();
      }
    });
  }
  for (auto& writer : writers) writer.join();
  const CandidatePool pool{range(0, 300)};
  CHECK(filter.select_unseen(pool, {alice}).empty());
  CHECK(filter.counters().requests == 301);
}

TEST_CASE("verify wins back what real filters hide wrongly", "[001-01]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.3}}, history};
  REQUIRE(filter.record_all(alice, range(0, 5'000)));
  const CandidatePool pool{range(0, 200'000)};
  const auto plain = filter.select_unseen(pool, {alice}, {.limit = 195'000});
  REQUIRE(plain.underfilled());
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 195'000, .relax = {Verify{.lookups = 200'000}}});
  CHECK(picked(pool, page) == range(5'000, 200'000));
  CHECK(page.lookups() == plain.removed());
  const auto won = std::ranges::count_if(page.picks(), [](const Pick& p) { return p.reason == PickReason::verified; });
  CHECK(static_cast<std::size_t>(won) == 195'000 - plain.size());
  CHECK(filter.counters().verified == static_cast<std::uint64_t>(won));
  const auto frugal = filter.select_unseen(pool, {alice}, {.limit = 195'000, .relax = {Verify{.lookups = 5'010}}});
  CHECK(frugal.lookups() <= 5'010);
  CHECK(frugal.size() >= plain.size());
}

TEST_CASE("a policy that cannot be kept is refused") {
  CHECK_THROWS_AS((Store{MapBlobs{}, {.wrong_hide_rate = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.users_per_request = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.initial_items = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.growth_factor = 1}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.window = std::chrono::seconds(5), .slices = 6}}), std::invalid_argument);
}
