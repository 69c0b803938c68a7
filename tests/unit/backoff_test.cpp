// SPDX-License-Identifier: MIT
// Backoff: pauses that double up to the longest; a sleep that a stop ends.

#include "seenby/detail/backoff.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using seenby::detail::Backoff;

TEST_CASE("Pauses double from the first to the longest, and begin anew once it worked") {
  Backoff backoff(50ms, 300ms);
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 5; ++i) pauses.push_back(backoff.next());
  CHECK(pauses == std::vector<std::chrono::milliseconds>{50ms, 100ms, 200ms, 300ms, 300ms});
  backoff.reset();
  CHECK(backoff.next() == 50ms);
}

TEST_CASE("The longest pause counts where it is shorter than the first, and the largest there is does not overflow") {
  CHECK(Backoff(50ms, 10ms).next() == 10ms);
  Backoff backoff(1ms, std::chrono::milliseconds::max());
  for (int i = 0; i < 100; ++i) CHECK(backoff.next() > 0ms);
  CHECK(backoff.next() == std::chrono::milliseconds::max());
}

TEST_CASE("A stop ends a sleep at once", "[concurrent]") {
  const auto begun = std::chrono::steady_clock::now();
  std::jthread sleeper([](const std::stop_token& stop) { seenby::detail::sleep_unless_stopped(stop, 1h); });
  sleeper.request_stop();
  sleeper.join();
  CHECK(std::chrono::steady_clock::now() - begun < 30s);
  seenby::detail::sleep_unless_stopped({}, 20ms);
  CHECK(std::chrono::steady_clock::now() - begun >= 20ms);
}

}  // namespace
