#pragma once
// SPDX-License-Identifier: MIT
// The members of MemoryCore: writes that need a history or two shards, reads that are no pair's, and snapshots.

#include <time.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "seenby/stores/memory/core.hpp"
#include "seenby/stores/memory/exact_section.hpp"
#include "seenby/stores/memory/reader.hpp"
#include "seenby/stores/memory/snapshot.hpp"
#include "seenby/stores/memory/state.hpp"
#include "seenby/stores/record_many.hpp"

SEENBY_DETAIL_BEGIN

inline void require_option(bool holds, const char* expected, double got) {
  if (holds) return;
  std::string message = "seenby: expected ";
  throw std::invalid_argument(message.append(expected).append(", got ").append(text_of(got)));
}

[[nodiscard]] inline MemoryOptions validated(const StorePolicy& policy, MemoryOptions options) {
  require_option(policy.slices <= max_parts / 2, "1 to 127 slices", policy.slices);
  require_option(policy.initial_items <= (std::uint64_t{1} << 32), "1 to 2^32 initial_items",
                 static_cast<double>(policy.initial_items));
  require_option(options.shards >= 1 && options.shards <= 65536, "1 to 65536 shards", options.shards);
  require_option(options.exact_items <= max_exact_items, "0 to 64 exact_items", options.exact_items);
  require_option(options.table_bytes >= 2048 && options.table_bytes <= Handle::largest_size * granule_bytes,
                 "2,048 to 131,040 table_bytes", options.table_bytes);
  options.shards = std::bit_ceil(options.shards);
  return options;
}

/// The time of the last timer tick: a few nanoseconds to read, and a slice is at least a second long.
[[nodiscard]] inline Time coarse_time() noexcept {
#ifdef CLOCK_REALTIME_COARSE
  timespec now{};
  if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0) return Time(std::chrono::seconds(now.tv_sec));
#endif
  return system_time();
}

/// Slices before 1970 are one slice, and so are those after 2106: 32 bits a part are enough.
[[nodiscard]] inline std::uint32_t narrowed(std::int64_t slice) noexcept {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(slice, 0, std::numeric_limits<std::uint32_t>::max()));
}

template <std::size_t Words>
MemoryCore<Words>::MemoryCore(StorePolicy&& given, const MemoryOptions& wanted, DigestIdentity identity)
    : policy_(std::move(given)),
      slices_(policy_),
      options_(validated(policy_, wanted)),
      identity_(identity),
      key_seed_(Xxh3Hash(policy_.seed)(std::string_view{"seenby user keys"}).value),
      rates_(std::make_unique<const RateTables>(slices_.per_filter_fpr(policy_))),
      state_(std::make_unique<State>(static_cast<std::uint32_t>(std::bit_width(options_.shards) - 1),
                                     options_.max_bytes, *rates_)),
      lookup_(state_->shards.directory, state_->context.space) {
  ShardContext& context = state_->context;
  context.key_seed = key_seed_;
  context.exact_items = options_.exact_items;
  context.slices = slices_.windowed() ? policy_.slices : 0;
  context.initial_items = policy_.initial_items;
  context.growth_factor = policy_.growth_factor;
  context.largest_table = options_.table_bytes / granule_bytes;
}
template <std::size_t Words>
MemoryCore<Words>::~MemoryCore() = default;

template <std::size_t Words>
std::uint32_t MemoryCore<Words>::newest_slice() const {
  if (!slices_.windowed()) return 0;
  return narrowed(slices_.newest(policy_.clock, policy_.clock ? policy_.clock() : coarse_time()));
}
template <std::size_t Words>
std::uint32_t MemoryCore<Words>::slice_of(Time time) const noexcept {
  return narrowed(slices_.number(time));
}

/// Out of memory becomes an error, and errors are counted.
template <std::size_t Words>
template <class Write>
auto MemoryCore<Words>::guarded(std::size_t items, Write&& write) -> decltype(write()) {
  try {
    auto result = write();
    if (!result) write_failures_.fetch_add(items, std::memory_order_relaxed);
    return result;
  } catch (const std::bad_alloc&) {
    write_failures_.fetch_add(items, std::memory_order_relaxed);
    std::string message = "seenby: expected the memory store to fit in ";
    message.append(options_.max_bytes == 0 ? "the machine's memory"
                                           : std::to_string(options_.max_bytes).append(" bytes"));
    return Error{ErrorCode::too_large, std::move(message)};
  }
}

template <std::size_t Words>
void MemoryCore<Words>::set_history(HistoryReader history) {
  static constexpr HistoryPaths paths{&MemoryCore::create_from_history, &MemoryCore::rebuild};
  const std::lock_guard lock(history_mutex_);
  history_paths_.store(&paths, std::memory_order_release);
  history_ = history ? std::make_shared<const HistoryReader>(std::move(history)) : nullptr;
  state_->context.has_history.store(history_ != nullptr, std::memory_order_relaxed);
}

// Writes.

template <std::size_t Words>
Result<void> MemoryCore<Words>::create(const Key& key) {
  return guarded(0, [&]() -> Result<void> {
    state_->shards.locked(key, [&](Shard<Words>& shard) {
      shard.create(key);
      state_->shards.split_if_crowded(shard);
    });
    return {};
  });
}

template <std::size_t Words>
Result<RecordOutcome> MemoryCore<Words>::record(const User& user, std::span<const Digest> digests,
                                                std::optional<Time> when) {
  return guarded(digests.size(), [&]() -> Result<RecordOutcome> {
    const std::uint32_t newest = newest_slice();
    const std::uint32_t slice = when ? std::min(slice_of(*when), newest) : newest;
    // Nothing to remember, or nothing that would still be remembered.
    if (digests.empty() || !state_->context.is_live(slice, newest)) return RecordOutcome{};
    auto outcome = record_in(user, digests, slice, newest);
    if (exact_.keeps() && outcome) keep_last(user.key, digests, when);
    return outcome;
  });
}
template <std::size_t Words>
void MemoryCore<Words>::keep_last(const Key& key, std::span<const Digest> digests, std::optional<Time> when) {
  exact_.keep(key.words, digests, when ? *when : policy_.clock());
}

template <std::size_t Words>
Result<RecordOutcome> MemoryCore<Words>::record_in(const User& user, std::span<const Digest> digests,
                                                   std::uint32_t slice, std::uint32_t newest) {
  RecordOutcome total;
  do {
    const auto outcome = state_->shards.locked(user.key, [&](Shard<Words>& shard) {
      auto inserted = insert_locked(shard, user.key, digests, slice, newest);
      state_->shards.split_if_crowded(shard);
      return inserted;
    });
    const HistoryPaths* const paths = history_paths_.load(std::memory_order_acquire);
    if (!outcome) {  // missing, or forgotten since the first items went in
      auto created = (this->*paths->create)(user, digests, slice, newest);
      if (created) created->newly_added += total.newly_added;
      return created;
    }
    if (outcome->rebuild_wanted && paths != nullptr) (this->*paths->rebuild)(user, slice);
    total.newly_added += outcome->newly_added;
    total.grew = total.grew || outcome->grew;
    digests = digests.last(outcome->left);
    if (!digests.empty()) state_->shards.give_way(user.key);
  } while (!digests.empty());
  return total;
}
/// Nothing where the user is missing and a history must be read first.
template <std::size_t Words>
std::optional<InsertOutcome> MemoryCore<Words>::insert_locked(Shard<Words>& shard, const Key& key,
                                                              std::span<const Digest> digests, std::uint32_t slice,
                                                              std::uint32_t newest) {
  if (history_paths_.load(std::memory_order_acquire) != nullptr &&
      state_->context.has_history.load(std::memory_order_relaxed) &&
      shard.index.find(state_->context.space, key) == nullptr) {
    return std::nullopt;
  }
  auto inserted = shard.insert(key, digests, slice, newest);
  shard.counters.records += digests.size() - inserted.left;
  inserted.rebuild_wanted = inserted.rebuild_wanted && shard.begin_rebuild(key);
  return inserted;
}

template <std::size_t Words>
template <class Run>
Result<RecordOutcome> MemoryCore<Words>::for_each_slice(const StoredRequest<Words>& request, std::uint32_t newest,
                                                        const Run& run) const {
  Result<RecordOutcome> total = RecordOutcome{};
  const auto slice_at = [&](std::size_t i) {
    return request.when.empty() ? newest : std::min(slice_of(request.when[i]), newest);
  };
  for_each_run(request.digests.size(), slice_at, [&](std::size_t begin, std::size_t end) {
    const std::uint32_t slice = slice_at(begin);
    if (!total || !state_->context.is_live(slice, newest)) return;
    const Result<RecordOutcome> done = run(request.digests.subspan(begin, end - begin), slice);
    if (!done) {
      total = done.error();
      return;
    }
    total->newly_added += done->newly_added;
    total->grew = total->grew || done->grew;
  });
  return total;
}

template <std::size_t Words>
std::vector<Result<RecordOutcome>> MemoryCore<Words>::record_many(std::span<const StoredRequest<Words>> requests) {
  const std::uint32_t newest = newest_slice();
  std::vector<Result<RecordOutcome>> outcomes(requests.size(), RecordOutcome{});
  BatchRest rest;
  record_known(requests, newest, outcomes, rest);
  const HistoryPaths* const paths = history_paths_.load(std::memory_order_acquire);
  for (const auto& [i, slice] : rest.outgrown) {
    if (paths != nullptr) (this->*paths->rebuild)(requests[i].user, slice);
  }
  for (const std::size_t i : rest.missing) {
    outcomes[i] = guarded(requests[i].digests.size(), [&] {
      return for_each_slice(requests[i], newest, [&](auto digests, std::uint32_t slice) {
        return record_in(requests[i].user, digests, slice, newest);
      });
    });
  }
  for (const auto& part : rest.unfinished) {
    auto& outcome = outcomes[part.request];
    if (!outcome) continue;
    const auto more = guarded(part.digests.size(),
                              [&] { return record_in(requests[part.request].user, part.digests, part.slice, newest); });
    if (!more) {
      outcome = more.error();
      continue;
    }
    outcome->newly_added += more->newly_added;
    outcome->grew = outcome->grew || more->grew;
  }
  for (std::size_t i = 0; exact_.keeps() && i < requests.size(); ++i) {
    if (!outcomes[i]) continue;
    outcomes[i] = guarded(requests[i].digests.size(), [&]() -> Result<RecordOutcome> {
      keep_last(requests[i], newest);
      return outcomes[i];
    });
  }
  return outcomes;
}
/// Records whom no history must be read for, each shard locked once; tells who is left.
template <std::size_t Words>
void MemoryCore<Words>::record_known(std::span<const StoredRequest<Words>> requests, std::uint32_t newest,
                                     std::vector<Result<RecordOutcome>>& outcomes, BatchRest& rest) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key_of = [&](std::size_t at) -> const Key& { return requests[order[at]].user.key; };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return requests[a].user.key.hash < requests[b].user.key.hash; });
  rest.missing.reserve(requests.size());
  state_->shards.locked_each(order.size(), key_of, [&](Shard<Words>& shard, std::size_t at) {
    const std::size_t i = order[at];
    bool unread = false;
    outcomes[i] = guarded(requests[i].digests.size(), [&] {
      return for_each_slice(requests[i], newest, [&](auto digests, std::uint32_t slice) -> Result<RecordOutcome> {
        // Room first: a rebuild that has begun must end.
        auto& outgrown = rest.outgrown;
        rest.unfinished.reserve(rest.unfinished.size() + 1);
        if (outgrown.size() == outgrown.capacity()) outgrown.reserve(2 * outgrown.size() + 8);
        const auto inserted = insert_locked(shard, key_of(at), digests, slice, newest);
        unread = unread || !inserted;
        if (!inserted) return RecordOutcome{};
        if (inserted->rebuild_wanted) outgrown.emplace_back(i, slice);
        if (inserted->left > 0) rest.unfinished.push_back({i, digests.last(inserted->left), slice});
        return RecordOutcome{.newly_added = inserted->newly_added, .grew = inserted->grew};
      });
    });
    if (unread) rest.missing.push_back(i);
    state_->shards.split_if_crowded(shard);
  });
}
template <std::size_t Words>
void MemoryCore<Words>::keep_last(const StoredRequest<Words>& request, std::uint32_t newest) {
  if (request.when.empty()) return keep_last(request.user.key, request.digests, std::nullopt);
  for_each_run(
      request.when.size(), [&](std::size_t i) { return request.when[i]; },
      [&](std::size_t begin, std::size_t end) {
        const Time when = request.when[begin];
        if (!state_->context.is_live(std::min(slice_of(when), newest), newest)) return;
        keep_last(request.user.key, request.digests.subspan(begin, end - begin), when);
      });
}

template <std::size_t Words>
Result<std::vector<SliceDigest>> MemoryCore<Words>::read_history(const User& user, std::uint32_t newest) const {
  std::shared_ptr<const HistoryReader> reading;
  {
    const std::lock_guard lock(history_mutex_);
    reading = history_;
  }
  std::vector<SliceDigest> digests;
  if (!reading) return digests;
  auto history = (*reading)(user.user, slices_.window_start(newest));
  if (!history) return std::move(history).error();
  digests.reserve(history->size());
  for (const SeenDigest& seen : *history) {
    // A history whose clock runs ahead of ours must not open a slice that does not exist yet.
    const std::uint32_t slice = std::min(slice_of(seen.seen_at), newest);
    if (state_->context.is_live(slice, newest)) digests.push_back({seen.digest, slice});
  }
  return digests;
}

/// In the order of the slices, each item once a slice.
inline void sort_by_slice(std::vector<SliceDigest>& digests) {
  const auto order = [](const SliceDigest& seen) { return std::pair(seen.slice, seen.digest); };
  std::sort(digests.begin(), digests.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  digests.erase(
      std::unique(digests.begin(), digests.end(), [&](const auto& a, const auto& b) { return order(a) == order(b); }),
      digests.end());
}

template <std::size_t Words>
void insert_by_slice(Shard<Words>& shard, const IndexKey<Words>& key, std::span<const SliceDigest> sorted,
                     std::uint32_t newest) {
  std::vector<Digest> digests;
  for (std::size_t i = 0; i < sorted.size();) {
    digests.clear();
    const std::uint32_t slice = sorted[i].slice;
    for (; i < sorted.size() && sorted[i].slice == slice; ++i) digests.push_back(sorted[i].digest);
    shard.insert_all(key, digests, slice, newest);
  }
}

/// Creates a missing user from their history and the batch. Until then they stay missing: no check is told "unseen" by
/// half a record. A forget of this user meanwhile has the history read again, a few times at most.
template <std::size_t Words>
Result<RecordOutcome> MemoryCore<Words>::create_from_history(const User& user, std::span<const Digest> digests,
                                                             std::uint32_t slice, std::uint32_t newest) {
  constexpr int most_reads = 4;
  for (int reads = 0; reads < most_reads; ++reads) {
    const auto number =
        state_->shards.locked(user.key, [&](Shard<Words>& shard) { return shard.begin_creation(user.key); });
    const auto end = [&] {
      return state_->shards.locked(user.key, [&](Shard<Words>& shard) { return shard.end_creation(user.key, number); });
    };
    auto history = [&] {
      try {
        return read_history(user, newest);
      } catch (...) {  // whatever the Replay throws
        end();
        throw;
      }
    }();
    if (!history) {
      end();
      return std::move(history).error();
    }
    sort_by_slice(*history);
    RecordOutcome outcome;
    const bool done = state_->shards.locked(user.key, [&](Shard<Words>& shard) {
      if (!shard.end_creation(user.key, number)) return false;
      const bool is_new = shard.index.find(state_->context.space, user.key) == nullptr;
      try {
        insert_by_slice(shard, user.key, std::span<const SliceDigest>(*history), newest);
        // After the history, so that what it holds already is not counted as new.
        if (!digests.empty()) outcome.newly_added = shard.insert_all(user.key, digests, slice, newest);
      } catch (const std::bad_alloc&) {
        if (is_new) shard.erase(user.key);  // half a history would call the other half unseen
        throw;
      }
      shard.counters.records += digests.size();
      shard.counters.rebuilds += history->empty() ? 0U : 1U;
      state_->shards.split_if_crowded(shard);
      return true;
    });
    if (!done) continue;
    return outcome;
  }
  return Error{ErrorCode::unavailable,
               "seenby: expected to read a missing user's history, but the user was forgotten each time meanwhile"};
}

/// Reads the history with no lock held; the record serves meanwhile. A history that cannot be read leaves a
/// table beside the full filter, counted as over budget: what was to be recorded is.
template <std::size_t Words>
void MemoryCore<Words>::rebuild(const User& user, std::uint32_t slice) {
  try {
    if (const auto history = read_history(user, slice)) {
      state_->shards.locked(user.key, [&](Shard<Words>& shard) { shard.finish_rebuild(user.key, *history, slice); });
      return;
    }
  } catch (...) {  // out of memory, or whatever the Replay throws
  }
  state_->shards.locked(user.key, [&](Shard<Words>& shard) { shard.abandon_rebuild(user.key); });
}

template <std::size_t Words>
Result<bool> MemoryCore<Words>::forget(const Key& key) {
  const bool any = exact_.forget(key.words);
  return state_->shards.locked(key, [&](Shard<Words>& shard) { return shard.erase(key); }) || any;
}

template <std::size_t Words>
Result<void> MemoryCore<Words>::merge(const User& from, const User& into) {
  return guarded(0, [&]() -> Result<void> { return merge_in(from, into, newest_slice()); });
}
template <std::size_t Words>
Result<void> MemoryCore<Words>::merge_in(const User& from, const User& into, std::uint32_t newest) {
  if (from.key.words == into.key.words) return {};
  if (state_->context.has_history.load(std::memory_order_relaxed)) {
    for (const User* user : {&from, &into}) {
      const bool known = state_->shards.locked(user->key, [&](Shard<Words>& shard) {
        return shard.index.find(state_->context.space, user->key) != nullptr;
      });
      if (known) continue;
      if (auto created = create_from_history(*user, {}, newest, newest); !created) return std::move(created).error();
    }
  }
  // A snapshot, which visits one shard after the other, has both users as before or both as after.
  const std::lock_guard whole(snapshot_mutex_);
  state_->shards.locked(from.key, into.key, [&](Shard<Words>& from_shard, Shard<Words>& into_shard) {
    if (into_shard.adopt(into.key, from_shard, from.key, newest)) from_shard.erase(from.key);
  });
  exact_.merge(from.key.words, into.key.words);
  return {};
}

template <std::size_t Words>
void MemoryCore<Words>::sweep() {
  const std::uint32_t newest = newest_slice();
  state_->shards.for_each([&](Shard<Words>& shard) { shard.sweep(newest); });
}

// Snapshots.

template <std::size_t Words>
[[nodiscard]] SnapshotIdentity snapshot_identity(DigestIdentity digests, const SliceClock& slices,
                                                 const StorePolicy& policy) noexcept {
  return {.hash = digests.hash,
          .key_words = static_cast<std::uint8_t>(Words),
          .seed_check = digests.seed_check,
          .slices = static_cast<std::uint16_t>(slices.windowed() ? policy.slices : 0),
          .slice_seconds = static_cast<std::uint64_t>(slices.slice_seconds())};
}

template <std::size_t Words>
Result<void> MemoryCore<Words>::snapshot(const std::string& path) const {
  const std::lock_guard lock(snapshot_mutex_);
  return write_snapshot(*state_, snapshot_identity<Words>(identity_, slices_, policy_), newest_slice(), path, exact_);
}

template <std::size_t Words>
Result<void> MemoryCore<Words>::restore(const std::string& path) {
  return guarded(0, [&]() -> Result<void> {
    const std::lock_guard lock(snapshot_mutex_);
    const LimitRaised room(state_->context.space, options_.max_bytes);
    ShardSet<Words> fresh(state_->pool, state_->shards.directory.bits());
    ExactKeys<Words> exact;
    const auto newest =
        read_snapshot(state_->context, fresh, snapshot_identity<Words>(identity_, slices_, policy_), path, exact);
    if (!newest) return newest.error();
    std::uint64_t bytes = 0;
    fresh.for_each([&](const Shard<Words>& shard) { bytes += shard.held_bytes(); });
    if (options_.max_bytes != 0 && bytes > options_.max_bytes) throw std::bad_alloc();
    state_->shards.replace_by(fresh);
    exact_.replace_by(exact);
    slices_.resume(*newest);
    return {};
  });
}

// Reads.

template <std::size_t Words>
void MemoryCore<Words>::check(const Request<Words>& request, DigestSpan digests, std::span<std::uint8_t> seen_by,
                              std::span<UserStatus> status) const noexcept {
  MemoryReader<Words>(*state_).check(request, digests, newest_slice(), seen_by.data(), status);
}

template <std::size_t Words>
void MemoryCore<Words>::check_add(const Key& key, DigestSpan digests, std::span<std::uint8_t> seen_by,
                                  UserStatus& status) const noexcept {
  set_status(status, MemoryReader<Words>(*state_).add_user(key, newest_slice(), digests, seen_by.data()));
}

template <std::size_t Words>
void MemoryCore<Words>::age(const Key& key, DigestSpan digests, std::span<std::uint8_t> ages) const noexcept {
  MemoryReader<Words>(*state_).age(key, newest_slice(), digests, ages.data());
}

// Figures.

template <std::size_t Words>
StoreCounters MemoryCore<Words>::counters() const {
  std::uint64_t users = 0;
  ShardCounters total;
  state_->shards.for_each([&](const Shard<Words>& shard) {
    users += shard.index.users();
    total += shard.counters;
  });
  return {.users = users,
          .records = total.records,
          .write_failures = write_failures_.load(std::memory_order_relaxed),
          .growths = total.growths,
          .rebuilds = total.rebuilds,
          .over_budget = total.over_budget,
          .slices_dropped = total.slices_dropped,
          .clock_jumps = slices_.jumps()};
}

template <std::size_t Words>
std::uint64_t MemoryCore<Words>::memory_bytes() const {
  std::uint64_t bytes = sizeof(*this) + sizeof(State) + sizeof(RateTables) + state_->context.space.resident_bytes() +
                        state_->pool.bytes() + state_->shards.directory.size() * sizeof(void*);
  state_->shards.for_each([&](const Shard<Words>& shard) { bytes += shard.bookkeeping_bytes(); });
  exact_.for_each([&](const auto& key, const ExactItems& items) {
    bytes += sizeof key + sizeof items + (items.kept.size() + items.hides.size()) * 2 * sizeof(ExactItem);
    for (const HiddenItem& item : items.hides) bytes += sizeof item + item.text.capacity();
  });
  return bytes;
}

template <std::size_t Words>
double MemoryCore<Words>::expected_fpr(const Key& key) const {
  const std::uint32_t newest = newest_slice();
  return state_->shards.locked(key, [&](Shard<Words>& shard) { return shard.expected_fpr(key, newest); });
}

template <std::size_t Words>
std::uint64_t MemoryCore<Words>::user_bytes(const Key& key) const {
  return state_->shards.locked(key, [&](Shard<Words>& shard) { return shard.bytes_of(key); });
}

SEENBY_DETAIL_END
