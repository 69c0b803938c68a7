// SPDX-License-Identifier: MIT
#include "seenby/redis/history.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/history_scripts.hpp"
#include "redis/protocol/replies.hpp"
#include "redis/protocol/store_value.hpp"
#include "redis/protocol/user_tag.hpp"
#include "redis/transport/script.hpp"

namespace seenby::redis {
namespace {

/// Whole seconds up to here are exact in a score, which is a double.
constexpr std::int64_t latest_score = std::int64_t{1} << 53;

std::string score_of(Time time) {
  return std::to_string(std::clamp<std::int64_t>(time.time_since_epoch().count(), -latest_score, latest_score));
}
Time time_of_score(const std::string& text) {
  double seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return Time{std::chrono::seconds{static_cast<std::int64_t>(seconds)}};
}

std::string text_of(const KeyView& key) {
  return key.kind == ItemKind::integer ? std::to_string(key.number) : std::string(key.bytes);
}
/// Views `text`.
KeyView key_of(const std::string& text, ItemKind kind) {
  KeyView key{.kind = kind, .number = 0, .bytes = {}};
  if (kind == ItemKind::integer) {
    std::from_chars(text.data(), text.data() + text.size(), key.number);
  } else {
    key.bytes = text;
  }
  return key;
}

}  // namespace

struct HistoryLog::State {
  std::shared_ptr<Executor> executor;
  ItemKind user_kind;
  ItemKind item_kind;
  HistoryOptions options;
  std::chrono::milliseconds timeout;

  // The names of a scan, in order, and the last that was handed out.
  std::mutex paging;
  std::vector<std::string> names;
  std::string last_name;

  [[nodiscard]] std::string key(const KeyView& user) const { return key_of_name(text_of(user)); }
  [[nodiscard]] std::string key_of_name(const std::string& name) const {
    return options.prefix + "{" + escaped_tag(name) + "}";
  }
  [[nodiscard]] static std::string events_of(const std::string& key) { return key + ":events"; }
  [[nodiscard]] static std::string hides_of(const std::string& key) { return key + ":hides"; }

  /// What is older is not there any more.
  [[nodiscard]] Time since(Time asked) const {
    return options.keep.count() == 0 ? asked : std::max(asked, window_start(options.clock(), options.keep));
  }
  /// The first three arguments of the scripts that trim.
  [[nodiscard]] std::array<std::string, 3> limits() const {
    const bool kept = options.keep.count() != 0;
    return {kept ? score_of(since(all_time)) : std::string(), std::to_string(options.most_items),
            std::to_string(kept ? px(options.keep) : 0)};
  }

  Result<Reply> ask(const Command& command) const {
    auto reply = execute_one(*executor, command, Deadline::after(timeout));
    if (!reply) return named(std::move(reply).error(), command.key());
    return reply;
  }
  Result<std::uint64_t> ask_number(const Command& command) const {
    auto reply = ask(command);
    if (!reply) return std::move(reply).error();
    if (reply->integer() == nullptr || *reply->integer() < 0) return unexpected(*reply, "a count", command.key());
    return static_cast<std::uint64_t>(*reply->integer());
  }
  Result<std::uint64_t> run(const Script& script, std::span<const std::string_view> keys,
                            std::span<const std::string_view> arguments) const {
    auto reply = execute_script(*executor, script, keys, arguments, Deadline::after(timeout));
    if (!reply) return named(std::move(reply).error(), keys[0]);
    if (reply->integer() == nullptr || *reply->integer() < 0) return unexpected(*reply, "a count", keys[0]);
    return static_cast<std::uint64_t>(*reply->integer());
  }

  /// Every user's name, each once, in order.
  Result<std::vector<std::string>> scan() const {
    Command info;
    info.add("INFO").add("cluster");
    auto about = ask(info);
    if (!about) return std::move(about).error();
    if (about->string() != nullptr && about->string()->find("cluster_enabled:1") != std::string::npos) {
      return Error{ErrorCode::unavailable, "seenby::redis: expected one server to list users of, got a cluster"};
    }
    std::string pattern;
    for (const char c : options.prefix) {
      if (std::string_view("*?[]\\^").find(c) != std::string_view::npos) pattern.push_back('\\');
      pattern.push_back(c);
    }
    pattern.append("{*}");
    std::vector<std::string> found;
    std::string cursor = "0";
    do {
      Command command;
      command.add("SCAN").add(cursor).add("MATCH").add(pattern).add("COUNT").add("1000");
      auto reply = ask(command);
      if (!reply) return std::move(reply).error();
      const Reply::Array* answer = reply->array();
      const bool good = answer != nullptr && answer->size() == 2 && (*answer)[0].string() != nullptr &&
                        (*answer)[1].array() != nullptr;
      if (!good) return unexpected(*reply, "a cursor and keys", options.prefix);
      cursor = *(*answer)[0].string();
      for (const Reply& each : *(*answer)[1].array()) {
        if (each.string() == nullptr || each.string()->size() < options.prefix.size() + 2) continue;
        std::string_view tag = *each.string();
        tag.remove_prefix(options.prefix.size() + 1);
        tag.remove_suffix(1);
        found.push_back(unescaped_tag(tag));
      }
    } while (cursor != "0");
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
};

Result<HistoryLog> HistoryLog::open(std::shared_ptr<Executor> executor, ItemKind user_kind, ItemKind item_kind,
                                    HistoryOptions options) {
  if (!executor) throw std::invalid_argument("seenby::redis: expected an executor, got none");
  require_prefix(options.prefix);
  const auto timeout = options.timeout.value_or(executor->default_timeout());
  if (timeout.count() <= 0 || options.keep.count() < 0) {
    throw std::invalid_argument("seenby::redis: expected a timeout above zero and no negative time to keep");
  }
  auto state = std::make_shared<State>();
  state->executor = std::move(executor);
  state->user_kind = user_kind;
  state->item_kind = item_kind;
  state->options = std::move(options);
  state->timeout = timeout;
  const std::string key = state->options.prefix + "kinds";
  const std::string kinds = std::string(to_string(user_kind)).append(" ").append(to_string(item_kind));
  const auto reply = claim(*state->executor, key, kinds, Deadline::after(timeout));
  if (!reply) return reply.error();
  const std::string* held = reply->string();
  if (held == nullptr || *held != kinds) {
    std::string message = "seenby::redis: expected a history of users and items of kinds ";
    return named({ErrorCode::parameter_mismatch,
                  message.append(held == nullptr ? "unknown" : *held).append(", which it holds, got ").append(kinds)},
                 key);
  }
  return HistoryLog(std::move(state));
}

Result<std::size_t> HistoryLog::append(std::span<const KeyedEvent> events) {
  std::map<std::string, std::vector<const KeyedEvent*>> of_user;
  for (const KeyedEvent& event : events) of_user[state_->key(event.user)].push_back(&event);
  const auto limits = state_->limits();
  std::vector<Command> batch;
  for (const auto& [key, theirs] : of_user) {
    const std::string events_key = State::events_of(key);
    const std::array<std::string_view, 2> keys{key, events_key};
    const std::array<std::string_view, 3> first{limits[0], limits[1], limits[2]};
    Command& command = batch.emplace_back(scripts::append_events().call(keys, first));
    for (const KeyedEvent* event : theirs) {
      command.add(text_of(event->item)).add(score_of(event->seen_at)).add(packed_number(event->event));
    }
  }
  const std::vector<const Script*> each(batch.size(), &scripts::append_events());
  auto replies = execute_scripts(*state_->executor, batch, each, Deadline::after(state_->timeout));
  if (!replies) return std::move(replies).error();
  std::size_t fresh = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if ((*replies)[i].integer() == nullptr) return unexpected((*replies)[i], "a count", batch[i].key());
    fresh += static_cast<std::size_t>(*(*replies)[i].integer());
  }
  return fresh;
}

Result<void> HistoryLog::contains(const KeyView& user, std::span<const KeyView> items, std::span<std::uint8_t> out,
                                  std::span<std::uint8_t> hides, Time since) const {
  const std::string key = state_->key(user);
  std::vector<Command> batch(hides.empty() ? 1 : 2);
  batch[0].reads_only().add("ZMSCORE").add_key(key);
  if (!hides.empty()) batch[1].reads_only().add("HMGET").add_key(State::hides_of(key));
  for (Command& command : batch) {
    for (const KeyView& item : items) command.add(text_of(item));
  }
  auto replies = execute_batch(*state_->executor, batch, Deadline::after(state_->timeout));
  if (!replies) return named(std::move(replies).error(), key);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Reply& reply = (*replies)[i];
    if (const Error* error = reply.error()) return named(*error, batch[i].key());
    if (reply.array() == nullptr || reply.array()->size() != items.size()) {
      return unexpected(reply, "an answer an item", batch[i].key());
    }
  }
  const Time from = state_->since(since);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string* score = (*(*replies)[0].array())[i].string();
    out[i] = score != nullptr && time_of_score(*score) >= from ? 1 : 0;
    if (!hides.empty()) hides[i] = (*(*replies)[1].array())[i].is_nil() ? 0 : 1;
  }
  return {};
}

Result<void> HistoryLog::seen_since(const KeyView& user, Time since,
                                    const std::function<void(const KeyView&, Time)>& row) const {
  Command command;
  command.reads_only().add("ZRANGEBYSCORE").add_key(state_->key(user)).add(score_of(state_->since(since)));
  command.add("+inf").add("WITHSCORES");
  auto reply = state_->ask(command);
  if (!reply) return std::move(reply).error();
  const Reply::Array* list = reply->array();
  if (list == nullptr) return unexpected(*reply, "items with scores", command.key());
  for (std::size_t i = 0; i + 1 < list->size(); i += 2) {
    const std::string* item = (*list)[i].string();
    const std::string* score = (*list)[i + 1].string();
    if (item != nullptr && score != nullptr) row(key_of(*item, state_->item_kind), time_of_score(*score));
  }
  return {};
}

Result<std::size_t> HistoryLog::hide(const KeyView& user, std::span<const Hide<KeyView>> hides) {
  const std::string key = State::hides_of(state_->key(user));
  std::vector<std::string> texts;
  for (const auto& [item, at] : hides) {
    texts.push_back(text_of(item));
    texts.push_back(score_of(at));
  }
  const std::string_view keys[] = {key};
  const std::vector<std::string_view> arguments(texts.begin(), texts.end());
  auto added = state_->run(scripts::hide_items(), keys, arguments);
  if (!added) return std::move(added).error();
  return static_cast<std::size_t>(*added);
}

Result<std::size_t> HistoryLog::unhide(const KeyView& user, std::span<const KeyView> items) {
  Command command;
  command.add("HDEL").add_key(State::hides_of(state_->key(user)));
  for (const KeyView& item : items) command.add(text_of(item));
  auto taken = state_->ask_number(command);
  if (!taken) return std::move(taken).error();
  return static_cast<std::size_t>(*taken);
}

Result<void> HistoryLog::hidden(const KeyView& user, const std::function<void(const KeyView&, Time)>& row) const {
  struct Placed {
    std::uint64_t place = 0;
    const std::string* item = nullptr;
    std::int64_t at = 0;
  };
  Command command;
  command.reads_only().add("HGETALL").add_key(State::hides_of(state_->key(user)));
  auto reply = state_->ask(command);
  if (!reply) return std::move(reply).error();
  const Reply::Array* list = reply->array();
  if (list == nullptr) return unexpected(*reply, "items with their places", command.key());
  std::vector<Placed> hides;
  for (std::size_t i = 0; i + 1 < list->size(); i += 2) {
    Placed hide{.item = (*list)[i].string()};
    const std::string* value = (*list)[i + 1].string();
    if (hide.item == nullptr || value == nullptr) return unexpected((*list)[i], "a hidden item", command.key());
    const char* const end = value->data() + value->size();
    const char* const gap = std::from_chars(value->data(), end, hide.place).ptr;
    if (gap != end) std::from_chars(gap + 1, end, hide.at);
    hides.push_back(hide);
  }
  std::sort(hides.begin(), hides.end(), [](const Placed& a, const Placed& b) { return a.place < b.place; });
  for (const Placed& hide : hides) { row(key_of(*hide.item, state_->item_kind), Time{std::chrono::seconds{hide.at}}); }
  return {};
}

Result<bool> HistoryLog::forget(const KeyView& user) {
  const std::string key = state_->key(user);
  Command command;
  command.add("DEL").add_key(key).add(State::events_of(key)).add(State::hides_of(key));
  auto gone = state_->ask_number(command);
  if (!gone) return std::move(gone).error();
  return *gone != 0;
}

Result<std::size_t> HistoryLog::erase(const KeyView& user, std::span<const KeyView> items) {
  const std::string key = state_->key(user);
  const std::string events = State::events_of(key);
  std::vector<std::string> texts;
  for (const KeyView& item : items) texts.push_back(text_of(item));
  const std::array<std::string_view, 2> keys{key, events};
  const std::vector<std::string_view> arguments(texts.begin(), texts.end());
  auto erased = state_->run(scripts::erase_items(), keys, arguments);
  if (!erased) return std::move(erased).error();
  return static_cast<std::size_t>(*erased);
}

Result<bool> HistoryLog::merge(const KeyView& from, const KeyView& into) {
  const std::string source = state_->key(from);
  const std::string target = state_->key(into);
  const std::string source_events = State::events_of(source);
  const std::string target_events = State::events_of(target);
  const auto limits = state_->limits();
  const std::string source_hides = State::hides_of(source);
  const std::string target_hides = State::hides_of(target);
  const std::array<std::string_view, 6> keys{source, source_events, source_hides, target, target_events, target_hides};
  const std::array<std::string_view, 3> arguments{limits[0], limits[1], limits[2]};
  auto moved = state_->run(scripts::merge_histories(), keys, arguments);
  if (!moved && moved.error().message.find("CROSSSLOT") != std::string::npos) {
    return Error{ErrorCode::unavailable, moved.error().message + ": users on two nodes of a cluster"};
  }
  if (!moved) return std::move(moved).error();
  return *moved != 0;
}

Result<void> HistoryLog::users(const std::optional<KeyView>& after, std::size_t limit,
                               const std::function<void(const KeyView&)>& row) const {
  const std::string last = after ? text_of(*after) : std::string();
  const std::lock_guard lock(state_->paging);
  std::vector<std::string>& names = state_->names;
  if (!after || names.empty() || last != state_->last_name) {
    auto found = state_->scan();
    if (!found) return std::move(found).error();
    names = *std::move(found);
  }
  auto at = after ? std::upper_bound(names.begin(), names.end(), last) : names.begin();
  std::size_t count = 0;
  for (; at != names.end() && count < limit; ++at, ++count) {
    row(key_of(*at, state_->user_kind));
    state_->last_name = *at;
  }
  if (at == names.end()) names = {};
  return {};
}

Result<std::uint64_t> HistoryLog::item_count(const KeyView& user, Time since) const {
  Command command;
  command.reads_only().add("ZCOUNT").add_key(state_->key(user)).add(score_of(state_->since(since))).add("+inf");
  return state_->ask_number(command);
}

Result<std::uint64_t> HistoryLog::event_count(const KeyView& item) const {
  auto names = state_->scan();
  if (!names) return std::move(names).error();
  constexpr std::size_t page = 1'000;
  const std::string text = text_of(item);
  std::uint64_t events = 0;
  for (std::size_t begin = 0; begin < names->size(); begin += page) {
    std::vector<Command> batch;
    for (std::size_t i = begin; i < std::min(begin + page, names->size()); ++i) {
      batch.emplace_back().reads_only().add("HSTRLEN").add_key(State::events_of(state_->key_of_name((*names)[i])));
      batch.back().add(text);
    }
    auto replies = execute_batch(*state_->executor, batch, Deadline::after(state_->timeout));
    if (!replies) return std::move(replies).error();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if ((*replies)[i].integer() == nullptr) return unexpected((*replies)[i], "a length", batch[i].key());
      events += static_cast<std::uint64_t>(*(*replies)[i].integer()) / 8;
    }
  }
  return events;
}

}  // namespace seenby::redis
