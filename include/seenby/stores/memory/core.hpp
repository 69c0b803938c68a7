#pragma once
// SPDX-License-Identifier: MIT
// What stands behind a MemoryStore: policy, current state, and the writes that need more than one shard or a history.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/options.hpp"
#include "seenby/stores/memory/reader.hpp"
#include "seenby/stores/memory/snapshot.hpp"
#include "seenby/stores/memory/state.hpp"
#include "seenby/stores/slice_clock.hpp"

SEENBY_DETAIL_BEGIN

/// One for each MemoryStore, at an address that does not change when the store is moved. Thread-safe.
template <class User, class Hash>
class MemoryCore {
 public:
  static constexpr std::size_t key_words = index_key_words<User>;
  using State = MemoryState<key_words>;
  using Key = IndexKey<key_words>;
  using ShardOf = Shard<key_words>;
  using Reader = MemoryReader<User>;

  MemoryCore(StorePolicy&& given, MemoryOptions wanted)
      : policy(std::move(given)),
        slices(policy),
        options(validated(policy, wanted)),
        rates(slices.per_filter_fpr(policy)),
        hash(policy.seed),
        key_seed(Xxh3Hash(policy.seed)(std::string_view{"seenby user keys"}).value),
        reader(current, key_seed),
        owned_states(1) {
    owned_states[0] = new_state();
    current.store(owned_states[0].get(), std::memory_order_release);
  }

  [[nodiscard]] State* state() const noexcept { return current.load(std::memory_order_acquire); }
  [[nodiscard]] std::unique_ptr<State> new_state() {
    auto fresh = std::make_unique<State>(static_cast<std::uint32_t>(std::bit_width(options.shards) - 1),
                                         options.max_bytes, rates);
    fresh->context.key_seed = key_seed;
    fresh->context.exact_items = options.exact_items;
    fresh->context.slices = slices.windowed() ? policy.slices : 0;
    fresh->context.initial_items = policy.initial_items;
    fresh->context.growth_factor = policy.growth_factor;
    fresh->context.keep_digests = options.keep_digests;
    return fresh;
  }
  void replace_state(std::unique_ptr<State> fresh) {
    const std::lock_guard replacing(replay_mutex);
    State& old = *state();
    State& next = *fresh;
    owned_states.push_back(std::move(fresh));
    next.context.has_history.store(replay != nullptr, std::memory_order_relaxed);
    current.store(&next, std::memory_order_release);
    // A writer that found the old state current finishes there first: it wrote just before the restore.
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::lock_guard lock(old[i].mutex);
      const std::lock_guard counting(next[0].mutex);
      next[0].counters += old[i].counters;
      old[i].retire();
    }
  }

  static void require(bool holds, const char* expected, double got) {
    if (holds) return;
    std::string message = "seenby: expected ";
    throw std::invalid_argument(message.append(expected).append(", got ").append(text_of(got)));
  }
  static MemoryOptions validated(const StorePolicy& policy, MemoryOptions options) {
    require(policy.slices <= max_parts / 2, "1 to 127 slices", policy.slices);
    require(policy.initial_items <= (std::uint64_t{1} << 32), "1 to 2^32 initial_items",
            static_cast<double>(policy.initial_items));
    require(options.shards >= 1 && options.shards <= 65536, "1 to 65536 shards", options.shards);
    require(options.exact_items <= max_exact_items, "0 to 64 exact_items", options.exact_items);
    options.shards = std::bit_ceil(options.shards);
    return options;
  }

  [[nodiscard]] SnapshotIdentity identity() const noexcept {
    return {.hash = Hash::kind,
            .key_words = static_cast<std::uint8_t>(key_words),
            .seed_check = seed_check(hash),
            .slices = static_cast<std::uint16_t>(slices.windowed() ? policy.slices : 0),
            .slice_seconds = static_cast<std::uint64_t>(slices.slice_seconds())};
  }
  [[nodiscard]] Key key(const User& user) const noexcept { return index_key(user, key_seed); }

  /// The number of the newest slice. It never falls: a clock that jumps back finds dropped slices still dropped, and
  /// what is recorded then goes into the newest slice there is. The clock is read only where there is a window.
  [[nodiscard]] std::uint32_t current_slice() const noexcept {
    if (!slices.windowed()) return 0;
    return narrowed(slices.newest(policy.clock ? policy.clock() : coarse_time()));
  }
  [[nodiscard]] std::uint32_t slice_of(Time time) const noexcept { return narrowed(slices.number(time)); }
  /// Slices before 1970 are one slice, and so are those after 2106: 32 bits a part are enough.
  [[nodiscard]] static std::uint32_t narrowed(std::int64_t slice) noexcept {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(slice, 0, std::numeric_limits<std::uint32_t>::max()));
  }
  /// The time of the last timer tick: a few nanoseconds to read, and a slice is at least a second long.
  [[nodiscard]] static Time coarse_time() noexcept {
#ifdef CLOCK_REALTIME_COARSE
    timespec now{};
    if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0) return Time(std::chrono::seconds(now.tv_sec));
#endif
    return system_time();
  }

  /// Runs `change(state, shard)` with the key's shard locked.
  template <class Change>
  auto locked(const Key& key, Change&& change) const {
    return with_locked_shard(current, key, std::forward<Change>(change));
  }
  template <class Visit>
  void for_each_shard(Visit&& visit) const {
    State& now = *state();
    for (std::size_t i = 0; i < now.size(); ++i) {
      const std::lock_guard lock(now[i].mutex);
      visit(now[i]);
    }
  }

  /// Out of memory becomes an error, and errors are counted.
  template <class Write>
  std::invoke_result_t<Write> guarded(std::size_t items, Write&& write) {
    try {
      auto result = write();
      if (!result) write_failures.fetch_add(items, std::memory_order_relaxed);
      return result;
    } catch (const std::bad_alloc&) {
      write_failures.fetch_add(items, std::memory_order_relaxed);
      std::string message = "seenby: expected the memory store to fit in ";
      message.append(options.max_bytes == 0 ? "the machine's memory"
                                            : std::to_string(options.max_bytes).append(" bytes"));
      return Error{ErrorCode::too_large, std::move(message)};
    }
  }

  // Recording.

  Result<RecordOutcome> record_in(const User& user, std::span<const Digest> digests, std::uint32_t newest) {
    const Key user_key = key(user);
    bool missing = false;
    const InsertOutcome outcome = locked(user_key, [&](State& now, ShardOf& shard) -> InsertOutcome {
      missing = now.context.has_history.load(std::memory_order_relaxed) &&
                shard.index.find(now.context.space, user_key) == nullptr;
      if (missing) return {};
      auto inserted = shard.insert(user_key, digests, newest, newest);
      shard.counters.records += digests.size();
      inserted.rebuild_wanted = inserted.rebuild_wanted && shard.begin_rebuild(user_key);
      return inserted;
    });
    if (missing) return create_from_history(user, digests, newest);
    if (outcome.rebuild_wanted) rebuild(user, newest);
    return RecordOutcome{.newly_added = outcome.newly_added, .grew = outcome.grew};
  }

  [[nodiscard]] Result<std::vector<SliceDigest>> read_history(const User& user, std::uint32_t newest) const {
    std::shared_ptr<const Replay<User>> reading;
    {
      const std::lock_guard lock(replay_mutex);
      reading = replay;
    }
    std::vector<SliceDigest> digests;
    if (!reading) return digests;
    auto history = (*reading)(user, slices.window_start(newest));
    if (!history) return std::move(history).error();
    digests.reserve(history->size());
    const auto& context = state()->context;
    for (const SeenDigest& seen : *history) {
      // A history whose clock runs ahead of ours must not open a slice that does not exist yet.
      const std::uint32_t slice = std::min(slice_of(seen.seen_at), newest);
      if (context.is_live(slice, newest)) digests.push_back({seen.digest, slice});
    }
    return digests;
  }

  /// Creates a missing user from their history and the batch. Until then they stay missing: nobody is told "unseen" by
  /// half a record. Reads again when somebody in the shard was forgotten meanwhile, for it may have been this user.
  Result<RecordOutcome> create_from_history(const User& user, std::span<const Digest> digests, std::uint32_t newest) {
    const Key user_key = key(user);
    for (;;) {
      const auto erasures = locked(user_key, [](State&, ShardOf& shard) { return shard.erasures(); });
      auto history = read_history(user, newest);
      if (!history) return std::move(history).error();
      const bool has_history = !history->empty();
      for (const Digest digest : digests) history->push_back({digest, newest});
      if (has_history) sort_by_slice(*history);
      RecordOutcome outcome;
      const bool done = locked(user_key, [&](State& now, ShardOf& shard) {
        if (shard.erasures() != erasures) return false;
        const bool is_new = shard.index.find(now.context.space, user_key) == nullptr;
        try {
          outcome.newly_added = insert_by_slice(shard, user_key, *history, newest);
        } catch (const std::bad_alloc&) {
          if (is_new) shard.erase(user_key);  // half a history would call the other half unseen
          throw;
        }
        shard.counters.records += digests.size();
        shard.counters.rebuilds += has_history ? 1 : 0;
        return true;
      });
      if (done) {
        outcome.newly_added = std::min(outcome.newly_added, digests.size());
        return outcome;
      }
    }
  }
  /// In the order of the slices, each item once a slice.
  static void sort_by_slice(std::vector<SliceDigest>& digests) {
    const auto order = [](const SliceDigest& seen) { return std::pair(seen.slice, seen.digest); };
    std::sort(digests.begin(), digests.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
    digests.erase(
        std::unique(digests.begin(), digests.end(), [&](const auto& a, const auto& b) { return order(a) == order(b); }),
        digests.end());
  }
  /// What the last slice's insert added.
  static std::size_t insert_by_slice(ShardOf& shard, const Key& user_key, std::span<const SliceDigest> sorted,
                                     std::uint32_t newest) {
    std::vector<Digest> digests;
    std::size_t added = 0;
    for (std::size_t i = 0; i < sorted.size();) {
      digests.clear();
      const std::uint32_t slice = sorted[i].slice;
      for (; i < sorted.size() && sorted[i].slice == slice; ++i) digests.push_back(sorted[i].digest);
      added = shard.insert(user_key, digests, slice, newest).newly_added;
    }
    return added;
  }

  Result<void> merge(const User& from, const User& into, std::uint32_t newest) {
    const Key from_key = key(from);
    const Key into_key = key(into);
    if (from_key.words == into_key.words) return {};
    if (state()->context.has_history.load(std::memory_order_relaxed)) {
      for (const User* user : {&from, &into}) {
        const bool known = locked(key(*user), [&](State& now, ShardOf& shard) {
          return shard.index.find(now.context.space, key(*user)) != nullptr;
        });
        if (known) continue;
        if (auto created = create_from_history(*user, {}, newest); !created) return std::move(created).error();
      }
    }
    for (;;) {
      State* const now = state();
      ShardOf& from_shard = now->shard_of(from_key);
      ShardOf& into_shard = now->shard_of(into_key);
      std::unique_lock first(from_shard.mutex, std::defer_lock);
      std::unique_lock second(into_shard.mutex, std::defer_lock);
      if (&from_shard == &into_shard) {
        first.lock();
      } else {
        std::lock(first, second);
      }
      if (now != state()) continue;
      if (into_shard.adopt(into_key, from_shard, from_key, newest)) from_shard.erase(from_key);
      return {};
    }
  }

  /// Reads the history with no lock held; the record's chain serves meanwhile. A history that cannot be read leaves the
  /// chain in place, counted as over budget: what was to be recorded is.
  void rebuild(const User& user, std::uint32_t slice) {
    const Key user_key = key(user);
    try {
      if (const auto history = read_history(user, slice)) {
        locked(user_key, [&](State&, ShardOf& shard) { return shard.finish_rebuild(user_key, *history, slice); });
        return;
      }
    } catch (...) {  // out of memory, or whatever the Replay throws
    }
    locked(user_key, [&](State&, ShardOf& shard) { return shard.abandon_rebuild(user_key); });
  }

  StorePolicy policy;
  SliceClock slices;
  MemoryOptions options;
  RateTables rates;
  Hash hash;
  std::uint64_t key_seed;  // where users stand in the index is as secret as where items stand in a filter
  std::atomic<State*> current{nullptr};
  Reader reader;
  std::vector<std::unique_ptr<State>> owned_states;  // the last one is current
  std::atomic<std::uint64_t> write_failures{0};
  std::mutex snapshot_mutex;
  mutable std::mutex replay_mutex;
  std::shared_ptr<const Replay<User>> replay;
};

SEENBY_DETAIL_END
