// SPDX-License-Identifier: MIT
// Stores that keep what users hid and saw last: in other processes, in snapshots, through forget and merge.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::Ids;
using test::MapBlobs;
using test::picked;
using test::range;
using Blobs = BlobStore<MapBlobs>;
using Memory = MemoryStore<std::uint64_t>;

static_assert(HidingStore<Blobs> && HidingStore<Memory> && HidingStore<MemoryStore<std::string>>);

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
const StorePolicy rare{.wrong_hide_rate = 1e-6, .users_per_request = 2};

/// Calls `hook` before it answers.
struct HookedHistory : MemoryHistory<std::uint64_t, std::uint64_t> {
  std::function<void()> hook;
  auto contains(const std::uint64_t& user, std::span<const std::uint64_t> items, std::span<std::uint8_t> seen,
                Time since) {
    hook();
    return MemoryHistory::contains(user, items, seen, since);
  }
};

std::vector<UserStatus> statuses(const auto& store, std::vector<std::uint64_t> users) {
  std::vector<UserStatus> status(users.size());
  store.check(std::span<const std::uint64_t>(users), ItemBatch<std::uint64_t>{}, {}, std::span(status));
  return status;
}

}  // namespace

TEST_CASE("what one process hides, another hides with its next request, for every user and past the first piece",
          "[003-07]") {
  MapBlobs blobs;
  SeenFilter here{Blobs{blobs, rare}};
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter there{Blobs{blobs, rare}, history};
  REQUIRE(here.create(bob));
  REQUIRE(here.record_all(alice, range(0, 200)));
  const CandidatePool pool{range(0, 300)};
  const CandidatePool next{Ids{204, 301, 302, 303}};
  CHECK(there.select_unseen(pool, {alice, bob}, {.limit = 4}).size() == 4);
  CHECK(here.hide(alice, 201).value());
  CHECK(here.hide(bob, 203).value());
  CHECK(here.hide(bob, 301).value());
  CHECK_FALSE(there.hide(bob, 203).value());
  CHECK(picked(there.select_unseen(pool, {alice, bob}, {.limit = 4})) == Ids{200, 202, 204, 205});
  CHECK(picked(there.select_unseen(pool, {bob, alice}, {.limit = 4})) == Ids{200, 202, 204, 205});
  CHECK(there.hidden(bob).value() == Ids{203, 301});
  CHECK(there.ask(bob, std::uint64_t{203}) == Answer::seen);
  CHECK(there.ask(bob, std::uint64_t{202}) == Answer::unseen);

  const CandidatePool few{Ids{201, 203, 204}};
  const SelectOptions<std::uint64_t> thin{.limit = 9, .relax = {Verify{}, SeenByAtMost{2}, NextPool{next}}};
  blobs.state().loads = 0;
  const auto page = there.select_unseen(few, {alice, bob}, thin);
  CHECK(picked(page) == Ids{204, 302, 303});
  CHECK(page.lookups() == 0);
  CHECK(blobs.state().loads == 4);  // a user a pool

  std::vector<Selection<std::uint64_t>> pages(2);
  using Asked = decltype(there)::Request<std::uint64_t>;
  const Ids both{alice, bob};
  const Ids one{bob};
  const SelectOptions<std::uint64_t> all{.limit = 9};
  blobs.state().loads = 0;
  there.select_many(std::vector{Asked{few, both, all}, Asked{few, one, all}}, pages);
  CHECK(picked(pages[0]) == Ids{204});
  CHECK(picked(pages[1]) == Ids{201, 204});
  CHECK(blobs.state().loads == 3);

  CHECK(there.unhide(alice, 201).value());
  CHECK_FALSE(there.unhide(alice, 202).value());
  CHECK(picked(here.select_unseen(few, {alice, bob}, {.limit = 9})) == Ids{201, 204});
  CHECK(statuses(here.store(), {alice})[0].exact == nullptr);
}

TEST_CASE("what is hidden while a page is relaxed is not taken from the next pool") {
  MapBlobs blobs;
  SeenFilter here{Blobs{blobs, rare}};
  HookedHistory history;
  SeenFilter there{Blobs{blobs, rare}, history};
  history.hook = [&] { REQUIRE(here.hide(alice, 302)); };
  REQUIRE(here.record(alice, 1));
  const CandidatePool pool{Ids{1}};
  const CandidatePool next{Ids{301, 302, 303}};
  CHECK(picked(there.select_unseen(pool, {alice}, {.limit = 9, .relax = {Verify{}, NextPool{next}}})) ==
        Ids{1, 301, 303});
}

TEST_CASE("the items a process records last are exact in another, within the window", "[003-07]") {
  test::TestClock clock;
  const StorePolicy policy{.wrong_hide_rate = 1e-6, .window = 30 * test::day, .slices = 3, .clock = clock.clock()};
  MapBlobs blobs;
  MemoryHistory<std::uint64_t, std::uint64_t> none;
  SeenFilter here{Blobs{blobs, policy}};
  SeenFilter there{Blobs{blobs, policy}, none};
  here.keep_last(2);
  REQUIRE(here.record_all(alice, Ids{1, 2, 3}));
  REQUIRE(here.hide(alice, 4));
  REQUIRE(here.record(bob, 5, clock.now() - 29 * test::day));
  const CandidatePool pool{Ids{1, 2, 3, 4, 5, 6}};
  const SelectOptions<std::uint64_t> verified{.limit = 9, .relax = {Verify{}, OldestSeenFirst{}}};
  CHECK(picked(there.select_unseen(pool, {alice}, verified)) == Ids{1, 5, 6});
  CHECK(picked(there.select_unseen(pool, {bob}, verified)) == Ids{1, 2, 3, 4, 6});
  clock.advance(test::day);
  CHECK(picked(there.select_unseen(pool, {bob}, verified)) == Ids{1, 2, 3, 4, 5, 6});
  clock.advance(100 * test::day);
  CHECK(picked(there.select_unseen(pool, {alice}, verified)) == Ids{1, 2, 3, 5, 6});
  REQUIRE(there.record(alice, 6));  // by a process that keeps none
  CHECK(picked(here.select_unseen(pool, {alice})) == Ids{1, 2, 3, 5});
}

TEST_CASE("hides and the last items are in a snapshot, and a restore replaces those there are", "[003-07]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("users.snapshot");
  const CandidatePool pool{range(0, 6)};
  const SelectOptions<std::uint64_t> thin{.limit = 9, .relax = {SeenByAtMost{2}}};
  {
    SeenFilter filter{Memory{rare}};
    filter.keep_last(1);
    REQUIRE(filter.record_all(alice, Ids{0, 1}));
    REQUIRE(filter.hide(alice, 2));
    REQUIRE(filter.hide(bob, 3));  // missing, and stays so
    REQUIRE(filter.hide(bob, "three"));
    REQUIRE(filter.store().snapshot(path));
  }
  SeenFilter filter{Memory{rare}};
  REQUIRE(filter.hide(alice, 5));
  REQUIRE(filter.hide(7, 5));
  REQUIRE(filter.store().restore(path));
  CHECK(picked(filter.select_unseen(pool, {alice}, thin)) == Ids{3, 4, 5, 0});
  CHECK(picked(filter.select_unseen(pool, {alice, bob}, thin)) == Ids{4, 5, 0});
  CHECK(filter.hidden(alice).value() == Ids{2});
  CHECK(filter.hidden(7).value().empty());
  CHECK(filter.hidden<std::string>(bob).value() == std::vector<std::string>{"three"});
  CHECK(statuses(filter.store(), {bob, alice})[0].state == UserState::missing);
  REQUIRE(filter.store().snapshot(path + "2"));
  SeenFilter again{Memory{rare}};
  REQUIRE(again.store().restore(path + "2"));
  CHECK(again.hidden(bob).value() == Ids{3});

  // Users that are strings.
  SeenFilter named{MemoryStore<std::string>{rare}};
  REQUIRE(named.hide("alice", 2));
  REQUIRE(named.store().snapshot(path));
  SeenFilter restored{MemoryStore<std::string>{rare}};
  REQUIRE(restored.store().restore(path));
  CHECK(restored.hidden("alice").value() == Ids{2});
  CHECK(restored.hidden("bob").value().empty());
}

TEST_CASE("forget takes hides and last items along, in the store too", "[003-07]") {
  const CandidatePool pool{range(0, 4)};
  const auto forgets = [&](auto& filter) {
    filter.keep_last(3);
    REQUIRE(filter.record(alice, 1));
    REQUIRE(filter.hide(alice, 2));
    REQUIRE(filter.hide(bob, 3));
    CHECK(filter.forget(alice).value());
    CHECK_FALSE(filter.forget(alice).value());
    CHECK(filter.hidden(alice).value().empty());
    CHECK(filter.hidden(bob).value() == Ids{3});
    REQUIRE(filter.create(alice));
    CHECK(picked(filter.select_unseen(pool, {alice})) == range(0, 4));
    CHECK(filter.forget(bob).value());
  };
  SeenFilter memory{Memory{rare}};
  forgets(memory);
  MapBlobs blobs;
  SeenFilter values{Blobs{blobs, rare}};
  forgets(values);
  CHECK(blobs.state().values.size() == 2);
}

TEST_CASE("merged users hide what either hid, in the store", "[003-07]") {
  SeenFilter filter{Memory{rare}};
  filter.keep_last(2);
  REQUIRE(filter.record_all(alice, Ids{1, 2}));
  REQUIRE(filter.record(bob, 3));
  REQUIRE(filter.hide(alice, 4));
  REQUIRE(filter.hide(bob, 5));
  REQUIRE(filter.merge_users(alice, bob));
  const CandidatePool pool{range(0, 7)};
  CHECK(picked(filter.select_unseen(pool, {bob}, {.limit = 9, .relax = {SeenByAtMost{1}}})) == Ids{0, 6});
  CHECK(filter.hidden(bob).value() == Ids{5, 4});
  CHECK(filter.hidden(alice).value().empty());
  CHECK(statuses(filter.store(), {alice})[0].exact == nullptr);
}

TEST_CASE("a page that is used again forgets what was hidden before") {
  SeenFilter filter{Memory{rare}};
  REQUIRE(filter.create(alice));
  REQUIRE(filter.create(bob));
  REQUIRE(filter.hide(alice, 0));
  const CandidatePool pool{range(0, 3)};
  Selection<std::uint64_t> page;
  const Ids users{alice, bob};
  filter.select_unseen(pool, users, {}, page);
  CHECK(picked(page) == Ids{1, 2});
  filter.select_unseen(pool, Ids{bob, 9}, {}, page);
  CHECK(picked(page) == Ids{0, 1, 2});
  filter.select_unseen(pool, users, {}, page);
  REQUIRE(filter.unhide(alice, 0));
  filter.select_unseen(pool, users, {}, page);
  CHECK(picked(page) == Ids{0, 1, 2});
}

TEST_CASE("a hide that the store cannot keep is an error, and one it has writes nothing") {
  MapBlobs blobs;
  SeenFilter filter{Blobs{blobs, rare}};
  REQUIRE(filter.hide(alice, 1));
  blobs.state().writes_left = 0;
  CHECK_FALSE(filter.hide(alice, 1).value());
  CHECK_FALSE(filter.unhide(alice, 2).value());
  CHECK(filter.hide(alice, 2).error().code == ErrorCode::unreachable);
  CHECK(filter.unhide(alice, 1).error().code == ErrorCode::unreachable);
  CHECK(filter.hidden(alice).value() == Ids{1});
  blobs.state().down = true;
  CHECK(filter.hidden(alice).error().code == ErrorCode::unreachable);
  CHECK(filter.unhide(alice, 1).error().code == ErrorCode::unreachable);

  SeenFilter memory{Memory{rare}};
  CHECK(memory.hide(alice, std::string(70'000, 'x')).error().code == ErrorCode::too_large);
  blobs.state().down = false;
  blobs.state().writes_left = -1;
  CHECK(filter.hide(alice, std::string(65'535, 'x')).error().code == ErrorCode::too_large);
  CHECK(filter.hide(alice, std::string(65'534, 'x')).value());
  CHECK(filter.hidden<std::string>(alice).value()[0].size() == 65'534);
}

TEST_CASE("records keep a value's hides while its table grows, and a repeat of a record moves the last items") {
  MapBlobs blobs;
  SeenFilter filter{Blobs{blobs, rare}};
  filter.keep_last(2);
  REQUIRE(filter.hide(alice, 100'000));
  for (std::uint64_t item = 0; item < 500; ++item) REQUIRE(filter.record(alice, item));
  REQUIRE(filter.record(alice, 7));
  CHECK(filter.hidden(alice).value() == Ids{100'000});
  const CandidatePool pool{Ids{7, 498, 499, 100'000, 100'001}};
  CHECK(picked(filter.select_unseen(pool, {alice}, {.limit = 9, .relax = {SeenByAtMost{1}}})) == Ids{100'001, 498});
}
