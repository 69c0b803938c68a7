// SPDX-License-Identifier: MIT
// Two users, a few questions: which ones has neither seen? Header-only; README.md shows this program.
#include <cstdint>
#include <cstdio>
#include <seenby/seenby.hpp>

int main() {
  const std::uint64_t alice = 1, bob = 2;
  seenby::SeenFilter filter{seenby::MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.01, .users_per_request = 2}}};
  filter.record(alice, "the capital of France").value();
  filter.record(bob, "the inventor of logarithms").value();

  const seenby::CandidatePool<std::string> questions{"the capital of France", "the longest river",
                                                     "the inventor of logarithms", "the smallest prime"};
  for (const auto& pick : filter.select_unseen(questions, {alice, bob}, {.limit = 10})) {
    std::puts(questions[pick.index].c_str());
  }
}
