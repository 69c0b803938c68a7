// SPDX-License-Identifier: MIT
// Selection: what is picked, in which order, and what the page says of itself.

#include "seenby/select/selection.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "support/allocations.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;

TEST_CASE("a selection holds only what neither of two users has seen, in ranking order", "[000-01][000-14]") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, Ids{3, 5, 7}));
  REQUIRE(filter.record_all(bob, Ids{5, 11}));
  const CandidatePool pool{Ids{11, 2, 7, 13, 3, 1, 5}};
  const auto page = filter.select_unseen(pool, {alice, bob});
  CHECK(picked(pool, page) == Ids{2, 13, 1});
  CHECK(std::ranges::all_of(page.picks(), [](const Pick& pick) { return pick.reason == PickReason::unseen; }));
  CHECK(page.removed() == 4);
}

TEST_CASE("a page ends at its limit and says when it is thin", "[000-12][002-14]") {
  SeenFilter filter{Store{}};
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
  SeenFilter filter{Store{}};
  REQUIRE(filter.create(alice));
  const CandidatePool pool{Ids{4, 9, 4, 1, 9, 9, 2}};
  const auto page = filter.select_unseen(pool, {alice});
  CHECK(picked(pool, page) == Ids{4, 9, 1, 2});
  CHECK(page[2].index == 3);
  CHECK(page.duplicates() == 3);
  CHECK(pool.duplicates() == 3);
}

TEST_CASE("a pick names its item, whatever pool it is from") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record(alice, "a"));
  const CandidatePool pool{"a", "b", "b", "c"};
  const CandidatePool trending{"d", "a", "e"};
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 4, .relax = {NextPool{trending}}});
  std::vector<std::string> items;
  for (const auto& pick : page) items.push_back(pick.item);
  CHECK(items == std::vector<std::string>{"b", "c", "d", "e"});
  CHECK(page[3].item == "e");
  CHECK(page[3].pool == 1);
  CHECK(page[3].index == 2);
  CHECK(&page[0].item == &pool[1]);
}

TEST_CASE("duplicates behind the first piece of a pool keep their own places and items") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.create(alice));
  Ids items = range(0, 200);
  items.insert(items.begin() + 10, 3);    // in the first piece
  items.insert(items.begin() + 150, 20);  // and in the third
  REQUIRE(filter.record_all(alice, range(0, 190)));
  const CandidatePool pool{items};
  const auto page = filter.select_unseen(pool, {alice}, {.limit = 5});
  CHECK(picked(page) == range(190, 195));
  CHECK(picked(pool, page) == range(190, 195));
  CHECK(page.duplicates() == 2);
}

TEST_CASE("a request that repeats with the same page allocates nothing", "[000-10]") {
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, range(0, 30)));
  REQUIRE(filter.record_all(bob, range(20, 50)));
  const CandidatePool pool{range(0, 100)};
  const Ids users{alice, bob};
  Selection<std::uint64_t> page;
  const SelectOptions<std::uint64_t> options;
  filter.select_unseen(pool, users, options, page);
  CHECK(test::allocations_of([&] { filter.select_unseen(pool, users, options, page); }).count == 0);
  CHECK(picked(page) == range(50, 100));
}

TEST_CASE("a request with candidates of its own answers as one with a pool, and allocates nothing once warm") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record_all(alice, range(0, 30)));
  Ids items = range(10, 110);
  items[50] = items[40];
  const CandidatePool pool{items};
  const auto by_pool = filter.select_unseen(pool, {alice}, {.limit = 20});
  const auto by_range = filter.select_unseen(items, {alice}, {.limit = 20});
  CHECK(std::ranges::equal(by_range.picks(), by_pool.picks()));
  CHECK(picked(by_range) == picked(by_pool));
  CHECK(by_range.duplicates() == 1);

  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(filter.store().hasher()(item));
  const ItemBatch<std::uint64_t> batch{items, digests};
  CHECK(picked(filter.select_unseen(batch, {alice}, {.limit = 20})) == picked(by_pool));

  const Ids users{alice};
  const SelectOptions<std::uint64_t> options{.limit = 20};
  Selection<std::uint64_t> page;
  filter.select_unseen(items, users, options, page);
  CHECK(test::allocations_of([&] { filter.select_unseen(items, users, options, page); }).count == 0);
  filter.select_unseen(batch, users, options, page);
  CHECK(test::allocations_of([&] { filter.select_unseen(batch, users, options, page); }).count == 0);
}

TEST_CASE("digests of another seed, or too few of them, are refused") {
  SeenFilter filter{Store{{.seed = 7}}};
  const Ids items = range(0, 10);
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(Xxh3Hash{}(item));
  CHECK_THROWS_AS(filter.select_unseen(ItemBatch<std::uint64_t>{items, digests}, {alice}), std::invalid_argument);
  for (std::size_t i = 0; i < items.size(); ++i) digests[i] = Xxh3Hash{7}(items[i]);
  CHECK(filter.select_unseen(ItemBatch<std::uint64_t>{items, digests}, {alice}).size() == 10);
  digests.pop_back();
  CHECK_THROWS_AS(filter.select_unseen(ItemBatch<std::uint64_t>{items, digests}, {alice}), std::invalid_argument);
}

TEST_CASE("a pool or a container that would be gone before the page does not compile") {
  using Pool = CandidatePool<std::uint64_t>;
  STATIC_REQUIRE(detail::CandidateSource<const Pool&, Xxh3Hash>);
  STATIC_REQUIRE_FALSE(detail::CandidateSource<Pool, Xxh3Hash>);
  STATIC_REQUIRE(detail::CandidateSource<const Ids&, Xxh3Hash>);
  STATIC_REQUIRE_FALSE(detail::CandidateSource<Ids, Xxh3Hash>);
  STATIC_REQUIRE(detail::CandidateSource<std::span<const std::uint64_t>, Xxh3Hash>);
  STATIC_REQUIRE_FALSE(detail::CandidateSource<const CandidatePool<std::uint64_t, Mix64Hash>&, Xxh3Hash>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<NextPool<Pool>, Pool>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<NextPool<Pool>, const Pool*>);
}

TEST_CASE("misuse of a request is refused with a message that says what was expected") {
  SeenFilter filter{Store{}};
  const CandidatePool pool{Ids{1}};
  CHECK_THROWS_AS(filter.select_unseen(pool, std::span<const std::uint64_t>{}), std::invalid_argument);
  CHECK_THROWS_AS(filter.select_unseen(pool, std::span<const std::uint64_t>(range(0, 256))), std::invalid_argument);
  const CandidatePool other_seed{Ids{1}, Xxh3Hash{5}};
  CHECK_THROWS_AS(filter.select_unseen(other_seed, {alice}), std::invalid_argument);
  CHECK_THROWS_AS(filter.select_unseen(pool, {alice}, {.limit = 2, .relax = {NextPool{other_seed}}}),
                  std::invalid_argument);
}

TEST_CASE("counters are exact over single requests, batches and fallback pools", "[002-16]") {
  SeenFilter filter{Store{{.users_per_request = 1}}};
  REQUIRE(filter.record_all(alice, Ids{1, 2, 20}));
  const CandidatePool discovery{Ids{1, 2, 3, 3}};
  const CandidatePool trending{Ids{3, 20, 21, 22}};
  const SelectOptions<std::uint64_t> options{.limit = 10, .relax = {NextPool{trending}}};
  const auto check = [&](std::uint64_t requests) {
    const auto counters = filter.counters();
    CHECK(counters.requests == requests);
    CHECK(counters.candidates_checked == 7 * requests);
    CHECK(counters.removed == 3 * requests);
    CHECK(counters.duplicates == 2 * requests);  // 3 twice in its pool, and again in the next
    CHECK(counters.underfilled_pages == requests);
  };
  const auto page = filter.select_unseen(discovery, {alice}, options);
  CHECK(picked(page) == Ids{3, 21, 22});
  CHECK(page.checked() == 7);
  CHECK(page.removed() == 3);
  CHECK(page.duplicates() == 2);
  check(1);
  const Ids one{alice};
  const std::vector<Request<std::uint64_t, std::uint64_t>> requests{{discovery, one, options},
                                                                    {discovery, one, options}};
  std::vector<Selection<std::uint64_t>> pages(2);
  filter.select_many(requests, pages);
  check(3);
  CHECK(filter.counters().over_user_budget == 0);
  (void)filter.select_unseen(discovery, {alice, bob});
  CHECK(filter.counters().over_user_budget == 1);
  CHECK(filter.counters().unknown_users == 1);
}

TEST_CASE("a request of more users than the policy planned for is counted", "[000-17]") {
  SeenFilter filter{Store{{.users_per_request = 1}}};
  const CandidatePool pool{Ids{1}};
  (void)filter.select_unseen(pool, {alice});
  CHECK(filter.counters().over_user_budget == 0);
  (void)filter.select_unseen(pool, {alice, bob});
  CHECK(filter.counters().over_user_budget == 1);
}
