// SPDX-License-Identifier: MIT
// A quiz for two browser windows: questions that neither learner has had, from a cached pool that runs dry gracefully.
//   quiz [--port N] [--questions N]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <seenby/histories/memory_history.hpp>
#include <seenby/select/candidate_pool.hpp>
#include <seenby/select/seen_filter.hpp>
#include <seenby/stores/memory_store.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../site.hpp"

namespace {

using web::Answer;
using web::Call;
using web::Json;
using QuestionId = std::uint64_t;
using History = seenby::MemoryHistory<std::string, QuestionId>;
using Filter = seenby::SeenFilter<seenby::MemoryStore<std::string>, History>;
using Pool = seenby::CandidatePool<QuestionId>;

constexpr std::size_t round_size = 5;

/// Question n: a product, with four answers of which the one at n % 4 is right.
struct Question {
  std::string text;
  std::vector<std::string> answers;
  std::size_t right = 0;
};
Question question(QuestionId id) {
  const std::uint64_t a = 6 + id % 7;
  const std::uint64_t b = 3 + id * 5 % 9;
  Question made;
  made.text = "No. " + std::to_string(id) + ": what is " + std::to_string(a) + " times " + std::to_string(b) + "?";
  made.right = id % 4;
  for (std::size_t i = 0; i < 4; ++i) made.answers.push_back(std::to_string(a * b + (i - made.right) * 2));
  return made;
}

std::vector<QuestionId> numbers(QuestionId first, std::size_t count) {
  std::vector<QuestionId> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = first + i;
  return ids;
}

class Quiz {
 public:
  explicit Quiz(std::size_t questions)
      : filter_(seenby::MemoryStore<std::string>{{.wrong_hide_rate = 0.01, .users_per_request = 2}}, history_),
        questions_(numbers(1, questions)),
        reserve_(numbers(1'000, 3)) {}

  Answer join(const Call& call) {
    const std::lock_guard lock(mutex_);
    const std::string player = player_of(call);
    filter_.create(player).or_throw();
    if (match_ && !match_->finished && match_->place_of(player)) return state(player);
    if (match_ && match_->waiting() && match_->players[0] != player) {
      match_->players.push_back(player);
      choose();
    } else {
      match_ = std::make_unique<Match>(Match{.players = {player}});
    }
    return state(player);
  }
  Answer look(const Call& call) {
    const std::lock_guard lock(mutex_);
    return state(player_of(call));
  }
  Answer answer(const Call& call) {
    const std::lock_guard lock(mutex_);
    const std::string player = player_of(call);
    const auto place = match_ ? match_->place_of(player) : std::nullopt;
    if (!place || match_->waiting() || match_->at[*place] >= match_->asked.size()) {
      throw web::Refused(409, "There is no question for you now.");
    }
    const Asked& asked = match_->asked[match_->at[*place]];
    if (call.body.at("question") != asked.id) throw web::Refused(409, "That question is over.");
    const Question now = question(asked.id);
    const bool right = call.body.at("answer") == now.right;
    match_->score[*place] += right ? 1 : 0;
    ++match_->at[*place];
    // Attempted, and so seen; what the match chose and no player reached stays unseen for another day.
    filter_.record(player, asked.id).or_throw();
    Answer next = state(player);
    next.body["right"] = right;
    next.body["solution"] = now.answers[now.right];
    return next;
  }

 private:
  struct Asked {
    QuestionId id = 0;
    std::string reason;
  };
  struct Match {
    std::vector<std::string> players;
    std::vector<Asked> asked{};
    std::vector<std::size_t> at = {0, 0};
    std::vector<int> score = {0, 0};
    std::size_t candidates = 0;
    std::size_t removed = 0;
    bool thin = false;
    bool finished = false;

    [[nodiscard]] bool waiting() const noexcept { return players.size() < 2; }
    [[nodiscard]] std::optional<std::size_t> place_of(const std::string& player) const {
      const auto found = std::find(players.begin(), players.end(), player);
      if (found == players.end()) return std::nullopt;
      return static_cast<std::size_t>(found - players.begin());
    }
  };

  static std::string player_of(const Call& call) {
    auto name = call.body.at("player").get<std::string>();
    if (name.empty() || name.size() > 64) throw web::Refused(400, "expected a name of 1 to 64 characters");
    return name;
  }

  /// The match's questions: what neither has had; then what a filter hid wrongly; then the reserve; then what only one
  /// of them has had.
  void choose() {
    const auto page = filter_.select_unseen(
        questions_, std::span<const std::string>(match_->players),
        {.limit = round_size,
         .relax = {seenby::Verify{.lookups = 64}, seenby::NextPool{reserve_}, seenby::SeenByAtMost{.users = 1}}});
    static const std::map<seenby::PickReason, std::string> reasons{
        {seenby::PickReason::unseen, "new to both of you"},
        {seenby::PickReason::verified, "won back: a filter was wrong"},
        {seenby::PickReason::next_pool, "from the reserve"},
        {seenby::PickReason::seen_by_few, "one of you has had it"}};
    for (const auto& pick : page) {
      const auto found = reasons.find(pick.reason);
      match_->asked.push_back(
          {pick.item, found == reasons.end() ? std::string(to_string(pick.reason)) : found->second});
    }
    match_->candidates = page.checked();
    match_->removed = page.removed();
    match_->thin = page.underfilled();
  }

  Answer state(const std::string& player) {
    Json body = Json::object();
    const auto place = match_ ? match_->place_of(player) : std::nullopt;
    if (!place) {
      body["finished"] = "Another match has begun. Join again.";
      return {.body = std::move(body)};
    }
    if (match_->waiting()) {
      body["waiting"] = true;
      return {.body = std::move(body)};
    }
    for (std::size_t i = 0; i < 2; ++i) body["score"][match_->players[i]] = match_->score[i];
    body["match"] = {{"questions", match_->asked.size()},
                     {"candidates checked", match_->candidates},
                     {"had before, removed", match_->removed},
                     {"pool ran thin", match_->thin ? "yes" : "no"}};
    const std::size_t at = match_->at[*place];
    if (at < match_->asked.size()) {
      const Question now = question(match_->asked[at].id);
      body["question"] = {{"id", match_->asked[at].id}, {"text", now.text}, {"answers", now.answers}};
      body["question"]["reason"] = match_->asked[at].reason;
      return {.body = std::move(body)};
    }
    match_->finished = match_->at[0] >= match_->asked.size() && match_->at[1] >= match_->asked.size();
    body["finished"] = match_->asked.empty() ? "No questions are left that you may both be asked."
                       : match_->finished    ? "The match is over."
                                             : "You are done. Your opponent is still answering.";
    return {.body = std::move(body)};
  }

  std::mutex mutex_;
  History history_;
  Filter filter_;
  Pool questions_;
  Pool reserve_;
  std::unique_ptr<Match> match_;
};

}  // namespace

int main(int count, char** arguments) try {
  web::hold_stop_signals();
  std::uint16_t port = 8081;
  std::size_t questions = 40;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = arguments[i];
    if (name == "--port")
      port = static_cast<std::uint16_t>(std::atoi(arguments[i + 1]));
    else if (name == "--questions")
      questions = static_cast<std::size_t>(std::atoi(arguments[i + 1]));
    else
      throw std::invalid_argument("usage: quiz [--port N] [--questions N]");
  }
  Quiz quiz(questions);
  web::Site site({WEB_FOLDER "/quiz", WEB_FOLDER});
  site.post("/api/join", [&](const Call& call) { return quiz.join(call); });
  site.post("/api/state", [&](const Call& call) { return quiz.look(call); });
  site.post("/api/answer", [&](const Call& call) { return quiz.answer(call); });
  return site.run(port) ? 0 : 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "quiz: %s\n", failure.what());
  return 1;
}
