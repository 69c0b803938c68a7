#pragma once
// SPDX-License-Identifier: MIT
// What the tests of RedisStore share: a history that remembers everything, and short ways to ask and to record.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"

namespace seenby::test {

/// The servers that a test runs against; those that are not installed are said to be skipped.
inline std::vector<std::string> installed_servers() {
  std::vector<std::string> programs;
  for (const char* program : {"redis-server", "valkey-server"}) {
    if (RedisServer::installed(program)) {
      programs.emplace_back(program);
    } else {
      WARN("SKIPPED: " << program << " is not installed");
    }
  }
  REQUIRE_FALSE(programs.empty());
  return programs;
}

/// The truth: what each user saw, and when. Thread-safe.
class TruthfulHistory {
 public:
  void append(std::uint64_t user, std::span<const std::uint64_t> items, Time when = system_time()) {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t item : items) seen_[user][item] = when;
  }
  void forget(std::uint64_t user) {
    const std::lock_guard lock(mutex_);
    seen_.erase(user);
  }
  /// For RedisStore::set_replay. The history must outlive the store.
  [[nodiscard]] Replay<std::uint64_t> replay(Xxh3Hash hash = {}) {
    return [this, hash](const std::uint64_t& user, Time since) -> Result<std::vector<SeenDigest>> {
      const std::lock_guard lock(mutex_);
      std::vector<SeenDigest> digests;
      for (const auto& [item, when] : seen_[user]) {
        if (when >= since) digests.push_back({hash(item), when});
      }
      return digests;
    };
  }
  [[nodiscard]] std::vector<std::uint64_t> items(std::uint64_t user) {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> out;
    for (const auto& [item, when] : seen_[user]) out.push_back(item);
    return out;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::map<std::uint64_t, Time>> seen_;
};

inline std::vector<Digest> digests_of(std::span<const std::uint64_t> items, Xxh3Hash hash = {}) {
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(hash(item));
  return digests;
}

/// first, first + 1, ...
inline std::vector<std::uint64_t> sequence(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> items(count);
  for (std::size_t i = 0; i < count; ++i) items[i] = first + i;
  return items;
}

/// One check of one or more users.
struct CheckAnswer {
  std::vector<std::uint8_t> seen_by;
  std::vector<UserStatus> status;
  /// How many candidates at least one user has seen.
  [[nodiscard]] std::size_t seen() const {
    std::size_t count = 0;
    for (const std::uint8_t users : seen_by) count += users != 0 ? 1U : 0U;
    return count;
  }
};

template <class Store>
CheckAnswer ask(const Store& store, const std::vector<std::uint64_t>& users, const std::vector<std::uint64_t>& items) {
  const auto digests = digests_of(items, store.hasher());
  CheckAnswer answer{std::vector<std::uint8_t>(items.size(), 77), std::vector<UserStatus>(users.size())};
  store.check(std::span(users), ItemBatch<std::uint64_t>{items, digests}, answer.seen_by, answer.status);
  return answer;
}

template <class Store>
Result<RecordOutcome> record(Store& store, std::uint64_t user, const std::vector<std::uint64_t>& items) {
  const auto digests = digests_of(items, store.hasher());
  return store.record(user, ItemBatch<std::uint64_t>{items, digests});
}

}  // namespace seenby::test
