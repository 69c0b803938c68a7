// SPDX-License-Identifier: MIT
#include <utility>

#include "redis/protocol/shared_set_state.hpp"
#include "seenby/sizing.hpp"

namespace seenby::redis {
namespace {

/// The field that counts the adds of a digest and of some others.
std::string adds_field(Digest digest) { return std::string("adds ").append(std::to_string(digest.value % 32)); }

GateState state_named(const Reply& name) {
  for (const GateState state : {GateState::loading, GateState::ready, GateState::rebuilding}) {
    if (name.string() != nullptr && *name.string() == to_string(state)) return state;
  }
  return GateState::distrusted;
}

}  // namespace

Result<GateLookup> SharedSetProtocol::look_up(Digest digest) {
  for (int attempt = 0; attempt < State::most_attempts; ++attempt) {
    auto versions = state_->serving();
    if (!versions) return std::move(versions).error();
    // The adds first: one that the block does not show yet, or the memory does not, is not among them.
    const std::vector<Command> batch{
        Command::with_key(1, "HMGET", state_->key, "current", "trust", adds_field(digest)),
        state_->read_block(*versions, digest),
        Command::with_key(1, "EXISTS", std::string(state_->key).append(":absent:").append(bytes_of(digest)))};
    auto replies = state_->run(batch);
    if (!replies) return std::move(replies).error();
    const Reply::Array* const now = (*replies)[0].array();
    if (now == nullptr || now->size() != 3) return state_->unexpected("three fields", (*replies)[0]);
    if (number((*now)[0]) != versions->current) {
      state_->forget_versions();
      continue;
    }
    GateLookup found{.version = versions->current, .adds = number((*now)[2])};
    if ((*now)[1].string() != nullptr) return found;  // not believed
    const std::string* const block = (*replies)[1].string();
    if (block == nullptr || block->size() != 32) return state_->lost();
    found.existence = block_holds(*block, digest) ? Existence::maybe : Existence::absent;
    found.remembered = (*replies)[2].integer() != nullptr && *(*replies)[2].integer() == 1;
    return found;
  }
  return state_->moved_on();
}

Result<bool> SharedSetProtocol::remember_absent(Digest digest, const GateLookup& before,
                                                std::chrono::milliseconds ttl) {
  auto done = state_->script(scripts::remember_absent(),
                             {std::to_string(before.version), adds_field(digest), std::to_string(before.adds),
                              bytes_of(digest), std::to_string(px(ttl))});
  if (!done) return std::move(done).error();
  return done->integer() != nullptr && *done->integer() == 1;
}

Result<bool> SharedSetProtocol::recently_added(Digest digest) {
  const Command asked =
      Command::with_key(1, "ZSCORE", std::string(state_->key).append(":recent"), std::string_view(bytes_of(digest)));
  auto score = execute_one(*state_->executor, asked, state_->deadline());
  if (!score) return state_->named(score.error().code, score.error().message);
  return score->string() != nullptr;
}

Result<void> SharedSetProtocol::advance(std::uint64_t position) {
  auto done = state_->mark("position", position);
  if (!done) return std::move(done).error();
  return {};
}
Result<bool> SharedSetProtocol::mark(GateState state) { return state_->mark(to_string(state), 0); }
Result<bool> SharedSetProtocol::State::mark(std::string_view what, std::uint64_t position) {
  std::string digits = std::to_string(position);
  digits.insert(0, 20 - digits.size(), '0');  // so that text compares as numbers do: Lua's end at 2^53
  auto done = script(scripts::mark_gate(), {std::string(what), digits});
  if (!done) return std::move(done).error();
  if (done->integer() == nullptr) return missing();
  return *done->integer() == 1;
}

Result<GateStatus> SharedSetProtocol::status() {
  auto told = state_->script(scripts::gate_status(), {});
  if (!told) return std::move(told).error();
  const Reply::Array* const fields = told->array();
  if (fields == nullptr) return GateStatus{};
  if (fields->size() != 7 || (*fields)[6].string() == nullptr) return state_->unexpected("seven fields", *told);
  const auto milliseconds = [&](std::size_t i) {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::milliseconds(number((*fields)[i])));
  };
  auto shape = state_->checked(SetShape::decode(*(*fields)[6].string()));
  if (!shape) return std::move(shape).error();
  GateStatus status{.state = state_named((*fields)[0]),
                    .version = number((*fields)[1]),
                    .position = number((*fields)[2]),
                    .age = milliseconds(3),
                    .lag = milliseconds(4),
                    .items = number((*fields)[5]),
                    .capacity = shape->expected_items};
  const std::uint64_t bits = shape->partition_bytes() * 8 * shape->partitions;
  if (status.items > 0) status.expected_fpr = sizing::expected_fpr({LayoutKind::split_block, 8, bits}, status.items);
  return status;
}

}  // namespace seenby::redis
