// SPDX-License-Identifier: MIT
// A user's exact items: a string beside the filter, replaced whole.

#include "redis/protocol/exact_value.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/store_scripts.hpp"
#include "redis/protocol/store_state.hpp"
#include "redis/transport/script.hpp"
#include "seenby/stores/exact_sections.hpp"

namespace seenby::redis {
namespace {

[[nodiscard]] Result<Reply> get(Executor& executor, const std::string& key, Deadline deadline) {
  Command command;
  command.reads_only().add("GET").add_key(key);
  auto reply = execute_one(executor, command, deadline);
  if (!reply) return named(std::move(reply).error(), key);
  return reply;
}

/// In milliseconds, a second more than the last mark; empty where there is more than marks, which stays.
[[nodiscard]] std::string lifetime(const detail::ExactItems& items, Time now) {
  if (items.in_flight.empty() || !items.hides.empty() || !items.kept.empty()) return {};
  Time last = now;
  for (const ExactItem& mark : items.in_flight) last = std::max(last, mark.until);
  return std::to_string(px(last - std::max(now, Time{})) + 1'000);
}

}  // namespace

Result<detail::ExactItems> exact_in(const Reply& reply, std::string_view key) {
  if (reply.is_nil()) return detail::ExactItems{};
  if (const Error* error = reply.error()) return named(*error, key);
  const std::string* const value = reply.string();
  if (value == nullptr) return named({ErrorCode::wrong_type, "seenby::redis: expected hides in a string"}, key);
  std::span<const std::byte> rest = std::as_bytes(std::span(*value));
  auto items = detail::read_exact(rest);
  if (!items) return named(std::move(items).error(), key);
  Section section;
  while (detail::next_section(rest, section)) {}
  if (!rest.empty()) return named({ErrorCode::corrupt, "seenby::redis: expected whole sections of hides"}, key);
  return items;
}

Result<detail::ExactItems> read_exact(Executor& executor, const std::string& key, Deadline deadline) {
  const auto reply = get(executor, key, deadline);
  if (!reply) return reply.error();
  return exact_in(*reply, key);
}

Result<std::size_t> change_exact(Executor& executor, const std::string& key, Time now, Deadline deadline,
                                 const EditExact& edit) {
  constexpr int tries = 256;
  for (int attempt = 0; attempt < tries && !deadline.passed(); ++attempt) {
    const auto before = get(executor, key, deadline);
    if (!before) return before.error();
    auto items = exact_in(*before, key);
    if (!items) return std::move(items).error();
    const std::size_t changed = edit(*items);
    if (changed == 0) return changed;
    std::vector<std::byte> sections;
    detail::append_exact(sections, *items);
    const std::string_view keys[] = {key};
    const std::string ttl = lifetime(*items, now);
    const std::string_view arguments[] = {before->is_nil() ? std::string_view() : std::string_view(*before->string()),
                                          {reinterpret_cast<const char*>(sections.data()), sections.size()},
                                          ttl};
    const auto swapped = execute_script(executor, scripts::swap_value(), keys, arguments, deadline);
    if (!swapped) return named(swapped.error(), key);
    if (const Error* error = swapped->error()) return named(*error, key);
    if (swapped->integer() != nullptr && *swapped->integer() == 1) return changed;
  }
  return named({ErrorCode::conflict, "seenby::redis: expected to win a compare-and-swap, lost all to other writers"},
               key);
}

Result<detail::ExactItems> StoreProtocol::exact(const std::string& user) const {
  return read_exact(*state_->executor, StoreState::exact_key(key_of(user)), Deadline::after(state_->timeout));
}

Result<std::size_t> StoreProtocol::change_exact(const std::string& user, const EditExact& edit) {
  return redis::change_exact(*state_->executor, StoreState::exact_key(key_of(user)), state_->now(),
                             Deadline::after(state_->timeout), edit);
}

}  // namespace seenby::redis
