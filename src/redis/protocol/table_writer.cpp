// SPDX-License-Identifier: MIT
// Adding to a table by script, and by swapping the whole value where the script cannot.

#include "redis/protocol/table_writer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/store_writer.hpp"
#include "redis/protocol/table_scripts.hpp"
#include "seenby/detail/bits.hpp"

namespace seenby::redis {
namespace {

/// A table's random generation, as its header has it.
[[nodiscard]] std::uint64_t generation_of(std::string_view table) noexcept {
  return detail::load_le<std::uint64_t>(std::as_bytes(std::span(table)).data() + 8);
}

[[nodiscard]] std::string packed(std::span<const SlicedDigest> items, std::int64_t newest) {
  constexpr std::size_t entry = 9;
  std::string out(items.size() * entry, '\0');
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (unsigned k = 0; k < 8; ++k) { out[entry * i + k] = static_cast<char>(items[i].digest.value >> (56 - 8 * k)); }
    out[entry * i + 8] = static_cast<char>(std::clamp<std::int64_t>(newest - items[i].slice, 0, 255));
  }
  return out;
}

[[nodiscard]] std::string two_bytes(std::uint16_t number) { return packed_number(number).substr(0, 2); }

[[nodiscard]] Error no_history() {
  return {ErrorCode::invalid_argument, "seenby::redis: expected a history to rebuild from, got none"};
}

[[nodiscard]] bool is_list(std::string_view value) noexcept {
  return !value.empty() && static_cast<unsigned char>(value[0]) == slice_list_magic;
}

}  // namespace

Error TableWriter::conflict() const {
  if (deadline_.passed()) {
    return named({ErrorCode::timed_out, "seenby::redis: the deadline passed while others kept changing it"}, key_);
  }
  return named({ErrorCode::conflict, "seenby::redis: others kept changing it"}, key_);
}

Result<RecordOutcome> TableWriter::record(std::span<const SlicedDigest> items) {
  for (int attempt = 0; attempt < most_attempts && !deadline_.passed(); ++attempt) {
    auto outcome = add_by_script(items);
    if (!outcome) return std::move(outcome).error();
    if (*outcome) return **outcome;
  }
  return conflict();
}

std::optional<Command> TableWriter::command(std::span<const SlicedDigest> items) const {
  if (items.size() > items_in_one_script) return std::nullopt;
  const detail::SliceWindow window = state_.window();
  const std::string meaning = table_meaning(state_.tables, window);
  const std::string entries = packed(items, window.newest);
  const std::string newest = std::to_string(window.newest);
  const std::string most_age = std::to_string(window.windowed() ? window.max_age : 255);
  const std::string refresh = state_.refresh_ttl_text();
  const std::string empty = history_ ? std::string{} : empty_table(state_.tables, window, false);
  const std::int64_t lives = state_.table_ttl(window.newest);
  const std::string ttl = lives > 0 ? std::to_string(lives) : std::string{};
  const std::string room = std::to_string(history_ ? 0 : first_recent_items);
  const std::string_view key = key_;
  const std::array<std::string_view, 8> arguments{meaning, entries, newest, most_age, refresh, empty, ttl, room};
  return scripts::add_to_table().call({&key, 1}, arguments);
}

Result<std::optional<RecordOutcome>> TableWriter::take(const Reply& reply) const {
  if (const Error* error = reply.error()) {
    // The script's own word for a value of another length than its header says: reading it whole tells what is wrong.
    if (error->message.starts_with("DAMAGED")) return std::optional<RecordOutcome>{};
    return named(*error, key_);
  }
  const auto* parts = reply.array();
  if (parts == nullptr) return std::optional<RecordOutcome>{};
  const std::int64_t* added = parts->size() == 3 ? (*parts)[0].integer() : nullptr;
  const std::int64_t* bytes = parts->size() == 3 ? (*parts)[1].integer() : nullptr;
  const std::string* head = parts->size() == 3 ? (*parts)[2].string() : nullptr;
  if (added == nullptr || bytes == nullptr || head == nullptr || *added < 0 || *bytes < 0) {
    return unexpected(reply, "two numbers and a header", key_);
  }
  // Lua has no XXH3. What went into a damaged table is recorded again by those who then heal it.
  if (!is_sound_header(*head, static_cast<std::uint64_t>(*bytes))) return std::optional<RecordOutcome>{};
  return std::optional(RecordOutcome{.newly_added = static_cast<std::size_t>(*added)});
}

TableWriter::Attempt TableWriter::add_by_script(std::span<const SlicedDigest> items) {
  std::optional<std::string> value;
  if (const auto call = command(items)) {
    const Script* const script = &scripts::add_to_table();
    auto replies = execute_scripts(*state_.executor, {&*call, 1}, {&script, 1}, step_deadline());
    if (!replies) return named(std::move(replies).error(), key_);
    Reply& reply = replies->front();
    auto taken = take(reply);
    if (!taken || *taken) return taken;
    if (reply.is_nil()) return add_to_missing(items);
    if (reply.string() != nullptr) value = std::move(*reply.string());
  }
  auto found = find(std::move(value));
  if (!found) return std::move(found).error();
  if (found->value.empty()) return add_to_missing(items);
  if (history_ && !is_table(found->value)) return replace(*found, items);
  auto added = add_by_swap(*found, items, nullptr);
  const bool heals = !added && history_ && (is_damage(added.error()) || added.error().code == ErrorCode::too_large);
  return heals ? replace(*found, items) : added;
}

TableWriter::Attempt TableWriter::add_to_missing(std::span<const SlicedDigest> items) {
  const detail::SliceWindow window = state_.window();
  if (!history_) {
    auto edited = edit_table(state_.tables, window, {.items = items});
    if (!edited) return named(std::move(edited).error(), key_);
    auto put_in = put(edited->value, state_.table_ttl(edited->newest));
    if (!put_in) return std::move(put_in).error();
    if (!*put_in) return std::optional<RecordOutcome>{};
    return std::optional(RecordOutcome{.newly_added = edited->added});
  }
  // Marked first, read after: what is acknowledged once the mark is set is in the history, or in the marked table.
  const std::string marked = empty_table(state_.tables, window, true);
  auto begun = put(marked, px(state_.options.rebuild_timeout));
  if (!begun) return std::move(begun).error();
  if (!*begun) return std::optional<RecordOutcome>{};
  auto known = read_history();
  if (!known) return std::move(known).error();
  for (int attempt = 0; attempt < most_attempts && !deadline_.passed(); ++attempt) {
    auto found = find(std::nullopt);
    if (!found) return std::move(found).error();
    // Another generation was made after this history was read, and knows what became of it.
    const bool ours = is_table(found->value) && is_marked(found->value) && found->value.size() >= table_header_bytes &&
                      generation_of(found->value) == generation_of(marked);
    if (!ours) return std::optional<RecordOutcome>{};
    auto done = add_by_swap(*found, items, &*known);
    if (!done || *done) return done;
  }
  return conflict();
}

TableWriter::Attempt TableWriter::add_by_swap(const Found& found, std::span<const SlicedDigest> items,
                                              const std::vector<SlicedDigest>* known) {
  std::vector<SlicedDigest> all(items.begin(), items.end());
  TableEdit edit{
      .value = found.list ? std::string_view{} : std::string_view(found.value), .old = found.old, .items = all};
  if (known != nullptr) {
    all.insert(all.end(), known->begin(), known->end());
    edit.items = all;
    edit.history_items = known->size();
  } else if (is_marked(found.value)) {
    edit.marked = true;
    if (is_table(found.value) && found.value.size() >= table_header_bytes) edit.generation = generation_of(found.value);
  }
  auto edited = edit_table(state_.tables, state_.window(), edit);
  if (!edited) return named(std::move(edited).error(), key_);
  auto swapped = swap(found, edited->value, edit.marked ? std::string{} : state_.table_ttl_text(edited->newest));
  if (!swapped) return std::move(swapped).error();
  if (!*swapped) return std::optional<RecordOutcome>{};
  if (known != nullptr) state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
  if (edited->grew && known == nullptr) state_.growths.fetch_add(1, std::memory_order_relaxed);
  state_.slices_dropped.fetch_add(edited->dropped, std::memory_order_relaxed);
  const std::size_t added = std::min(edited->added, items.size());
  return std::optional(RecordOutcome{.newly_added = added, .grew = edited->grew && known == nullptr});
}

TableWriter::Attempt TableWriter::replace(const Found& found, std::span<const SlicedDigest> items) {
  auto known = read_history();
  if (!known) return std::move(known).error();
  auto done = add_by_swap(found, items, &*known);
  if (done || !(is_damage(done.error()) || done.error().code == ErrorCode::too_large)) return done;
  // Damaged: whatever can be told of it is in the history.
  std::vector<SlicedDigest> all(*known);
  all.insert(all.end(), items.begin(), items.end());
  auto edited = edit_table(state_.tables, state_.window(), {.items = all});
  if (!edited) return named(std::move(edited).error(), key_);
  auto swapped = swap(found, edited->value, state_.table_ttl_text(edited->newest));
  if (!swapped) return std::move(swapped).error();
  if (!*swapped) return std::optional<RecordOutcome>{};
  state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
  return std::optional(RecordOutcome{.newly_added = std::min(edited->added, items.size())});
}

Result<void> TableWriter::create() {
  const detail::SliceWindow window = state_.window();
  auto done = put(empty_table(state_.tables, window, false), state_.table_ttl(window.newest));
  if (!done) return std::move(done).error();
  return {};
}

Result<void> TableWriter::rebuild() {
  if (!history_) return no_history();
  for (int attempt = 0; attempt < most_attempts && !deadline_.passed(); ++attempt) {
    auto found = find(std::nullopt);
    if (!found) return std::move(found).error();
    auto done = found->value.empty() ? add_to_missing({}) : replace(*found, {});
    if (!done) return std::move(done).error();
    if (*done) return {};
  }
  return conflict();
}

Result<TableWriter::Found> TableWriter::find(std::optional<std::string> value) {
  Found found;
  if (!value) {
    auto read = read_value();
    if (!read) return std::move(read).error();
    value = std::move(*read);
  }
  found.value = std::move(*value);
  found.list = is_list(found.value);
  if (!found.value.empty() && !found.list && !is_table(found.value)) {
    // Of a store without a window, or of somebody else.
    return named(SliceList::decode(found.value).error(), key_);
  }
  if (found.list) {
    if (auto read = find_slices(found); !read) return std::move(read).error();
  }
  return found;
}

Result<void> TableWriter::find_slices(Found& found) {
  const auto list = SliceList::decode(found.value);
  if (!list && !is_damage(list.error())) return named(list.error(), key_);
  std::vector<std::int64_t> slices;
  if (list) slices.assign(list->slices().begin(), list->slices().end());
  // A damaged list says nothing: the window's slices are there or not.
  const detail::SliceWindow window = state_.window();
  for (std::int64_t age = 0; !list && age <= window.max_age; ++age) slices.push_back(window.newest - age);
  const std::int64_t seconds = list ? list->slice_seconds() : window.seconds;
  std::vector<Command> batch;
  for (const std::int64_t slice : slices) {
    found.old_keys.push_back(state_.slice_key(key_, slice));
    batch.emplace_back().add("GET").add_key(found.old_keys.back());
  }
  if (batch.empty()) return {};
  auto replies = execute_batch(*state_.executor, batch, step_deadline());
  if (!replies) return named(std::move(replies).error(), key_);
  for (std::size_t i = 0; i < replies->size(); ++i) {
    const Reply& reply = (*replies)[i];
    const std::string* const filters = reply.string();
    if (!reply.is_nil() && filters == nullptr) return unexpected(reply, "a filter", found.old_keys[i]);
    found.old_heads.push_back(filters == nullptr ? std::string{} : filters->substr(0, 20));
    if (filters == nullptr) continue;
    const auto bytes = std::as_bytes(std::span(*filters));
    found.old.push_back({slices[i] * seconds, {bytes.begin(), bytes.end()}});
    if (is_marked(*filters)) found.old.back().filters[1] &= ~std::byte{building_mark};
  }
  return {};
}

Result<std::vector<SlicedDigest>> TableWriter::read_history() {
  if (!history_) return no_history();
  const std::int64_t newest = state_.window().newest;
  auto read = history_(state_.slices.window_start(newest));
  if (!read) return std::move(read).error();
  std::vector<SlicedDigest> known;
  known.reserve(read->size());
  for (const SeenDigest& seen : *read) {
    known.push_back({seen.digest, std::min(state_.slices.number(seen.seen_at), newest)});
  }
  return known;
}

Result<std::string> TableWriter::read_value() {
  Command get;
  get.add("GET").add_key(key_);
  auto reply = execute_one(*state_.executor, get, step_deadline());
  if (!reply) return named(std::move(reply).error(), key_);
  if (reply->is_nil()) return std::string{};
  if (reply->string() == nullptr) return unexpected(*reply, "a table", key_);
  if (reply->string()->empty()) {
    return named({ErrorCode::bad_magic, "seenby::redis: expected a table, got an empty string"}, key_);
  }
  return std::move(*reply->string());
}

Result<bool> TableWriter::put(const std::string& value, std::int64_t ttl) {
  Command set;
  set.add("SET").add_key(key_).add(value).add("NX");
  if (ttl > 0) set.add("PX").add(ttl);
  auto reply = execute_one(*state_.executor, set, step_deadline());
  if (!reply) return named(std::move(reply).error(), key_);
  return !reply->is_nil();
}

Result<bool> TableWriter::swap(const Found& found, const std::string& value, const std::string& ttl) {
  constexpr std::size_t identity_of_table = 24;
  std::vector<std::string_view> keys{key_};
  keys.insert(keys.end(), found.old_keys.begin(), found.old_keys.end());
  const std::string size = std::to_string(found.value.size());
  const auto old_place = is_table(found.value) ? recent_place(found.value) : std::nullopt;
  const auto new_place = recent_place(value);
  std::string old_at;
  std::string new_at;
  std::string numbers;
  std::string_view start = found.value;
  if (old_place && new_place) {
    start = start.substr(0, identity_of_table);
    old_at = std::to_string(old_place->at);
    new_at = std::to_string(new_place->at);
    numbers = two_bytes(old_place->used) + two_bytes(old_place->entry_bytes) + two_bytes(new_place->entry_bytes) +
              two_bytes(new_place->room);
  }
  std::vector<std::string_view> arguments{start, size, value, ttl, old_at, new_at, numbers};
  arguments.insert(arguments.end(), found.old_heads.begin(), found.old_heads.end());
  auto reply = execute_script(*state_.executor, scripts::swap_table(), keys, arguments, step_deadline());
  if (!reply) return named(std::move(reply).error(), key_);
  if (reply->integer() == nullptr) return unexpected(*reply, "0 or 1", key_);
  return *reply->integer() == 1;
}

}  // namespace seenby::redis
