// SPDX-License-Identifier: MIT
// A record of many users: their steps share round trips; what needs more is done by itself.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "redis/protocol/store_scripts.hpp"
#include "redis/protocol/store_writer.hpp"
#include "redis/protocol/table_scripts.hpp"
#include "redis/protocol/table_writer.hpp"

namespace seenby::redis {
namespace {

/// A question, an add, a filter put where there is none: what is still open then meets other writers.
constexpr int shared_trips = 3;

}  // namespace

StoreWriter::Step StoreWriter::step(std::span<const Digest> digests) const { return {.digests = digests}; }

bool StoreWriter::plan(Step& step, std::vector<Command>& batch, std::vector<const Script*>& called) const {
  step.first_reply = batch.size();
  if (step.missing) {
    if (history_) return false;
    step.value = first_frame(std::max<std::uint64_t>(state_.policy.initial_items, distinct(step.digests).size()));
    step.added = insert_fresh(step.value, step.digests);
    batch.push_back(put_command(key_, step.value, creation_ttl()));
    called.push_back(nullptr);
  } else {
    step.head = known_head(key_);
    const std::size_t items = step.digests.size();
    if (step.head && (items > items_in_one_script || is_bulk(*step.head, items))) return false;
    if (step.head && !step.head->frame.building && must_grow(*step.head, items)) return false;
    // Without a known header the script is a question: nothing is added yet.
    const std::string packed_items = step.head ? packed(step.head->frame.header, step.digests) : std::string{};
    const std::string ttl = state_.refresh_ttl_text();
    const std::array<std::string_view, 3> arguments{
        step.head ? std::string_view(step.head->identity) : std::string_view{}, packed_items, ttl};
    const std::string_view key = key_;
    batch.push_back(scripts::add().call({&key, 1}, arguments));
    called.push_back(&scripts::add());
  }
  step.replies = batch.size() - step.first_reply;
  return true;
}

StoreWriter::Next StoreWriter::take(Step& step, std::span<const Reply> replies, Result<RecordOutcome>& outcome) {
  for (const Reply& reply : replies) {
    if (reply.error() == nullptr) continue;
    if (!is_down(reply.error()->code)) return Next::alone;
    outcome = named(*reply.error(), key_);
    return Next::done;
  }
  const Reply& reply = replies.front();
  if (step.missing) {
    step.missing = false;
    if (reply.is_nil()) return Next::again;
    remember_fresh(key_, step.value);
    outcome->newly_added += step.added;
    return Next::done;
  }
  if (reply.is_nil()) {
    state_.shapes.forget(key_);
    step.missing = true;
    return Next::again;
  }
  if (reply.string() != nullptr) return learn(key_, *reply.string()) ? Next::again : Next::alone;
  const auto added = take_added(step.head, reply);
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
      if (!records[i].digests.empty()) open_.push_back({i, writers_[i].step(records[i].digests)});
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
      if (!replies) outcome = named(replies.error(), state_.key_of(records_[open.record].user));
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
                      state_.key_of(records_[open.record].user));
      return;
    }
    const StoreProtocol::UserRecord& record = records_[open.record];
    auto done = StoreWriter(state_, record.user, record.history).record(open.step.digests);
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

/// The same for tables: one shared trip, since the first step needs to know nothing.
class ManyTables {
 public:
  ManyTables(StoreState& state, std::span<const StoreProtocol::UserRecord> records)
      : state_(state), records_(records), outcomes_(records.size(), RecordOutcome{}) {
    writers_.reserve(records.size());
    for (const StoreProtocol::UserRecord& record : records) {
      writers_.emplace_back(state, record.user, record.history);
      items_.push_back(state.in_window(record.digests, record.when));
    }
  }

  std::vector<Result<RecordOutcome>> run() {
    std::vector<Command> batch;
    std::vector<std::size_t> asked;
    std::vector<std::size_t> alone;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (items_[i].empty()) continue;  // all of it older than the window, and acknowledged
      auto command = writers_[i].command(items_[i]);
      if (command) batch.push_back(std::move(*command));
      (command ? asked : alone).push_back(i);
    }
    if (!batch.empty()) {
      const std::vector<const Script*> called(batch.size(), &scripts::add_to_table());
      const auto replies = execute_scripts(*state_.executor, batch, called, Deadline::after(state_.timeout));
      for (std::size_t at = 0; at < asked.size(); ++at) {
        if (!take(asked[at], replies ? Result<const Reply*>(&(*replies)[at]) : Result<const Reply*>(replies.error()))) {
          alone.push_back(asked[at]);
        }
      }
    }
    for (const std::size_t i : alone) record_alone(i);
    return std::move(outcomes_);
  }

 private:
  /// False where it takes round trips of its own.
  bool take(std::size_t i, const Result<const Reply*>& reply) {
    if (!reply) return outcomes_[i] = named(reply.error(), state_.key_of(records_[i].user)), true;
    const auto taken = writers_[i].take(**reply);
    if (!taken) {
      if (!is_down(taken.error().code)) return false;
      return outcomes_[i] = taken.error(), true;
    }
    if (*taken) outcomes_[i] = **taken;
    return taken->has_value();
  }
  /// With a deadline of its own; a server that is down is not asked for the rest.
  void record_alone(std::size_t i) {
    if (down_) {
      outcomes_[i] = named({*down_, "seenby::redis: the server did not answer for another user of this batch"},
                           state_.key_of(records_[i].user));
      return;
    }
    outcomes_[i] = TableWriter(state_, records_[i].user, records_[i].history).record(items_[i]);
    if (!outcomes_[i] && is_down(outcomes_[i].error().code)) down_ = outcomes_[i].error().code;
  }

  StoreState& state_;
  std::span<const StoreProtocol::UserRecord> records_;
  std::vector<TableWriter> writers_;
  std::vector<std::vector<SlicedDigest>> items_;
  std::vector<Result<RecordOutcome>> outcomes_;
  std::optional<ErrorCode> down_;
};

}  // namespace

std::vector<Result<RecordOutcome>> StoreProtocol::record_many(std::span<const UserRecord> records, ItemKind kind) {
  std::vector<Result<RecordOutcome>> outcomes;
  if (auto right = state_->claim_kind(kind, Deadline::after(state_->timeout)); right) {
    outcomes = state_->slices.windowed() ? ManyTables(*state_, records).run() : ManyWriter(*state_, records).run();
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
