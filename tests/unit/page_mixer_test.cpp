// SPDX-License-Identifier: MIT
// PageMixer: a page from many pools, their places kept, no item twice.

#include "seenby/select/page_mixer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "seenby/select/shared_pool.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/allocations.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"
#include "support/wait_until.hpp"

using namespace seenby;
using test::Ids;
using test::picked;
using test::range;

namespace {

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;
using Filter = SeenFilter<test::ExactStore<>>;
using Mixer = PageMixer<Filter, std::uint64_t>;
using Share = Mixer::Share;

std::size_t from_pool(const Selection<std::uint64_t>& page, std::uint16_t pool) {
  return static_cast<std::size_t>(std::ranges::count(page.picks(), pool, &Pick::pool));
}

}  // namespace

TEST_CASE("pools give what the users have not seen, unfiltered ones their best, and each takes its places",
          "[002-10][002-18]") {
  Filter filter{test::ExactStore<>{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, Ids{100, 101, 300}));
  REQUIRE(filter.record_all(bob, Ids{102}));
  const CandidatePool followed{range(100, 150)};
  const CandidatePool discovery{range(200, 250)};
  const CandidatePool ads{range(300, 350)};
  Mixer mixer{filter};
  const Ids users{alice, bob};
  const std::array pools{Share::share(followed, 0.5), Share::quota(discovery, 3), Share::quota(ads, 2).unfiltered()};
  const auto& page = mixer.mix(pools, users, 10);
  CHECK(picked(page) == Ids{103, 104, 105, 106, 107, 200, 201, 202, 300, 301});
  CHECK(page[9].pool == 2);
  CHECK(page[9].reason == PickReason::unfiltered);
  CHECK(page[0].reason == PickReason::unseen);
  CHECK(page.removed() == 3);
  CHECK_FALSE(page.underfilled());
}

TEST_CASE("what an earlier pool gives no later one does, and places left over go to the others", "[002-18]") {
  Filter filter{test::ExactStore<>{}};
  REQUIRE(filter.record_all(alice, range(200, 250)));
  const CandidatePool followed{Ids{1, 2, 2, 3}};
  const CandidatePool discovery{range(200, 250)};  // all seen
  const CandidatePool trending{Ids{3, 2, 4, 5, 6, 7}};
  Mixer mixer{filter};
  const Ids users{alice};
  const std::array pools{Share::quota(followed, 2), Share::quota(discovery, 4), Share::quota(trending, 1).unfiltered()};
  const auto& page = mixer.mix(pools, users, 6);
  CHECK(picked(page) == Ids{1, 2, 3, 4, 5, 6});
  CHECK(page.duplicates() == 3);
  CHECK(from_pool(page, 0) == 3);
  const auto& longer = mixer.mix(pools, users, 8);
  CHECK(picked(longer) == Ids{1, 2, 3, 4, 5, 6, 7});
  CHECK(longer.underfilled());
}

TEST_CASE("the hook reorders what is neither seen nor twice there, before the cut, and the places are kept",
          "[002-09][002-18]") {
  Filter filter{test::ExactStore<>{}};
  REQUIRE(filter.record_all(alice, Ids{1, 15}));
  const CandidatePool first{Ids{0, 1, 2, 2, 3, 4, 5}};
  const CandidatePool second{Ids{10, 3, 11, 12, 13, 14, 15}};
  Mixer mixer{filter};
  const Ids users{alice};
  const std::array pools{Share::quota(first, 2), Share::quota(second, 2)};
  Ids running;
  const auto& page = mixer.mix(pools, users, 4, [&](std::span<MixedPick<std::uint64_t>> picks) {
    for (const auto& pick : picks) running.push_back(*pick.item);
    std::ranges::sort(picks, [](const auto& a, const auto& b) { return *a.item > *b.item; });
  });
  // Four of each were in the running, as each might have filled the page alone; one of them is in both.
  CHECK(running == Ids{0, 2, 3, 4, 10, 11, 12});
  CHECK(picked(page) == Ids{12, 11, 4, 3});
}

TEST_CASE("an unknown user is noted once, and what the caller chose is done") {
  const Filter filter{test::ExactStore<>{}};
  const CandidatePool first{range(0, 10)};
  const CandidatePool second{range(10, 20)};
  Mixer mixer{filter};
  const Ids users{alice};
  const std::array pools{Share::quota(first, 2), Share::quota(second, 2), Share::quota(second, 1).unfiltered()};
  const auto& page = mixer.mix(pools, users, 4);
  CHECK(page.unknown_users().size() == 1);
  CHECK(page[0].reason == PickReason::unknown_user);
  CHECK_THROWS_AS(mixer.mix(
                      pools, users, 4, [](auto) {}, OnUnknown::raise),
                  BadResult);
  CHECK_THROWS_AS(Share::share(first, 1.5), std::invalid_argument);
}

TEST_CASE("a remote store gets one question for all pools", "[000-05]") {
  using Remote = SeenFilter<test::ExactStore<true, true>>;
  Remote filter{test::ExactStore<true, true>{}};
  REQUIRE(filter.record(alice, 0));
  const CandidatePool first{range(0, 300)};
  const CandidatePool second{range(300, 600)};
  PageMixer<Remote, std::uint64_t> mixer{filter};
  const Ids users{alice};
  const std::array pools{Share::quota(first, 2), Share::quota(second, 2)};
  CHECK(picked(mixer.mix(pools, users, 4)) == Ids{1, 2, 300, 301});
  CHECK(filter.store().state().batched_checks == 1);
  CHECK(filter.store().state().checks == 0);
}

namespace {

/// Pages for alice, who has seen 0 to 19, from four pools, one of which is refreshed all the time.
template <class AnyFilter>
void pages_under_refreshes(AnyFilter filter) {
  REQUIRE(filter.record_all(alice, range(0, 20)));
  const CandidatePool followed{range(0, 100)};
  const CandidatePool discovery{range(80, 200)};
  const CandidatePool similar{range(0, 50)};
  // Version v holds a thousand times v and the 49 numbers behind it.
  SharedPool<std::uint64_t> trending{range(1'000, 1'050)};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> versions{0};
  std::thread refresher([&] {
    for (std::uint64_t v = 2; !stop; ++v) {
      trending.refresh(range(v * 1'000, v * 1'000 + 50));
      versions = v;
    }
  });
  PageMixer<AnyFilter, std::uint64_t> mixer{filter};
  const Ids users{alice};
  std::uint64_t wrong = 0;
  std::uint64_t seen_before = 0;
  std::uint64_t allocated = 0;
  int requests = 0;
  const auto request = [&] {
    const auto cost = test::allocations_of([&] {
      const auto now = trending.read();
      const std::array pools{Share::share(followed, 0.4), Share::share(discovery, 0.3),
                             Share::share(*now, 0.2).unfiltered(), Share::share(similar, 0.1).unfiltered()};
      const auto& page = mixer.mix(pools, users, 20);
      const std::uint64_t version = (*now)[0] / 1'000;
      wrong +=
          page.size() == 20 && from_pool(page, 0) == 8 && from_pool(page, 1) == 6 && from_pool(page, 2) == 4 ? 0U : 1U;
      for (const auto& pick : page) {
        wrong += pick.pool == 2 && pick.item / 1'000 != version ? 1U : 0U;
        seen_before += pick.pool < 2 && pick.item < 20 ? 1U : 0U;
      }
      for (std::size_t i = 0; i < page.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) wrong += page[i].item == page[j].item ? 1U : 0U;
      }
    });
    if (++requests > 500) allocated += cost.count;
  };
  const bool refreshed = test::wait_until([&] {
    for (int i = 0; i < 500; ++i) request();
    return requests >= 5'000 && versions >= 100;
  });
  stop = true;
  refresher.join();
  REQUIRE(refreshed);
  CHECK(wrong == 0);
  CHECK(seen_before == 0);
  CHECK(allocated == 0);
}

}  // namespace

TEST_CASE("pages from four pools under refreshes keep their places, mix no versions and allocate nothing once warm",
          "[concurrent][000-23][002-18]") {
  pages_under_refreshes(Filter{test::ExactStore<>{}});
}

TEST_CASE("pages over a MemoryStore keep their places under refreshes, and allocate nothing once warm",
          "[concurrent][000-23][002-18]") {
  pages_under_refreshes(SeenFilter{MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.01}}});
}
