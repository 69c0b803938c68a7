#pragma once
// SPDX-License-Identifier: MIT
// BloomProtocol: what RedisBloomStore sends to the module, without its template parameters.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/redis/bloom_options.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::redis {

/// An error rate as BF.RESERVE gets it: the shortest text that reads back as the same number. 1e-7 stays 1e-07; a
/// fixed number of decimals would make 0.000000 of it, which the module refuses at best.
[[nodiscard]] std::string rate_text(double rate);

/// One user's items as RedisBloom keeps them: text for numbers, the bytes for everything else.
using WireItems = std::vector<std::string>;
/// Reads one user's whole history; empty when there is none to read.
using ReadItems = std::function<Result<WireItems>()>;

/// The RedisBloom commands behind RedisBloomStore.
///
/// **Look-up**: TYPE, BF.MEXISTS, TYPE for each user, all in one pipeline. BF.MEXISTS alone answers 0 for a key that is
/// missing and for one that holds something else; TYPE before and after it tells both.
///
/// **Adding** is one script, so that no crash or expiry falls between its parts: on a missing key it changes nothing
/// and says so (BF.MADD would make a filter of the module's default size); told to create, it runs BF.RESERVE, BF.MADD
/// and PEXPIRE.
///
/// Thread-safe.
class BloomProtocol {
 public:
  struct Job {
    std::span<const std::string> keys;
    std::span<const std::string> items;
    std::span<std::uint8_t> seen_by;
    std::span<UserStatus> status;
  };
  struct Write {
    std::string key;
    WireItems items;
    ReadItems history{};
    std::uint64_t known_items = 0;  ///< what a rebuilt filter must have room for
  };

  /// Asks for the module at once. Throws std::invalid_argument for options that cannot be kept.
  BloomProtocol(std::shared_ptr<Executor> executor, RedisBloomOptions options);

  void check(std::span<const Job> jobs);
  /// One pipelined round trip for all users; a second one for those whose filter is missing.
  [[nodiscard]] std::vector<Result<RecordOutcome>> record(std::span<const Write> writes);
  Result<void> create(const std::string& key);
  Result<bool> forget(const std::string& key);
  Result<BloomInfo> info(const std::string& key);

  /// Asks the server again whether it has the module.
  ModuleState probe();
  [[nodiscard]] const RedisBloomOptions& options() const noexcept { return options_; }
  [[nodiscard]] StoreCounters counters() const noexcept;
  [[nodiscard]] BloomCounters bloom_counters() const noexcept;

 private:
  struct Added;

  [[nodiscard]] bool module_is_absent();
  [[nodiscard]] Error absent_error() const;
  void note(const Error& error);
  [[nodiscard]] Command add_command(const Write& write, bool create) const;
  [[nodiscard]] Added read_added(const std::string& key, std::size_t items, const Reply& reply);
  [[nodiscard]] std::vector<Added> run(std::span<const Write* const> writes, bool create);
  [[nodiscard]] Result<RecordOutcome> settle(std::size_t items, Added added);
  [[nodiscard]] static Result<Write> with_history(const Write& write);
  void make_missing(std::span<const Write> writes, std::span<const Write> whole, std::span<const std::size_t> index_of,
                    std::vector<Result<RecordOutcome>>& outcomes);
  void answer(const Job& job, std::span<const Reply> replies);
  [[nodiscard]] Result<bool> answer_user(const std::string& key, std::span<const Reply> replies,
                                         std::span<std::uint8_t> seen_by);
  [[nodiscard]] Deadline deadline() const { return Deadline::after(options_.timeout); }

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
