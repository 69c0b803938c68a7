#pragma once
// SPDX-License-Identifier: MIT
// A replay's referee as the history that filters are rebuilt from.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "event_log.hpp"
#include "referee.hpp"
#include "seenby/clock.hpp"
#include "seenby/histories/history.hpp"

namespace seenby::tool {

/// What the referee knows, as a history: nothing is kept twice. Both must outlive
/// it. For one thread.
class LogHistory {
 public:
  using user_type = std::uint64_t;
  using item_type = std::string;

  LogHistory(const EventLog& log, const Referee& referee) : log_(log), referee_(referee) {}

  /// The referee was told already.
  Result<void> append(std::uint64_t /*user*/, std::span<const std::string> /*items*/, Time /*when*/) { return {}; }
  Result<void> contains(std::uint64_t user, std::span<const std::string> items, std::span<std::uint8_t> out,
                        Time since) const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto seen = referee_.last_seen(user, log_.items.find(items[i]));
      out[i] = seen && time_of(*seen) >= since ? 1 : 0;
    }
    return {};
  }
  [[nodiscard]] Result<std::vector<SeenItem<std::string>>> seen_since(std::uint64_t user, Time since) const {
    std::vector<SeenItem<std::string>> list;
    for (const std::uint32_t item : referee_.items_of(user)) {
      const Time seen = time_of(*referee_.last_seen(user, item));
      if (seen >= since) list.push_back({log_.items.name(item), seen});
    }
    return list;
  }
  /// A log forgets no user.
  Result<bool> forget(std::uint64_t /*user*/) { return false; }

 private:
  [[nodiscard]] static Time time_of(std::int64_t seconds) { return Time(std::chrono::seconds(seconds)); }

  const EventLog& log_;
  const Referee& referee_;
};

}  // namespace seenby::tool
