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

#include "log_history.hpp"
#include "progress.hpp"
#include "referee.hpp"
#include "request_source.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace seenby::tool {
namespace {

using Store = MemoryStore<std::uint64_t>;
using Pool = CandidatePool<std::string>;

/// One replay over a SeenFilter, with or without a history behind it.
template <class Filter>
class Replayer {
 public:
  Replayer(const EventLog& log, const ReplaySettings& settings, Referee& referee, Filter& filter, std::int64_t& now)
      : log_(log),
        settings_(settings),
        filter_(filter),
        now_(now),
        referee_(referee),
        source_(log, referee, settings.seed),
        exact_bytes_(settings.window.count() > 0) {}

  ReplayFigures run() {
    figures_.users = log_.users.size();
    figures_.items = log_.items.size();
    figures_.events = log_.events.size();
    Progress progress("replaying", log_.events.size());
    std::size_t oldest = 0;
    for (std::size_t at = 0; at < log_.events.size(); ++at) {
      const Event& event = log_.events[at];
      weigh_until(event.time);
      now_ = event.time;
      referee_.record(event);  // first: the history that the filter reads is the referee
      filter_.record(std::uint64_t{event.user}, log_.items.name(event.item)).value();
      while (settings_.window.count() > 0 && log_.events[oldest].time <= now_ - settings_.window.count()) ++oldest;
      if (is_request(at)) request(oldest, at);
      progress.update(at + 1);
    }
    weigh();
    if (settings_.requests > 0) sweep();
    summarise();
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
    const std::uint64_t fresh = judge(source_.users(), source_.candidates());
    figures_.short_pools += fresh < settings_.page ? 1U : 0U;
    figures_.underfilled_pages += page_.size() < std::min<std::uint64_t>(settings_.page, fresh) ? 1U : 0U;
    if constexpr (Filter::has_history) {
      if (settings_.verify > 0) verify(pool, fresh);
    }
  }

  /// The same request again, for one page, with leave to ask the history: it must get every fresh candidate it needs.
  void verify(const Pool& pool, std::uint64_t fresh) {
    filter_.select_unseen(pool, std::span(source_.users()),
                          {.limit = settings_.page, .relax = {Verify{.lookups = settings_.verify}}}, page_);
    figures_.verify_lookups += page_.lookups();
    figures_.verify_missed += std::min<std::uint64_t>(settings_.page, fresh) - page_.size();
    for (const Pick& pick : page_.picks()) {
      figures_.verified += pick.reason == PickReason::verified ? 1U : 0U;
      const std::uint32_t item = source_.candidates()[pick.index];
      figures_.false_negatives += referee_.judge(source_.users(), item, now_) == Verdict::seen ? 1U : 0U;
    }
  }

  /// Compares the page with what really was; returns how many candidates are fresh. The page keeps their order.
  std::uint64_t judge(std::span<const std::uint64_t> users, std::span<const std::uint32_t> candidates) {
    auto pick = page_.picks().begin();
    std::uint64_t fresh = 0;
    for (std::uint32_t i = 0; i < candidates.size(); ++i) {
      const bool shown = pick != page_.picks().end() && pick->index == i;
      if (shown) ++pick;
      switch (referee_.judge(users, candidates[i], now_)) {
        case Verdict::fresh:
          ++fresh;
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
    figures_.fresh_offered += fresh;
    return fresh;
  }

  /// Asks every user about everything they saw: what is within the window must be hidden.
  void sweep() {
    for (std::uint64_t user = 0; user < log_.users.size(); ++user) {
      const auto items = referee_.items_of(user);
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

  /// With a window, weighs the users at the next moments of the log that lie before `time`.
  void weigh_until(std::int64_t time) {
    if (settings_.window.count() == 0) return;
    constexpr std::int64_t moments = 16;
    const std::int64_t first = log_.events.front().time;
    const std::int64_t span = log_.events.back().time - first;
    for (; next_moment_ < moments; ++next_moment_) {
      const std::int64_t moment = first + span / moments * next_moment_;
      if (moment >= time) return;
      if (moment < first + settings_.window.count()) continue;
      now_ = moment;
      weigh();
    }
  }

  /// Weighs everyone who has something to remember now.
  void weigh() {
    filter_.store().sweep();  // users who did not come back still hold slices that have left the window
    for (std::uint64_t user = 0; user < log_.users.size(); ++user) {
      const std::uint64_t items = referee_.live_items(user, now_);
      if (items == 0) continue;
      bytes_.push_back(filter_.store().user_bytes(user));
      exact_.push_back(exact_bytes_.of(items));
      bare_.push_back(exact_bytes_.bare(items));
      figures_.live_items += items;
    }
    figures_.store_bytes += filter_.store().memory_bytes();
    ++figures_.weighings;
  }

  void summarise() {
    const std::uint64_t weighings = figures_.weighings;
    const auto each = [weighings](std::vector<std::uint64_t>& values) {
      Distribution distribution = distribution_of(std::move(values));
      distribution.total /= weighings;
      return distribution;
    };
    figures_.active_users = bytes_.size() / weighings;
    figures_.live_items /= weighings;
    figures_.store_bytes /= weighings;
    figures_.bytes = each(bytes_);
    figures_.exact_bytes = each(exact_);
    figures_.bare_bytes = each(bare_);
    figures_.growths = filter_.counters().store.growths;
    figures_.over_budget = filter_.counters().store.over_budget;
    const double seconds = std::chrono::duration<double>(elapsed_).count();
    figures_.checks_per_second = seconds > 0 ? static_cast<double>(figures_.checks) / seconds : 0;
  }

  const EventLog& log_;
  const ReplaySettings& settings_;
  Filter& filter_;
  std::int64_t& now_;
  Referee& referee_;
  RequestSource source_;
  Selection<std::string> page_;
  ExactSetBytes exact_bytes_;
  std::vector<std::uint64_t> bytes_;  // a value for each active user at each weighing, like the next two
  std::vector<std::uint64_t> exact_;
  std::vector<std::uint64_t> bare_;
  std::int64_t next_moment_ = 1;
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
  Referee referee(log, settings.window.count(), (settings.window.count() + settings.slices - 1) / settings.slices);
  if (settings.history) {
    LogHistory history(log, referee);
    SeenFilter filter(Store(policy), history);
    return Replayer(log, settings, referee, filter, now).run();
  }
  SeenFilter filter{Store(policy)};
  return Replayer(log, settings, referee, filter, now).run();
}

}  // namespace seenby::tool
