// SPDX-License-Identifier: MIT
// What two texts say of a gate and of a membership join, counted and timed against real servers.
//   seenby_scenario_texts [LOOKUPS]     1,000,000 look-ups unless another number is given
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "scenarios.hpp"
#include "support/postgres_server.hpp"
#include "support/redis_server.hpp"

int main(int count, char** arguments) {
  const std::uint64_t lookups = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1'000'000;
  if (lookups < 1'000) {
    std::fputs("expected at least 1,000 look-ups\n", stderr);
    return 2;
  }
  const seenby::test::PostgresServer postgres;
  const seenby::test::RedisServer server;
  const bool gate = scenario::gate_holds(postgres.address(), server.socket_url(), lookups);
  const bool questions =
      scenario::questions_hold(postgres.address(), server.socket_url(), lookups >= 1'000'000 ? 2'000 : 100);
  if (!gate || !questions) std::puts("\nNOT as the texts say");
  return gate && questions ? 0 : 1;
}
