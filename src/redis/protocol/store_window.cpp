// SPDX-License-Identifier: MIT
// A windowed user's slices: opening, finding losses, rebuilding.

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/store_scripts.hpp"
#include "redis/protocol/store_writer.hpp"

namespace seenby::redis {

StoreWriter::Target StoreWriter::slice_target(std::int64_t slice) const {
  return {
      .key = state_.slice_key(key_, slice), .list = key_, .slice = slice, .newest = std::max(slice, newest_slice())};
}

StoreWriter::Attempt StoreWriter::open_slice(const Target& target, std::span<const Digest> digests) {
  auto list = read_list();
  if (!list && is_damage(list.error())) return lost();
  if (!list) return std::move(list).error();
  // Without a list it is unknown which slices there were.
  if (!*list) return lost();
  std::string value;
  std::size_t added = 0;
  if (!digests.empty()) {
    value = first_frame(std::max<std::uint64_t>(state_.policy.initial_items, distinct(digests).size()));
    added = insert_fresh(value, digests);
  }
  auto opened = run_open_slice(target, (*list)->identity(), value);
  if (!opened) return std::move(opened).error();
  if (*opened == -1) return lost();
  if (*opened != 1) return std::optional<RecordOutcome>{};
  remember_fresh(target.key, value);
  return std::optional(RecordOutcome{.newly_added = added, .grew = false});
}

StoreWriter::Attempt StoreWriter::lost() {
  lost_slice_ = true;
  return Error{ErrorCode::conflict, "seenby::redis: the user's window must be rebuilt"};
}

Result<std::int64_t> StoreWriter::run_open_slice(const Target& target, const std::string& identity,
                                                 const std::string& value) {
  const std::string slice = packed_number(target.slice);
  const std::string oldest = packed_number(std::max<std::int64_t>(0, newest_slice() - state_.slices.tested() + 1));
  const std::string ttl = std::to_string(slice_ttl(target.slice));
  const std::string list_lives = std::to_string(list_ttl());
  const std::array<std::string_view, 2> keys{target.key, target.list};
  const std::string length = packed_number(state_.slices.slice_seconds()).substr(0, 4);
  const std::array<std::string_view, 7> arguments{identity, slice, value, ttl, list_lives, oldest, length};
  auto reply = execute_script(*state_.executor, scripts::open_slice(), keys, arguments, step_deadline());
  if (!reply) return named(std::move(reply).error(), target.key);
  if (reply->integer() == nullptr) return unexpected(*reply, "a number", target.key);
  return *reply->integer();
}

Result<void> StoreWriter::rebuild_window() {
  const Deadline patience = deadline_.earlier(Deadline::after(state_.timeout));
  bool waited = false;
  for (int attempt = 0; attempt < most_attempts && !deadline_.passed(); ++attempt) {
    auto value = read_value(key_);
    if (!value) return std::move(value).error();
    const auto list = *value ? SliceList::decode(**value) : Result<SliceList>(SliceList{});
    // A damaged list is rebuilt like a lost one.
    if (!list && !is_damage(list.error())) return named(list.error(), key_);
    const bool others_build = list && list->building();
    if (waited && *value && list && !others_build) return {};
    if (others_build && !patience.passed()) {
      // Two builders would only take the mark from each other; one that has died is succeeded.
      waited = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + attempt));
      continue;
    }
    const std::string marked = SliceList::make(state_.slices.slice_seconds(), true);
    auto begun =
        swap_identity(*value ? identity_of(**value) : std::string{}, marked, false, px(state_.options.rebuild_timeout));
    if (!begun) return std::move(begun).error();
    if (!*begun) continue;
    auto filled = fill_window(marked);
    if (!filled) return std::move(filled).error();
    if (!*filled) continue;
    std::string done = marked;
    done[1] = '\0';
    auto ended = swap_identity(marked, done, true, list_ttl());
    if (!ended) return std::move(ended).error();
    if (!*ended) continue;
    state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  return conflict();
}

Result<bool> StoreWriter::fill_window(const std::string& list_identity) {
  const std::int64_t newest = newest_slice();
  std::vector<SeenDigest> known;
  if (history_) {
    auto read = history_(state_.slices.window_start(newest));
    if (!read) return std::move(read).error();
    known = std::move(*read);
  }
  auto existing = slices_that_exist(newest);
  if (!existing) return std::move(existing).error();
  const bool watched = std::exchange(watch_slices_, false);
  Result<bool> good = true;
  for (std::int64_t slice = newest; good && *good && slice > newest - state_.slices.tested(); --slice) {
    std::vector<Digest> digests;
    for (const SeenDigest& seen : known) {
      if (std::min(state_.slices.number(seen.seen_at), newest) == slice) digests.push_back(seen.digest);
    }
    const bool exists = (*existing)[static_cast<std::size_t>(newest - slice)];
    if (exists || !digests.empty()) good = fill_slice(slice_target(slice), list_identity, digests);
  }
  watch_slices_ = watched;
  return good;
}

Result<std::vector<bool>> StoreWriter::slices_that_exist(std::int64_t newest) {
  std::vector<Command> batch;
  for (std::int64_t age = 0; age < state_.slices.tested(); ++age) {
    batch.emplace_back().add("EXISTS").add_key(state_.slice_key(key_, newest - age));
  }
  auto replies = execute_batch(*state_.executor, batch, step_deadline());
  if (!replies) return named(std::move(replies).error(), key_);
  std::vector<bool> existing;
  for (const Reply& reply : *replies) {
    if (reply.error() != nullptr) return named(*reply.error(), key_);
    existing.push_back(reply.integer() != nullptr && *reply.integer() == 1);
  }
  return existing;
}

Result<bool> StoreWriter::fill_slice(const Target& target, const std::string& list_identity,
                                     std::span<const Digest> digests) {
  lost_slice_ = false;
  if (!digests.empty()) {
    auto added = add(target, digests);
    if (!added && lost_slice_) return false;
    if (!added) return std::move(added).error();
  }
  // The slice may have been there before the list: list it.
  auto listed = run_open_slice(target, list_identity, {});
  if (!listed) return std::move(listed).error();
  return *listed >= 0;
}

Result<std::optional<SliceList>> StoreWriter::read_list() {
  auto value = read_value(key_);
  if (!value) return std::move(value).error();
  if (!*value) return std::optional<SliceList>{};
  auto list = SliceList::decode(**value);
  if (!list) return named(std::move(list).error(), key_);
  return std::optional(std::move(*list));
}

Result<bool> StoreWriter::swap_identity(const std::string& expected, const std::string& value, bool keep_rest,
                                        std::int64_t ttl) {
  const std::string ttl_text = std::to_string(ttl);
  const std::array<std::string_view, 4> arguments{expected, value, keep_rest ? "1" : "0", ttl_text};
  auto reply = run(scripts::swap_identity(), key_, arguments);
  if (!reply) return std::move(reply).error();
  return reply->integer() != nullptr && *reply->integer() == 1;
}

}  // namespace seenby::redis
