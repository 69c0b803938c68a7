// SPDX-License-Identifier: MIT
// NegativeCache: what was not found is remembered for a while, and never what was created meanwhile.

#include "seenby/gates/negative_cache.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>

#include "support/test_clock.hpp"

using namespace std::chrono_literals;
using seenby::Digest;
using seenby::NegativeCache;
using seenby::test::TestClock;

TEST_CASE("what was not found is absent until its time to live is over", "[gate]") {
  TestClock clock;
  NegativeCache cache({.ttl = 5s, .clock = clock.clock()});
  const Digest id{77};
  CHECK_FALSE(cache.ask(id).absent);
  cache.remember(id, cache.ask(id));
  CHECK(cache.ask(id).absent);
  CHECK_FALSE(cache.ask(Digest{77 + 16}).absent);  // of the same shard
  clock.advance(4s);
  CHECK(cache.ask(id).absent);
  clock.advance(2s);
  CHECK_FALSE(cache.ask(id).absent);
}

TEST_CASE("a lookup that began before the id was created does not make it absent", "[gate]") {
  NegativeCache cache({.ttl = 1h});
  const Digest id{77};
  const auto before = cache.ask(id);
  cache.erase(id);  // created while the lookup ran
  cache.remember(id, before);
  CHECK_FALSE(cache.ask(id).absent);
  cache.remember(id, cache.ask(id));
  REQUIRE(cache.ask(id).absent);
  cache.erase(id);
  CHECK_FALSE(cache.ask(id).absent);
}

TEST_CASE("a time to live of zero remembers nothing, and room for few keeps the newest", "[gate]") {
  NegativeCache off({.ttl = 0s});
  off.remember(Digest{1}, off.ask(Digest{1}));
  CHECK_FALSE(off.ask(Digest{1}).absent);

  NegativeCache small({.entries = 16, .ttl = 1h});  // one entry a shard
  for (const std::uint64_t id : {1U, 17U}) small.remember(Digest{id}, small.ask(Digest{id}));
  CHECK_FALSE(small.ask(Digest{1}).absent);
  CHECK(small.ask(Digest{17}).absent);
}
