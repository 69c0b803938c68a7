// SPDX-License-Identifier: MIT
// Draws users and candidates.

#include "request_source.hpp"

#include <algorithm>

namespace seenby::tool {

RequestSource::RequestSource(const EventLog& log, const Referee& referee, std::uint64_t seed)
    : log_(log), referee_(referee), random_(seed), drawn_in_(log.items.size()) {}

void RequestSource::draw_users(std::size_t oldest, std::size_t at, std::size_t count) {
  users_.assign(1, log_.events[at].user);
  // There may not be enough different users yet; then the request is smaller.
  for (std::size_t tries = 0; users_.size() < count && tries < 8 * count; ++tries) {
    const std::uint64_t user = log_.events[oldest + random_.below(at - oldest + 1)].user;
    if (std::find(users_.begin(), users_.end(), user) == users_.end()) users_.push_back(user);
  }
}

std::uint32_t RequestSource::draw_item() {
  if (random_.below(4) != 0) return log_.events[random_.below(log_.events.size())].item;
  const auto seen = referee_.items_of(users_[random_.below(users_.size())]);
  return seen[random_.below(seen.size())];
}

void RequestSource::draw(std::size_t oldest, std::size_t at, std::size_t users, std::size_t candidates) {
  draw_users(oldest, at, users);
  ++request_;
  candidates_.clear();
  // A small catalogue may not have enough different items; then the pool is smaller.
  for (std::size_t tries = 0; candidates_.size() < candidates && tries < 8 * candidates; ++tries) {
    const std::uint32_t item = draw_item();
    if (drawn_in_[item] == request_) continue;
    drawn_in_[item] = request_;
    candidates_.push_back(item);
  }
}

}  // namespace seenby::tool
