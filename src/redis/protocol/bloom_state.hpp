#pragma once
// SPDX-License-Identifier: MIT
// What BloomProtocol keeps between calls, and the steps of its commands.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/exact_value.hpp"
#include "redis/transport/script.hpp"
#include "seenby/redis/bloom_store.hpp"

namespace seenby::redis {

/// An error rate as BF.RESERVE gets it: the shortest text that reads back as the same number. 1e-7 stays 1e-07; a
/// fixed number of decimals would make 0.000000 of it, which the module refuses at best.
[[nodiscard]] std::string rate_text(double rate);

/// ARGV: "1" to create, rate, capacity, expansion (0: NONSCALING), milliseconds to live ("": none), "1" to refresh
/// them, then the items. Answers "missing", or what BF.RESERVE said ("0": not asked) followed by what BF.MADD said.
/// Chunks of 1,000, since unpack() fails at 8,000.
[[nodiscard]] const Script& bloom_add_script();

class BloomProtocol::State {
 public:
  State(std::shared_ptr<Executor> executor, RedisBloomOptions options);

  void check(std::span<const Job> jobs);
  /// One pipelined round trip for all users; a second one for those whose filter is missing.
  [[nodiscard]] std::vector<Result<RecordOutcome>> record(std::span<const Write> writes);
  Result<void> create(const std::string& key);
  Result<bool> forget(const std::string& key);
  Result<BloomInfo> info(const std::string& key);
  [[nodiscard]] Result<detail::ExactItems> exact(const std::string& key) const {
    return read_exact(*executor_, exact_key(key), deadline());
  }
  Result<std::size_t> change_exact(const std::string& key, const EditExact& edit) {
    return redis::change_exact(*executor_, exact_key(key), system_time(), deadline(), edit);
  }

  /// Asks the server again whether it has the module.
  ModuleState probe();
  [[nodiscard]] const RedisBloomOptions& options() const noexcept { return options_; }
  [[nodiscard]] StoreCounters counters() const noexcept;
  [[nodiscard]] BloomCounters bloom_counters() const noexcept;
  [[nodiscard]] PoolCounters connections() const { return executor_->connections(); }

 private:
  struct Added;

  [[nodiscard]] bool module_is_absent();
  [[nodiscard]] Error absent_error() const;
  void note(const Error& error);
  /// Says which key it was, and what the module meant.
  [[nodiscard]] static Error named(const std::string& key, const Error& error);
  [[nodiscard]] static Error unexpected(const std::string& key, std::string_view wanted, const Reply& reply);
  [[nodiscard]] static Error too_many(const std::string& key, std::size_t items);
  [[nodiscard]] Command add_command(const Write& write, bool create) const;
  [[nodiscard]] Added read_added(const std::string& key, std::size_t items, const Reply& reply);
  [[nodiscard]] std::vector<Added> run(std::span<const Write* const> writes, bool create);
  [[nodiscard]] Result<RecordOutcome> settle(std::size_t items, Added added);
  [[nodiscard]] static Result<Write> with_history(const Write& write);
  void make_missing(std::span<const Write> writes, std::span<const Write> whole, std::span<const std::size_t> index_of,
                    std::vector<Result<RecordOutcome>>& outcomes);
  void answer(const Job& job, std::span<const Reply> replies);
  void answer_user(const std::string& key, std::span<const Reply> replies, std::span<std::uint8_t> seen_by,
                   UserStatus& status);
  [[nodiscard]] Result<bool> count_seen(const std::string& key, std::span<const Reply> replies,
                                        std::span<std::uint8_t> seen_by);
  [[nodiscard]] Deadline deadline() const {
    return Deadline::after(options_.timeout.value_or(executor_->default_timeout()));
  }

  const std::shared_ptr<Executor> executor_;
  const RedisBloomOptions options_;
  std::atomic<ModuleState> module_{ModuleState::unknown};
  std::atomic<std::int64_t> probed_at_{0};  ///< steady-clock nanoseconds
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> write_failures_{0};
  std::atomic<std::uint64_t> unavailable_{0};
  std::atomic<std::uint64_t> full_filters_{0};
  std::atomic<std::uint64_t> rebuilds_{0};
};

}  // namespace seenby::redis
