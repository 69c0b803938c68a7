#pragma once
// SPDX-License-Identifier: MIT
// SharedBloomSet: one set of items under a fixed key of the RedisBloom module, shared with its other clients.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "seenby/hash.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis/options.hpp"
#include "seenby/redis/set_counters.hpp"
#include "seenby/result.hpp"

namespace seenby::redis {

/// BF.RESERVE, BF.MADD and BF.MEXISTS on one key, as any other client of the module writes and reads it:
///
///     seenby::redis::SharedBloomSet<std::string> filter{executor, "myfilter", {.capacity = 1'000'000}};
///     filter.create().or_throw();
///     if (filter.add("https://example.org/").or_throw()) ...
///
/// An error is neither yes nor no: a key that is missing is `unavailable`, one of another type `wrong_type`. Where
/// there is no module, SharedSet does the same on plain Redis. Thread-safe.
template <HashableItem Item = std::string>
class SharedBloomSet {
 public:
  using item_type = Item;  ///< what it holds

  /// Throws std::invalid_argument for options that cannot be kept. Connects on first use.
  SharedBloomSet(std::shared_ptr<Executor> executor, std::string key, RedisBloomOptions options = {})
      : key_(std::move(key)), store_(std::move(executor), keyed(std::move(options))) {}

  /// BF.RESERVE with the options' rate and capacity; a filter that exists is kept.
  Result<void> create() { return store_.create(key_); }

  /// True when the item was certainly new. Makes the filter where there is none.
  Result<bool> add(const Item& item) {
    const Digest digest{};
    auto outcome = store_.record(key_, ItemBatch<Item>{std::span(&item, 1), std::span(&digest, 1)});
    if (!outcome) return tally_.failed(1), std::move(outcome).error();
    tally_.added(1, outcome->newly_added, false);
    return outcome->newly_added != 0;
  }
  /// False: the item was never added. True: it was, or the filter errs at its rate.
  [[nodiscard]] Result<bool> may_contain(const Item& item) const {
    const Digest digest{};
    std::uint8_t seen = 0;
    UserStatus status;
    store_.check(std::span(&key_, 1), ItemBatch<Item>{std::span(&item, 1), std::span(&digest, 1)}, {&seen, 1},
                 {&status, 1});
    if (status.state == UserState::unreachable) return tally_.failed(1), *status.error;
    if (status.state == UserState::missing) {
      tally_.failed(1);
      return Error{ErrorCode::unavailable,
                   std::string("seenby::redis: expected a filter at key \"").append(key_).append("\", got none")};
    }
    tally_.checked(1, seen);
    return seen != 0;
  }

  /// What this process did through this set. Asks no server.
  [[nodiscard]] SharedSetCounters counters() const noexcept { return tally_.counters(); }

 private:
  [[nodiscard]] static RedisBloomOptions keyed(RedisBloomOptions options) {
    options.prefix.clear();
    return options;
  }
  std::string key_;
  RedisBloomStore<std::string, Item> store_;
  detail::SharedSetTally tally_;
};

}  // namespace seenby::redis
