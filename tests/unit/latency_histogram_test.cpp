// SPDX-License-Identifier: MIT
// LatencyHistogram: buckets that double, and their quantiles.

#include "seenby/latency_histogram.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

using namespace std::chrono_literals;
using seenby::LatencyHistogram;

TEST_CASE("a duration is in the bucket of the next power of two microseconds") {
  LatencyHistogram histogram;
  CHECK(histogram.snapshot().quantile(0.5) == 0us);
  for (const auto took : {0ns, 1'000ns, 1'001ns, 2'000ns, 5'000ns, -1ns}) histogram.add(took);
  histogram.add(std::chrono::hours{1});
  const auto counted = histogram.snapshot();
  CHECK(counted.count == 7);
  CHECK(counted.buckets[0] == 3);
  CHECK(counted.buckets[1] == 2);
  CHECK(counted.buckets[3] == 1);
  CHECK(counted.buckets.back() == 1);
  CHECK(counted.sum == std::chrono::hours{1} + 9'001ns);
  CHECK(counted.quantile(0) == 1us);
  CHECK(counted.quantile(0.5) == 2us);
  CHECK(counted.quantile(1) == LatencyHistogram::upper_bound(LatencyHistogram::bucket_count - 1));
}
