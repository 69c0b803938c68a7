// SPDX-License-Identifier: MIT
// HistoryStore: exact answers behind the same SeenFilter.

#include "seenby/stores/history_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"

namespace {

using seenby::CandidatePool;
using seenby::HistoryStore;
using seenby::MemoryHistory;
using seenby::SeenFilter;
using seenby::test::Ids;
using seenby::test::picked;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;

static_assert(seenby::FilterStoreFor<HistoryStore<History>, std::uint64_t>);
static_assert(seenby::FilterStoreFor<HistoryStore<MemoryHistory<std::string, std::string>>, std::string>);
static_assert(seenby::HidingStore<HistoryStore<History>>);
static_assert(seenby::HidingStore<HistoryStore<MemoryHistory<std::string, std::string>>>);

constexpr std::uint64_t alice = 1;
constexpr std::uint64_t bob = 2;

std::vector<std::uint64_t> sequence(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> items(count);
  for (std::size_t i = 0; i < count; ++i) items[i] = first + i;
  return items;
}

/// What is written once and serves a filter of bits and an exact one: how many of 20,000 fresh candidates are hidden.
template <class Filter>
std::size_t wrong_hides(Filter& filter) {
  for (const std::uint64_t user : {alice, bob}) filter.record_all(user, sequence(user * 100'000, 500)).value();
  const CandidatePool<std::uint64_t> fresh(sequence(1'000'000, 20'000));
  const CandidatePool<std::uint64_t> seen(sequence(alice * 100'000, 500));
  CHECK(filter.select_unseen(seen, {alice}).empty());
  CHECK(filter.select_unseen(seen, {bob}).size() > 400);
  CHECK(filter.select_unseen(seen, {bob, alice}).empty());
  return 20'000 - filter.select_unseen(fresh, {alice, bob}).size();
}

TEST_CASE("Exact answers are a change of one type: the same code hides nothing wrongly", "[003-01][003-10]") {
  SeenFilter<seenby::MemoryStore<std::uint64_t>> bits{
      seenby::MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.05, .users_per_request = 2}, {.exact_items = 0}}};
  CHECK(wrong_hides(bits) > 0);

  History history;
  SeenFilter exact{HistoryStore{history}};
  CHECK(wrong_hides(exact) == 0);
  CHECK(exact.counters().store.records == 1'000);
}

TEST_CASE("An exact store's window is exact to the second, and what leaves it stays in the history", "[history]") {
  seenby::test::TestClock clock;
  History history;
  SeenFilter filter{HistoryStore{history, {.window = std::chrono::hours{24}, .clock = clock.clock()}}};
  filter.record(alice, std::uint64_t{7}).value();
  clock.advance(std::chrono::hours{24} - std::chrono::seconds{1});
  CHECK(filter.ask(alice, std::uint64_t{7}) == seenby::Answer::seen);
  clock.advance(std::chrono::seconds{1});
  CHECK(filter.ask(alice, std::uint64_t{7}) == seenby::Answer::unseen);
  CHECK(history.item_count(alice).value() == 1);
}

TEST_CASE("A user without a row is known and saw nothing", "[history]") {
  History history;
  const SeenFilter filter{HistoryStore{history}};
  CHECK(filter.ask(alice, std::uint64_t{7}) == seenby::Answer::unseen);
}

TEST_CASE("Users of an exact store are merged and forgotten in the history", "[history]") {
  History history;
  SeenFilter filter{HistoryStore{history}};
  filter.record(alice, std::uint64_t{7}).value();
  filter.merge_users(alice, bob).value();
  CHECK(filter.ask(bob, std::uint64_t{7}) == seenby::Answer::seen);
  CHECK(filter.ask(alice, std::uint64_t{7}) == seenby::Answer::unseen);
  CHECK(filter.forget(bob).value());
  CHECK(history.users(std::nullopt, 10).value().empty());
}

/// A database that does not answer for one user.
class HalfDown {
 public:
  using user_type = std::uint64_t;
  using item_type = std::uint64_t;
  seenby::Result<void> append(std::uint64_t user, std::span<const std::uint64_t> items, seenby::Time when) {
    if (user == bob) return down();
    return rows_.append(user, items, when);
  }
  seenby::Result<void> contains(std::uint64_t user, std::span<const std::uint64_t> items, std::span<std::uint8_t> out,
                                seenby::Time since) {
    if (user == bob) return down();
    return rows_.contains(user, items, out, since);
  }
  seenby::Result<std::vector<seenby::SeenItem<std::uint64_t>>> seen_since(std::uint64_t user, seenby::Time since) {
    return rows_.seen_since(user, since);
  }
  seenby::Result<bool> forget(std::uint64_t user) { return rows_.forget(user); }

 private:
  static seenby::Error down() { return {seenby::ErrorCode::unreachable, "the database is down"}; }
  History rows_;
};

/// Counts the questions.
struct CountingHistory : History {
  mutable int questions = 0;
  using History::contains;
  auto contains(const std::uint64_t& user, std::span<const std::uint64_t> items, std::span<std::uint8_t> out,
                std::span<std::uint8_t> hides, seenby::Time since) const {
    ++questions;
    return History::contains(user, items, out, hides, since);
  }
};

TEST_CASE(
    "What a user hid in the history no page shows, in one question a user, past the first piece and by no "
    "relaxation",
    "[history][003-07]") {
  seenby::test::TestClock clock;
  CountingHistory history;
  SeenFilter here{HistoryStore{history, {.window = std::chrono::hours{24}, .clock = clock.clock()}}};
  SeenFilter there{HistoryStore{history, {.window = std::chrono::hours{24}, .seed = 7, .clock = clock.clock()}}};
  here.record_all(alice, sequence(0, 500)).value();
  CHECK(here.hide(alice, std::uint64_t{501}).value());
  CHECK(here.hide(bob, std::uint64_t{503}).value());
  CHECK(here.hide(bob, std::uint64_t{10}).value());
  CHECK_FALSE(there.hide(bob, std::uint64_t{503}).value());
  CHECK(there.hidden(bob).value() == Ids{503, 10});
  CHECK(there.ask(bob, std::uint64_t{503}) == seenby::Answer::seen);
  CHECK(there.ask(bob, std::uint64_t{501}) == seenby::Answer::unseen);

  const auto seed = there.store().hasher();
  const CandidatePool<std::uint64_t, seenby::Xxh3Hash> pool(sequence(0, 505), seed);
  const CandidatePool<std::uint64_t, seenby::Xxh3Hash> next(Ids{503, 501, 600}, seed);
  CHECK(picked(there.select_unseen(pool, {alice, bob}, {.limit = 3})) == Ids{500, 502, 504});
  const CandidatePool<std::uint64_t, seenby::Xxh3Hash> few(Ids{501, 503, 504, 10, 11}, seed);
  const seenby::SelectOptions<std::uint64_t> thin{.limit = 9,
                                                  .relax = {seenby::SeenByAtMost{2}, seenby::NextPool{next}}};
  history.questions = 0;
  CHECK(picked(there.select_unseen(few, {alice, bob}, thin)) == Ids{504, 11, 600});
  CHECK(history.questions == 4);  // a user a pool

  CHECK(there.unhide(alice, std::uint64_t{501}).value());
  CHECK_FALSE(here.unhide(alice, std::uint64_t{501}).value());
  CHECK_FALSE(here.unhide(bob, std::uint64_t{501}).value());
  clock.advance(std::chrono::hours{48});
  CHECK(picked(there.select_unseen(few, {alice, bob}, {.limit = 9})) == Ids{501, 504, 11});
}

TEST_CASE("Hides in a history go with a forget and move with a merge, and last items need no keeping",
          "[history][003-07]") {
  History history;
  SeenFilter filter{HistoryStore{history}};
  filter.keep_last(2);
  filter.record_all(alice, Ids{1, 2}).value();
  filter.hide(alice, std::uint64_t{4}).value();
  filter.hide(bob, std::uint64_t{5}).value();
  filter.merge_users(alice, bob).value();
  const CandidatePool<std::uint64_t> pool(sequence(0, 7));
  CHECK(picked(filter.select_unseen(pool, {bob}, {.limit = 9})) == Ids{0, 3, 6});
  CHECK(filter.hidden(bob).value() == Ids{5, 4});
  CHECK(filter.hidden(alice).value().empty());
  CHECK(filter.forget(bob).value());
  CHECK(filter.hidden(bob).value().empty());
  CHECK_FALSE(filter.forget(bob).value());
  filter.hide(alice, std::uint64_t{4}).value();
  CHECK(filter.forget(alice).value());  // who only hid
}

TEST_CASE("A hide of an item that the history cannot hold is refused", "[history]") {
  MemoryHistory<std::uint64_t, std::uint32_t> history;
  HistoryStore store{history};
  const auto refused = [&](const std::string& text) {
    const seenby::HiddenItem hidden{seenby::Digest{1}, text};
    const auto done = store.hide(alice, {&hidden, 1});
    return !done && done.error().code == seenby::ErrorCode::parameter_mismatch;
  };
  CHECK(refused(seenby::detail::text_of_item(std::string("five"))));
  CHECK(refused(seenby::detail::text_of_item(std::uint64_t{1} << 32)));
  CHECK(refused(""));
  CHECK(store.hidden(alice).value().empty());
  CHECK_FALSE(refused(seenby::detail::text_of_item(std::uint64_t{5})));
}

TEST_CASE("A history that does not answer leaves its user unknown, not unseen, and the others answered", "[history]") {
  HalfDown history;
  SeenFilter filter{HistoryStore{history}};
  filter.record(alice, std::uint64_t{7}).value();
  CHECK(filter.record(bob, std::uint64_t{7}).error().code == seenby::ErrorCode::unreachable);
  CHECK(filter.counters().store.write_failures == 1);
  CHECK(filter.ask(bob, std::uint64_t{8}) == seenby::Answer::unknown);
  CHECK(filter.ask(alice, std::uint64_t{7}) == seenby::Answer::seen);
  CHECK(filter.ask(alice, std::uint64_t{8}) == seenby::Answer::unseen);
  // It keeps no hides: they are this process's, as with any other store.
  static_assert(!seenby::HidingStore<HistoryStore<HalfDown>>);
  filter.hide(alice, std::uint64_t{8}).value();
  CHECK(filter.ask(alice, std::uint64_t{8}) == seenby::Answer::seen);
}

}  // namespace
