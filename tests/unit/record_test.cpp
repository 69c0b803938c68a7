// SPDX-License-Identifier: MIT
// SeenFilter::record: what is written where, at which time, and what a failure leaves.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/exact_store.hpp"
#include "support/failing_history.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"

using namespace seenby;
using test::alice;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;

TEST_CASE("an event's own time counts, in the store and in the history") {
  test::TestClock clock;
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{{.window = 30 * test::day, .clock = clock.clock()}}, history};
  const Time late = clock.now() - 29 * test::day;
  REQUIRE(filter.record(alice, 1, late));
  REQUIRE(filter.record_all(alice, Ids{2, 3}, late + test::day));
  REQUIRE(filter.record(alice, 4));
  CHECK(history.seen_since(alice, late + test::day)->size() == 3);
  const CandidatePool pool{range(0, 6)};
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{0, 5});
  clock.advance(test::day);
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{0, 1, 5});
  clock.advance(test::day);
  CHECK(picked(filter.select_unseen(pool, {alice})) == Ids{0, 1, 2, 3, 5});
}

namespace {

/// A store that takes no times.
class Timeless : public Store {
 public:
  using Store::Store;
  template <class Item>
  Result<RecordOutcome> record(std::uint64_t user, const ItemBatch<Item>& batch) {
    return Store::record(user, batch);
  }
};

}  // namespace

TEST_CASE("what is older than the window is acknowledged, and stored by the history alone") {
  test::TestClock clock;
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Timeless{{.window = 30 * test::day, .clock = clock.clock()}}, history};
  filter.keep_last(5);
  REQUIRE(filter.create(alice));
  REQUIRE(filter.record(alice, 1, clock.now() - 30 * test::day));
  CHECK(filter.ask(alice, 1) == Answer::unseen);
  CHECK(history.seen_since(alice)->size() == 1);
  REQUIRE(filter.record(alice, 2, clock.now() - 29 * test::day));
  CHECK(filter.ask(alice, 2) == Answer::seen);
}

TEST_CASE("a record of nothing changes nothing: an unknown user stays unknown") {
  test::FailingHistory history;
  SeenFilter filter{Store{}, history};
  REQUIRE(filter.record_all(alice, Ids{}));
  CHECK(filter.ask(alice, 1) == Answer::unknown);
  CHECK(history.writes == 0);
  CHECK(filter.store().state().writes == 0);
}

TEST_CASE("a write that is refused or throws is counted with all its items", "[002-13]") {
  for (const bool throws : {false, true}) {
    for (const bool at_history : {true, false}) {
      CAPTURE(throws, at_history);
      test::FailingHistory history;
      SeenFilter filter{Store{}, history};
      filter.keep_last(5);
      (at_history ? history.fail_write : filter.store().state().fail_write) = 2;
      (at_history ? history.throws : filter.store().state().throws) = throws;
      REQUIRE(filter.record(alice, 1));
      const auto write = [&] { return filter.record_all(alice, Ids{2, 3, 4}); };
      if (throws) {
        CHECK_THROWS_AS(write(), std::runtime_error);
      } else {
        CHECK(write().error().code == (at_history ? ErrorCode::io : ErrorCode::refused));
      }
      CHECK(filter.counters().write_failures == 3);
      CHECK(filter.ask(alice, 2) == Answer::unseen);
      CHECK(history.size(alice) == (at_history ? 1 : 4));
      REQUIRE(write());
      CHECK(filter.counters().write_failures == 3);
      CHECK(filter.ask(alice, 4) == Answer::seen);
    }
  }
}

TEST_CASE("a string is one item and no range of characters, and bytes are no range of numbers") {
  using Filter = SeenFilter<Store>;
  constexpr auto takes_all = []<class Items>(std::type_identity<Items>) {
    return requires(Filter & filter, const Items& items) { filter.record_all(alice, items); };
  };
  STATIC_REQUIRE(takes_all(std::type_identity<std::vector<std::string>>{}));
  STATIC_REQUIRE(takes_all(std::type_identity<std::vector<int>>{}));
  STATIC_REQUIRE_FALSE(takes_all(std::type_identity<std::string>{}));
  STATIC_REQUIRE_FALSE(takes_all(std::type_identity<std::string_view>{}));
  STATIC_REQUIRE_FALSE(takes_all(std::type_identity<std::vector<std::byte>>{}));
  STATIC_REQUIRE_FALSE(detail::ItemRange<std::string>);
  Filter filter{Store{}};
  REQUIRE(filter.record(alice, "movie"));
  CHECK(filter.ask(alice, std::string("movie")) == Answer::seen);
  CHECK(filter.ask(alice, 'm') == Answer::unseen);
}

TEST_CASE("the same item is the same digest, whatever the type it comes in") {
  SeenFilter filter{Store{}};
  REQUIRE(filter.record_all(alice, std::vector<int>{1, -2, 3}));
  enum class Film : std::uint8_t { first = 3, second = 4 };
  const CandidatePool ints{std::vector<int>{-2, -3, 1}};
  const CandidatePool films{Film::first, Film::second};
  const CandidatePool longs{std::vector<std::uint64_t>{1, static_cast<std::uint64_t>(-2), 5}};
  CHECK(filter.select_unseen(ints, {alice}).picks()[0].index == 1);
  CHECK(filter.select_unseen(ints, {alice}).size() == 1);
  CHECK(filter.select_unseen(films, {alice}).size() == 1);
  CHECK(filter.select_unseen(longs, {alice}).size() == 1);

  // With a history every width is written as the history's type.
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter exact{Store{}, history};
  REQUIRE(exact.record(alice, 7));
  REQUIRE(exact.record_all(alice, std::vector<int>{8, 9}));
  CHECK(history.seen_since(alice)->size() == 3);
}
