#pragma once
// SPDX-License-Identifier: MIT
// ArticleProtocol: the quiz article's bit fields in plain Redis, without ArticleStore's template parameters.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/redis/executor.hpp"
#include "seenby/redis/options.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::redis {

/// What an ArticleStore is told. k and the default size are the article's.
struct ArticleOptions {
  std::uint32_t hash_count = 4;         ///< k, from 1 to 64; part of the bits' meaning
  std::uint32_t default_exponent = 11;  ///< a new filter has 2^11 = 2,048 bits
  std::uint32_t max_exponent = 24;      ///< 2 MiB; from default_exponent to 31
  /// A filter doubles when its fill passes target_fpr^(1/k): 32% at 1% and k = 4. (The article's half full means 6.25%
  /// for one user and 12.1% for a pair.)
  double target_fpr = 0.01;
  std::string prefix = "seen:";  ///< the key is prefix and user
  /// When a key expires.
  TimeToLive time_to_live = TimeToLive::none;
  std::chrono::seconds ttl{std::chrono::hours{24 * 30}};  ///< of a key, where `time_to_live` is not `none`
  /// The deadline of one round trip. Unset: the URL's `timeout_ms`, 1 s without one.
  std::optional<std::chrono::milliseconds> timeout{};
  std::chrono::milliseconds rebuild_timeout{
      5'000};  ///< of a call that reads the history; how long it may hold others up
};

/// The values of hash_i(item), k of them an item; a position is such a value modulo m.
using Probes = std::vector<std::uint64_t>;
/// Reads one user's history as probes.
using ReadProbes = std::function<Result<Probes>()>;

/// The exponent that a key's first byte holds: u5 at bit 0.
[[nodiscard]] constexpr std::uint32_t exponent_of(unsigned char first_byte) noexcept { return first_byte >> 3U; }

/// The exponent a value had before items overwrote its header, as the article's writer lets them: bits are only ever
/// set, and a filter with items in it is not much shorter than m. The stored one if nothing speaks against it.
[[nodiscard]] std::uint32_t inferred_exponent(std::string_view value) noexcept;

/// **The layout**: a string of m = 2^e bits; e is in the first five as u5, an item is k single bits.
///
/// **What is fixed**, so that the article's readers still read it:
/// - Positions 0 to 4 are the header. They are never written, and a lookup takes them as set.
/// - A missing key is `missing`. Exponent 0 (m = 1: everything unseen) is never read as a size.
/// - A filter grows by being replaced whole. While the history is read and the larger one built, a mark after the last
///   bit holds adds up (they wait, lookups do not), so that none is lost; a crashed builder's mark runs out. DEL and
///   refill shows an empty filter, then a growing one, and loses what is added meanwhile.
///
/// A filter made from the history starts as a placeholder (exponent 0 and a random token) that means `missing`
/// until it is replaced, so that of several builders with histories of different age one wins, and none after a DEL.
/// Writers of the article's own kind must be gone: they respect no mark.
///
/// **Lookup**: one BITFIELD_RO with all positions of the default size for each user, between two STRLEN, in one
/// pipeline; a second pipeline for users of another size.
///
/// Thread-safe.
class ArticleProtocol {
 public:
  /// One request's question, as the spans of `check`.
  struct Job {
    std::span<const std::string> keys;      ///< a key a user
    std::span<const std::uint64_t> probes;  ///< k values an item
    std::span<std::uint8_t> seen_by;        ///< overwritten: for each item, the users whose filter says seen
    std::span<UserStatus> status;           ///< overwritten, one a user
  };

  /// Throws std::invalid_argument for options that cannot be kept.
  ArticleProtocol(std::shared_ptr<Executor> executor, ArticleOptions options);

  void check(const Job& job) const;  ///< one pipeline for all users; a second for those of another size
  /// Sets the bits of `probes`; a missing filter is made from `history` where there is one.
  Result<RecordOutcome> record(const std::string& key, std::span<const std::uint64_t> probes,
                               const ReadProbes& history);
  Result<void> create(const std::string& key);  ///< an empty filter of the default size; one that exists is kept
  Result<bool> forget(const std::string& key);  ///< deletes the key; true when there was one
  /// The whole value, held against adds for `rebuild_timeout`; one with a damaged header is not held: no writer adds
  /// to it. Errors: `unknown_user` when there is none, `timed_out` while others hold it.
  Result<std::string> hold(const std::string& key);
  /// Allows adds again, if the value is still the one that `hold` gave.
  void release(const std::string& key, const std::string& value);
  /// Removes the value, if it is still the one that `hold` gave.
  Result<bool> remove(const std::string& key, const std::string& value);
  /// Which items a value of this exponent may contain.
  void test(std::string_view value, std::uint32_t exponent, std::span<const std::uint64_t> probes,
            std::span<std::uint8_t> out) const noexcept;

  [[nodiscard]] const ArticleOptions& options() const noexcept { return options_; }  ///< as given at construction
  [[nodiscard]] StoreCounters counters() const noexcept;  ///< a snapshot of the store's counters

 private:
  struct Attempt;
  struct Look;
  enum class Held : std::uint8_t { here, by_another, missing };
  struct Grip {
    Held held;
    std::string value;
  };

  [[nodiscard]] Command look_command(const std::string& key, std::span<const std::uint64_t> probes,
                                     std::uint32_t exponent) const;
  [[nodiscard]] Result<Look> read_look(const std::string& key, std::span<const Reply> replies) const;
  void look(const Job& job, std::vector<std::size_t>& users, std::vector<std::uint32_t>& exponents) const;
  void add_up(const Look& look, const Job& job, std::uint32_t exponent) const;
  [[nodiscard]] Result<void> check_size(const std::string& key, std::uint32_t exponent, std::uint64_t bytes) const;
  [[nodiscard]] Result<Attempt> add(const std::string& key, std::span<const std::uint64_t> probes,
                                    std::uint32_t exponent);
  [[nodiscard]] Result<RecordOutcome> add_until_done(const std::string& key, std::span<const std::uint64_t> probes,
                                                     const ReadProbes& history);
  [[nodiscard]] Result<void> make_missing(const std::string& key, const ReadProbes& history);
  [[nodiscard]] Result<bool> grow(const std::string& key, std::uint32_t exponent, const ReadProbes& history);
  [[nodiscard]] Result<Grip> try_hold(const std::string& key);
  [[nodiscard]] Result<bool> swap(const std::string& key, std::string_view old, std::string_view value,
                                  std::string_view ttl);
  [[nodiscard]] std::string value_of(std::span<const std::uint64_t> probes, std::uint32_t at_least) const;
  [[nodiscard]] bool is_full(std::uint64_t ones, std::uint32_t exponent) const noexcept;
  [[nodiscard]] std::string time_to_live() const;
  [[nodiscard]] Deadline deadline() const {
    return Deadline::after(options_.timeout.value_or(executor_->default_timeout()));
  }
  /// The lease on a key ends after rebuild_timeout.
  [[nodiscard]] Deadline patience() const {
    const auto once = Deadline::after(options_.rebuild_timeout).at;
    return {saturating_add(saturating_add(once, options_.rebuild_timeout), std::chrono::milliseconds{1000})};
  }

  const std::shared_ptr<Executor> executor_;
  const ArticleOptions options_;
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> write_failures_{0};
  std::atomic<std::uint64_t> growths_{0};
  std::atomic<std::uint64_t> rebuilds_{0};
  std::atomic<std::uint64_t> over_budget_{0};
};

}  // namespace seenby::redis
