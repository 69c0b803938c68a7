#pragma once
// SPDX-License-Identifier: MIT
// Patience: what a worker does about a step that failed.

#include <chrono>
#include <optional>

#include "seenby/detail/backoff.hpp"
#include "seenby/result.hpp"

namespace seenby::tool {

/// Tells of a failure when it begins and when it is over, waits between two tries, and gives up 10 s after a stop
/// signal.
class Patience {
 public:
  void failed(const Error& error);
  void succeeded();
  [[nodiscard]] bool over() const;

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
  std::optional<std::chrono::steady_clock::time_point> give_up_;
  detail::Backoff backoff_{std::chrono::milliseconds{50}, std::chrono::seconds{5}};
};

}  // namespace seenby::tool
