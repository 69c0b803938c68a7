// SPDX-License-Identifier: MIT
// over_fetch: how many candidates fill a page.

#include "seenby/select/over_fetch.hpp"

#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"

using namespace seenby;

TEST_CASE("over-fetch asks for as many as fill the page with the wanted probability", "[002-08]") {
  CHECK(over_fetch({.page = 20, .hide_rate = 0}) == 20);
  // One wanted, half hidden: 1 - 0.5^n >= 0.95 takes n = 5 (0.969), since four give 0.9375.
  CHECK(over_fetch({.page = 1, .hide_rate = 0.5, .fill_probability = 0.95}) == 5);
  // Two wanted of n at one half: (n + 1) / 2^n <= 0.05 first at n = 8 (9 / 256 = 0.035; n = 7: 8 / 128 = 0.0625).
  CHECK(over_fetch({.page = 2, .hide_rate = 0.5, .fill_probability = 0.95}) == 8);
  // Binomial tails, by Python's fractions: at least 20 of 64 survive in 0.9421 of cases, of 65 in 0.9520.
  CHECK(over_fetch({.page = 20, .hide_rate = 0.6}) == 65);
  CHECK_THROWS_AS(over_fetch({.hide_rate = 1}), std::invalid_argument);
  CHECK_THROWS_AS(over_fetch({.hide_rate = 0.5, .fill_probability = 1}), std::invalid_argument);
}

TEST_CASE("of a hundred that are fetched for twenty places a remote store is asked in one batch", "[002-08]") {
  using Store = test::ExactStore<true, true>;
  SeenFilter filter{Store{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(1, test::range(0, 60)));
  REQUIRE(filter.record_all(2, test::range(40, 75)));
  const CandidatePool pool{test::range(0, 100)};
  const auto page = filter.select_unseen(pool, {1, 2}, {.limit = 20});
  CHECK(test::picked(page) == test::range(75, 95));
  CHECK(filter.store().state().checks + filter.store().state().batched_checks == 1);
}

TEST_CASE("any thread may ask") {
  std::vector<std::thread> threads;
  std::vector<std::size_t> answers(4);
  for (std::size_t& answer : answers) {
    threads.emplace_back([&answer] {
      for (int i = 0; i < 20; ++i) answer = over_fetch({.page = 20, .hide_rate = 0.6});
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(answers == std::vector<std::size_t>(4, 65));
}
