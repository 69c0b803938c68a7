#pragma once
// SPDX-License-Identifier: MIT
// What a store takes for its users: the library's own, filled as replay fills it, and weighed.

#include <cstdint>

#include "event_log.hpp"
#include "replay_run.hpp"
#include "report.hpp"

namespace seenby::tool {

/// What a MemoryStore takes for a user who has something to remember.
struct StorePrice {
  Distribution bytes;       ///< of a user's record and share of the index
  double store_bytes = 0;   ///< a user, everything the store holds divided by its users
  double active_users = 0;  ///< of the log, at a time
  double live_items = 0;    ///< a user, on average
  double exact_bytes = 0;   ///< a user, as a std::unordered_set of ids (a map of ids to times with a window)
};

/// The price of a log's users. A log of more than 2 million events is priced by a share of its users. Sorts and thins
/// log.events.
[[nodiscard]] StorePrice price_of_log(EventLog& log, const ReplaySettings& settings);

/// The price of users who all have `items` different ones to remember, seen one by one; with a window, spread evenly
/// over it. More than 200,000 items are priced in proportion.
[[nodiscard]] StorePrice price_of_items(std::uint64_t items, const ReplaySettings& settings);

}  // namespace seenby::tool
