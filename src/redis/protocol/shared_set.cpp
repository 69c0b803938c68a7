// SPDX-License-Identifier: MIT
#include "seenby/redis/shared_set.hpp"

#include <algorithm>
#include <utility>

#include "redis/protocol/shared_set_state.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/detail/sizing_math.hpp"

namespace seenby::redis {

SharedSetProtocol::SharedSetProtocol(std::shared_ptr<Executor> executor, const std::string& name,
                                     SharedSetOptions options, HashKind hash, std::uint16_t seed_check)
    : state_(std::make_unique<State>(std::move(executor), name, std::move(options), hash, seed_check)) {}
SharedSetProtocol::~SharedSetProtocol() = default;

Result<bool> SharedSetProtocol::create() {
  const SetShape shape = state_->shape_of_items(state_->options.expected_items);
  auto known = state_->load();
  if (known && known->current != 0) return false;
  if (!known && known.error().code != ErrorCode::unavailable) return std::move(known).error();
  // The bits first, then the name: a client that finds the name finds the bits.
  auto version = state_->make_bits(shape);
  if (!version) return std::move(version).error();
  auto published = state_->script(scripts::publish_set(),
                                  {std::to_string(*version), shape.encode(), std::to_string(shape.partitions)});
  if (!published) return std::move(published).error();
  state_->forget_versions();
  if (const auto* made = published->integer()) return *made == 1;
  return state_->unexpected("an integer", *published);
}

Result<bool> SharedSetProtocol::add(std::span<const Digest> digests, std::span<std::uint8_t> fresh) {
  Result<bool> over = false;
  for (std::size_t at = 0; over && at < digests.size(); at += State::most_items) {
    const auto part = digests.subspan(at, std::min(State::most_items, digests.size() - at));
    over = state_->add_part(part, fresh.empty() ? fresh : fresh.subspan(at, part.size()));
  }
  return over;
}

Result<void> SharedSetProtocol::check(std::span<const Digest> digests, std::span<std::uint8_t> out) {
  for (int attempt = 0; attempt < State::most_attempts; ++attempt) {
    auto versions = state_->serving();
    if (!versions) return std::move(versions).error();
    auto current = state_->ask(*versions, digests, out);
    if (!current) return std::move(current).error();
    if (*current) return {};
    state_->forget_versions();
  }
  return state_->moved_on();
}

Result<SharedSetInfo> SharedSetProtocol::info() {
  state_->forget_versions();
  auto versions = state_->serving();
  if (!versions) return std::move(versions).error();
  const SetShape& shape = versions->shape;
  return SharedSetInfo{.version = versions->current,
                       .next = versions->next,
                       .items = versions->items,
                       .expected_items = shape.expected_items,
                       .target_fpr = shape.target_fpr,
                       .bytes = shape.partition_bytes() * shape.partitions};
}

Result<bool> SharedSetProtocol::drop() {
  auto dropped = state_->script(scripts::drop_set(), {});
  if (!dropped) return std::move(dropped).error();
  state_->forget_versions();
  if (const auto* there = dropped->integer()) return *there == 1;
  return state_->unexpected("an integer", *dropped);
}

Result<bool> SharedSetProtocol::State::add_part(std::span<const Digest> digests, std::span<std::uint8_t> fresh) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto versions = serving();
    if (!versions) return std::move(versions).error();
    const std::string positions = versions->shape.positions(digests);
    std::string next_positions;
    if (versions->next != 0) next_positions = versions->next_shape.positions(digests);
    std::string raw;
    if (options.write_lag.count() > 0) {
      for (const Digest digest : digests) raw.append(bytes_of(digest));
    }
    auto done = script(scripts::add_to_set(), {std::to_string(versions->current), std::to_string(versions->next),
                                               positions, next_positions, raw, std::to_string(px(options.write_lag))});
    if (!done) return std::move(done).error();
    const Reply::Array* const answer = done->array();
    const std::string* const flags = answer != nullptr && answer->size() == 2 ? answer->front().string() : nullptr;
    if (flags != nullptr && flags->size() == digests.size() && answer->back().integer() != nullptr) {
      for (std::size_t i = 0; i < fresh.size(); ++i) fresh[i] = (*flags)[i] == '1' ? 1 : 0;
      return static_cast<std::uint64_t>(*answer->back().integer()) > versions->shape.expected_items;
    }
    if (done->integer() == nullptr) return unexpected("what was new", *done);
    forget_versions();  // another version is asked, or in the making
  }
  return moved_on();
}

Result<bool> SharedSetProtocol::State::ask(const Versions& versions, std::span<const Digest> digests,
                                           std::span<std::uint8_t> out) {
  std::vector<Command> batch;
  batch.reserve(digests.size() + 1);
  batch.push_back(Command::with_key(1, "HGET", key, "current"));
  for (const Digest digest : digests) batch.push_back(read_block(versions, digest));
  auto replies = run(batch);
  if (!replies) return std::move(replies).error();
  if (number(replies->front()) != versions.current) return false;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const std::string* const block = (*replies)[i + 1].string();
    if (block == nullptr || block->size() != 32) return lost();
    out[i] = block_holds(*block, digests[i]) ? 1 : 0;
  }
  return true;
}

Result<std::vector<Digest>> SharedSetProtocol::State::digests_in(const Reply& reply) const {
  std::vector<Digest> digests;
  for (const Reply& each : *reply.array()) {
    if (each.string() == nullptr || each.string()->size() != 8) return unexpected("digests", each);
    digests.emplace_back(detail::load_le<std::uint64_t>(reinterpret_cast<const std::byte*>(each.string()->data())));
  }
  return digests;
}

Result<std::uint64_t> SharedSetProtocol::begin_rebuild(std::uint64_t expected_items) {
  // Where there is none, or no longer, it becomes the first: no lookup is told "absent" before it is whole.
  auto there = state_->load();
  if (!there && there.error().code != ErrorCode::unavailable) return std::move(there).error();
  detail::require_items(expected_items);
  const SetShape shape = state_->shape_of_items(expected_items);
  auto version = state_->make_bits(shape);
  if (!version) return version;
  auto begun = state_->script(scripts::begin_rebuild(), {std::to_string(*version), shape.encode(), state_->lease(),
                                                         std::to_string(shape.partitions)});
  state_->forget_versions();
  if (begun && begun->array() == nullptr) return state_->conflict("another rebuild is under way");
  // What was added to the set within write_lag.
  auto recent = begun ? state_->digests_in(*begun) : Result<std::vector<Digest>>(std::move(begun).error());
  auto carried = recent ? add_to(*version, *recent) : Result<void>(std::move(recent).error());
  if (carried) return version;
  // The server may think that it has begun: others would have to wait for the lease.
  (void)abandon(*version);
  return std::move(carried).error();
}

Result<void> SharedSetProtocol::add_to(std::uint64_t version, std::span<const Digest> digests) {
  for (std::size_t at = 0; at < digests.size(); at += State::most_items) {
    auto versions = state_->known();
    if (!versions) return std::move(versions).error();
    if (versions->next != version) return state_->gave_up(version);
    const std::string positions =
        versions->next_shape.positions(digests.subspan(at, std::min(State::most_items, digests.size() - at)));
    auto done = state_->script(scripts::add_to_next(), {std::to_string(version), positions, state_->lease()});
    if (!done) return std::move(done).error();
    if (done->integer() == nullptr) return state_->gave_up(version);
  }
  return {};
}

Result<void> SharedSetProtocol::commit(std::uint64_t version) {
  auto done =
      state_->script(scripts::commit_rebuild(), {std::to_string(version), std::to_string(px(state_->options.grace))});
  if (!done) return std::move(done).error();
  state_->forget_versions();
  if (done->integer() == nullptr) return state_->gave_up(version);
  return {};
}

Result<void> SharedSetProtocol::abandon(std::uint64_t version) {
  auto done = state_->script(scripts::abandon_rebuild(), {std::to_string(version)});
  state_->forget_versions();
  if (!done) return std::move(done).error();
  return {};
}

}  // namespace seenby::redis
