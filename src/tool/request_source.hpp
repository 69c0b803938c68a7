#pragma once
// SPDX-License-Identifier: MIT
// Draws the requests of a replay: who asks, and for which candidates.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event_log.hpp"
#include "random.hpp"
#include "referee.hpp"

namespace seenby::tool {

/// Requests like those of a real service: the user of the event that just happened, beside others who are active, asks
/// for candidates by popularity. One candidate in four is something they have seen: that is what puts the promise of
/// no false negatives to the test. Deterministic by its seed.
class RequestSource {
 public:
  RequestSource(const EventLog& log, const Referee& referee, std::uint64_t seed);

  /// Draws a request behind event `at`. Users are drawn from the events since `oldest`.
  void draw(std::size_t oldest, std::size_t at, std::size_t users, std::size_t candidates);

  [[nodiscard]] const std::vector<std::uint64_t>& users() const noexcept { return users_; }
  /// Different items, in ranking order.
  [[nodiscard]] const std::vector<std::uint32_t>& candidates() const noexcept { return candidates_; }

 private:
  void draw_users(std::size_t oldest, std::size_t at, std::size_t count);
  [[nodiscard]] std::uint32_t draw_item();

  const EventLog& log_;
  const Referee& referee_;
  Random random_;
  std::vector<std::uint64_t> users_;
  std::vector<std::uint32_t> candidates_;
  std::vector<std::uint64_t> drawn_in_;  // by item: the request that drew it last
  std::uint64_t request_ = 0;
};

}  // namespace seenby::tool
