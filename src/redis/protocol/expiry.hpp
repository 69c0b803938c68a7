#pragma once
// SPDX-License-Identifier: MIT
// Times to live as PX takes them.

#include <chrono>
#include <cstdint>

namespace seenby::redis {

/// Milliseconds, a century of them at most: Redis refuses what its clock cannot hold.
template <class Rep, class Period>
[[nodiscard]] constexpr std::int64_t px(std::chrono::duration<Rep, Period> span) noexcept {
  using std::chrono::milliseconds;
  constexpr std::chrono::hours century{24 * 36'525};
  return span < century ? std::chrono::duration_cast<milliseconds>(span).count() : milliseconds{century}.count();
}

}  // namespace seenby::redis
