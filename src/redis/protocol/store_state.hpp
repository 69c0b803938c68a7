#pragma once
// SPDX-License-Identifier: MIT
// What StoreProtocol keeps between calls, shared by its reading and its writing half.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "redis/protocol/replies.hpp"
#include "redis/protocol/shape_cache.hpp"
#include "redis/protocol/store_value.hpp"
#include "redis/protocol/table_value.hpp"
#include "redis/transport/script.hpp"
#include "seenby/redis/store.hpp"
#include "seenby/stores/slice_clock.hpp"

namespace seenby::redis {

struct StoreState {
  StoreState(std::shared_ptr<Executor> executor, const StorePolicy& policy, RedisStoreOptions options,
             HashIdentity hash);

  std::shared_ptr<Executor> executor;
  StorePolicy policy;
  RedisStoreOptions options;
  HashIdentity hash;
  std::chrono::milliseconds timeout;
  detail::SliceClock slices;
  double fpr;          ///< of one filter
  TablePolicy tables;  ///< of one table
  std::size_t whole_read_bytes;
  mutable ShapeCache shapes;
  mutable std::atomic<bool> any_large{false};  ///< some value was over 16 KiB: lookups ask `shapes`

  std::atomic<std::uint64_t> records{0};
  std::atomic<std::uint64_t> write_failures{0};
  std::atomic<std::uint64_t> growths{0};
  std::atomic<std::uint64_t> rebuilds{0};
  std::atomic<std::uint64_t> over_budget{0};
  std::atomic<std::uint64_t> slices_dropped{0};
  mutable std::mutex capacities_mutex;
  mutable std::map<std::pair<std::uint64_t, double>, std::uint64_t> capacities;

  [[nodiscard]] Time now() const { return policy.clock ? policy.clock() : system_time(); }
  /// The window of now.
  [[nodiscard]] detail::SliceWindow window() const {
    if (!slices.windowed()) return {};
    return {slices.newest(policy.clock), slices.slice_seconds(), static_cast<std::uint8_t>(slices.tested() - 1)};
  }
  /// The items that are in the window, each once and in the newest of its slices; `when` has a time for each, or none
  /// where all were seen now.
  [[nodiscard]] std::vector<SlicedDigest> in_window(std::span<const Digest> digests, std::span<const Time> when) const;
  /// What a write sets a key's time to live to, in milliseconds; empty to leave it.
  [[nodiscard]] std::string refresh_ttl_text() const;
  /// The time to live of a table whose newest slice this is: until that has left the window. In milliseconds; 0: none.
  [[nodiscard]] std::int64_t table_ttl(std::int64_t newest) const;
  /// As `table_ttl`, of a table that is replaced: empty to leave it.
  [[nodiscard]] std::string table_ttl_text(std::int64_t newest) const;

  /// The kind of items that the store's digests are of, once this process has read or written it: it is asked once.
  mutable std::atomic<std::uint8_t> kind{0};
  [[nodiscard]] std::string kind_key() const { return options.prefix + "items"; }
  [[nodiscard]] bool knows_kind() const noexcept { return kind.load(std::memory_order_relaxed) != 0; }
  /// Takes the value of `kind_key`, nil if there is none.
  void learn_kind(const Reply& reply) const;
  /// `parameter_mismatch` when the store is known to hold another kind.
  [[nodiscard]] Result<void> check_kind(ItemKind asked) const;
  /// As `check_kind`, and writes the kind where there is none yet.
  [[nodiscard]] Result<void> claim_kind(ItemKind recorded, Deadline deadline) const;

  [[nodiscard]] std::string key_of(std::string_view user) const;
  void append_key(std::string& out, std::string_view user) const;
  /// Where the user's hides and last items are.
  [[nodiscard]] static std::string exact_key(std::string_view key) { return std::string(key).append(":hides"); }
  [[nodiscard]] std::string slice_key(std::string_view key, std::int64_t slice) const;
  /// How many items a filter holds at its rate; remembered, since it takes a search.
  [[nodiscard]] std::uint64_t capacity_of(const FilterHeader& header) const;
  void remember(std::string_view key, std::string_view value, std::vector<Frame> frames, bool complete,
                std::uint64_t value_bytes) const;
};

}  // namespace seenby::redis
