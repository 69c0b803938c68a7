// SPDX-License-Identifier: MIT
// Clocks that jump, and the time that a window goes by.

#include "seenby/detail/clock_guard.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "seenby/clock.hpp"

namespace {

using namespace seenby;  // NOLINT(google-build-using-namespace): a test of it
using namespace std::chrono_literals;
using std::chrono::seconds;

constexpr Time start{seconds{1'700'000'000}};
constexpr seconds day = 24h;
constexpr seconds slice = 5 * day;

/// A wall and a steady clock, moved together or apart.
struct Clocks {
  Time wall = start;
  seconds steady{1'000};
  [[nodiscard]] Clock clock() {
    return {[this] { return wall; }, [this] { return steady; }};
  }
  void pass(seconds time) {
    wall += time;
    steady += time;
  }
};

TEST_CASE("a wall clock that jumps ahead is not followed, and time goes on by the steady clock") {
  Clocks clocks;
  const Clock clock = clocks.clock();
  const detail::ClockGuard guard;
  CHECK(guard.now(clock, slice) == start);
  clocks.wall += 365 * day;
  CHECK(guard.now(clock, slice) == start);
  CHECK(guard.now(clock, slice) == start);
  CHECK(guard.jumps() == 1);
  clocks.pass(10s);
  CHECK(guard.now(clock, slice) == start + 10s);
  clocks.wall -= 365 * day;
  CHECK(guard.now(clock, slice) == start + 10s);
  CHECK(guard.latest() == start + 10s);
  clocks.pass(day);
  CHECK(guard.now(clock, slice) == start + 10s + day);
  CHECK(guard.jumps() == 1);
}

TEST_CASE("a jump is believed once it has lasted for a minute") {
  Clocks clocks;
  const Clock clock = clocks.clock();
  const detail::ClockGuard guard;
  CHECK(guard.now(clock, slice) == start);
  clocks.wall += 365 * day;
  CHECK(guard.now(clock, slice) == start);
  clocks.pass(59s);
  CHECK(guard.now(clock, slice) == start + 59s);
  clocks.pass(1s);
  CHECK(guard.now(clock, slice) == start + 365 * day + 60s);
}

TEST_CASE("a jump that ended does not count for the next one") {
  Clocks clocks;
  const Clock clock = clocks.clock();
  const detail::ClockGuard guard;
  CHECK(guard.now(clock, slice) == start);
  clocks.wall += 365 * day;
  CHECK(guard.now(clock, slice) == start);
  clocks.wall -= 365 * day;
  clocks.pass(40s);
  CHECK(guard.now(clock, slice) == start + 40s);
  clocks.wall += 365 * day;
  clocks.pass(30s);
  CHECK(guard.now(clock, slice) == start + 70s);
  clocks.wall += 365 * day;  // another jump on top: its minute starts now
  clocks.pass(40s);
  CHECK(guard.now(clock, slice) == start + 110s);
  CHECK(guard.jumps() == 3);
}

TEST_CASE("time that passed on both clocks is no jump, however long nobody asked") {
  Clocks clocks;
  const Clock clock = clocks.clock();
  const detail::ClockGuard guard;
  CHECK(guard.now(clock, slice) == start);
  clocks.pass(400 * day);
  CHECK(guard.now(clock, slice) == start + 400 * day);
  clocks.wall += slice;  // as much as a slice is within the slack
  CHECK(guard.now(clock, slice) == start + 400 * day + slice);
  clocks.wall -= 300 * day;  // and time never falls
  CHECK(guard.now(clock, slice) == start + 400 * day + slice);
  CHECK(guard.jumps() == 0);
}

TEST_CASE("the first reading after a saved time is believed, and so is every jump of a simulated clock") {
  Time time = start;
  const Clock clock = Clock::simulated([&] { return time; });
  const detail::ClockGuard saved(start - 90 * day);
  CHECK(saved.now(clock, slice) == start);
  time += 1'000 * day;
  CHECK(saved.now(clock, slice) == start + 1'000 * day);
  time = Time::max();
  CHECK(saved.now(clock, slice) > start + 1'000 * day);
  time = Time::min();
  CHECK(saved.now(clock, slice) > start + 1'000 * day);
  CHECK(detail::ClockGuard().latest() == Time::min());
}

TEST_CASE("a clock that is not given is the system's") {
  const Clock clock;
  CHECK_FALSE(clock);
  CHECK(clock() <= system_time());
  CHECK(clock() + 5s > system_time());
  CHECK(clock.steady() <= clock.steady());
}

}  // namespace
