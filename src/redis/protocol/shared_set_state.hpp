#pragma once
// SPDX-License-Identifier: MIT
// What SharedSetProtocol knows of its set, and the steps of its commands.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/expiry.hpp"
#include "redis/protocol/set_shape.hpp"
#include "redis/protocol/shared_set_scripts.hpp"
#include "redis/transport/script.hpp"
#include "seenby/redis/shared_set.hpp"

namespace seenby::redis {

/// The number in a text; 0 for any other reply.
[[nodiscard]] std::uint64_t number(const Reply& reply);

/// What a process knows of a set: which version is asked, which is in the making, and how they are shaped.
struct Versions {
  std::uint64_t current = 0;
  std::uint64_t next = 0;
  SetShape shape{};
  SetShape next_shape{};
  std::uint64_t items = 0;  ///< of the current version, when it was read
};

class SharedSetProtocol::State {
 public:
  static constexpr std::size_t most_items = 4'096;  // a script's: some milliseconds of the server
  static constexpr int most_attempts = 16;

  State(std::shared_ptr<Executor> set_executor, const std::string& name, SharedSetOptions set_options,
        HashKind set_hash, std::uint16_t set_seed_check);

  [[nodiscard]] Deadline deadline() const { return Deadline::after(options.timeout); }
  [[nodiscard]] std::string field(std::string_view what, std::uint64_t version) const {
    return std::string(what).append(" ").append(std::to_string(version));
  }
  [[nodiscard]] std::string partition_key(std::uint64_t version, std::uint32_t partition) const {
    return std::string(key).append(":").append(std::to_string(version)).append(":").append(std::to_string(partition));
  }

  [[nodiscard]] Error named(ErrorCode code, std::string_view what) const {
    return {code, std::string("seenby::redis: set ").append(key).append(": ").append(what)};
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
  [[nodiscard]] std::string lease() const { return std::to_string(px(options.build_lease)); }
  [[nodiscard]] Error moved_on() const {
    return named(ErrorCode::conflict, "expected to ask one version, but it was switched 16 times meanwhile");
  }
  [[nodiscard]] Error unexpected(std::string_view wanted, const Reply& reply) const {
    return named(ErrorCode::corrupt,
                 std::string("expected ").append(wanted).append(", got ").append(reply.type_name()));
  }

  Result<Reply> script(const Script& what, std::initializer_list<std::string> arguments);
  /// The replies to commands of which none fails.
  [[nodiscard]] Result<std::vector<Reply>> run(const std::vector<Command>& batch);

  [[nodiscard]] Result<Versions> known();
  [[nodiscard]] Result<Versions> serving();  ///< the versions of a set that can be asked
  void forget_versions();
  /// Reads the set's hash. Without a current version there is one in the making.
  Result<Versions> load();
  /// Errors: corrupt, without a shape; parameter_mismatch, of another hash or seed.
  [[nodiscard]] Result<SetShape> checked(std::optional<SetShape> shape) const;

  [[nodiscard]] SetShape shape_of_items(std::uint64_t items) const {
    return SetShape::make(items, options.target_fpr, hash, seed_check);
  }
  /// A new version's strings, all zeros, which expire unless the version is committed.
  Result<std::uint64_t> make_bits(const SetShape& shape);
  Result<bool> add_part(std::span<const Digest> digests, std::span<std::uint8_t> fresh);
  /// Reads the version and the blocks in one round trip; false when another version is asked by now.
  Result<bool> ask(const Versions& versions, std::span<const Digest> digests, std::span<std::uint8_t> out);
  [[nodiscard]] Command read_block(const Versions& versions, Digest digest) const;
  /// Of an array of `bytes_of`.
  [[nodiscard]] Result<std::vector<Digest>> digests_in(const Reply& reply) const;
  Result<bool> mark(std::string_view what, std::uint64_t position);

  const std::shared_ptr<Executor> executor;
  const SharedSetOptions options;
  const std::string key;
  const HashKind hash;
  const std::uint16_t seed_check;

 private:
  [[nodiscard]] Result<SetShape> shape_of(const std::map<std::string, const Reply*>& fields,
                                          std::uint64_t version) const;

  std::mutex mutex_;
  std::optional<Versions> versions_;
};

}  // namespace seenby::redis
