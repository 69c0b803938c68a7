#pragma once
// SPDX-License-Identifier: MIT
// What two texts say of a gate and of a membership join. Each prints its figures and is true when they hold.

#include <cstdint>
#include <string>

namespace scenario {

/// `lookups` ids, half of which do not exist, without a gate and with one; the four ways a look-up goes; names that two
/// callers want.
[[nodiscard]] bool gate_holds(const std::string& postgres, const std::string& redis_url, std::uint64_t lookups);

/// Ten unseen questions for a pair of learners: the SQL join beside a cached pool and two filters.
[[nodiscard]] bool questions_hold(const std::string& postgres, const std::string& redis_url, std::uint64_t learners);

}  // namespace scenario
