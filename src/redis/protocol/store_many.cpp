// SPDX-License-Identifier: MIT
// A record of many users: their steps share round trips; what needs more is done by itself.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "redis/protocol/store_writer.hpp"

namespace seenby::redis {
namespace {

/// A question, an add, a filter put where there is none: what is still open then meets other writers.
constexpr int shared_trips = 3;

}  // namespace

StoreWriter::Step StoreWriter::step_in(std::int64_t slice, std::span<const Digest> digests) const {
  if (state_.slices.windowed()) return {.target = slice_target(slice), .digests = digests};
  return {.target = {.key = key_, .list = {}, .slice = 0}, .digests = digests};
}

bool StoreWriter::plan(Step& step, std::vector<Command>& batch, std::vector<const Script*>& called) const {
  step.first_reply = batch.size();
  if (step.missing) {
    if (history_ || !step.target.list.empty()) return false;
    step.value = first_frame(std::max<std::uint64_t>(state_.policy.initial_items, distinct(step.digests).size()));
    step.added = insert_fresh(step.value, step.digests);
    batch.push_back(put_command(step.target.key, step.value, creation_ttl()));
    called.push_back(nullptr);
  } else {
    step.head = known_head(step.target.key);
    const std::size_t items = step.digests.size();
    if (step.head && (items > items_in_one_script || is_bulk(*step.head, items))) return false;
    if (step.head && !step.head->frame.building && must_grow(*step.head, items)) return false;
    // Without a known header the script is a question: nothing is added yet.
    const std::string packed_items = step.head ? packed(step.head->frame.header, step.digests) : std::string{};
    const std::string ttl = refresh_ttl_text();
    const std::array<std::string_view, 3> arguments{
        step.head ? std::string_view(step.head->identity) : std::string_view{}, packed_items, ttl};
    append_add(step.target, arguments, batch, called);
  }
  step.replies = batch.size() - step.first_reply;
  return true;
}

StoreWriter::Next StoreWriter::take(Step& step, std::span<const Reply> replies, Result<RecordOutcome>& outcome) {
  for (const Reply& reply : replies) {
    if (reply.error() == nullptr) continue;
    if (!is_down(reply.error()->code)) return Next::alone;
    outcome = named(*reply.error(), step.target.key);
    return Next::done;
  }
  const Reply& reply = replies.front();
  if (step.missing) {
    step.missing = false;
    if (reply.is_nil()) return Next::again;
    remember_fresh(step.target.key, step.value);
    outcome->newly_added += step.added;
    return Next::done;
  }
  if (replies.size() > 1 && slices_lost(step.target, replies[1], replies[2])) return Next::alone;
  if (reply.is_nil()) {
    state_.shapes.forget(step.target.key);
    step.missing = true;
    return Next::again;
  }
  if (reply.string() != nullptr) return learn(step.target.key, *reply.string()) ? Next::again : Next::alone;
  const auto added = take_added(step.target, step.head, reply);
  if (!added) return Next::alone;
  outcome->newly_added += added->newly_added;
  return Next::done;
}

namespace {

/// One record of many, and the steps that are still open.
class ManyWriter {
 public:
  ManyWriter(StoreState& state, std::span<const StoreProtocol::UserRecord> records)
      : state_(state), records_(records), outcomes_(records.size(), RecordOutcome{}) {
    writers_.reserve(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      writers_.emplace_back(state, records[i].user, records[i].history);
      add_steps(i);
    }
  }

  std::vector<Result<RecordOutcome>> run() {
    for (int trip = 0; trip < shared_trips && !open_.empty(); ++trip) share_a_trip();
    alone_.insert(alone_.end(), open_.begin(), open_.end());
    for (const Open& open : alone_) record_alone(open);
    return std::move(outcomes_);
  }

 private:
  struct Open {
    std::size_t record;
    StoreWriter::Step step;
  };

  /// A step a slice; what is older than the window is acknowledged and not stored.
  void add_steps(std::size_t record) {
    const auto& [user, digests, when, history] = records_[record];
    const detail::SliceClock& slices = state_.slices;
    const std::int64_t newest = slices.newest(state_.policy.clock);
    const auto slice_at = [&, &times = when](std::size_t i) {
      return times.empty() || !slices.windowed() ? newest : std::min(slices.number(times[i]), newest);
    };
    for (std::size_t begin = 0; begin < digests.size();) {
      const std::int64_t slice = slice_at(begin);
      std::size_t end = begin + 1;
      while (end < digests.size() && slice_at(end) == slice) ++end;
      const auto part = digests.subspan(begin, end - begin);
      if (slice > newest - slices.tested()) open_.push_back({record, writers_[record].step_in(slice, part)});
      begin = end;
    }
  }

  void share_a_trip() {
    std::vector<Command> batch;
    std::vector<const Script*> called;
    std::erase_if(open_, [&](Open& open) {
      if (writers_[open.record].plan(open.step, batch, called)) return false;
      alone_.push_back(std::move(open));
      return true;
    });
    if (batch.empty()) return;
    const auto replies = execute_scripts(*state_.executor, batch, called, Deadline::after(state_.timeout));
    std::erase_if(open_, [&](Open& open) {
      Result<RecordOutcome>& outcome = outcomes_[open.record];
      if (!replies) outcome = named(replies.error(), open.step.target.key);
      if (!outcome) return true;
      const auto mine = std::span(*replies).subspan(open.step.first_reply, open.step.replies);
      const StoreWriter::Next next = writers_[open.record].take(open.step, mine, outcome);
      if (next == StoreWriter::Next::alone) alone_.push_back(open);
      return next != StoreWriter::Next::again;
    });
  }

  /// With a deadline of its own; a server that is down is not asked for the rest.
  void record_alone(const Open& open) {
    Result<RecordOutcome>& outcome = outcomes_[open.record];
    if (!outcome) return;
    if (down_) {
      outcome = named({*down_, "seenby::redis: the server did not answer for another user of this batch"},
                      open.step.target.key);
      return;
    }
    const StoreProtocol::UserRecord& record = records_[open.record];
    auto done = StoreWriter(state_, record.user, record.history).record_in(open.step.target.slice, open.step.digests);
    if (done) {
      outcome->newly_added += done->newly_added;
      outcome->grew = outcome->grew || done->grew;
      return;
    }
    if (is_down(done.error().code)) down_ = done.error().code;
    outcome = std::move(done);
  }

  StoreState& state_;
  std::span<const StoreProtocol::UserRecord> records_;
  std::vector<StoreWriter> writers_;
  std::vector<Open> open_;
  std::vector<Open> alone_;
  std::vector<Result<RecordOutcome>> outcomes_;
  std::optional<ErrorCode> down_;
};

}  // namespace

std::vector<Result<RecordOutcome>> StoreProtocol::record_many(std::span<const UserRecord> records, ItemKind kind) {
  std::vector<Result<RecordOutcome>> outcomes;
  if (auto right = state_->claim_kind(kind, Deadline::after(state_->timeout)); right) {
    outcomes = ManyWriter(*state_, records).run();
  } else {
    outcomes.assign(records.size(), right.error());
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto& counter = outcomes[i] ? state_->records : state_->write_failures;
    counter.fetch_add(records[i].digests.size(), std::memory_order_relaxed);
  }
  return outcomes;
}

}  // namespace seenby::redis
