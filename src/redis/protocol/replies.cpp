// SPDX-License-Identifier: MIT
#include "redis/protocol/replies.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

namespace seenby::redis {

Error named(Error error, std::string_view key) {
  error.message.append(" (key \"").append(key).append("\")");
  return error;
}

Error unexpected(const Reply& reply, std::string_view expected, std::string_view key) {
  if (const Error* error = reply.error()) return named(*error, key);
  std::string message = "seenby::redis: expected ";
  return named({ErrorCode::corrupt, message.append(expected).append(", got ").append(reply.type_name())}, key);
}

void require_prefix(const std::string& prefix) {
  if (prefix.find('{') == std::string::npos) return;
  std::string message = "seenby::redis: expected a key prefix without '{' (the user is the hash tag), got \"";
  throw std::invalid_argument(message.append(prefix).append("\""));
}

Result<Reply> claim(Executor& executor, const std::string& key, std::string_view value, Deadline deadline) {
  std::vector<Command> batch(2);
  batch[0].add("SET").add_key(key).add(value).add("NX");
  batch[1].add("GET").add_key(key);
  auto replies = execute_batch(executor, batch, deadline);
  if (!replies) return named(std::move(replies).error(), key);
  for (const Reply& reply : *replies) {
    if (const Error* error = reply.error()) return named(*error, key);
  }
  return std::move((*replies)[1]);
}

}  // namespace seenby::redis
