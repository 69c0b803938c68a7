// SPDX-License-Identifier: MIT
#include "redis/protocol/shared_set_state.hpp"

#include <charconv>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "redis/protocol/replies.hpp"
#include "seenby/detail/sizing_math.hpp"

namespace seenby::redis {

std::uint64_t number(const Reply& reply) {
  std::uint64_t value = 0;
  if (const std::string* text = reply.string()) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

SharedSetProtocol::State::State(std::shared_ptr<Executor> set_executor, const std::string& name,
                                SharedSetOptions set_options, HashKind set_hash, std::uint16_t set_seed_check)
    : executor(std::move(set_executor)),
      options(std::move(set_options)),
      key(std::string(options.prefix).append("{").append(name).append("}")),
      hash(set_hash),
      seed_check(set_seed_check) {
  if (!executor) throw std::invalid_argument("seenby::redis: expected an executor, got none");
  detail::require_items(options.expected_items);
  detail::require_rate(options.target_fpr, "target_fpr");
  require_prefix(options.prefix);
  if (name.empty() || name.find_first_of("{}") != std::string::npos) {
    throw std::invalid_argument("seenby::redis: expected a set's name without braces, got \"" + name + "\"");
  }
  if (options.timeout.count() <= 0 || options.build_lease.count() <= 0 || options.write_lag.count() < 0 ||
      options.grace.count() < 0) {
    throw std::invalid_argument(
        "seenby::redis: expected a timeout and a build_lease above zero and no negative write_lag or grace");
  }
}

Result<Reply> SharedSetProtocol::State::script(const Script& what, std::initializer_list<std::string> arguments) {
  const std::string_view keys[] = {key};
  std::vector<std::string_view> views(arguments.begin(), arguments.end());
  auto reply = execute_script(*executor, what, keys, views, deadline());
  if (reply) return reply;
  return reply.error().message.starts_with("LOST") ? lost() : named(reply.error().code, reply.error().message);
}

Result<std::vector<Reply>> SharedSetProtocol::State::run(const std::vector<Command>& batch) {
  auto replies = execute_batch(*executor, batch, deadline());
  if (!replies) return named(replies.error().code, replies.error().message);
  for (const Reply& reply : *replies) {
    if (reply.is_error()) return named(reply.error()->code, reply.error()->message);
  }
  return replies;
}

Result<Versions> SharedSetProtocol::State::known() {
  {
    const std::lock_guard lock(mutex_);
    if (versions_) return *versions_;
  }
  return load();
}

Result<Versions> SharedSetProtocol::State::serving() {
  auto versions = known();
  if (versions && versions->current == 0) return missing();
  return versions;
}

void SharedSetProtocol::State::forget_versions() {
  const std::lock_guard lock(mutex_);
  versions_.reset();
}

Result<Versions> SharedSetProtocol::State::load() {
  auto reply = execute_one(*executor, Command::with_key(1, "HGETALL", key), deadline());
  if (!reply) return named(reply.error().code, reply.error().message);
  const Reply::Array* const fields = reply->array();
  if (fields == nullptr) return unexpected("a hash", *reply);
  std::map<std::string, const Reply*> by_name;
  for (std::size_t i = 0; i + 1 < fields->size(); i += 2) {
    if ((*fields)[i].string() != nullptr) by_name[*(*fields)[i].string()] = &(*fields)[i + 1];
  }
  Versions found;
  if (by_name.contains("current")) found.current = number(*by_name["current"]);
  if (by_name.contains("next")) found.next = number(*by_name["next"]);
  if (found.current == 0 && found.next == 0) return missing();
  if (found.current != 0) {
    auto shape = shape_of(by_name, found.current);
    if (!shape) return std::move(shape).error();
    found.shape = *shape;
    if (const auto items = by_name.find(field("items", found.current)); items != by_name.end()) {
      found.items = number(*items->second);
    }
  }
  if (found.next != 0) {
    auto next = shape_of(by_name, found.next);
    if (!next) return std::move(next).error();
    found.next_shape = *next;
  }
  if (found.current == 0) return found;  // not for long
  const std::lock_guard lock(mutex_);
  versions_ = found;
  return found;
}

Result<SetShape> SharedSetProtocol::State::shape_of(const std::map<std::string, const Reply*>& fields,
                                                    std::uint64_t version) const {
  const auto found = fields.find(field("shape", version));
  return checked(found == fields.end() || found->second->string() == nullptr
                     ? std::nullopt
                     : SetShape::decode(*found->second->string()));
}

Result<SetShape> SharedSetProtocol::State::checked(std::optional<SetShape> shape) const {
  if (!shape) return named(ErrorCode::corrupt, "expected the shape of its version, got none that can be read");
  if (shape->hash != static_cast<std::uint32_t>(hash) || shape->seed_check != seed_check) {
    return named(ErrorCode::parameter_mismatch, "expected digests of this hash and seed, it was made under another");
  }
  return *shape;
}

Result<std::uint64_t> SharedSetProtocol::State::make_bits(const SetShape& shape) {
  // A server that lost its data must not count from 1 again: to a process that knows another version 1, of another
  // size, every item would be absent. So the count begins at the time.
  const std::string counter = key + ":versions";
  const std::int64_t ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const std::vector<Command> counted{Command::with_key(1, "SET", counter, ms, "NX"),
                                     Command::with_key(1, "INCR", counter)};
  auto replies = run(counted);
  if (!replies) return std::move(replies).error();
  if (replies->back().integer() == nullptr) return unexpected("a version number", replies->back());
  const auto version = static_cast<std::uint64_t>(*replies->back().integer());
  std::vector<Command> batch;
  for (std::uint32_t partition = 0; partition < shape.partitions; ++partition) {
    const std::string bits = partition_key(version, partition);
    const auto last = static_cast<std::int64_t>(shape.partition_bytes()) - 1;
    batch.push_back(Command::with_key(1, "SETRANGE", bits, last, std::string_view("\0", 1)));
    batch.push_back(Command::with_key(1, "PEXPIRE", bits, px(options.build_lease)));
  }
  auto made = run(batch);
  if (!made) return std::move(made).error();
  return version;
}

Command SharedSetProtocol::State::read_block(const Versions& versions, Digest digest) const {
  const auto from = std::int64_t{versions.shape.block_of(digest)} * 32;
  const std::string bits = partition_key(versions.current, versions.shape.partition_of(digest));
  return Command::with_key(1, "GETRANGE", bits, from, from + 31);
}

}  // namespace seenby::redis
