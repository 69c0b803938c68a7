// SPDX-License-Identifier: MIT
// The writing half of StoreProtocol: adding items, and what all writes use.

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/store_scripts.hpp"
#include "redis/protocol/store_writer.hpp"
#include "redis/protocol/table_writer.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace seenby::redis {
namespace {

/// Values too large for Redis to handle quickly: SET and the copies of a script take milliseconds each.
constexpr std::uint64_t largest_value_bytes = std::uint64_t{128} << 20;
constexpr int bulk_attempts = 4;

}  // namespace

std::vector<Digest> distinct(std::span<const Digest> digests) {
  std::vector<Digest> out(digests.begin(), digests.end());
  std::sort(out.begin(), out.end(), [](Digest a, Digest b) { return a.value < b.value; });
  out.erase(std::unique(out.begin(), out.end(), [](Digest a, Digest b) { return a.value == b.value; }), out.end());
  return out;
}

Result<RecordOutcome> StoreWriter::record(std::span<const Digest> digests) { return add(digests); }

Result<void> StoreWriter::create() {
  auto put = put_if_absent(key_, first_frame(state_.policy.initial_items), creation_ttl());
  if (!put) return std::move(put).error();
  return {};
}

Result<bool> StoreWriter::forget() {
  std::vector<std::string> slices;
  state_.shapes.forget(key_);
  if (state_.slices.windowed()) {
    // One slice more on either side, for clocks that differ.
    const std::int64_t newest = state_.slices.newest(state_.policy.clock);
    for (std::int64_t slice = newest + 1; slice >= newest - state_.slices.tested(); --slice) {
      slices.push_back(std::to_string(slice));
    }
  }
  const std::vector<std::string_view> arguments(slices.begin(), slices.end());
  auto reply = run(scripts::forget(), key_, arguments);
  if (!reply) return std::move(reply).error();
  if (reply->integer() == nullptr) return unexpected(*reply, "a count", key_);
  return *reply->integer() > 0;
}

Result<RecordOutcome> StoreWriter::add(std::span<const Digest> digests) {
  RecordOutcome total;
  for (std::size_t at = 0; at < digests.size() || at == 0;) {
    std::size_t count = digests.size() - at;
    auto done = add_some(digests.subspan(at), count);
    if (!done) return std::move(done).error();
    total.newly_added += done->newly_added;
    total.grew = total.grew || done->grew;
    at += std::max<std::size_t>(count, 1);
  }
  return total;
}

Result<RecordOutcome> StoreWriter::add_some(std::span<const Digest> digests, std::size_t& count) {
  int bulk = 0;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (deadline_.passed()) break;
    const auto head = known_head(key_);
    Attempt outcome = std::optional<RecordOutcome>{};
    count = digests.size();
    if (head && !head->frame.building && must_grow(*head, digests.size())) {
      outcome = add_to_full(digests);
    } else if (head && bulk < bulk_attempts && is_bulk(*head, digests.size())) {
      ++bulk;
      outcome = add_by_swap(*head, digests);
    } else {
      // Without a known header the script is a question: nothing is added yet.
      if (head) count = std::min(digests.size(), items_in_one_script);
      outcome = add_by_script(head, digests.first(count));
    }
    if (!outcome) return std::move(outcome).error();
    if (*outcome) return **outcome;
  }
  return conflict();
}

bool StoreWriter::must_grow(const Head& head, std::size_t more) const {
  return growable_ && head.frame.header.items + std::uint64_t{more} > state_.capacity_of(head.frame.header);
}

std::string StoreWriter::packed(const FilterHeader& header, std::span<const Digest> digests) {
  constexpr std::size_t entry_bytes = 4 + detail::block_bytes;
  std::string out(digests.size() * entry_bytes, '\0');
  std::byte* at = std::as_writable_bytes(std::span(out)).data();
  for (const Digest digest : digests) {
    const auto block = detail::block_index(digest, header.shape.bits / split_block_bits);
    detail::store_le(at, static_cast<std::uint32_t>(block));
    for (std::size_t word = 0; word < detail::block_words; ++word) {
      detail::store_le(at + 4 + 4 * word, detail::block_mask_word(digest, word));
    }
    at += entry_bytes;
  }
  return out;
}

StoreWriter::Attempt StoreWriter::add_by_script(const std::optional<Head>& head, std::span<const Digest> digests) {
  const std::string items = head ? packed(head->frame.header, digests) : std::string{};
  const std::string ttl = state_.refresh_ttl_text();
  const std::array<std::string_view, 3> arguments{head ? std::string_view(head->identity) : std::string_view{}, items,
                                                  ttl};
  auto reply = run_add(arguments);
  if (!reply && reply.error().code == ErrorCode::truncated) return heal(digests, reply.error());
  if (!reply) return std::move(reply).error();
  if (reply->is_nil()) return add_to_missing(digests);
  if (reply->string() != nullptr) {
    auto learnt = learn(key_, *reply->string());
    if (!learnt) return heal(digests, learnt.error());
    return learnt;
  }
  auto added = take_added(head, *reply);
  if (!added) return std::move(added).error();
  return std::optional(*added);
}

Result<RecordOutcome> StoreWriter::take_added(const std::optional<Head>& head, const Reply& reply) {
  const auto* numbers = reply.array();
  if (!head || numbers == nullptr || numbers->size() != 3) return unexpected(reply, "three numbers", key_);
  const std::int64_t* added = (*numbers)[0].integer();
  const std::int64_t* count = (*numbers)[1].integer();
  if (added == nullptr || count == nullptr || *added < 0) return unexpected(reply, "three numbers", key_);
  update_items(key_, *head, static_cast<std::uint32_t>(*count));
  return RecordOutcome{.newly_added = static_cast<std::size_t>(*added), .grew = false};
}

Result<Reply> StoreWriter::run_add(std::span<const std::string_view> arguments) {
  auto reply = run(scripts::add(), key_, arguments);
  // The script's own word for a value of another length than its headers say.
  if (!reply && reply.error().message.starts_with("DAMAGED")) {
    return Error{ErrorCode::truncated, std::move(reply).error().message};
  }
  return reply;
}

StoreWriter::Attempt StoreWriter::add_to_full(std::span<const Digest> digests) {
  auto value = read_value(key_);
  if (!value) return std::move(value).error();
  if (!*value) return add_to_missing(digests);
  const auto frames = decode_frames(**value, state_.hash);
  if (!frames) return heal(digests, frames.error());
  // With a history the filters behind the first are about to be dropped (`compact`), and what one of them holds by
  // chance would go with it.
  const auto asked = std::span(*frames).first(history_ ? 1 : frames->size());
  const auto held = [&](Digest digest) {
    const auto* const bytes = std::as_bytes(std::span(**value)).data();
    return std::any_of(asked.begin(), asked.end(), [&](const Frame& frame) {
      return SplitBlockLayout::test(bytes + frame.bits_at, frame.header.shape, digest);
    });
  };
  std::vector<Digest> fresh = distinct(digests);
  std::erase_if(fresh, held);
  const Head head{frames->front(), identity_of(**value)};
  if (must_grow(head, fresh.size())) return grow(head, fresh);
  // Also when none is left: the sequence tells a builder that read the history before that something was recorded.
  std::optional<RecordOutcome> total{RecordOutcome{}};
  for (std::size_t at = 0; at == 0 || at < fresh.size(); at += items_in_one_script) {
    const auto rest = std::span(fresh).subspan(at);
    auto added = add_by_script(head, rest.first(std::min(rest.size(), items_in_one_script)));
    if (!added || !*added) return added;
    total->newly_added += (*added)->newly_added;
  }
  return total;
}

StoreWriter::Attempt StoreWriter::add_by_swap(const Head& head, std::span<const Digest> digests) {
  Command get;
  get.add("GET").add_key(key_);
  auto reply = execute_one(*state_.executor, get, step_deadline());
  if (!reply) return named(std::move(reply).error(), key_);
  std::string* value = reply->string();
  if (value == nullptr) return add_to_missing(digests);
  auto frames = decode_frames(*value, state_.hash);
  if (!frames) return heal(digests, frames.error());
  const Frame* const frame = &frames->front();
  const std::string identity = identity_of(*value);
  if (identity != head.identity) return learn(key_, std::string_view(*value).substr(0, header_bytes));
  const FilterHeader before = frame->header;
  const std::size_t added = insert_into_first(*value, before, digests);
  const std::string sequence = std::to_string(before.sequence);
  const std::string ttl = frame->building ? std::string{} : state_.refresh_ttl_text();
  const std::array<std::string_view, 4> arguments{identity, sequence, *value, ttl};
  auto swapped = run(scripts::swap(), key_, arguments);
  if (!swapped) return std::move(swapped).error();
  if (swapped->is_nil()) return add_to_missing(digests);
  if (swapped->string() != nullptr) return learn(key_, *swapped->string());
  if (swapped->integer() == nullptr) return unexpected(*swapped, "0 or 1", key_);
  if (*swapped->integer() == 0) return std::optional<RecordOutcome>{};
  update_items(key_, head, static_cast<std::uint32_t>(before.items + added));
  return std::optional(RecordOutcome{.newly_added = added, .grew = false});
}

StoreWriter::Attempt StoreWriter::add_to_missing(std::span<const Digest> digests) {
  state_.shapes.forget(key_);
  if (history_) return create_from_history(digests);
  std::string value = first_frame(std::max<std::uint64_t>(state_.policy.initial_items, distinct(digests).size()));
  const std::size_t added = insert_fresh(value, digests);
  auto put = put_if_absent(key_, value, creation_ttl());
  if (!put) return std::move(put).error();
  if (!*put) return std::optional<RecordOutcome>{};
  remember_fresh(key_, value);
  return std::optional(RecordOutcome{.newly_added = added, .grew = false});
}

std::optional<StoreWriter::Head> StoreWriter::known_head(const std::string& key) const {
  const auto shape = state_.shapes.find(key);
  if (!shape) return std::nullopt;
  return Head{shape->frames.front(), shape->identity};
}

Result<std::optional<StoreWriter::Head>> StoreWriter::read_head(const std::string& key) {
  Command get;
  get.add("GETRANGE").add_key(key).add("0").add(static_cast<std::int64_t>(header_bytes - 1));
  auto reply = execute_one(*state_.executor, get, step_deadline());
  if (!reply) return named(std::move(reply).error(), key);
  if (reply->string() == nullptr) return unexpected(*reply, "a header", key);
  if (reply->string()->empty()) {
    state_.shapes.forget(key);
    return std::optional<Head>{};
  }
  if (auto learnt = learn(key, *reply->string()); !learnt) return std::move(learnt).error();
  return known_head(key);
}

StoreWriter::Attempt StoreWriter::learn(const std::string& key, std::string_view header) {
  // Only the header is here; whether the rest is as long as it says is for those who read it.
  auto frame = decode_frame(header, 0, std::numeric_limits<std::uint64_t>::max(), state_.hash);
  if (!frame) return named(std::move(frame).error(), key);
  state_.remember(key, header, {*frame}, false, 0);
  return std::optional<RecordOutcome>{};
}

void StoreWriter::update_items(const std::string& key, const Head& head, std::uint32_t items) {
  const auto shape = state_.shapes.find(key);
  if (!shape || shape->identity != head.identity) return;
  auto updated = std::make_shared<Shape>(*shape);
  updated->frames.front().header.items = items;
  state_.shapes.put(key, std::move(updated));
}

void StoreWriter::remember_fresh(const std::string& key, std::string_view value) {
  auto frame = decode_frame(value, 0, value.size(), state_.hash);
  if (frame) state_.remember(key, value, {*frame}, false, value.size());
}

Result<std::optional<std::string>> StoreWriter::read_value(const std::string& key) {
  Command get;
  get.add("GET").add_key(key);
  auto reply = execute_one(*state_.executor, get, step_deadline());
  if (!reply) return named(std::move(reply).error(), key);
  if (reply->is_nil()) return std::optional<std::string>{};
  if (reply->string() == nullptr) return unexpected(*reply, "a filter", key);
  return std::optional(std::move(*reply->string()));
}

Result<Reply> StoreWriter::run(const Script& script, const std::string& key,
                               std::span<const std::string_view> arguments) {
  const std::string_view view = key;
  auto reply = execute_script(*state_.executor, script, {&view, 1}, arguments, step_deadline());
  if (!reply) return named(std::move(reply).error(), key);
  return reply;
}

Command StoreWriter::put_command(const std::string& key, const std::string& value, std::int64_t ttl) {
  Command set;
  set.add("SET").add_key(key).add(value).add("NX");
  if (ttl > 0) set.add("PX").add(ttl);
  return set;
}

Result<bool> StoreWriter::put_if_absent(const std::string& key, const std::string& value, std::int64_t ttl) {
  auto reply = execute_one(*state_.executor, put_command(key, value, ttl), step_deadline());
  if (!reply) return named(std::move(reply).error(), key);
  return !reply->is_nil();
}

std::optional<FilterShape> StoreWriter::shape_for(std::uint64_t items, double fpr) const {
  // Ten bits an item at the least; far past the limit the sizing itself would refuse.
  if (items > largest_value_bytes) return std::nullopt;
  const FilterShape shape = SplitBlockLayout::shape_for(items, fpr);
  if (shape.bytes() > largest_value_bytes) return std::nullopt;
  return shape;
}

std::string StoreWriter::first_frame(std::uint64_t items) const {
  const double fpr = history_ ? state_.fpr : state_.fpr / 2;
  return make_frame(SplitBlockLayout::shape_for(items, fpr), fpr, state_.hash);
}

std::size_t StoreWriter::insert_fresh(std::string& value, std::span<const Digest> digests) const {
  const auto frame = decode_frame(value, 0, value.size(), state_.hash);
  return insert_into_first(value, frame->header, digests);
}

Result<std::vector<Digest>> StoreWriter::read_history() const {
  auto read = history_(all_time);
  if (!read) return std::move(read).error();
  std::vector<Digest> digests;
  digests.reserve(read->size());
  for (const SeenDigest& seen : *read) digests.push_back(seen.digest);
  return digests;
}

std::int64_t StoreWriter::creation_ttl() const {
  return state_.options.time_to_live == TimeToLive::none ? 0 : px(state_.options.ttl);
}

Error StoreWriter::conflict() const {
  if (deadline_.passed()) {
    return named({ErrorCode::timed_out, "seenby::redis: the deadline passed while others kept changing it"}, key_);
  }
  return named({ErrorCode::conflict, "seenby::redis: others kept changing it"}, key_);
}

StoreProtocol::StoreProtocol(std::shared_ptr<Executor> executor, const StorePolicy& policy, RedisStoreOptions options,
                             HashKind hash, std::uint16_t seed_check)
    : state_(std::make_unique<StoreState>(std::move(executor), policy, std::move(options),
                                          HashIdentity{hash, seed_check})) {}
StoreProtocol::~StoreProtocol() = default;

Result<RecordOutcome> StoreProtocol::record(const std::string& user, std::span<const Digest> digests, ItemKind kind,
                                            const ReadSeen& history, std::optional<Time> when) {
  Result<RecordOutcome> outcome = RecordOutcome{};
  if (auto right = state_->claim_kind(kind, Deadline::after(state_->timeout)); !right) {
    outcome = std::move(right).error();
  } else if (state_->slices.windowed()) {
    const std::vector<Time> times(when ? digests.size() : 0, when.value_or(Time{}));
    const std::vector<SlicedDigest> items = state_->in_window(digests, times);
    if (!items.empty() || digests.empty()) outcome = TableWriter(*state_, user, history).record(items);
  } else {
    outcome = StoreWriter(*state_, user, history).record(digests);
  }
  (outcome ? state_->records : state_->write_failures).fetch_add(digests.size(), std::memory_order_relaxed);
  return outcome;
}

Result<void> StoreProtocol::create(const std::string& user) {
  if (state_->slices.windowed()) return TableWriter(*state_, user, {}).create();
  return StoreWriter(*state_, user, {}).create();
}
Result<bool> StoreProtocol::forget(const std::string& user) { return StoreWriter(*state_, user, {}).forget(); }
Result<void> StoreProtocol::rebuild(const std::string& user, const ReadSeen& history) {
  if (state_->slices.windowed()) return TableWriter(*state_, user, history).rebuild();
  return StoreWriter(*state_, user, history).rebuild();
}

Result<void> StoreProtocol::forget_kind() const {
  Command unlink;
  unlink.add("UNLINK").add_key(state_->kind_key());
  auto reply = execute_one(*state_->executor, unlink, Deadline::after(state_->timeout));
  if (!reply) return named(std::move(reply).error(), state_->kind_key());
  return {};
}

StoreCounters StoreProtocol::counters() const noexcept {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  return {.users = 0,
          .records = read(state_->records),
          .write_failures = read(state_->write_failures),
          .growths = read(state_->growths),
          .rebuilds = read(state_->rebuilds),
          .over_budget = read(state_->over_budget),
          .slices_dropped = read(state_->slices_dropped)};
}

std::string StoreProtocol::key_of(std::string_view user) const { return state_->key_of(user); }
std::string StoreProtocol::slice_key_of(std::string_view user, std::int64_t slice) const {
  return state_->slice_key(state_->key_of(user), slice);
}
Executor& StoreProtocol::executor() const noexcept { return *state_->executor; }

}  // namespace seenby::redis
