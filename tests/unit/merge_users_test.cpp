// SPDX-License-Identifier: MIT
// SeenFilter::merge_users and forget: all or nothing, or finished by calling again.

#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "support/exact_store.hpp"
#include "support/failing_history.hpp"
#include "support/picks.hpp"
#include "support/test_clock.hpp"
#include "support/wait_until.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::picked;
using test::range;
using Store = test::ExactStore<>;

namespace {

/// Whether a thread of this process waits for another.
bool sleeps(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:")) return line.find('S', 6) != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("what either saw is seen, and the one that is gone is unknown") {
  test::FailingHistory history;
  SeenFilter filter{Store{}, history};
  REQUIRE(filter.record_all(alice, range(0, 30)));
  REQUIRE(filter.record_all(bob, range(20, 90)));
  REQUIRE(filter.merge_users(alice, bob));
  const CandidatePool pool{range(0, 100)};
  CHECK(picked(filter.select_unseen(pool, {bob})) == range(90, 100));
  CHECK(filter.ask(alice, 1) == Answer::unknown);
  CHECK(history.size(alice) == 0);
  CHECK(history.size(bob) == 90);
}

TEST_CASE("hides, items in flight and the last items merge") {
  test::TestClock clock;
  SeenFilter filter{Store{{.window = 10 * test::day, .clock = clock.clock()}}};
  filter.keep_last(2);
  REQUIRE(filter.record(bob, 2));
  clock.advance(std::chrono::seconds(1));
  REQUIRE(filter.record(alice, 1));
  REQUIRE(filter.hide(alice, 3));
  REQUIRE(filter.hide(bob, 3));
  REQUIRE(filter.hide(bob, 4));
  filter.mark_in_flight(alice, Ids{5});
  filter.mark_in_flight(bob, Ids{6});
  REQUIRE(filter.merge_users(alice, bob));
  filter.store().state().users[bob].clear();  // the exact items alone are left
  const CandidatePool pool{range(1, 8)};
  CHECK(picked(filter.select_unseen(pool, {bob})) == Ids{7});
  CHECK(filter.hidden(bob).value() == Ids{3, 4});
  CHECK(filter.hidden(alice).value().empty());
  // The oldest by time is pushed out first, whoever saw it.
  REQUIRE(filter.record(bob, 8));
  filter.store().state().users[bob].clear();
  CHECK(filter.ask(bob, 2) == Answer::unseen);
  CHECK(filter.ask(bob, 1) == Answer::seen);
}

TEST_CASE("merging a user with themselves changes nothing") {
  test::FailingHistory history;
  SeenFilter filter{Store{}, history};
  filter.keep_last(3);
  REQUIRE(filter.record_all(alice, range(0, 100)));
  REQUIRE(filter.hide(alice, 200));
  REQUIRE(filter.merge_users(alice, alice));
  CHECK(history.writes == 1);  // the record: neither store nor history is asked to merge a user with themselves
  CHECK(filter.store().state().writes == 1);
  CHECK(history.size(alice) == 100);
  CHECK(filter.ask(alice, 50) == Answer::seen);
  CHECK(filter.ask(alice, 200) == Answer::seen);
}

TEST_CASE("a merge that dies at any step loses nothing, and calling it again finishes it") {
  struct Step {
    bool at_history;
    bool throws;
    bool answer_lost;
  };
  for (const Step step : {Step{true, false, false},
                          {true, true, false},
                          {true, false, true},
                          {true, true, true},
                          {false, false, false},
                          {false, true, false}}) {
    CAPTURE(step.at_history, step.throws, step.answer_lost);
    test::FailingHistory history;
    SeenFilter filter{Store{}, history};
    filter.keep_last(2);
    REQUIRE(filter.record_all(alice, range(0, 30)));
    REQUIRE(filter.record_all(bob, range(20, 50)));
    REQUIRE(filter.hide(alice, 60));
    history.fail_write = step.at_history ? 3 : 0;
    history.throws = step.throws;
    history.done_before_failing = step.answer_lost;
    filter.store().state().fail_write = step.at_history ? 0 : 3;
    filter.store().state().throws = step.throws;
    if (step.throws) {
      CHECK_THROWS_AS(filter.merge_users(alice, bob), std::runtime_error);
    } else {
      CHECK_FALSE(filter.merge_users(alice, bob));
    }
    const CandidatePool pool{range(0, 100)};
    Ids fresh = range(50, 100);
    fresh.erase(fresh.begin() + 10);  // 60 is hidden
    // What both have between them is seen by one or the other, as before.
    CHECK(picked(filter.select_unseen(pool, {alice, bob})) == fresh);
    CHECK(history.size(alice) + history.size(bob) >= 50);
    REQUIRE(filter.merge_users(alice, bob));
    CHECK(picked(filter.select_unseen(pool, {bob})) == fresh);
    CHECK(filter.ask(alice, 1) == Answer::unknown);
    CHECK(history.size(alice) == 0);
    CHECK(history.size(bob) == 50);
  }
}

TEST_CASE("a record of the user who goes, while a merge runs, is in one place whole", "[concurrent]") {
  test::FailingHistory history;
  SeenFilter filter{Store{}, history};
  REQUIRE(filter.record_all(alice, range(0, 30)));
  std::thread writer;
  std::atomic<pid_t> id{0};
  std::atomic<bool> recorded{false};
  // Between the history's merge and the store's: the record must wait, or its halves part.
  history.after_write = [&] {
    writer = std::thread([&] {
      id = ::gettid();
      recorded = filter.record(alice, 77).has_value();
    });
    (void)test::wait_until([&] { return recorded || sleeps(id); });
    CHECK_FALSE(recorded);
  };
  REQUIRE(filter.merge_users(alice, bob));
  writer.join();
  REQUIRE(recorded);
  CHECK(filter.ask(alice, 77) == Answer::seen);
  CHECK(history.size(alice) == 1);
  CHECK(history.size(bob) == 30);
  REQUIRE(filter.merge_users(alice, bob));
  CHECK(filter.ask(bob, 77) == Answer::seen);
  CHECK(history.size(bob) == 31);
}

TEST_CASE("a record of a user who is being forgotten comes after it, whole", "[concurrent]") {
  test::FailingHistory history;
  SeenFilter filter{Store{}, history};
  REQUIRE(filter.record_all(alice, range(0, 30)));
  std::thread writer;
  std::atomic<pid_t> id{0};
  std::atomic<bool> recorded{false};
  history.after_write = [&] {
    writer = std::thread([&] {
      id = ::gettid();
      recorded = filter.record(alice, 77).has_value();
    });
    (void)test::wait_until([&] { return recorded || sleeps(id); });
  };
  REQUIRE(filter.forget(alice));
  writer.join();
  CHECK(recorded);
  CHECK(filter.ask(alice, 77) == Answer::seen);
  CHECK(filter.ask(alice, 7) == Answer::unseen);
  CHECK(history.size(alice) == 1);
}

TEST_CASE("nothing acknowledged is lost by merges under a storm of records", "[concurrent]") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{}, history};
  constexpr std::uint64_t each = 2'000;
  std::atomic<std::uint64_t> running{2};
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 0; i < each; ++i) {
        if (!filter.record(alice, writer * each + i)) std::abort();
      }
      --running;
    });
  }
  std::size_t merges = 0;
  while (running > 0) {
    REQUIRE(filter.merge_users(alice, bob));
    ++merges;
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(filter.merge_users(alice, bob));
  INFO(merges << " merges");
  CHECK(history.seen_since(bob)->size() == 2 * each);
  CHECK(history.seen_since(alice)->empty());
  CHECK(filter.store().state().users[bob].size() == 2 * each);
  CHECK(filter.store().state().users[alice].empty());
}

TEST_CASE("opposite merges at the same time end in one user with everything", "[concurrent]") {
  for (int round = 0; round < 50; ++round) {
    MemoryHistory<std::uint64_t, std::uint64_t> history;
    SeenFilter filter{Store{}, history};
    REQUIRE(filter.record_all(alice, range(0, 10)));
    REQUIRE(filter.record_all(bob, range(10, 20)));
    std::thread other([&] { (void)filter.merge_users(bob, alice); });
    REQUIRE(filter.merge_users(alice, bob));
    other.join();
    const std::size_t of_alice = history.seen_since(alice)->size();
    CHECK(of_alice + history.seen_since(bob)->size() == 20);
    const std::uint64_t kept = of_alice == 20 ? alice : bob;
    CHECK(filter.store().state().users[kept].size() == 20);
  }
}

TEST_CASE("forget removes the filter, the hides, what is in flight and the history's rows") {
  MemoryHistory<std::uint64_t, std::uint64_t> history;
  SeenFilter filter{Store{}, history};
  REQUIRE(filter.record_all(alice, Ids{1, 2}));
  REQUIRE(filter.hide(alice, std::uint64_t{3}));
  filter.mark_in_flight(alice, Ids{4});
  CHECK(filter.forget(alice).value());
  CHECK_FALSE(filter.forget(alice).value());
  CHECK(filter.store().state().users.empty());
  CHECK(history.seen_since(alice)->empty());
  CHECK(filter.hidden<std::uint64_t>(alice).value().empty());
  CHECK(filter.ask(alice, std::uint64_t{1}) == Answer::unknown);
}

TEST_CASE("a forget that dies at any step is finished by calling it again") {
  for (const bool at_history : {true, false}) {
    for (const bool throws : {false, true}) {
      CAPTURE(at_history, throws);
      test::FailingHistory history;
      SeenFilter filter{Store{}, history};
      filter.keep_last(5);
      REQUIRE(filter.record_all(alice, Ids{1, 2}));
      REQUIRE(filter.record(bob, 1));
      REQUIRE(filter.hide(alice, 3));
      (at_history ? history.fail_write : filter.store().state().fail_write) = 3;
      (at_history ? history.throws : filter.store().state().throws) = throws;
      if (throws) {
        CHECK_THROWS_AS(filter.forget(alice), std::runtime_error);
      } else {
        CHECK_FALSE(filter.forget(alice));
      }
      CHECK(filter.hidden(alice).value() == Ids{3});
      CHECK(filter.ask(alice, 1) == Answer::seen);
      CHECK(filter.forget(alice).value());
      CHECK(filter.hidden(alice).value().empty());
      CHECK(filter.ask(alice, 1) == Answer::unknown);
      CHECK(history.size(alice) == 0);
      CHECK_FALSE(filter.forget(alice).value());
      CHECK(filter.ask(bob, 1) == Answer::seen);
    }
  }
}
