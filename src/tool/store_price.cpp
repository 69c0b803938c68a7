// SPDX-License-Identifier: MIT
// Weighs stores.

#include "store_price.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "random.hpp"

namespace seenby::tool {
namespace {

constexpr std::uint64_t most_events = 2'000'000;
constexpr std::uint64_t made_up_events = 200'000;
constexpr std::uint64_t most_made_up_users = 5'000;

StorePrice price(EventLog& log, ReplaySettings settings) {
  settings.requests = 0;
  const ReplayFigures figures = run_replay(log, settings);
  const double users = static_cast<double>(std::max<std::uint64_t>(1, figures.active_users));
  return {.bytes = figures.bytes,
          .store_bytes = static_cast<double>(figures.store_bytes) / users,
          .active_users = static_cast<double>(figures.active_users),
          .live_items = static_cast<double>(figures.live_items) / users,
          .exact_bytes = figures.exact_bytes.mean};
}

/// `users` users who each have `items` items to remember at the log's end, and before it for as long as a window lasts.
EventLog made_up_log(std::uint64_t users, std::uint64_t items, std::int64_t window) {
  EventLog log;
  const std::uint64_t events = window == 0 ? items : 2 * items;  // of a user
  const std::int64_t start = 1'700'000'000;
  for (std::uint64_t i = 0; i < events; ++i) {
    const std::uint32_t item = log.items.number(std::to_string(i));
    const auto time = start + static_cast<std::int64_t>(static_cast<double>(window) * static_cast<double>(i) /
                                                        static_cast<double>(items));
    for (std::uint64_t user = 0; user < users; ++user) {
      log.events.push_back({log.users.number(std::to_string(user)), item, time});
    }
  }
  return log;
}

void scale(StorePrice& price, double by) {
  const auto scaled = [by](std::uint64_t& bytes) {
    bytes = static_cast<std::uint64_t>(static_cast<double>(bytes) * by);
  };
  for (std::uint64_t* bytes : {&price.bytes.median, &price.bytes.p90, &price.bytes.p99, &price.bytes.max}) {
    scaled(*bytes);
  }
  price.bytes.mean *= by;
  price.store_bytes *= by;
  price.live_items *= by;
  price.exact_bytes *= by;
}

}  // namespace

StorePrice price_of_log(EventLog& log, const ReplaySettings& settings) {
  const std::uint64_t one_in = (log.events.size() + most_events - 1) / most_events;
  std::uint64_t kept_users = log.users.size();
  if (one_in > 1) {
    // The first user stays, so that some do.
    const auto kept = [one_in](std::uint32_t user) { return user == 0 || Random(user).below(one_in) == 0; };
    std::erase_if(log.events, [&](const Event& event) { return !kept(event.user); });
    kept_users = 0;
    for (std::uint32_t user = 0; user < log.users.size(); ++user) kept_users += kept(user) ? 1U : 0U;
  }
  StorePrice result = price(log, settings);
  result.active_users *= static_cast<double>(log.users.size()) / static_cast<double>(kept_users);
  return result;
}

StorePrice price_of_items(std::uint64_t items, const ReplaySettings& settings) {
  const std::uint64_t priced = std::min(items, made_up_events);
  const std::uint64_t users = std::clamp<std::uint64_t>(made_up_events / priced, 1, most_made_up_users);
  EventLog log = made_up_log(users, priced, settings.window.count());
  StorePrice result = price(log, settings);
  scale(result, static_cast<double>(items) / static_cast<double>(priced));
  return result;
}

}  // namespace seenby::tool
