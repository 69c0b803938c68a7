#pragma once
// SPDX-License-Identifier: MIT
// A user's exact items in a string of their own, for every store in Redis.

#include <cstddef>
#include <string>
#include <string_view>

#include "seenby/redis/executor.hpp"
#include "seenby/redis/keeps_exact.hpp"

namespace seenby::redis {

/// The exact items in a GET's reply. Errors: corrupt, wrong_type, whatever the server said.
[[nodiscard]] Result<detail::ExactItems> exact_in(const Reply& reply, std::string_view key);

/// The exact items under a key. One round trip.
[[nodiscard]] Result<detail::ExactItems> read_exact(Executor& executor, const std::string& key, Deadline deadline);

/// Edits them, and returns what `edit` returned. Compare and swap, tried again when another writer was first. Marks
/// alone expire, by `now`.
Result<std::size_t> change_exact(Executor& executor, const std::string& key, Time now, Deadline deadline,
                                 const EditExact& edit);

}  // namespace seenby::redis
