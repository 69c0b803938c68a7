// SPDX-License-Identifier: MIT
// A quiz between two learners: questions that neither has seen, out of a cached pool, and what to do when they run out.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <seenby/seenby.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

using History = seenby::MemoryHistory<std::uint64_t, std::string>;
using Quiz = seenby::SeenFilter<seenby::MemoryStore<std::uint64_t>, History>;
using Pool = seenby::CandidatePool<std::string>;

constexpr std::uint64_t ann = 1;
constexpr std::uint64_t ben = 2;
constexpr std::size_t round_size = 5;

std::vector<std::string> questions(std::string_view topic, int count) {
  std::vector<std::string> names;
  for (int i = 1; i <= count; ++i) names.push_back(std::string(topic).append("-").append(std::to_string(i)));
  return names;
}

/// Plays one round and says where each question came from.
void play(Quiz& quiz, int round, const Pool& geography, const Pool& reserve) {
  // While the page is thin: win back what a filter hid wrongly, then the reserve, then what only one of them has seen.
  const auto page = quiz.select_unseen(
      geography, {ann, ben},
      {.limit = round_size,
       .relax = {seenby::Verify{.lookups = 64}, seenby::NextPool{reserve}, seenby::SeenByAtMost{.users = 1}}});
  std::printf("round %d:", round);
  std::vector<std::string> asked;
  for (const auto& pick : page) {
    asked.push_back(pick.item);
    std::printf(" %s", asked.back().c_str());
    if (pick.reason != seenby::PickReason::unseen) std::printf(" (%s)", std::string(to_string(pick.reason)).c_str());
  }
  std::puts(page.underfilled() ? " -- thin" : "");
  quiz.record_all(ann, asked).or_throw();
  quiz.record_all(ben, asked).or_throw();
}

}  // namespace

int main() {
  History history;  // the database, which knows exactly
  Quiz quiz(seenby::MemoryStore<std::uint64_t>{{.wrong_hide_rate = 0.01, .users_per_request = 2}}, history);
  quiz.create(ann).or_throw();
  quiz.create(ben).or_throw();
  // Hashed once; every match of the day shares these two pools.
  const Pool geography(questions("geography", 12));
  const Pool reserve(questions("history", 4));

  quiz.record_all(ann, std::vector<std::string>{"geography-1", "geography-4", "geography-12"}).or_throw();
  quiz.record_all(ben, std::vector<std::string>{"geography-2", "history-2"}).or_throw();
  for (int round = 1; round <= 4; ++round) play(quiz, round, geography, reserve);

  const auto counters = quiz.counters();
  std::printf(
      "%llu requests, %llu thin pages, %llu candidates removed\n", static_cast<unsigned long long>(counters.requests),
      static_cast<unsigned long long>(counters.underfilled_pages), static_cast<unsigned long long>(counters.removed));
}
