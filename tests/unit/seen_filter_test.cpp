// SPDX-License-Identifier: MIT
// SeenFilter over a store of blobs: what is picked, in which order, and what is said about it.

#include "seenby/select/seen_filter.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/namespace.hpp"
#include "seenby/select/over_fetch.hpp"
#include "seenby/stores/salted_store.hpp"
#include "support/map_blobs.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::MapBlobs;
using Store = BlobStore<MapBlobs>;
using test::Ids;
using test::picked;
using test::range;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
constexpr std::uint64_t stranger = 3;

StorePolicy pair_policy() { return {.wrong_hide_rate = 1e-6, .users_per_request = 2}; }

}  // namespace

TEST_CASE("a selection holds only what neither of two users has seen, in ranking order", "[000-01][000-14]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record_all(alice, Ids{3, 5, 7}));
  REQUIRE(filter.record_all(bob, Ids{5, 11}));
  const CandidatePool pool{Ids{11, 2, 7, 13, 3, 1, 5}};
  const auto page = filter.select_unseen(pool, {alice, bob});
  CHECK(picked(pool, page) == Ids{2, 13, 1});
  CHECK(std::ranges::all_of(page.picks(), [](const Pick& pick) { return pick.reason == PickReason::unseen; }));
  CHECK(page.removed() == 4);
}

TEST_CASE("nothing acknowledged is ever picked", "[000-02]") {
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.05, .initial_items = 8}}};
  const CandidatePool pool{range(0, 3000)};
  for (std::uint64_t item = 0; item < 1500; ++item) REQUIRE(filter.record(alice, item * 2));
  const auto page = filter.select_unseen(pool, {alice});
  for (const auto& pick : page) REQUIRE(pick.item % 2 == 1);
  CHECK(page.size() > 1400);
}

TEST_CASE("a page ends at its limit and says when it is thin", "[000-12][002-14]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record_all(alice, range(0, 8)));
  const CandidatePool pool{range(0, 10)};
  CHECK(picked(pool, filter.select_unseen(pool, {alice}, {.limit = 2})) == Ids{8, 9});
  const auto thin = filter.select_unseen(pool, {alice}, {.limit = 3});
  CHECK(thin.underfilled());
  CHECK_FALSE(filter.select_unseen(pool, {alice}, {.limit = 2}).underfilled());
  CHECK_FALSE(filter.select_unseen(pool, {alice}).underfilled());
  CHECK(filter.counters().underfilled_pages == 1);
}

TEST_CASE("in-page duplicates are dropped and the first place in the ranking is kept", "[002-09]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{Ids{4, 9, 4, 1, 9, 9, 2}};
  const auto page = filter.select_unseen(pool, {alice});
  CHECK(picked(pool, page) == Ids{4, 9, 1, 2});
  CHECK(page[2].index == 3);
  CHECK(page.duplicates() == 3);
  CHECK(pool.duplicates() == 3);
}

TEST_CASE("a user without a filter is unknown, never silently unseen", "[002-12]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
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

TEST_CASE("a user who becomes unknown in the midst of a request is never taken for one who has seen nothing",
          "[002-13]") {
  const bool evicted = GENERATE(false, true);
  CAPTURE(evicted);
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, {.wrong_hide_rate = 0.01}}};
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
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, pair_policy()}};
  REQUIRE(filter.record_all(alice, Ids{1}));
  blobs.state().down = true;
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
  CHECK(failed.error().code == ErrorCode::unreachable);
  CHECK(filter.counters().write_failures == 1);
  CHECK(filter.counters().store.write_failures == 1);
}

TEST_CASE("a writer that always loses its swap gives up with a conflict") {
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, pair_policy()}};
  blobs.state().refuse_swaps = true;
  const auto lost = filter.record(alice, std::uint64_t{1});
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::conflict);
}

TEST_CASE("misuse is refused with a message that says what was expected") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  const CandidatePool pool{Ids{1}};
  CHECK_THROWS_AS(filter.select_unseen(pool, std::span<const std::uint64_t>{}), std::invalid_argument);
  CHECK_THROWS_AS(filter.select_unseen(pool, std::span<const std::uint64_t>(range(0, 256))), std::invalid_argument);
  const CandidatePool other_seed{Ids{1}, Xxh3Hash{5}};
  CHECK_THROWS_AS(filter.select_unseen(other_seed, {alice}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.wrong_hide_rate = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.users_per_request = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.initial_items = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.growth_factor = 1}}), std::invalid_argument);
  CHECK_THROWS_AS((Store{MapBlobs{}, {.window = std::chrono::seconds(5), .slices = 6}}), std::invalid_argument);
}

TEST_CASE("a request of more users than the policy planned for is counted", "[000-17]") {
  SeenFilter filter{Store{MapBlobs{}, {.users_per_request = 1}}};
  const CandidatePool pool{Ids{1}};
  REQUIRE(filter.create(alice));
  REQUIRE(filter.create(bob));
  (void)filter.select_unseen(pool, {alice});
  CHECK(filter.counters().over_user_budget == 0);
  (void)filter.select_unseen(pool, {alice, bob});
  CHECK(filter.counters().over_user_budget == 1);
}

TEST_CASE("verify wins back every false positive that the page needs, in ranking order", "[001-01]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.3}}, history};
  REQUIRE(filter.record_all(alice, range(0, 500)));
  const CandidatePool pool{range(0, 2000)};
  const auto plain = filter.select_unseen(pool, {alice}, {.limit = 1500});
  REQUIRE(plain.underfilled());
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 1500, .relax = {Verify{.lookups = 2000}}});
  CHECK(picked(pool, page) == range(500, 2000));
  CHECK(page.lookups() == plain.removed());
  const auto won = std::ranges::count_if(page.picks(), [](const Pick& p) { return p.reason == PickReason::verified; });
  CHECK(static_cast<std::size_t>(won) == 1500 - plain.size());
  CHECK(filter.counters().verified == static_cast<std::uint64_t>(won));
  const auto frugal = filter.select_unseen(pool, {alice}, {.limit = 1500, .relax = {Verify{.lookups = 510}}});
  CHECK(frugal.lookups() <= 510);
  CHECK(frugal.size() >= plain.size());
}

TEST_CASE("verify without a history says that it could not") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record_all(alice, Ids{1}));
  const CandidatePool pool{Ids{1}};
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 1, .relax = {Verify{}}});
  REQUIRE(page.error());
  CHECK(page.error()->code == ErrorCode::unavailable);
}

TEST_CASE("fallback pools fill the page after the first, each pick naming its pool", "[000-12][002-10][002-14]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record_all(alice, Ids{1, 2, 20}));
  const CandidatePool discovery{Ids{1, 2, 3}};
  const CandidatePool trending{Ids{3, 20, 21}};
  const CandidatePool evergreen{Ids{21, 30, 31, 32}};
  using Options = SelectOptions<std::uint64_t>;
  const Options options{.limit = 4, .relax = {NextPool{trending}, NextPool{evergreen}}};
  const auto page = filter.select_unseen(discovery, {alice}, options);
  REQUIRE(page.size() == 4);
  CHECK(page[0] == Pick{2, PickReason::unseen, 0, 0});
  CHECK(page[1] == Pick{2, PickReason::next_pool, 0, 1});
  CHECK(page[2] == Pick{1, PickReason::next_pool, 0, 2});
  CHECK(page[3] == Pick{2, PickReason::next_pool, 0, 2});
}

TEST_CASE("seen by few lets in what the fewest users have seen", "[000-12]") {
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 1e-6, .users_per_request = 3}}};
  REQUIRE(filter.record_all(alice, Ids{1, 2, 3}));
  REQUIRE(filter.record_all(bob, Ids{1, 2}));
  REQUIRE(filter.record_all(stranger, Ids{1}));
  const CandidatePool pool{Ids{1, 2, 3, 4}};
  const auto page = filter.select_unseen(pool, {alice, bob, stranger}, {.limit = 4, .relax = {SeenByAtMost{2}}});
  CHECK(picked(pool, page) == Ids{4, 3, 2});
  CHECK(page[1].seen_by == 1);
  CHECK(page[2].seen_by == 2);
  CHECK(page[2].reason == PickReason::seen_by_few);
}

TEST_CASE("items in flight and the request's own are hidden at once, and no relaxation brings them back", "[002-11]") {
  Time now{std::chrono::seconds(1000)};
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 1e-6, .clock = [&now] { return now; }}}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{range(0, 6)};
  filter.mark_in_flight(alice, Ids{0, 1}, std::chrono::seconds(60));
  const std::vector<Digest> own{pool.hasher()(std::uint64_t{5})};
  const SelectOptions<std::uint64_t> options{.limit = 6, .relax = {SeenByAtMost{1}}, .also_seen = own};
  CHECK(picked(pool, filter.select_unseen(pool, {alice}, options)) == Ids{2, 3, 4});
  REQUIRE(filter.record(alice, std::uint64_t{0}));
  now += std::chrono::seconds(61);
  CHECK(picked(pool, filter.select_unseen(pool, {alice})) == Ids{1, 2, 3, 4, 5});
}

TEST_CASE("what a user hides stays hidden until it is unhidden, and can be listed", "[003-07]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{range(0, 4)};
  CHECK(filter.hide(alice, std::uint64_t{2}));
  CHECK_FALSE(filter.hide(alice, std::uint64_t{2}));
  CHECK(filter.hide(alice, std::uint64_t{0}));
  CHECK(filter.hidden<std::uint64_t>(alice) == Ids{2, 0});
  CHECK(picked(pool, filter.select_unseen(pool, {alice}, {.limit = 4, .relax = {SeenByAtMost{1}}})) == Ids{1, 3});
  CHECK(filter.ask(alice, std::uint64_t{2}) == Answer::seen);
  CHECK(filter.unhide(alice, std::uint64_t{2}));
  CHECK_FALSE(filter.unhide(alice, std::uint64_t{2}));
  CHECK(picked(pool, filter.select_unseen(pool, {alice})) == Ids{1, 2, 3});
  CHECK(filter.select_unseen(pool, {bob}).size() == 4);
}

TEST_CASE("the last items are exact: no relaxation brings them back, and no look-up is spent on them", "[003-07]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}, history};
  filter.keep_last(3);
  for (std::uint64_t item = 0; item < 10; ++item) REQUIRE(filter.record(alice, item));
  const CandidatePool pool{range(0, 11)};
  const SelectOptions<std::uint64_t> options{.limit = 11, .relax = {Verify{}, SeenByAtMost{1}}};
  const auto page = filter.select_unseen(pool, {alice}, options);
  CHECK(picked(pool, page) == Ids{10, 0, 1, 2, 3, 4, 5, 6});
  CHECK(page.lookups() == 7);
  CHECK(filter.forget(alice).value());
  CHECK(filter.select_unseen(pool, {alice}).size() == 11);
}

TEST_CASE("what is in flight for users who never come back does not pile up") {
  Time now{std::chrono::seconds(1000)};
  detail::InFlight<detail::UserKey> in_flight;
  const std::vector<Digest> items{{1}, {2}};
  for (std::uint64_t user = 0; user < 100'000; ++user) {
    in_flight.add(detail::user_key(user), items, now, now + std::chrono::seconds(10));
    if (user % 100 == 0) now += std::chrono::seconds(1);
  }
  std::vector<Digest> left;
  for (std::uint64_t user = 0; user < 98'000; ++user)
    in_flight.visit(detail::user_key(user), Time{}, [&](Digest item) { left.push_back(item); });
  CHECK(left.size() < 20'000);
}

TEST_CASE("a pool is hashed once and serves filters of every size", "[000-09][000-10][000-11]") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record_all(alice, range(0, 4)));
  REQUIRE(filter.record_all(bob, range(1000, 9000)));
  const CandidatePool pool{Ids{2, 8999, 500, 501}};
  const auto page = filter.select_unseen(pool, {alice, bob});
  CHECK(picked(pool, page) == Ids{500, 501});
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

TEST_CASE("many requests in one call answer as each alone") {
  SeenFilter filter{Store{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record_all(alice, range(0, 50)));
  REQUIRE(filter.record_all(bob, range(25, 75)));
  const CandidatePool pool{range(0, 100)};
  const Ids both{alice, bob};
  const Ids one{alice};
  using Request = decltype(filter)::Request<std::uint64_t>;
  const Ids unknown{stranger};
  const std::vector<Request> requests{{pool, both, {.limit = 5}}, {pool, one}, {pool, unknown}};
  std::vector<Selection<std::uint64_t>> pages(requests.size());
  filter.select_many(requests, pages);
  CHECK(picked(pool, pages[0]) == range(75, 80));
  CHECK(picked(pool, pages[1]) == range(50, 100));
  CHECK(pages[2].unknown_users().size() == 1);
}

TEST_CASE("forget removes the filter, the hides, what is in flight and the history's rows", "[002-12]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, pair_policy()}, history};
  REQUIRE(filter.record_all(alice, Ids{1, 2}));
  filter.hide(alice, std::uint64_t{3});
  filter.mark_in_flight(alice, Ids{4});
  CHECK(filter.forget(alice).value());
  CHECK_FALSE(filter.forget(alice).value());
  CHECK(blobs.state().values.empty());
  CHECK(history.seen_since(alice)->empty());
  CHECK(filter.hidden<std::uint64_t>(alice).empty());
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
}

TEST_CASE("a lost filter is rebuilt from the history at the next record", "[002-12][002-15]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  MapBlobs blobs;
  SeenFilter filter{Store{blobs, pair_policy()}, history};
  REQUIRE(filter.record_all(alice, range(0, 100)));
  blobs.state().values.clear();
  CHECK(filter.ask(alice, std::uint64_t{5}) == Answer::unknown);
  REQUIRE(filter.record(alice, std::uint64_t{200}));
  CHECK(filter.ask(alice, std::uint64_t{5}) == Answer::seen);
  CHECK(filter.ask(alice, std::uint64_t{200}) == Answer::seen);
  CHECK(filter.counters().store.rebuilds >= 1);
}

TEST_CASE("namespaces keep one user's surfaces and tenants apart") {
  const Namespace quiz{"quiz"};
  const Namespace feed{"feed"};
  SeenFilter filter{BlobStore<MapBlobs, std::string>{MapBlobs{}, pair_policy()}};
  REQUIRE(filter.record(quiz("alice"), std::uint64_t{7}));
  REQUIRE(filter.create(feed("alice")));
  CHECK(filter.ask(quiz("alice"), std::uint64_t{7}) == Answer::seen);
  CHECK(filter.ask(feed("alice"), std::uint64_t{7}) == Answer::unseen);
  CHECK(Namespace{"a:b"}("c") != Namespace{"a"}("b:c"));
  CHECK(Namespace{"a\\"}(":c") != Namespace{"a"}("\\:c"));
  CHECK(Namespace{"tenant"}.inside("42")(std::uint64_t{7}) == "tenant:42:7");
}

TEST_CASE("deleting a user's salt makes the store's copy of them unreadable") {
  std::map<std::uint64_t, std::uint64_t> salts{{alice, 0x1234567}, {bob, 0x89abcdef}};
  MapBlobs blobs;
  const SaltSource<std::uint64_t> source = [&salts](const std::uint64_t& user) {
    const auto found = salts.find(user);
    return found == salts.end() ? std::optional<std::uint64_t>{} : std::optional(found->second);
  };
  SeenFilter filter{SaltedStore{Store{blobs, pair_policy()}, source}};
  REQUIRE(filter.record_all(alice, range(0, 100)));
  REQUIRE(filter.record_all(bob, range(0, 100)));
  const CandidatePool pool{range(50, 150)};
  CHECK(picked(pool, filter.select_unseen(pool, {alice, bob})) == range(100, 150));
  // The same bits asked without the salts tell nothing: what was recorded looks as fresh as what was not.
  SeenFilter thief{Store{blobs, pair_policy()}};
  const CandidatePool recorded{range(0, 100)};
  CHECK(thief.select_unseen(recorded, {alice}).size() == 100);
  salts.erase(alice);
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
  CHECK(filter.record(alice, std::uint64_t{1}).error().code == ErrorCode::unknown_user);
}

TEST_CASE("shadow mode measures the wrong-hide rate and finds no false negative") {
  SeenFilter filter{Store{MapBlobs{}, {.wrong_hide_rate = 0.2, .users_per_request = 2}}};
  filter.shadow(1);
  REQUIRE(filter.record_all(alice, range(0, 400)));
  REQUIRE(filter.record_all(bob, range(200, 600)));
  const CandidatePool pool{range(0, 20000)};
  const auto page = filter.select_unseen(pool, {alice, bob}, {.limit = 19400});
  const auto counters = filter.counters();
  CHECK(counters.shadow_requests == 1);
  CHECK(counters.shadow_fresh == 19400);
  CHECK(counters.shadow_wrong_hides == 19400 - page.size());
  CHECK(counters.shadow_wrong_hides > 0);
  CHECK(counters.shadow_false_negatives == 0);
  CHECK(counters.shadow_underfilled == 1);
}

TEST_CASE("shadow mode finds a filter that lost its items, and leaves out users whose past it does not know") {
  MapBlobs blobs;
  {
    SeenFilter before{Store{blobs, pair_policy()}};
    REQUIRE(before.record_all(bob, range(0, 10)));
  }
  SeenFilter filter{Store{blobs, pair_policy()}};
  filter.shadow(1);
  REQUIRE(filter.record_all(alice, range(0, 10)));
  REQUIRE(filter.record_all(bob, range(10, 20)));
  const auto empty = [&] {
    MapBlobs other;
    SeenFilter maker{Store{other, pair_policy()}};
    (void)maker.create(alice);
    return other.state().values.at("1");
  }();
  blobs.state().values["1"] = empty;
  const CandidatePool pool{range(0, 20)};
  (void)filter.select_unseen(pool, {alice, bob});
  CHECK(filter.counters().shadow_false_negatives == 10);
  CHECK(filter.counters().shadow_fresh == 10);
}

TEST_CASE("over-fetch asks for as many as fill the page with the wanted probability", "[002-08]") {
  CHECK(over_fetch({.page = 20, .hide_rate = 0}) == 20);
  // One wanted, half hidden: 1 - 0.5^n >= 0.95 takes n = 5 (0.969), since four give 0.9375.
  CHECK(over_fetch({.page = 1, .hide_rate = 0.5, .fill_probability = 0.95}) == 5);
  // Two wanted of n at one half: (n + 1) / 2^n <= 0.05 first at n = 8 (9 / 256 = 0.035; n = 7: 8 / 128 = 0.0625).
  CHECK(over_fetch({.page = 2, .hide_rate = 0.5, .fill_probability = 0.95}) == 8);
  CHECK_THROWS_AS(over_fetch({.hide_rate = 1}), std::invalid_argument);
  CHECK_THROWS_AS(over_fetch({.hide_rate = 0.5, .fill_probability = 1}), std::invalid_argument);
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
