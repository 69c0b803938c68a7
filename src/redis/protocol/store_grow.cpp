// SPDX-License-Identifier: MIT
// Creating filters from a history, growing them, rebuilding them.

#include <algorithm>
#include <array>
#include <utility>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/store_scripts.hpp"
#include "redis/protocol/store_writer.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace seenby::redis {

Result<void> StoreWriter::rebuild() {
  if (!history_) {
    return Error{ErrorCode::invalid_argument, "seenby::redis: expected a history to rebuild from, got none"};
  }
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto head = read_head(key_);
    auto done = !head ? heal({}, head.error()) : *head ? replace_from_history(**head, {}) : create_from_history({});
    if (!done) return std::move(done).error();
    if (*done) return {};
  }
  return conflict();
}

StoreWriter::Attempt StoreWriter::create_from_history(std::span<const Digest> digests) {
  std::string marked = make_frame(SplitBlockLayout::shape_of(split_block_bits), state_.fpr, state_.hash);
  mark_building(marked);
  auto put = put_if_absent(key_, marked, px(state_.options.rebuild_timeout));
  if (!put) return std::move(put).error();
  if (!*put) return std::optional<RecordOutcome>{};
  const auto frame = decode_frame(marked, 0, marked.size(), state_.hash);
  return replace_from_history(Head{*frame, identity_of(marked)}, digests);
}

StoreWriter::Attempt StoreWriter::heal(std::span<const Digest> digests, const Error& damage) {
  state_.shapes.forget(key_);
  if (!history_ || !is_damage(damage)) return named(damage, key_);
  const auto old = read_value(key_);
  if (!old) return old.error();
  // Gone or healed meanwhile.
  if (!*old || decode_frames(**old, state_.hash)) return std::optional<RecordOutcome>{};
  // Another store's filter, or no filter: not ours to replace.
  const auto first = decode_frame(**old, 0, (*old)->size(), state_.hash);
  if (!first && !is_damage(first.error())) return named(first.error(), key_);
  auto known = read_history();
  if (!known) return std::move(known).error();
  known->insert(known->end(), digests.begin(), digests.end());
  const std::vector<Digest> items = distinct(*known);
  const auto shape = shape_for(std::max<std::uint64_t>(state_.policy.initial_items, items.size()), state_.fpr);
  if (!shape) return cannot_grow();
  std::string value = make_frame(*shape, state_.fpr, state_.hash);
  insert_fresh(value, items);
  const std::array<std::string_view, 2> arguments{**old, value};
  auto swapped = run(scripts::swap_whole(), key_, arguments);
  if (!swapped) return std::move(swapped).error();
  if (swapped->integer() == nullptr || *swapped->integer() != 1) return std::optional<RecordOutcome>{};
  remember_fresh(key_, value);
  state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
  return std::optional(RecordOutcome{});
}

StoreWriter::Attempt StoreWriter::grow(const Head& head, std::span<const Digest> digests) {
  if (history_) {
    // The sequence to compare is the one from before the history is read, not the one remembered.
    auto now = read_head(key_);
    if (!now) return std::move(now).error();
    if (!*now || (*now)->identity != head.identity) return std::optional<RecordOutcome>{};
    return replace_from_history(**now, digests);
  }
  const FilterHeader& full = head.frame.header;
  // Halved for each filter of the chain so that all together stay within the budget; past the twelfth the rest of
  // the budget is a rounding error that bits should not be spent on.
  const double fpr = std::max(full.target_fpr / 2, state_.fpr / 4096);
  const auto capacity = std::max<std::uint64_t>(scaled(full.items), digests.size());
  const auto shape = shape_for(capacity, fpr);
  if (!shape) return cannot_grow();
  std::string value = make_frame(*shape, fpr, state_.hash);
  const std::size_t added = insert_fresh(value, digests);
  auto kept = replace(head, "-1", value, "0");
  if (!kept) return std::move(kept).error();
  if (!*kept) return std::optional<RecordOutcome>{};
  state_.growths.fetch_add(1, std::memory_order_relaxed);
  return std::optional(RecordOutcome{.newly_added = added, .grew = true});
}

StoreWriter::Attempt StoreWriter::replace_from_history(const Head& head, std::span<const Digest> digests) {
  auto known = read_history();
  if (!known) return std::move(known).error();
  const bool fresh = head.frame.building;
  std::vector<Digest> all = *known;
  all.insert(all.end(), digests.begin(), digests.end());
  const std::uint64_t items = distinct(all).size();
  // A new filter gets room to grow into; one that is rebuilt with room left keeps to what it needs.
  const std::uint64_t capacity = std::max<std::uint64_t>(
      {state_.policy.initial_items, fresh ? items : scaled(std::max<std::uint64_t>(known->size(), 1)), items});
  const auto shape = shape_for(capacity, state_.fpr);
  if (!shape) return cannot_grow();
  std::string value = make_frame(*shape, state_.fpr, state_.hash);
  insert_fresh(value, *known);
  const auto frame = decode_frame(value, 0, value.size(), state_.hash);
  const std::size_t added = insert_into_first(value, frame->header, digests);
  auto kept = replace(head, std::to_string(head.frame.header.sequence), value, vouched(known->size()));
  if (!kept) return std::move(kept).error();
  if (!*kept) return std::optional<RecordOutcome>{};
  (fresh ? state_.rebuilds : state_.growths).fetch_add(1, std::memory_order_relaxed);
  if (!fresh) state_.rebuilds.fetch_add(1, std::memory_order_relaxed);
  if (**kept == Kept::history_knows_less) state_.over_budget.fetch_add(1, std::memory_order_relaxed);
  if (**kept == Kept::raced) compact(value);
  return std::optional(RecordOutcome{.newly_added = added, .grew = !fresh});
}

void StoreWriter::compact(const std::string& value) {
  auto known = read_history();
  if (!known) return;
  const auto frame = decode_frame(value, 0, value.size(), state_.hash);
  if (known->size() > state_.capacity_of(frame->header)) return;
  std::string merged = make_frame(frame->header.shape, frame->header.target_fpr, state_.hash);
  insert_fresh(merged, *known);
  const std::string identity = identity_of(value);
  const std::string items = std::to_string(known->size());
  const std::string scratch = key_ + ":merge";
  const auto text = std::string_view(merged);
  const std::array<std::string_view, 2> keys{key_, scratch};
  const std::string limit = vouched(known->size());
  const std::array<std::string_view, 5> arguments{identity, text.substr(0, header_bytes), text.substr(header_bytes),
                                                  items, limit};
  auto reply = execute_script(*state_.executor, scripts::merge(), keys, arguments, step_deadline());
  if (reply && reply->integer() != nullptr) remember_fresh(key_, merged);
}

std::string StoreWriter::vouched(std::size_t known) { return std::to_string(known + known / 16 + 8); }

Result<std::optional<StoreWriter::Kept>> StoreWriter::replace(const Head& head, const std::string& sequence,
                                                              const std::string& value, const std::string& limit) {
  const std::string ttl = head.frame.building ? std::to_string(creation_ttl()) : state_.refresh_ttl_text();
  const std::array<std::string_view, 5> arguments{head.identity, sequence, value,
                                                  ttl == "0" ? std::string_view{} : std::string_view(ttl), limit};
  auto reply = run(scripts::replace(), key_, arguments);
  if (!reply) return std::move(reply).error();
  if (reply->is_nil()) {
    state_.shapes.forget(key_);
    return std::optional<Kept>{};
  }
  if (reply->string() != nullptr) {
    if (auto learnt = learn(key_, *reply->string()); !learnt) return std::move(learnt).error();
    return std::optional<Kept>{};
  }
  const std::int64_t* kept = reply->integer();
  if (kept == nullptr || *kept < 0 || *kept > 2) return unexpected(*reply, "0, 1 or 2", key_);
  remember_fresh(key_, value);
  return std::optional(static_cast<Kept>(*kept));
}

StoreWriter::Attempt StoreWriter::cannot_grow() {
  growable_ = false;
  state_.over_budget.fetch_add(1, std::memory_order_relaxed);
  return std::optional<RecordOutcome>{};
}

}  // namespace seenby::redis
