// SPDX-License-Identifier: MIT
// What StoreProtocol keeps between calls.

#include "redis/protocol/store_state.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/user_tag.hpp"
#include "seenby/sizing.hpp"

namespace seenby::redis {
namespace {

/// A window outlives its last lookup by this much, so that clocks may differ.
constexpr std::int64_t clock_slack_seconds = 60;
constexpr std::size_t local_whole_read_bytes = std::size_t{256} << 10;
constexpr std::size_t remote_whole_read_bytes = std::size_t{16} << 10;

}  // namespace

StoreState::StoreState(std::shared_ptr<Executor> client, const StorePolicy& store_policy,
                       RedisStoreOptions store_options, HashIdentity store_hash)
    : executor(std::move(client)),
      policy(store_policy),
      options(std::move(store_options)),
      hash(store_hash),
      timeout(options.timeout.value_or(executor ? executor->default_timeout() : std::chrono::milliseconds{1000})),
      slices(policy),
      fpr(slices.per_filter_fpr(policy)),
      tables{hash, policy.seed, sizing::split_budget(policy.wrong_hide_rate, policy.users_per_request)},
      shapes(options.remembered_users) {
  if (!executor) throw std::invalid_argument("seenby::redis: expected an executor, got none");
  require_prefix(options.prefix);
  if (timeout.count() <= 0 || options.rebuild_timeout.count() <= 0) {
    throw std::invalid_argument("seenby::redis: expected time-outs above zero");
  }
  if (options.time_to_live != TimeToLive::none && options.ttl.count() <= 0) {
    throw std::invalid_argument("seenby::redis: expected a ttl of at least a second");
  }
  whole_read_bytes =
      options.whole_read_bytes.value_or(executor->is_local() ? local_whole_read_bytes : remote_whole_read_bytes);
  // A header must always fit.
  whole_read_bytes = std::max<std::size_t>(whole_read_bytes, 64);
}

std::vector<SlicedDigest> StoreState::in_window(std::span<const Digest> digests, std::span<const Time> when) const {
  const std::int64_t newest = slices.newest(policy.clock);
  std::vector<SlicedDigest> items;
  items.reserve(digests.size());
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const std::int64_t slice = when.empty() || !slices.windowed() ? newest : std::min(slices.number(when[i]), newest);
    if (slice > newest - slices.tested()) items.push_back({digests[i], slice});
  }
  std::sort(items.begin(), items.end(), [](const SlicedDigest& a, const SlicedDigest& b) {
    return a.digest.value != b.digest.value ? a.digest.value < b.digest.value : a.slice > b.slice;
  });
  const auto same = [](const SlicedDigest& a, const SlicedDigest& b) { return a.digest.value == b.digest.value; };
  items.erase(std::unique(items.begin(), items.end(), same), items.end());
  return items;
}

std::string StoreState::refresh_ttl_text() const {
  const bool refreshed = !slices.windowed() && options.time_to_live == TimeToLive::refreshed;
  return refreshed ? std::to_string(px(options.ttl)) : std::string{};
}

std::int64_t StoreState::table_ttl(std::int64_t newest) const {
  if (!slices.windowed()) return options.time_to_live == TimeToLive::none ? 0 : px(options.ttl);
  const std::int64_t length = slices.slice_seconds();
  if (length > std::chrono::seconds(std::chrono::hours{24 * 36'525}).count()) return px(std::chrono::seconds::max());
  // A clock that jumped ahead must not let a table expire at once: the time is one of the newest slice's.
  const std::int64_t latest = std::max(newest, slices.newest(policy.clock));
  const std::int64_t time = std::clamp(now().time_since_epoch().count(), latest * length, (latest + 1) * length - 1);
  const std::int64_t end = (newest + slices.tested()) * length + clock_slack_seconds;
  return std::max<std::int64_t>(1, end - time) * 1000;
}

std::string StoreState::table_ttl_text(std::int64_t newest) const {
  if (!slices.windowed()) return refresh_ttl_text();
  return std::to_string(table_ttl(newest));
}

void StoreState::learn_kind(const Reply& reply) const {
  for (const ItemKind each : {ItemKind::integer, ItemKind::text, ItemKind::bytes}) {
    if (reply.is_status(to_string(each))) kind.store(static_cast<std::uint8_t>(each), std::memory_order_relaxed);
  }
}

Result<void> StoreState::check_kind(ItemKind asked) const {
  const auto known = static_cast<ItemKind>(kind.load(std::memory_order_relaxed));
  if (!knows_kind() || known == asked) return {};
  std::string message = "seenby::redis: expected items of kind ";
  message.append(to_string(known)).append(", which this store holds, got ").append(to_string(asked));
  return named({ErrorCode::parameter_mismatch, std::move(message)}, kind_key());
}

Result<void> StoreState::claim_kind(ItemKind recorded, Deadline deadline) const {
  if (!knows_kind()) {
    const auto reply = claim(*executor, kind_key(), to_string(recorded), deadline);
    if (!reply) return reply.error();
    learn_kind(*reply);
  }
  return check_kind(recorded);
}

std::string StoreState::key_of(std::string_view user) const {
  std::string key;
  append_key(key, user);
  return key;
}

void StoreState::append_key(std::string& out, std::string_view user) const {
  const bool plain = is_plain_tag(user);
  out.append(options.prefix).append("{").append(plain ? user : std::string_view(escaped_tag(user))).append("}");
}

std::string StoreState::slice_key(std::string_view key, std::int64_t slice) const {
  std::string out(key);
  return out.append(":").append(std::to_string(slice));
}

std::uint64_t StoreState::capacity_of(const FilterHeader& header) const {
  const std::pair<std::uint64_t, double> question{header.shape.bits, header.target_fpr};
  {
    const std::lock_guard lock(capacities_mutex);
    if (const auto known = capacities.find(question); known != capacities.end()) return known->second;
  }
  const std::uint64_t capacity = sizing::capacity_of(header.shape, header.target_fpr);
  const std::lock_guard lock(capacities_mutex);
  constexpr std::size_t enough = 4096;
  if (capacities.size() >= enough) capacities.clear();
  capacities.emplace(question, capacity);
  return capacity;
}

void StoreState::remember(std::string_view key, std::string_view value, std::vector<Frame> frames, bool complete,
                          std::uint64_t value_bytes) const {
  auto shape = std::make_shared<Shape>();
  shape->identity = identity_of(value);
  shape->frames = std::move(frames);
  shape->complete = complete;
  shape->value_bytes = value_bytes;
  shapes.put(key, std::move(shape));
}

}  // namespace seenby::redis
