#pragma once
// SPDX-License-Identifier: MIT
// What the protocols say of a server's replies.

#include <string>
#include <string_view>

#include "redis/transport/script.hpp"

namespace seenby::redis {

/// Adds `(key "...")` to a message.
[[nodiscard]] Error named(Error error, std::string_view key);

/// The error that a reply is, or that it is not what was expected.
[[nodiscard]] Error unexpected(const Reply& reply, std::string_view expected, std::string_view key);

/// Throws std::invalid_argument for a prefix that would take the hash tag's place.
void require_prefix(const std::string& prefix);

/// Writes a value where there is none; what is there then. One round trip.
[[nodiscard]] Result<Reply> claim(Executor& executor, const std::string& key, std::string_view value,
                                  Deadline deadline);

}  // namespace seenby::redis
