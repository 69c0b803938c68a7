// SPDX-License-Identifier: MIT
// Two users, a few questions: which ones has neither seen, and what fills the page? README.md shows this program.
#include <cstdint>
#include <cstdio>
#include <seenby/seenby.hpp>

int main() {
  const std::uint64_t alice = 1, bob = 2;
  seenby::SeenFilter filter{seenby::MemoryStore{{.wrong_hide_rate = 0.01, .users_per_request = 2}}};
  filter.record(alice, "the capital of France").or_throw();
  filter.record(bob, "the inventor of logarithms").or_throw();

  const seenby::CandidatePool questions{"the capital of France", "the longest river", "the inventor of logarithms",
                                        "the smallest prime"};
  const seenby::CandidatePool reserve{"the largest ocean"};
  const auto page = filter.select_unseen(questions, {alice, bob}, {.limit = 3, .relax = {seenby::NextPool{reserve}}});
  for (const auto& pick : page) std::printf("%s (%s)\n", pick.item.c_str(), to_string(pick.reason).data());
}
