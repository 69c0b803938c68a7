// SPDX-License-Identifier: MIT
// A gate of many ids: its bytes, how long it takes to build and save, and how soon it is trusted after a clean stop.
//   seenby_scenario_gate [IDS]     10,000,000 unless another number is given
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "seenby/gates/existence_gate.hpp"
#include "support/temporary_folder.hpp"

namespace {

using Gate = seenby::ExistenceGate<std::uint64_t>;
using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point start) { return std::chrono::duration<double>(Steady::now() - start).count(); }

void row(const char* what, double seconds) { std::printf("%-38s %12.3f s\n", what, seconds); }

/// Opens the gate, whose feed has nothing new, and asks it for 1,000 ids. Returns the seconds until it is trusted.
double open_and_ask(const std::string& path, std::uint64_t ids, std::uint64_t& hidden) {
  const auto start = Steady::now();
  Gate gate({});
  gate.open(path).or_throw();
  if (gate.position() != ids || !gate.caught_up()) ++hidden;
  const double trusted = seconds_since(start);
  const auto asked = Steady::now();
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    hidden += gate.check(i * (ids / 1'000)) == seenby::Existence::maybe ? 0U : 1U;
  }
  std::printf("%-38s %12.3f ms trusted, %.3f ms for 1,000 checks\n", "opened", trusted * 1e3,
              seconds_since(asked) * 1e3);
  return trusted;
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t ids = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000'000;
  if (ids < 1'000) {
    std::fputs("expected at least 1,000 ids\n", stderr);
    return 2;
  }
  const seenby::test::TemporaryFolder folder;
  const std::string path = folder.path("gate");
  {
    Gate gate({});
    const auto start = Steady::now();
    auto rebuild = gate.begin_rebuild(ids);
    for (std::uint64_t id = 0; id < ids; ++id) rebuild.add(id);
    rebuild.commit();
    gate.advance(ids);
    std::printf("a gate of %llu ids at 1%%\n", static_cast<unsigned long long>(ids));
    row("built", seconds_since(start));
    const auto saving = Steady::now();
    gate.save(path).or_throw();
    row("saved", seconds_since(saving));
  }
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  std::printf("%-38s %12.1f MB, %.2f bits an id\n", "file", bytes / 1e6, 8 * bytes / static_cast<double>(ids));
  std::uint64_t hidden = 0;
  const double first = open_and_ask(path, ids, hidden);
  const double second = open_and_ask(path, ids, hidden);
  std::printf("ids that exist and were not let through: %llu of 2,000\n", static_cast<unsigned long long>(hidden));
  return hidden == 0 && first < 1 && second < 1 ? 0 : 1;
}
