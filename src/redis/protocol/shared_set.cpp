// SPDX-License-Identifier: MIT
#include "seenby/redis/shared_set.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/replies.hpp"
#include "redis/protocol/shared_set_scripts.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/detail/sizing_math.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/sizing.hpp"

namespace seenby::redis {
namespace {

/// A version's bits: `partitions` strings of `blocks` blocks each.
struct Shape {
  std::uint32_t partitions = 1;
  std::uint32_t blocks = 1;
  std::uint64_t expected_items = 0;
  double target_fpr = 0;
  std::uint32_t hash = 0;
  std::uint32_t seed_check = 0;

  [[nodiscard]] std::uint64_t partition_bytes() const noexcept { return std::uint64_t{blocks} * 32; }
  [[nodiscard]] std::uint32_t partition_of(Digest digest) const noexcept {
    return static_cast<std::uint32_t>(detail::multiply_high(detail::mix64(digest.value), partitions));
  }
  [[nodiscard]] std::uint32_t block_of(Digest digest) const noexcept {
    return static_cast<std::uint32_t>(detail::split_block_offset(digest, blocks) / 32);
  }
};

/// At most a mebibyte a string: Redis copies one whole when it grows or is sent to a replica.
constexpr std::uint64_t largest_partition_blocks = 32'768;

Shape shape_for(std::uint64_t items, double fpr, HashKind hash, std::uint16_t seed_check) {
  const std::uint64_t blocks = sizing::shape_for(LayoutKind::split_block, items, fpr).bits / split_block_bits;
  Shape shape{.expected_items = items, .target_fpr = fpr, .hash = static_cast<std::uint32_t>(hash)};
  shape.seed_check = seed_check;
  shape.partitions = static_cast<std::uint32_t>((blocks + largest_partition_blocks - 1) / largest_partition_blocks);
  shape.blocks = static_cast<std::uint32_t>((blocks + shape.partitions - 1) / shape.partitions);
  return shape;
}

std::string encode(const Shape& shape) {
  std::string text;
  for (const std::uint64_t field : {std::uint64_t{shape.partitions}, std::uint64_t{shape.blocks}, shape.expected_items,
                                    std::uint64_t{shape.hash}, std::uint64_t{shape.seed_check}}) {
    text.append(std::to_string(field)).append(" ");
  }
  return text.append(detail::text_of(shape.target_fpr));
}

std::optional<Shape> decode(std::string_view text) {
  Shape shape;
  std::uint64_t fields[5] = {};
  for (std::uint64_t& field : fields) {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), field);
    if (failure != std::errc{} || end == text.data() + text.size() || *end != ' ') return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  }
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), shape.target_fpr);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (fields[0] < 1 || fields[0] > 65'536 || fields[1] < 1 || fields[1] > largest_partition_blocks) return std::nullopt;
  shape.partitions = static_cast<std::uint32_t>(fields[0]);
  shape.blocks = static_cast<std::uint32_t>(fields[1]);
  shape.expected_items = fields[2];
  shape.hash = static_cast<std::uint32_t>(fields[3]);
  shape.seed_check = static_cast<std::uint32_t>(fields[4]);
  return shape;
}

std::uint64_t number(const Reply& reply) {
  std::uint64_t value = 0;
  if (const std::string* text = reply.string()) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

/// Digest positions in a version, as the scripts take them: u32 partition, u32 block, eight u32 words of mask.
void append_positions(std::string& out, const Shape& shape, std::span<const Digest> digests) {
  for (const Digest digest : digests) {
    std::byte bytes[40];
    detail::store_le(bytes, shape.partition_of(digest));
    detail::store_le(bytes + 4, shape.block_of(digest));
    for (std::size_t word = 0; word < 8; ++word) {
      detail::store_le(bytes + 8 + 4 * word, detail::split_block_bit(digest, word));
    }
    out.append(reinterpret_cast<const char*>(bytes), sizeof bytes);
  }
}

bool holds(std::string_view block, Digest digest) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(block.data());
  for (std::size_t word = 0; word < 8; ++word) {
    const std::uint32_t bit = detail::split_block_bit(digest, word);
    if ((detail::load_le<std::uint32_t>(bytes + 4 * word) & bit) == 0) return false;
  }
  return true;
}

std::string bytes_of(Digest digest) {
  std::byte bytes[8];
  detail::store_le(bytes, digest.value);
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

/// The field that counts the adds of a digest and of some others.
std::string adds_field(Digest digest) { return std::string("adds ").append(std::to_string(digest.value % 32)); }

GateState state_named(const Reply& name) {
  for (const GateState state : {GateState::loading, GateState::ready, GateState::rebuilding}) {
    if (name.string() != nullptr && *name.string() == to_string(state)) return state;
  }
  return GateState::distrusted;
}

/// What a process knows of a set: which version is asked, which is in the making, and how they are shaped.
struct Versions {
  std::uint64_t current = 0;
  std::uint64_t next = 0;
  Shape shape{};
  Shape next_shape{};
  std::uint64_t items = 0;  ///< of the current version, when it was read
};

}  // namespace

class SharedSetProtocol::State {
 public:
  State(std::shared_ptr<Executor> executor, const std::string& name, SharedSetOptions options, HashKind hash,
        std::uint16_t seed_check)
      : executor_(std::move(executor)),
        options_(std::move(options)),
        key_(std::string(options_.prefix).append("{").append(name).append("}")),
        hash_(hash),
        seed_check_(seed_check) {
    if (!executor_) throw std::invalid_argument("seenby::redis: expected an executor, got none");
    detail::require_items(options_.expected_items);
    detail::require_rate(options_.target_fpr, "target_fpr");
    require_prefix(options_.prefix);
    if (name.empty() || name.find_first_of("{}") != std::string::npos) {
      throw std::invalid_argument("seenby::redis: expected a set's name without braces, got \"" + name + "\"");
    }
    if (options_.timeout.count() <= 0 || options_.build_lease.count() <= 0 || options_.write_lag.count() < 0 ||
        options_.grace.count() < 0) {
      throw std::invalid_argument(
          "seenby::redis: expected a timeout and a build_lease above zero and no negative write_lag or grace");
    }
  }

  Result<bool> create() {
    const Shape shape = shape_for(options_.expected_items, options_.target_fpr, hash_, seed_check_);
    auto known = load();
    if (known && known->current != 0) return false;
    if (!known && known.error().code != ErrorCode::unavailable) return std::move(known).error();
    // The bits first, then the name: a client that finds the name finds the bits.
    auto version = make_bits(shape);
    if (!version) return std::move(version).error();
    auto published =
        script(scripts::publish_set(), {std::to_string(*version), encode(shape), std::to_string(shape.partitions)});
    if (!published) return std::move(published).error();
    forget_versions();
    if (const auto* made = published->integer()) return *made == 1;
    return unexpected("an integer", *published);
  }

  Result<bool> add(std::span<const Digest> digests, std::span<std::uint8_t> fresh) {
    Result<bool> over = false;
    for (std::size_t at = 0; over && at < digests.size(); at += most_items) {
      const auto part = digests.subspan(at, std::min(most_items, digests.size() - at));
      over = add_part(part, fresh.empty() ? fresh : fresh.subspan(at, part.size()));
    }
    return over;
  }

  Result<void> check(std::span<const Digest> digests, std::span<std::uint8_t> out) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      auto versions = serving();
      if (!versions) return std::move(versions).error();
      auto current = ask(*versions, digests, out);
      if (!current) return std::move(current).error();
      if (*current) return {};
      forget_versions();
    }
    return moved_on();
  }

  Result<SharedSetInfo> info() {
    forget_versions();
    auto versions = serving();
    if (!versions) return std::move(versions).error();
    const Shape& shape = versions->shape;
    return SharedSetInfo{.version = versions->current,
                         .next = versions->next,
                         .items = versions->items,
                         .expected_items = shape.expected_items,
                         .target_fpr = shape.target_fpr,
                         .bytes = shape.partition_bytes() * shape.partitions};
  }

  Result<bool> drop() {
    auto dropped = script(scripts::drop_set(), {});
    if (!dropped) return std::move(dropped).error();
    forget_versions();
    if (const auto* there = dropped->integer()) return *there == 1;
    return unexpected("an integer", *dropped);
  }

  Result<GateLookup> look_up(Digest digest) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      auto versions = serving();
      if (!versions) return std::move(versions).error();
      // The adds first: one that the block does not show yet, or the memory does not, is not among them.
      const std::vector<Command> batch{
          Command::with_key(1, "HMGET", key_, "current", "trust", adds_field(digest)), read_block(*versions, digest),
          Command::with_key(1, "EXISTS", std::string(key_).append(":absent:").append(bytes_of(digest)))};
      auto replies = execute_batch(*executor_, batch, deadline());
      if (!replies) return named(replies.error().code, replies.error().message);
      for (const Reply& reply : *replies) {
        if (reply.is_error()) return named(reply.error()->code, reply.error()->message);
      }
      const Reply::Array* const now = (*replies)[0].array();
      if (now == nullptr || now->size() != 3) return unexpected("three fields", (*replies)[0]);
      if (number((*now)[0]) != versions->current) {
        forget_versions();
        continue;
      }
      GateLookup found{.version = versions->current, .adds = number((*now)[2])};
      if ((*now)[1].string() != nullptr) return found;  // not believed
      const std::string* const block = (*replies)[1].string();
      if (block == nullptr || block->size() != 32) return lost();
      found.existence = holds(*block, digest) ? Existence::maybe : Existence::absent;
      found.remembered = (*replies)[2].integer() != nullptr && *(*replies)[2].integer() == 1;
      return found;
    }
    return moved_on();
  }

  Result<bool> remember_absent(Digest digest, const GateLookup& before, std::chrono::milliseconds ttl) {
    auto done =
        script(scripts::remember_absent(), {std::to_string(before.version), adds_field(digest),
                                            std::to_string(before.adds), bytes_of(digest), std::to_string(px(ttl))});
    if (!done) return std::move(done).error();
    return done->integer() != nullptr && *done->integer() == 1;
  }

  Result<bool> recently_added(Digest digest) {
    const Command asked =
        Command::with_key(1, "ZSCORE", std::string(key_).append(":recent"), std::string_view(bytes_of(digest)));
    auto score = execute_one(*executor_, asked, deadline());
    if (!score) return named(score.error().code, score.error().message);
    return score->string() != nullptr;
  }

  Result<bool> mark(std::string_view what, std::uint64_t position) {
    std::string digits = std::to_string(position);
    digits.insert(0, 20 - digits.size(), '0');  // so that text compares as numbers do: Lua's end at 2^53
    auto done = script(scripts::mark_gate(), {std::string(what), digits});
    if (!done) return std::move(done).error();
    if (done->integer() == nullptr) return missing();
    return *done->integer() == 1;
  }

  Result<GateStatus> status() {
    auto told = script(scripts::gate_status(), {});
    if (!told) return std::move(told).error();
    const Reply::Array* const fields = told->array();
    if (fields == nullptr) return GateStatus{};
    if (fields->size() != 7 || (*fields)[6].string() == nullptr) return unexpected("seven fields", *told);
    const auto milliseconds = [&](std::size_t i) {
      return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::milliseconds(number((*fields)[i])));
    };
    auto shape = checked(decode(*(*fields)[6].string()));
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

  Result<std::uint64_t> begin_rebuild(std::uint64_t expected_items) {
    // Where there is none, or no longer, it becomes the first: nobody is told "absent" before it is whole.
    if (auto there = load(); !there && there.error().code != ErrorCode::unavailable) return std::move(there).error();
    detail::require_items(expected_items);
    const Shape shape = shape_for(expected_items, options_.target_fpr, hash_, seed_check_);
    auto version = make_bits(shape);
    if (!version) return version;
    auto begun = script(scripts::begin_rebuild(),
                        {std::to_string(*version), encode(shape), lease(), std::to_string(shape.partitions)});
    forget_versions();
    if (begun && begun->array() == nullptr) return conflict("another rebuild is under way");
    auto carried = begun ? carry(*version, *begun->array()) : Result<void>(std::move(begun).error());
    if (carried) return version;
    // The server may think that it has begun: others would have to wait for the lease.
    (void)abandon(*version);
    return std::move(carried).error();
  }

  /// Adds what was added to the set within write_lag.
  Result<void> carry(std::uint64_t version, const Reply::Array& recent) {
    std::vector<Digest> carried;
    for (const Reply& digest : recent) {
      if (digest.string() == nullptr || digest.string()->size() != 8) return unexpected("digests", digest);
      carried.emplace_back(detail::load_le<std::uint64_t>(reinterpret_cast<const std::byte*>(digest.string()->data())));
    }
    return add_to(version, carried);
  }

  Result<void> add_to(std::uint64_t version, std::span<const Digest> digests) {
    for (std::size_t at = 0; at < digests.size(); at += most_items) {
      auto versions = known();
      if (!versions) return std::move(versions).error();
      if (versions->next != version) return gave_up(version);
      std::string positions;
      append_positions(positions, versions->next_shape, digests.subspan(at, std::min(most_items, digests.size() - at)));
      auto done = script(scripts::add_to_next(), {std::to_string(version), positions, lease()});
      if (!done) return std::move(done).error();
      if (done->integer() == nullptr) return gave_up(version);
    }
    return {};
  }

  Result<void> commit(std::uint64_t version) {
    auto done = script(scripts::commit_rebuild(), {std::to_string(version), std::to_string(px(options_.grace))});
    if (!done) return std::move(done).error();
    forget_versions();
    if (done->integer() == nullptr) return gave_up(version);
    return {};
  }

  Result<void> abandon(std::uint64_t version) {
    auto done = script(scripts::abandon_rebuild(), {std::to_string(version)});
    forget_versions();
    if (!done) return std::move(done).error();
    return {};
  }

 private:
  static constexpr std::size_t most_items = 4'096;  // a script's: some milliseconds of the server
  static constexpr int most_attempts = 16;

  [[nodiscard]] Deadline deadline() const { return Deadline::after(options_.timeout); }
  [[nodiscard]] std::string field(std::string_view what, std::uint64_t version) const {
    return std::string(what).append(" ").append(std::to_string(version));
  }
  [[nodiscard]] std::string partition_key(std::uint64_t version, std::uint32_t partition) const {
    std::string key = key_;
    return key.append(":").append(std::to_string(version)).append(":").append(std::to_string(partition));
  }

  [[nodiscard]] Error named(ErrorCode code, std::string_view what) const {
    return {code, std::string("seenby::redis: set ").append(key_).append(": ").append(what)};
  }
  [[nodiscard]] Error lost() const {
    return named(ErrorCode::unavailable,
                 "expected all of its bits, but a part is gone (evicted or expired): rebuild it");
  }
  [[nodiscard]] Error missing() const {
    return named(ErrorCode::unavailable, "expected a set, but there is none: create() it, or rebuild what was lost");
  }
  [[nodiscard]] Error conflict(std::string_view why) const { return named(ErrorCode::conflict, why); }
  [[nodiscard]] Error gave_up(std::uint64_t version) const {
    return conflict("expected version " + std::to_string(version) +
                    " in the making, but another builder took over or a part of it was lost: rebuild again");
  }
  [[nodiscard]] std::string lease() const { return std::to_string(px(options_.build_lease)); }
  [[nodiscard]] Error moved_on() const {
    return named(ErrorCode::conflict, "expected to ask one version, but it was switched 16 times meanwhile");
  }
  [[nodiscard]] Error unexpected(std::string_view wanted, const Reply& reply) const {
    return named(ErrorCode::corrupt,
                 std::string("expected ").append(wanted).append(", got ").append(reply.type_name()));
  }

  Result<Reply> script(const Script& what, std::initializer_list<std::string> arguments) {
    const std::string_view keys[] = {key_};
    std::vector<std::string_view> views(arguments.begin(), arguments.end());
    auto reply = execute_script(*executor_, what, keys, views, deadline());
    if (reply) return reply;
    return reply.error().message.starts_with("LOST") ? lost() : named(reply.error().code, reply.error().message);
  }

  [[nodiscard]] Result<Versions> known() {
    {
      const std::lock_guard lock(mutex_);
      if (versions_) return *versions_;
    }
    return load();
  }
  /// The versions of a set that can be asked.
  [[nodiscard]] Result<Versions> serving() {
    auto versions = known();
    if (versions && versions->current == 0) return missing();
    return versions;
  }
  void forget_versions() {
    const std::lock_guard lock(mutex_);
    versions_.reset();
  }
  /// Reads the set's hash. Without a current version there is one in the making.
  Result<Versions> load() {
    auto reply = execute_one(*executor_, Command::with_key(1, "HGETALL", key_), deadline());
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
  [[nodiscard]] Result<Shape> shape_of(const std::map<std::string, const Reply*>& fields, std::uint64_t version) const {
    const auto found = fields.find(field("shape", version));
    return checked(found == fields.end() || found->second->string() == nullptr ? std::nullopt
                                                                               : decode(*found->second->string()));
  }
  [[nodiscard]] Result<Shape> checked(std::optional<Shape> shape) const {
    if (!shape) return named(ErrorCode::corrupt, "expected the shape of its version, got none that can be read");
    if (shape->hash != static_cast<std::uint32_t>(hash_) || shape->seed_check != seed_check_) {
      return named(ErrorCode::parameter_mismatch, "expected digests of this hash and seed, it was made under another");
    }
    return *shape;
  }

  /// A new version's strings, all zeros, which expire unless the version is committed.
  Result<std::uint64_t> make_bits(const Shape& shape) {
    // A server that lost its data must not count from 1 again: to a process that knows another version 1, of another
    // size, every item would be absent. So the count begins at the time.
    const std::string counter = key_ + ":versions";
    const std::int64_t ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    const std::vector<Command> counted{Command::with_key(1, "SET", counter, ms, "NX"),
                                       Command::with_key(1, "INCR", counter)};
    auto replies = execute_batch(*executor_, counted, deadline());
    if (!replies) return named(replies.error().code, replies.error().message);
    const Reply* const reply = &replies->back();
    if (reply->is_error()) return named(reply->error()->code, reply->error()->message);
    if (reply->integer() == nullptr) return unexpected("a version number", *reply);
    const auto version = static_cast<std::uint64_t>(*reply->integer());
    std::vector<Command> batch;
    for (std::uint32_t partition = 0; partition < shape.partitions; ++partition) {
      const std::string key = partition_key(version, partition);
      const auto last = static_cast<std::int64_t>(shape.partition_bytes()) - 1;
      batch.push_back(Command::with_key(1, "SETRANGE", key, last, std::string_view("\0", 1)));
      batch.push_back(Command::with_key(1, "PEXPIRE", key, px(options_.build_lease)));
    }
    auto made = execute_batch(*executor_, batch, deadline());
    if (!made) return named(made.error().code, made.error().message);
    for (const Reply& each : *made) {
      if (each.is_error()) return named(each.error()->code, each.error()->message);
    }
    return version;
  }

  Result<bool> add_part(std::span<const Digest> digests, std::span<std::uint8_t> fresh) {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      auto versions = serving();
      if (!versions) return std::move(versions).error();
      std::string positions;
      append_positions(positions, versions->shape, digests);
      std::string next_positions;
      if (versions->next != 0) append_positions(next_positions, versions->next_shape, digests);
      std::string raw;
      if (options_.write_lag.count() > 0) {
        for (const Digest digest : digests) raw.append(bytes_of(digest));
      }
      auto done =
          script(scripts::add_to_set(), {std::to_string(versions->current), std::to_string(versions->next), positions,
                                         next_positions, raw, std::to_string(px(options_.write_lag))});
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

  [[nodiscard]] Command read_block(const Versions& versions, Digest digest) const {
    const auto from = std::int64_t{versions.shape.block_of(digest)} * 32;
    const std::string key = partition_key(versions.current, versions.shape.partition_of(digest));
    return Command::with_key(1, "GETRANGE", key, from, from + 31);
  }

  /// Reads the version and the blocks in one round trip; false when another version is asked by now.
  Result<bool> ask(const Versions& versions, std::span<const Digest> digests, std::span<std::uint8_t> out) {
    std::vector<Command> batch;
    batch.reserve(digests.size() + 1);
    batch.push_back(Command::with_key(1, "HGET", key_, "current"));
    for (const Digest digest : digests) batch.push_back(read_block(versions, digest));
    auto replies = execute_batch(*executor_, batch, deadline());
    if (!replies) return named(replies.error().code, replies.error().message);
    for (const Reply& reply : *replies) {
      if (reply.is_error()) return named(reply.error()->code, reply.error()->message);
    }
    if (number(replies->front()) != versions.current) return false;
    for (std::size_t i = 0; i < digests.size(); ++i) {
      const std::string* const block = (*replies)[i + 1].string();
      if (block == nullptr || block->size() != 32) return lost();
      out[i] = holds(*block, digests[i]) ? 1 : 0;
    }
    return true;
  }

  std::shared_ptr<Executor> executor_;
  SharedSetOptions options_;
  std::string key_;
  HashKind hash_;
  std::uint16_t seed_check_;
  std::mutex mutex_;
  std::optional<Versions> versions_;
};

SharedSetProtocol::SharedSetProtocol(std::shared_ptr<Executor> executor, const std::string& name,
                                     SharedSetOptions options, HashKind hash, std::uint16_t seed_check)
    : state_(std::make_unique<State>(std::move(executor), name, std::move(options), hash, seed_check)) {}
SharedSetProtocol::~SharedSetProtocol() = default;

Result<bool> SharedSetProtocol::create() { return state_->create(); }
Result<bool> SharedSetProtocol::add(std::span<const Digest> digests, std::span<std::uint8_t> fresh) {
  return state_->add(digests, fresh);
}
Result<void> SharedSetProtocol::check(std::span<const Digest> digests, std::span<std::uint8_t> out) {
  return state_->check(digests, out);
}
Result<SharedSetInfo> SharedSetProtocol::info() { return state_->info(); }
Result<bool> SharedSetProtocol::drop() { return state_->drop(); }
Result<GateLookup> SharedSetProtocol::look_up(Digest digest) { return state_->look_up(digest); }
Result<bool> SharedSetProtocol::remember_absent(Digest digest, const GateLookup& before,
                                                std::chrono::milliseconds ttl) {
  return state_->remember_absent(digest, before, ttl);
}
Result<bool> SharedSetProtocol::recently_added(Digest digest) { return state_->recently_added(digest); }
Result<void> SharedSetProtocol::advance(std::uint64_t position) {
  auto done = state_->mark("position", position);
  if (!done) return std::move(done).error();
  return {};
}
Result<bool> SharedSetProtocol::mark(GateState state) { return state_->mark(to_string(state), 0); }
Result<GateStatus> SharedSetProtocol::status() { return state_->status(); }
Result<std::uint64_t> SharedSetProtocol::begin_rebuild(std::uint64_t expected_items) {
  return state_->begin_rebuild(expected_items);
}
Result<void> SharedSetProtocol::add_to(std::uint64_t version, std::span<const Digest> digests) {
  return state_->add_to(version, digests);
}
Result<void> SharedSetProtocol::commit(std::uint64_t version) { return state_->commit(version); }
Result<void> SharedSetProtocol::abandon(std::uint64_t version) { return state_->abandon(version); }

}  // namespace seenby::redis
