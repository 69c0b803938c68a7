#pragma once
// SPDX-License-Identifier: MIT
// MemoryStore: the filters of millions of users in this process, for concurrent readers and writers.

#include <time.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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

#include "seenby/detail/memory_reader.hpp"
#include "seenby/detail/memory_snapshot.hpp"
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
  /// any filter without a history. Four take the 32 bytes of a filter's smallest size; eight would take 64, which no
  /// filter of so few items needs.
  std::uint32_t exact_items = 4;
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
  using Reader = detail::MemoryReader<User>;

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

  /// Everything `from` has seen, `into` has seen from now on, slice by slice; `from` is forgotten. Filters of one size
  /// are united where the result stays within its rate and stand beside each other otherwise: then the merged user may
  /// be over budget, which the counters say. A user that is missing counts with what the history has of them. Errors as
  /// `record`; then both users are as before.
  Result<void> merge_users(const User& from, const User& into) {
    return guarded<void>(0, [&]() -> Result<void> { return merge(from, into, current_slice()); });
  }

  /// Frees the slices that left the window. Records do so for the user they touch; call this now and then for those who
  /// do not come back. O(users), one shard locked at a time.
  void sweep() {
    const std::uint32_t newest = current_slice();
    for_each_shard([&](Shard& shard) { shard.sweep(newest); });
  }

  /// Writes all users to a file while the store goes on serving: what was acknowledged before is in it. A kill at any
  /// moment leaves the old file or the new one, and perhaps a temporary one beside it ("NAME.XXXXXX"). Errors: io.
  Result<void> snapshot(const std::filesystem::path& path) const {
    const std::lock_guard lock(core_->snapshot_mutex);
    return detail::write_snapshot(*core_->state(), identity(), current_slice(), path);
  }

  /// Replaces all users by a snapshot's; for each user a check sees the record before or the one after. The shards'
  /// number and the wrong-hide rate may differ from those it was written under; where the filters then err more than
  /// the policy allows, over_budget counts them. Errors, which leave the store as it is: bad_magic,
  /// unsupported_version, truncated, corrupt, parameter_mismatch (another hash, seed, window or kind of user),
  /// too_large (max_bytes), io. Readers may be looking at the users before until the store goes, so 100 bytes a shard
  /// or so stay behind each time.
  Result<void> restore(const std::filesystem::path& path) {
    return guarded<void>(0, [&]() -> Result<void> {
      const std::lock_guard lock(core_->snapshot_mutex);
      auto fresh = core_->new_state();
      const auto newest = detail::read_snapshot(*fresh, identity(), path);
      if (!newest) return newest.error();
      core_->replace_state(std::move(fresh));
      const auto seconds = std::chrono::seconds(std::int64_t{*newest} * core_->slices.slice_seconds());
      if (core_->slices.windowed()) (void)core_->slices.newest(Time(seconds));
      return {};
    });
  }

  /// One added to seen_by[i] for every user whose record says "seen" of candidate i; both spans are overwritten.
  /// O(users * candidates * parts), a user without a window having one part in most cases.
  template <class Item>
  void check(std::span<const User> users, const ItemBatch<Item>& batch, std::span<std::uint8_t> seen_by,
             std::span<UserStatus> status) const noexcept {
    check_digests(users, batch.digests, seen_by, status);
  }
  void check_digests(std::span<const User> users, std::span<const Digest> digests, std::span<std::uint8_t> seen_by,
                     std::span<UserStatus> status) const noexcept {
    typename Reader::Targets targets;
    core_->reader.aim(users, targets);
    core_->reader.resolve(targets);
    core_->reader.answer(targets, users, digests, current_slice(), seen_by.data(), status);
  }

  /// Answers many requests, each as `check` does. While one is answered, the next one's filters are on their way from
  /// memory, and the one after that has its users looked up.
  template <class Item>
  void check_many(std::span<const CheckRequest<User, Item>> requests) const noexcept {
    std::array<typename Reader::Targets, 4> ring;
    const Reader& reader = core_->reader;
    const std::uint32_t newest = current_slice();
    const std::size_t count = requests.size();
    for (std::size_t i = 0; i < count + 2; ++i) {
      if (i < count) reader.aim(requests[i].users, ring[i % 4]);
      if (i >= 1 && i - 1 < count) reader.resolve(ring[(i - 1) % 4]);
      if (i < 2) continue;
      const auto& request = requests[i - 2];
      reader.answer(ring[(i - 2) % 4], request.users, request.batch.digests, newest, request.seen_by.data(),
                    request.status);
    }
  }

  /// ages[i] is the number of slices since the user last saw candidate i as far as the record tells: 0 in the newest,
  /// 255 when unseen or the user is missing. Without a window what is seen has age 0.
  template <class Item>
  void age(const User& user, const ItemBatch<Item>& batch, std::span<std::uint8_t> ages) const noexcept {
    core_->reader.age(user, current_slice(), batch.digests, ages.data());
  }

  [[nodiscard]] StoreCounters counters() const {
    std::uint64_t user_count = 0;
    detail::ShardCounters total;
    for_each_shard([&](const Shard& shard) {
      user_count += shard.index.users();
      total += shard.counters;
    });
    return {.users = user_count,
            .records = total.records,
            .write_failures = core_->write_failures.load(std::memory_order_relaxed),
            .growths = total.growths,
            .rebuilds = total.rebuilds,
            .over_budget = total.over_budget,
            .slices_dropped = total.slices_dropped};
  }
  [[nodiscard]] std::uint64_t users() const { return counters().users; }

  /// Everything the store holds: records, index, unused memory, shards and bookkeeping.
  [[nodiscard]] std::uint64_t memory_bytes() const {
    std::uint64_t bytes = sizeof(*this) + sizeof(Core) + sizeof(State) + core_->state()->context.space.resident_bytes();
    for_each_shard([&](const Shard& shard) { bytes += shard.bookkeeping_bytes(); });
    return bytes;
  }
  /// The rate at which a user's record hides a fresh candidate now; 0 for nobody and for exact records.
  [[nodiscard]] double expected_fpr(const User& user) const {
    return locked(key(user), [&](State&, Shard& shard) { return shard.expected_fpr(key(user), current_slice()); });
  }
  /// A user's record and their share of the index (20 bytes, 30 where users are no integers); 0 for nobody.
  [[nodiscard]] std::uint64_t user_bytes(const User& user) const {
    return locked(key(user), [&](State&, Shard& shard) { return shard.bytes_of(key(user)); });
  }

 private:
  struct Core {
    Core(StorePolicy&& given, MemoryOptions wanted)
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
      auto state = std::make_unique<State>(static_cast<std::uint32_t>(std::bit_width(options.shards) - 1),
                                           options.max_bytes, rates);
      state->context.key_seed = key_seed;
      state->context.exact_items = options.exact_items;
      state->context.slices = slices.windowed() ? policy.slices : 0;
      state->context.initial_items = policy.initial_items;
      state->context.growth_factor = policy.growth_factor;
      return state;
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

    StorePolicy policy;
    detail::SliceClock slices;
    MemoryOptions options;
    detail::RateTables rates;
    Hash hash;
    std::uint64_t key_seed;  // where users stand in the index is as secret as where items stand in a filter
    std::atomic<State*> current{nullptr};
    Reader reader;
    std::vector<std::unique_ptr<State>> owned_states;  // the last one is current
    std::atomic<std::uint64_t> write_failures{0};
    std::mutex snapshot_mutex;
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
    require(options.exact_items <= detail::max_exact_items, "0 to 64 exact_items", options.exact_items);
    options.shards = std::bit_ceil(options.shards);
    return options;
  }

  [[nodiscard]] detail::SnapshotIdentity identity() const noexcept {
    const auto& slices = core_->slices;
    return {.hash = Hash::kind,
            .key_words = static_cast<std::uint8_t>(key_words),
            .seed_check = seed_check(core_->hash),
            .slices = static_cast<std::uint16_t>(slices.windowed() ? core_->policy.slices : 0),
            .slice_seconds = static_cast<std::uint64_t>(slices.slice_seconds())};
  }
  [[nodiscard]] Key key(const User& user) const noexcept { return detail::index_key(user, core_->key_seed); }

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
    return detail::with_locked_shard(core_->current, key, std::forward<Change>(change));
  }
  template <class Visit>
  void for_each_shard(Visit&& visit) const {
    State& state = *core_->state();
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

  Result<void> merge(const User& from, const User& into, std::uint32_t newest) {
    const Key from_key = key(from);
    const Key into_key = key(into);
    if (from_key.words == into_key.words) return {};
    if (core_->state()->context.has_history.load(std::memory_order_relaxed)) {
      for (const User* user : {&from, &into}) {
        const bool known = locked(key(*user), [&](State& state, Shard& shard) {
          return shard.index.find(state.context.space, key(*user)) != nullptr;
        });
        if (known) continue;
        if (auto created = create_from_history(*user, {}, newest); !created) return std::move(created).error();
      }
    }
    for (;;) {
      State* const state = core_->state();
      Shard& from_shard = state->shard_of(from_key);
      Shard& into_shard = state->shard_of(into_key);
      std::unique_lock first(from_shard.mutex, std::defer_lock);
      std::unique_lock second(into_shard.mutex, std::defer_lock);
      if (&from_shard == &into_shard) {
        first.lock();
      } else {
        std::lock(first, second);
      }
      if (state != core_->state()) continue;
      if (into_shard.adopt(into_key, from_shard, from_key, newest)) from_shard.erase(from_key);
      return {};
    }
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

  std::unique_ptr<Core> core_;
};

}  // namespace seenby
