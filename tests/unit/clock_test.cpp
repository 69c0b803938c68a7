// SPDX-License-Identifier: MIT
// Sums of times and durations, and what lies within a window.

#include "seenby/clock.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>

using namespace seenby;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

constexpr Time noon{1'700'000'000s};
using Monotonic = std::chrono::steady_clock::time_point;

}  // namespace

TEST_CASE("a sum within the clock's range is exact") {
  CHECK(saturating_add(noon, 60s) == noon + 60s);
  CHECK(saturating_add(noon, -60s) == noon - 60s);
  CHECK(saturating_add(noon, std::chrono::hours(24)) == noon + 86'400s);
  CHECK(saturating_add(noon, 2'999ms) == noon + 2s);
  CHECK(saturating_add(Monotonic{5ns}, 3ms) == Monotonic{3'000'005ns});
}

TEST_CASE("a sum beyond the clock's range is the latest or the earliest time") {
  CHECK(saturating_add(noon, seconds::max()) == Time::max());
  CHECK(saturating_add(Time::max(), 1s) == Time::max());
  CHECK(saturating_add(Time::min(), seconds::max()) == Time{-1s});
  CHECK(saturating_add(Time::min(), -1s) == Time::min());
  CHECK(saturating_add(Time{-5s}, seconds::min()) == Time::min());
  CHECK(saturating_add(noon, std::chrono::hours::max()) == Time::max());
  CHECK(saturating_add(noon, std::chrono::hours::min()) == Time::min());
  // A coarse duration on a fine clock, and a fine one on a coarse clock.
  CHECK(saturating_add(Monotonic{1ns}, milliseconds::max()) == Monotonic::max());
  CHECK(saturating_add(Monotonic{1ns}, seconds::max()) == Monotonic::max());
  CHECK(saturating_add(Monotonic{-1ns}, seconds::min()) == Monotonic::min());
  CHECK(saturating_add(noon, nanoseconds::max()) == noon + std::chrono::duration_cast<seconds>(nanoseconds::max()));
  CHECK(saturating_add(Time::max(), nanoseconds::max()) == Time::max());
}

TEST_CASE("within a window is less than the window ago, and always without one") {
  CHECK(within_window(noon, noon, 30s));
  CHECK(within_window(noon, noon + 29s, 30s));
  CHECK_FALSE(within_window(noon, noon + 30s, 30s));
  CHECK(within_window(noon, noon + 1'000'000s, 0s));
  CHECK(within_window(noon + 5s, noon, 1s));
  CHECK(within_window(noon, noon + 1'000'000s, seconds::max()));
}
