#pragma once
// SPDX-License-Identifier: MIT
// MemoryStore: the filters of millions of users in this process, for concurrent readers and writers.

#include <time.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/memory_state.hpp"
#include "seenby/detail/slice_clock.hpp"
#include "seenby/filter_store.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

/// What is peculiar to a MemoryStore; the defaults suit thousands to tens of millions of users.
struct MemoryOptions {
  /// How many shards, rounded up to a power of two, at most 65,536. Writers of one shard wait for each other.
  std::uint32_t shards = 256;
  /// Histories of up to so many items (at most 64) are kept as exact digests: no false positives, and they grow into
  /// any filter without a history. Eight take at most 64 bytes.
  std::uint32_t exact_items = 8;
  /// Memory for users and their index, at most; a record that would need more is refused. 0: the machine's memory.
  std::uint64_t max_bytes = 0;
};

/// Users' filters in memory: an arena of 32-byte granules, 8-byte handles, one index a shard.
///
/// A short history is exact. A longer one is a split-block filter, sized for the first batch; outgrown, it is
/// re-inserted at growth_factor times the size where there is a history to read (`set_replay`), and otherwise succeeded
/// by a larger and tighter one, so that the user's rate stays within budget for 1,000 times the first capacity and
/// more. With a window each slice is such a chain of its own.
///
/// Thread-safe. `check` takes no lock and writes nothing shared; it never waits for a growth. Writers of users in one
/// shard exclude each other. A record that returned is visible to every check that starts afterwards.
template <HashableItem User, Hasher Hash = Xxh3Hash>
class MemoryStore {
  static constexpr std::size_t key_words = detail::index_key_words<User>;
  using State = detail::MemoryState<key_words>;
  using Key = detail::IndexKey<key_words>;
  using Shard = detail::Shard<key_words>;

 public:
  using user_type = User;
  using hasher_type = Hash;

  /// Throws std::invalid_argument for a policy or options outside their ranges.
  explicit MemoryStore(StorePolicy policy = {}, MemoryOptions options = {})
      : core_(std::make_unique<Core>(std::move(policy), options)) {}

  [[nodiscard]] const StorePolicy& policy() const noexcept { return core_->policy; }
  [[nodiscard]] const MemoryOptions& options() const noexcept { return core_->options; }
  [[nodiscard]] Hash hasher() const noexcept { return core_->hash; }

  /// Gives the store a history: users that are missing when something is recorded are created from it, and full filters
  /// are re-inserted from it. Set it before the first record, since filters are sized by what they can count on.
  void set_replay(Replay<User> replay) {
    const std::lock_guard lock(core_->replay_mutex);
    core_->replay = replay ? std::make_shared<const Replay<User>>(std::move(replay)) : nullptr;
    core_->state()->context.has_history.store(core_->replay != nullptr, std::memory_order_relaxed);
  }

  /// An explicit empty record for a new user; an existing one is kept.
  [[nodiscard]] Result<void> create(const User& user) {
    return guarded<void>(0, [&]() -> Result<void> {
      locked(key(user), [&](State&, Shard& shard) { return shard.create(key(user)); });
      return {};
    });
  }

  /// Marks items as seen. Amortised O(items); a growth costs the writer the user's items once more. Errors: too_large
  /// (max_bytes), and whatever the Replay returns when a missing user cannot be rebuilt.
  template <class Item>
  Result<RecordOutcome> record(const User& user, const ItemBatch<Item>& batch) {
    return record_digests(user, batch.digests);
  }
  Result<RecordOutcome> record_digests(const User& user, std::span<const Digest> digests) {
    return guarded<RecordOutcome>(digests.size(), [&] { return record_in(user, digests, current_slice()); });
  }

  /// Removes every trace of a user and zeroes the bytes; true when there was one.
  [[nodiscard]] Result<bool> forget(const User& user) {
    return locked(key(user), [&](State&, Shard& shard) { return shard.erase(key(user)); });
  }

  /// One added to seen_by[i] for every user whose record says "seen" of candidate i; both spans are overwritten.
  template <class Item>
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const noexcept {
    check_digests(users, batch.digests, seen_by, status);
  }
  void check_digests(std::span<const User> users, std::span<const Digest> digests, std::span<std::uint8_t> seen_by,
                     std::span<UserStatus> status) const noexcept {
    const std::uint32_t newest = current_slice();
    if (users.size() == 2 && check_pair(users, digests, seen_by, status)) return;
    std::fill_n(seen_by.begin(), digests.size(), std::uint8_t{0});
    for (std::size_t u = 0; u < users.size(); ++u) {
      status[u] = {check_user(key(users[u]), newest, digests, seen_by) ? UserState::known : UserState::missing,
                   nullptr};
    }
  }

  [[nodiscard]] StoreCounters counters() const {
    StoreCounters total;
    for_each_shard([&](const Shard& shard) {
      total.users += shard.index.users();
      total.records += shard.counters.records;
      total.growths += shard.counters.growths;
      total.rebuilds += shard.counters.rebuilds;
      total.over_budget += shard.counters.over_budget;
      total.slices_dropped += shard.counters.slices_dropped;
    });
    total.write_failures = core_->write_failures.load(std::memory_order_relaxed);
    return total;
  }
  [[nodiscard]] std::uint64_t users() const { return counters().users; }

  /// Everything the store holds: records, index, unused memory, shards and bookkeeping.
  [[nodiscard]] std::uint64_t memory_bytes() const {
    std::uint64_t bytes = sizeof(*this) + sizeof(Core) + sizeof(State) + core_->state()->context.space.held_bytes();
    for_each_shard([&](const Shard& shard) { bytes += shard.bookkeeping_bytes(); });
    return bytes;
  }
  /// A user's record and their share of the index; 0 for nobody.
  [[nodiscard]] std::uint64_t user_bytes(const User& user) const {
    return locked(key(user), [&](State&, Shard& shard) { return shard.bytes_of(key(user)); });
  }

 private:
  struct Core {
    Core(StorePolicy&& given, MemoryOptions wanted)
        : policy(std::move(given)),
          slices(policy),
          options(validated(policy, wanted)),
          hash(policy.seed),
          owned_state(new_state()) {}

    [[nodiscard]] State* state() const noexcept { return current.load(std::memory_order_acquire); }
    [[nodiscard]] std::unique_ptr<State> new_state() {
      auto state = std::make_unique<State>(static_cast<std::uint32_t>(std::bit_width(options.shards) - 1),
                                           options.max_bytes, slices.per_filter_fpr(policy));
      state->context.key_seed = Xxh3Hash(policy.seed)(std::string_view{"seenby user keys"}).value;
      state->context.exact_items = options.exact_items;
      state->context.slices = slices.windowed() ? policy.slices : 0;
      state->context.initial_items = policy.initial_items;
      state->context.growth_factor = policy.growth_factor;
      current.store(state.get(), std::memory_order_release);
      return state;
    }

    StorePolicy policy;
    detail::SliceClock slices;
    MemoryOptions options;
    Hash hash;
    std::atomic<State*> current{nullptr};
    std::unique_ptr<State> owned_state;
    std::atomic<std::uint64_t> write_failures{0};
    std::mutex replay_mutex;
    std::shared_ptr<const Replay<User>> replay;
  };

  static void require(bool holds, const char* expected, double got) {
    if (holds) return;
    std::string message = "seenby: expected ";
    throw std::invalid_argument(message.append(expected).append(", got ").append(detail::text_of(got)));
  }
  static MemoryOptions validated(const StorePolicy& policy, MemoryOptions options) {
    require(policy.slices <= detail::max_parts / 2, "1 to 127 slices", policy.slices);
    require(policy.initial_items <= (std::uint64_t{1} << 32), "1 to 2^32 initial_items",
            static_cast<double>(policy.initial_items));
    require(options.shards >= 1 && options.shards <= 65536, "1 to 65536 shards", options.shards);
    require(options.exact_items <= 64, "0 to 64 exact_items", options.exact_items);
    options.shards = std::bit_ceil(options.shards);
    return options;
  }

  [[nodiscard]] Key key(const User& user) const noexcept {
    return detail::index_key(user, core_->state()->context.key_seed);
  }

  /// The number of the newest slice. It never falls: a clock that jumps back finds dropped slices still dropped, and
  /// what is recorded then goes into the newest slice there is. The clock is read only where there is a window.
  [[nodiscard]] std::uint32_t current_slice() const noexcept {
    if (!core_->slices.windowed()) return 0;
    return narrowed(core_->slices.newest(core_->policy.clock ? core_->policy.clock() : coarse_time()));
  }
  [[nodiscard]] std::uint32_t slice_of(Time time) const noexcept { return narrowed(core_->slices.number(time)); }
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
    for (;;) {
      State* const state = core_->state();
      Shard& shard = state->shard_of(key);
      const std::lock_guard lock(shard.mutex);
      if (state == core_->state()) return change(*state, shard);
    }
  }
  template <class Visit>
  void for_each_shard(Visit&& visit) const {
    const State& state = *core_->state();
    for (std::size_t i = 0; i < state.size(); ++i) {
      const std::lock_guard lock(state[i].mutex);
      visit(state[i]);
    }
  }

  /// Out of memory becomes an error, and errors are counted.
  template <class T, class Write>
  Result<T> guarded(std::size_t items, Write&& write) {
    try {
      Result<T> result = write();
      if (!result) core_->write_failures.fetch_add(items, std::memory_order_relaxed);
      return result;
    } catch (const std::bad_alloc&) {
      core_->write_failures.fetch_add(items, std::memory_order_relaxed);
      std::string message = "seenby: expected the memory store to fit in ";
      message.append(core_->options.max_bytes == 0 ? "the machine's memory"
                                                   : std::to_string(core_->options.max_bytes).append(" bytes"));
      return Error{ErrorCode::too_large, std::move(message)};
    }
  }

  // Recording.

  Result<RecordOutcome> record_in(const User& user, std::span<const Digest> digests, std::uint32_t newest) {
    const Key user_key = key(user);
    bool missing = false;
    const detail::InsertOutcome outcome = locked(user_key, [&](State& state, Shard& shard) -> detail::InsertOutcome {
      missing = state.context.has_history.load(std::memory_order_relaxed) &&
                shard.index.find(state.context.space, user_key) == nullptr;
      if (missing) return {};
      auto inserted = shard.insert(user_key, digests, newest, newest);
      inserted.rebuild_wanted = inserted.rebuild_wanted && shard.begin_rebuild(user_key);
      return inserted;
    });
    if (missing) return create_from_history(user, digests, newest);
    if (outcome.rebuild_wanted) rebuild(user, newest);
    return RecordOutcome{.newly_added = outcome.newly_added, .grew = outcome.grew};
  }

  [[nodiscard]] Result<std::vector<detail::SliceDigest>> read_history(const User& user, std::uint32_t newest) const {
    std::shared_ptr<const Replay<User>> replay;
    {
      const std::lock_guard lock(core_->replay_mutex);
      replay = core_->replay;
    }
    std::vector<detail::SliceDigest> digests;
    if (!replay) return digests;
    auto history = (*replay)(user);
    if (!history) return std::move(history).error();
    digests.reserve(history->size());
    const auto& context = core_->state()->context;
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
      const auto erasures = locked(user_key, [](State&, Shard& shard) { return shard.erasures(); });
      auto history = read_history(user, newest);
      if (!history) return std::move(history).error();
      const std::size_t from_history = history->size();
      for (const Digest digest : digests) history->push_back({digest, newest});
      std::stable_sort(history->begin(), history->end(),
                       [](const auto& a, const auto& b) { return a.slice < b.slice; });
      RecordOutcome outcome;
      const bool done = locked(user_key, [&](State&, Shard& shard) {
        if (shard.erasures() != erasures) return false;
        outcome.newly_added = insert_by_slice(shard, user_key, *history, newest);
        shard.counters.records -= from_history;
        shard.counters.rebuilds += from_history > 0 ? 1 : 0;
        return true;
      });
      if (done) {
        outcome.newly_added = std::min(outcome.newly_added, digests.size());
        return outcome;
      }
    }
  }
  static std::size_t insert_by_slice(Shard& shard, const Key& user_key, std::span<const detail::SliceDigest> sorted,
                                     std::uint32_t newest) {
    std::vector<Digest> digests;
    std::size_t added = 0;
    for (std::size_t i = 0; i < sorted.size();) {
      digests.clear();
      const std::uint32_t slice = sorted[i].slice;
      for (; i < sorted.size() && sorted[i].slice == slice; ++i) digests.push_back(sorted[i].digest);
      std::sort(digests.begin(), digests.end());
      digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
      added = shard.insert(user_key, digests, slice, newest).newly_added;
    }
    return added;
  }

  /// Reads the history with no lock held; the record's chain serves meanwhile. A history that cannot be read leaves the
  /// chain in place, counted as over budget.
  void rebuild(const User& user, std::uint32_t slice) {
    const Key user_key = key(user);
    auto history = read_history(user, slice);
    locked(user_key, [&](State&, Shard& shard) {
      if (history) return shard.finish_rebuild(user_key, *history, slice);
      shard.abandon_rebuild(user_key);
      return false;
    });
  }

  // Checking.

  /// Calls read(state, shard, sequence) until it returns true and nothing it looked at was reused meanwhile.
  template <class Read>
  void read_consistently(const Key& user_key, Read&& read) const noexcept {
    for (int i = 0; i < detail::optimistic_tries; ++i) {
      const State* const state = core_->state();
      const Shard& shard = state->shard_of(user_key);
      const std::uint32_t sequence = shard.sequence.begin_read();
      if (!detail::ReadSequence::is_stable(sequence) || !read(*state, shard, sequence)) continue;
      if (shard.sequence.unchanged_since(sequence) && state == core_->state()) return;
    }
    locked(user_key, [&](State& state, Shard& shard) { return read(state, shard, shard.sequence.begin_read()); });
  }

  /// Both users' filters at once where both have just one; false when the general way must answer.
  bool check_pair(std::span<const User> users, std::span<const Digest> digests, std::span<std::uint8_t> seen_by,
                  std::span<UserStatus> status) const noexcept {
    for (int i = 0; i < detail::optimistic_tries; ++i) {
      const State& state = *core_->state();
      const Key first_key = detail::index_key(users[0], state.context.key_seed);
      const Key second_key = detail::index_key(users[1], state.context.key_seed);
      const Shard& first_shard = state.shard_of(first_key);
      const Shard& second_shard = state.shard_of(second_key);
      const std::uint32_t first_seen = first_shard.sequence.begin_read();
      const std::uint32_t second_seen = second_shard.sequence.begin_read();
      if (!detail::ReadSequence::is_stable(first_seen | second_seen)) continue;
      const detail::Handle first = state.find(first_shard, first_key);
      const detail::Handle second = state.find(second_shard, second_key);
      if (first.kind() != detail::RecordKind::filter || second.kind() != detail::RecordKind::filter) return false;
      detail::blocks_check_pair(state.context.space.at(first.block()), first.size(),
                                state.context.space.at(second.block()), second.size(), digests, seen_by.data());
      if (!first_shard.sequence.unchanged_since(first_seen) || !second_shard.sequence.unchanged_since(second_seen)) {
        continue;
      }
      if (&state != core_->state()) continue;
      status[0] = {UserState::known, nullptr};
      status[1] = {UserState::known, nullptr};
      return true;
    }
    return false;
  }

  /// Adds one user's answers; false when there is no such user.
  bool check_user(const Key& user_key, std::uint32_t newest, std::span<const Digest> digests,
                  std::span<std::uint8_t> seen_by) const noexcept {
    bool known = false;
    std::size_t at = 0;
    do {
      const auto chunk = digests.subspan(at, std::min(detail::read_chunk, digests.size() - at));
      std::array<std::uint8_t, detail::read_chunk> hits;
      read_consistently(user_key, [&](const State& state, const Shard& shard, std::uint32_t sequence) {
        const detail::Handle handle = state.find(shard, user_key);
        known = handle.kind() != detail::RecordKind::none;
        std::fill_n(hits.begin(), chunk.size(), std::uint8_t{0});
        std::array<std::uint8_t, detail::read_chunk> part_hits;
        return state.for_each_part(shard, sequence, handle, newest, [&](const detail::ReadPart& part) {
          part.check(chunk, part_hits.data());
          for (std::size_t i = 0; i < chunk.size(); ++i) hits[i] |= part_hits[i];
        });
      });
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        seen_by[at + i] = static_cast<std::uint8_t>(seen_by[at + i] + hits[i]);
      }
      at += chunk.size();
    } while (known && at < digests.size());
    return known;
  }

  std::unique_ptr<Core> core_;
};

}  // namespace seenby
