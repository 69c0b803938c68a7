// SPDX-License-Identifier: MIT
// The replay itself.

#include "replay_run.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "progress.hpp"
#include "referee.hpp"
#include "request_source.hpp"
#include "seenby/histories/memory_history.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace seenby::tool {
namespace {

using Store = MemoryStore<std::uint64_t>;
using History = MemoryHistory<std::uint64_t, std::string>;
using Pool = CandidatePool<std::string>;

/// One replay over a SeenFilter, with or without a history behind it.
template <class Filter>
class Replayer {
 public:
  Replayer(EventLog& log, const ReplaySettings& settings, Filter& filter, std::int64_t& now)
      : log_(log),
        settings_(settings),
        filter_(filter),
        now_(now),
        referee_(log.users.size(), settings.window.count(),
                 (settings.window.count() + settings.slices - 1) / settings.slices),
        source_(log, referee_, settings.seed) {}

  ReplayFigures run() {
    figures_.users = log_.users.size();
    figures_.items = log_.items.size();
    figures_.events = log_.events.size();
    Progress progress("replaying", log_.events.size());
    std::size_t oldest = 0;
    for (std::size_t at = 0; at < log_.events.size(); ++at) {
      const Event& event = log_.events[at];
      now_ = event.time;
      filter_.record(std::uint64_t{event.user}, log_.items.name(event.item)).value();
      referee_.record(event.user, event.item, event.time);
      while (settings_.window.count() > 0 && log_.events[oldest].time <= now_ - settings_.window.count()) ++oldest;
      if (is_request(at)) request(oldest, at);
      progress.update(at + 1);
    }
    sweep();
    weigh();
    return figures_;
  }

 private:
  /// Spreads the requests evenly over the events.
  [[nodiscard]] bool is_request(std::size_t at) const {
    const double each =
        std::min(1.0, static_cast<double>(settings_.requests) / static_cast<double>(log_.events.size()));
    return static_cast<std::uint64_t>(static_cast<double>(at + 1) * each) >
           static_cast<std::uint64_t>(static_cast<double>(at) * each);
  }

  [[nodiscard]] Pool pool_of(std::span<const std::uint32_t> items) const {
    std::vector<std::string> names;
    names.reserve(items.size());
    for (const std::uint32_t item : items) names.push_back(log_.items.name(item));
    return Pool(std::move(names), filter_.store().hasher());
  }

  void request(std::size_t oldest, std::size_t at) {
    source_.draw(oldest, at, settings_.users_per_request, settings_.candidates);
    const Pool pool = pool_of(source_.candidates());
    const auto start = std::chrono::steady_clock::now();
    filter_.select_unseen(pool, std::span(source_.users()), {}, page_);
    elapsed_ += std::chrono::steady_clock::now() - start;
    ++figures_.requests;
    figures_.checks += page_.checked() * source_.users().size();
    figures_.unknown_users += page_.unknown_users().size();
    figures_.underfilled_pages += page_.size() < settings_.page ? 1U : 0U;
    judge(source_.users(), source_.candidates());
    if constexpr (Filter::has_history) {
      if (settings_.verify > 0) verify(pool);
    }
  }

  /// The same request again, for one page, with leave to ask the history: it must get every fresh candidate it needs.
  void verify(const Pool& pool) {
    filter_.select_unseen(pool, std::span(source_.users()),
                          {.limit = settings_.page, .relax = {Verify{.lookups = settings_.verify}}}, page_);
    const auto fresh = static_cast<std::size_t>(std::count_if(
        source_.candidates().begin(), source_.candidates().end(),
        [&](std::uint32_t item) { return referee_.judge(source_.users(), item, now_) == Verdict::fresh; }));
    figures_.verify_lookups += page_.lookups();
    figures_.verify_missed += std::min<std::size_t>(settings_.page, fresh) - page_.size();
    for (const Pick& pick : page_.picks()) {
      figures_.verified += pick.reason == PickReason::verified ? 1U : 0U;
      const std::uint32_t item = source_.candidates()[pick.index];
      figures_.false_negatives += referee_.judge(source_.users(), item, now_) == Verdict::seen ? 1U : 0U;
    }
  }

  /// Compares the page with what really was. The page keeps the candidates' order.
  void judge(std::span<const std::uint64_t> users, std::span<const std::uint32_t> candidates) {
    auto pick = page_.picks().begin();
    for (std::uint32_t i = 0; i < candidates.size(); ++i) {
      const bool shown = pick != page_.picks().end() && pick->index == i;
      if (shown) ++pick;
      switch (referee_.judge(users, candidates[i], now_)) {
        case Verdict::fresh:
          ++figures_.fresh_offered;
          figures_.fresh_hidden += shown ? 0U : 1U;
          break;
        case Verdict::leaving: break;
        case Verdict::seen:
          ++figures_.seen_offered;
          figures_.false_negatives += shown ? 1U : 0U;
          continue;
      }
      if (shown && settings_.window.count() > 0 && referee_.ever_seen(users, candidates[i])) {
        ++figures_.repeats_after_window;
      }
    }
  }

  /// Asks every user about everything they saw: what is within the window must be hidden.
  void sweep() {
    for (std::uint64_t user = 0; user < log_.users.size(); ++user) {
      const auto& items = referee_.items_of(user);
      const Pool pool = pool_of(items);
      filter_.select_unseen(pool, std::span(&user, 1), {}, page_);
      figures_.seen_offered +=
          static_cast<std::uint64_t>(std::count_if(items.begin(), items.end(), [&](std::uint32_t item) {
            return referee_.judge(std::span(&user, 1), item, now_) == Verdict::seen;
          }));
      for (const Pick& pick : page_.picks()) {
        const bool must_hide = referee_.judge(std::span(&user, 1), items[pick.index], now_) == Verdict::seen;
        figures_.false_negatives += must_hide ? 1U : 0U;
      }
    }
  }

  void weigh() {
    filter_.store().sweep();  // users who did not come back still hold slices that have left the window
    std::vector<std::uint64_t> bytes;
    std::vector<std::uint64_t> exact;
    std::vector<std::uint64_t> bare;
    for (std::uint64_t user = 0; user < log_.users.size(); ++user) {
      bytes.push_back(filter_.store().user_bytes(user));
      exact.push_back(referee_.exact_bytes(user, now_));
      bare.push_back(referee_.bare_bytes(user, now_));
    }
    figures_.bytes = distribution_of(std::move(bytes));
    figures_.exact_bytes = distribution_of(std::move(exact));
    figures_.bare_bytes = distribution_of(std::move(bare));
    figures_.store_bytes = filter_.store().memory_bytes();
    figures_.growths = filter_.counters().store.growths;
    figures_.over_budget = filter_.counters().store.over_budget;
    const double seconds = std::chrono::duration<double>(elapsed_).count();
    figures_.checks_per_second = seconds > 0 ? static_cast<double>(figures_.checks) / seconds : 0;
  }

  EventLog& log_;
  const ReplaySettings& settings_;
  Filter& filter_;
  std::int64_t& now_;
  Referee referee_;
  RequestSource source_;
  Selection<std::string> page_;
  ReplayFigures figures_;
  std::chrono::steady_clock::duration elapsed_{};
};

}  // namespace

ReplayFigures run_replay(EventLog& log, const ReplaySettings& settings) {
  std::stable_sort(log.events.begin(), log.events.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
  std::int64_t now = log.events.front().time;
  StorePolicy policy;
  policy.wrong_hide_rate = settings.wrong_hide_rate;
  policy.users_per_request = settings.users_per_request;
  policy.window = settings.window;
  policy.slices = settings.slices;
  policy.clock = Clock::simulated([&now] { return Time(std::chrono::seconds(now)); });
  if (settings.history) {
    History history;
    SeenFilter filter(Store(policy), history);
    return Replayer(log, settings, filter, now).run();
  }
  SeenFilter filter{Store(policy)};
  return Replayer(log, settings, filter, now).run();
}

}  // namespace seenby::tool
