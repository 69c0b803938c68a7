#pragma once
// SPDX-License-Identifier: MIT
// Replays an event log through the library, with an exact set beside it as referee.

#include <chrono>
#include <cstdint>

#include "event_log.hpp"
#include "report.hpp"

namespace seenby::tool {

/// How to replay.
struct ReplaySettings {
  double wrong_hide_rate = 0.01;  ///< the budget, over all users of a request and all slices
  std::uint32_t users_per_request = 2;
  std::uint32_t candidates = 100;    ///< a request
  std::uint32_t page = 10;           ///< fewer unseen ones than this: the page is underfilled
  std::uint64_t requests = 100'000;  ///< at most, spread evenly over the events; 0: only weighs
  std::chrono::seconds window{0};
  std::uint32_t slices = 1;
  std::uint64_t seed = 1;
  std::uint64_t verify = 0;  ///< history look-ups a request may make to fill its page; 0: not tried
  bool history = true;       ///< filters grow by re-insert from a history; without one, by succession
};

/// What came out.
struct ReplayFigures {
  std::uint64_t users = 0;
  std::uint64_t items = 0;
  std::uint64_t events = 0;
  std::uint64_t requests = 0;
  std::uint64_t checks = 0;                ///< candidates times users
  double checks_per_second = 0;            ///< over the library's calls only
  std::uint64_t fresh_offered = 0;         ///< candidates that no user of the request had seen
  std::uint64_t fresh_hidden = 0;          ///< of those, hidden by mistake
  std::uint64_t seen_offered = 0;          ///< candidates that had to be hidden
  std::uint64_t false_negatives = 0;       ///< of those, shown all the same; includes the last sweep over all users
  std::uint64_t repeats_after_window = 0;  ///< shown again after the window: allowed
  std::uint64_t underfilled_pages = 0;     ///< pages that lack what an exact set would have shown
  std::uint64_t short_pools = 0;           ///< requests whose candidates hold less than a page of fresh ones
  std::uint64_t verify_lookups = 0;        ///< made by requests that may verify
  std::uint64_t verified = 0;              ///< fresh candidates that they won back
  std::uint64_t verify_missed = 0;         ///< fresh candidates that their pages still lacked
  std::uint64_t unknown_users = 0;         ///< users of requests without a filter
  std::uint64_t growths = 0;
  std::uint64_t over_budget = 0;   ///< growths that could not keep the budget
  std::uint64_t weighings = 0;     ///< moments at which the users were weighed: 1, or with a window many
  std::uint64_t active_users = 0;  ///< users who have something to remember, on average over the weighings
  std::uint64_t live_items = 0;    ///< their items, on average over the weighings
  std::uint64_t store_bytes = 0;   ///< everything the store holds, tables and all, on average over the weighings
  Distribution bytes;              ///< of the active users' filters; total: on average over the weighings
  Distribution exact_bytes;        ///< of exact sets of the same
  Distribution bare_bytes;         ///< of the bare ids alone

  [[nodiscard]] double wrong_hide_rate() const {
    return fresh_offered == 0 ? 0 : static_cast<double>(fresh_hidden) / static_cast<double>(fresh_offered);
  }
};

/// Replays in the order of time: each event is recorded, and requests are drawn as it goes. Users are weighed at the
/// end; with a window at moments spread evenly over the log, from the first full window on, those alone who have seen
/// something within it. The same log and settings give the same figures, all but the speed. Sorts log.events.
[[nodiscard]] ReplayFigures run_replay(EventLog& log, const ReplaySettings& settings);

}  // namespace seenby::tool
