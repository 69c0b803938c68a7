// SPDX-License-Identifier: MIT
// Users whose filter could not be asked: what the caller chooses, and that the page says so.

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <string>

#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/blob_store.hpp"
#include "support/exact_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;
using test::MapBlobs;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t stranger = 3;

}  // namespace

TEST_CASE("a user without a filter is unknown, never silently unseen", "[000-19]") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record_all(alice, Ids{1}));
  const CandidatePool pool{Ids{1, 2}};
  SECTION("show: picks say so, and the page lists the user") {
    const auto page = filter.select_unseen(pool, {alice, stranger});
    CHECK(picked(pool, page) == Ids{2});
    CHECK(page[0].reason == PickReason::unknown_user);
    REQUIRE(page.unknown_users().size() == 1);
    CHECK(page.unknown_users()[0].user_index == 1);
    CHECK(page.unknown_users()[0].state == UserState::missing);
    CHECK(filter.ask(stranger, std::uint64_t{2}) == Answer::unknown);
  }
  SECTION("hide: an empty page that still lists the user") {
    const auto page = filter.select_unseen(pool, {alice, stranger}, {.on_unknown = OnUnknown::hide});
    CHECK(page.empty());
    CHECK(page.unknown_users().size() == 1);
  }
  SECTION("fail: an error that says what to do") {
    const auto page = filter.select_unseen(pool, {alice, stranger}, {.on_unknown = OnUnknown::fail});
    CHECK(page.empty());
    REQUIRE(page.error());
    CHECK(page.error()->code == ErrorCode::unknown_user);
    CHECK(page.error()->message.find("create(user)") != std::string::npos);
  }
  SECTION("raise: the same, thrown") {
    CHECK_THROWS_AS(filter.select_unseen(pool, {stranger}, {.on_unknown = OnUnknown::raise}), BadResult);
  }
  SECTION("an explicit empty filter makes it an answer") {
    REQUIRE(filter.create(stranger));
    const auto page = filter.select_unseen(pool, {stranger});
    CHECK(page.size() == 2);
    CHECK(page.unknown_users().empty());
    CHECK(filter.ask(stranger, std::uint64_t{2}) == Answer::unseen);
  }
}

/// Asked piece by piece, as what costs no round trip is.
struct LocalBlobs : MapBlobs {
  static constexpr bool is_remote = false;
};

TEST_CASE("a user who becomes unknown in the midst of a request is never taken for one who has seen nothing",
          "[002-13]") {
  const bool evicted = GENERATE(false, true);
  CAPTURE(evicted);
  LocalBlobs blobs;
  SeenFilter filter{BlobStore<LocalBlobs>{blobs, {.wrong_hide_rate = 0.01}}};
  REQUIRE(filter.record_all(alice, range(0, 1'000)));
  const auto lose_after = [&](std::size_t loads) {
    blobs.state().loads = 0;
    blobs.state().good_loads = loads;
    blobs.state().then_evicted = evicted;
  };
  const auto require_noted = [](const Selection<std::uint64_t>& page) {
    REQUIRE(page.unknown_users().size() == 1);
    CHECK(page.unknown_users()[0].user_index == 0);
  };

  SECTION("between two pieces of a pool") {
    const CandidatePool pool{range(0, 1'000)};
    lose_after(1);
    const auto hidden = filter.select_unseen(pool, {alice}, {.limit = 10, .on_unknown = OnUnknown::hide});
    CHECK(hidden.empty());
    require_noted(hidden);
    lose_after(1);
    const auto failed = filter.select_unseen(pool, {alice}, {.limit = 10, .on_unknown = OnUnknown::fail});
    CHECK(failed.empty());
    CHECK(failed.error());
    lose_after(1);
    const auto shown = filter.select_unseen(pool, {alice}, {.limit = 10});
    REQUIRE(shown.size() == 10);
    for (const Pick& pick : shown.picks()) CHECK(pick.reason == PickReason::unknown_user);
    require_noted(shown);
  }
  SECTION("before a fallback pool") {
    const CandidatePool pool{range(0, 50)};
    const CandidatePool fallback{range(50, 100)};
    const NextPool next{fallback};
    lose_after(1);
    const auto hidden =
        filter.select_unseen(pool, {alice}, {.limit = 10, .on_unknown = OnUnknown::hide, .relax = {next}});
    CHECK(hidden.empty());
    require_noted(hidden);
    lose_after(1);
    const auto shown = filter.select_unseen(pool, {alice}, {.limit = 10, .relax = {next, next}});
    REQUIRE(shown.size() == 10);
    for (const Pick& pick : shown.picks()) CHECK(pick.reason == PickReason::unknown_user);
    require_noted(shown);
  }
}

TEST_CASE("a store that fails answers unreachable with its error, and writes are refused and counted", "[002-13]") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record_all(alice, Ids{1}));
  filter.store().state().down = true;
  const CandidatePool pool{Ids{1, 2}};
  const auto shown = filter.select_unseen(pool, {alice});
  CHECK(shown.size() == 2);
  CHECK(shown[0].reason == PickReason::unknown_user);
  REQUIRE(shown.unknown_users().size() == 1);
  CHECK(shown.unknown_users()[0].state == UserState::unreachable);
  CHECK(shown.unknown_users()[0].error->code == ErrorCode::unreachable);
  const auto hidden = filter.select_unseen(pool, {alice}, {.on_unreachable = OnUnknown::hide});
  CHECK(hidden.empty());
  const auto failed = filter.record(alice, std::uint64_t{9});
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::refused);
  CHECK(filter.counters().write_failures == 1);
}

TEST_CASE("an unknown user is found out whatever there is to ask, and by every way of asking") {
  SeenFilter filter{Store{}};
  const CandidatePool<std::uint64_t> empty;
  const CandidatePool pool{Ids{1}};
  const Ids users{stranger};
  const std::size_t limit = GENERATE(0U, 5U);
  CAPTURE(limit);
  const SelectOptions<std::uint64_t> raise{.limit = limit, .on_unknown = OnUnknown::raise};
  for (const auto* asked : {&empty, &pool}) {
    CHECK_THROWS_AS(filter.select_unseen(*asked, users, raise), BadResult);
    const std::vector<Request<std::uint64_t, std::uint64_t>> requests{{*asked, users, raise}};
    std::vector<Selection<std::uint64_t>> pages(1);
    CHECK_THROWS_AS(filter.select_many(requests, pages), BadResult);
    CHECK(filter.select_unseen(*asked, users, {.limit = limit}).unknown_users().size() == 1);
  }
  CHECK_THROWS_AS(filter.select_unseen(std::span<const std::uint64_t>{}, users, raise), BadResult);
  CHECK(filter.counters().requests == 7);
  CHECK(filter.counters().unknown_users == 7);
}

TEST_CASE("of two users the second one's being unknown counts as the first one's") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.record(alice, std::uint64_t{1}));
  const CandidatePool pool{Ids{1, 2}};
  for (const Ids& users : {Ids{alice, stranger}, Ids{stranger, alice}}) {
    const auto page = filter.select_unseen(pool, users);
    CHECK(picked(page) == Ids{2});
    CHECK(page[0].reason == PickReason::unknown_user);
    CHECK(filter.select_unseen(pool, users, {.on_unknown = OnUnknown::hide}).empty());
  }
}
