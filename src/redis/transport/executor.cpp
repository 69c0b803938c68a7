// SPDX-License-Identifier: MIT
// What every executor shares: the kinds of server error, and single commands.

#include "seenby/redis/executor.hpp"

#include <utility>

#include "redis/transport/script.hpp"

namespace seenby::redis {

ErrorCode classify_error(std::string_view message) noexcept {
  const std::string_view word = message.substr(0, message.find(' '));
  if (word == "WRONGTYPE") return ErrorCode::wrong_type;
  // Redis 6.2 wraps what went wrong inside a script.
  if (message.starts_with("ERR Error running script") && message.find("WRONGTYPE") != std::string_view::npos) {
    return ErrorCode::wrong_type;
  }
  for (const std::string_view passing : {"LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN"}) {
    if (word == passing) return ErrorCode::unreachable;
  }
  if (message.starts_with("ERR unknown command")) return ErrorCode::unavailable;
  return ErrorCode::refused;
}

Result<Reply> execute_one(Executor& executor, const Command& command, Deadline deadline) {
  auto replies = execute_batch(executor, {&command, 1}, deadline);
  if (!replies) return std::move(replies).error();
  if (const Error* error = replies->front().error()) return *error;
  return std::move(replies->front());
}

}  // namespace seenby::redis
