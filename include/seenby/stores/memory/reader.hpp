#pragma once
// SPDX-License-Identifier: MIT
// Asking a memory store without a lock: find the users' blocks, fetch them, test them, and look whether they moved.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/filter_blocks.hpp"
#include "seenby/stores/memory/state.hpp"

SEENBY_DETAIL_BEGIN

/// Answers checks from a memory store's current state. Writes nothing shared, allocates nothing; any thread.
///
/// A request of few users with one part each is answered in one go: the users' slots are fetched first, then all their
/// blocks, then a kernel runs over them, and only then the sequences are looked at again. Everything else goes user by
/// user in chunks of candidates whose answers fit on the stack. A reader that keeps losing against writers takes the
/// shard's lock.
template <class User>
class MemoryReader {
  static constexpr std::size_t words = index_key_words<User>;

 public:
  using State = MemoryState<words>;
  using Key = IndexKey<words>;

  MemoryReader(const std::atomic<State*>& current, std::uint64_t key_seed) noexcept
      : current_(&current), key_seed_(key_seed) {}

  /// The most users that are answered in one go.
  static constexpr std::size_t few = 8;

  /// One user on the way from a key to their blocks.
  struct Target {
    Key key;
    const Shard<words>* shard;
    typename UserIndex<words>::Probe probe;
    Handle handle;
    std::uint32_t sequence;
  };
  /// The users of a request on the way, as far as `few` goes.
  struct Targets {
    const State* state;
    std::size_t count;
    std::array<Target, few> users;

    Targets() noexcept {}  // leaves everything to aim(): most requests have two users
  };

  /// First step: which shard, which slot; asks for the slot's line.
  void aim(std::span<const User> users, Targets& targets) const noexcept {
    targets.state = current_->load(std::memory_order_acquire);
    targets.count = users.size() <= few ? users.size() : 0;
    for (std::size_t u = 0; u < targets.count; ++u) targets.users[u] = aimed(*targets.state, users[u]);
  }
  /// Second step: the handle; asks for the blocks' lines.
  void resolve(Targets& targets) const noexcept {
    for (std::size_t u = 0; u < targets.count; ++u) {
      targets.users[u].handle = resolved(*targets.state, targets.users[u]);
    }
  }

  /// Two users on the way; none when `state` is null.
  struct Pair {
    const State* state = nullptr;
    Target first;
    Target second;
  };
  /// The first step for the request that most come as, two users with one filter each, without a detour through memory.
  [[nodiscard, gnu::always_inline]] Pair aim_pair(std::span<const User> users) const noexcept {
    Pair pair;
    if (users.size() != 2) return pair;
    pair.state = current_->load(std::memory_order_acquire);
    pair.first = aimed(*pair.state, users[0]);
    pair.second = aimed(*pair.state, users[1]);
    return pair;
  }
  /// Its other steps; false when the request is another, or a writer got in between.
  [[gnu::always_inline]] bool answer_pair(const Pair& pair, DigestSpan digests, std::uint8_t* seen_by,
                                          std::span<UserStatus> status) const noexcept {
    if (pair.state == nullptr || status.size() != 2) return false;
    const State& state = *pair.state;
    const Handle a = resolved(state, pair.first);
    const Handle b = resolved(state, pair.second);
    if (a.kind() != RecordKind::filter || b.kind() != RecordKind::filter) return false;
    check_pair(filter_of(state, a), filter_of(state, b), digests.data(), digests.size(), seen_by);
    if (!unchanged(pair.first, pair.second) || &state != current_->load(std::memory_order_acquire)) return false;
    set_status(status[0], true);
    set_status(status[1], true);
    return true;
  }

  /// Last step: the answers. Overwrites both spans.
  void answer(const Targets& targets, std::span<const User> users, DigestSpan digests, std::uint32_t newest,
              std::uint8_t* seen_by, std::span<UserStatus> status) const noexcept {
    // The size says what the count already does, in terms that a compiler sees: no store past a status of one.
    if (status.size() == 2 && are_filters(targets)) {
      check_pair(filter_of(*targets.state, targets.users[0].handle), filter_of(*targets.state, targets.users[1].handle),
                 digests.data(), digests.size(), seen_by);
      if (unchanged(targets.users[0]) && unchanged(targets.users[1]) && is_current(targets)) {
        set_status(status[0], true);
        set_status(status[1], true);
        return;
      }
    }
    answer_otherwise(targets, users, digests, newest, seen_by, status);
  }

  /// Slices since the user last saw each candidate, as far as the parts tell; 255 for unseen or unknown.
  void age(const User& user, std::uint32_t newest, DigestSpan digests, std::uint8_t* ages) const noexcept {
    const Key key = index_key(user, key_seed_);
    for_each_chunk(key, newest, digests, [&](std::size_t at, DigestSpan chunk, const LiveParts& live) {
      std::fill_n(ages + at, chunk.size(), std::uint8_t{255});
      std::array<std::uint8_t, chunk_size> hits;
      for (const LivePart& part : live.list()) {  // the newest slice comes last and has the last word
        check_part(part, chunk, hits.data());
        const auto slices_ago = static_cast<std::uint8_t>(std::min(newest - part.slice, 254U));
        for (std::size_t i = 0; i < chunk.size(); ++i) {
          if (hits[i] != 0) ages[at + i] = slices_ago;
        }
      }
    });
  }

 private:
  /// How often a reader tries without the lock. A writer unlinks memory at most once a record; a reader that loses this
  /// often waits its turn instead.
  static constexpr int optimistic_tries = 64;
  /// Candidates answered between two looks at the sequence.
  static constexpr std::size_t chunk_size = 256;
  /// Lines asked for ahead: all of a filter of 2,500 items, of which a hundred candidates touch four in five. In larger
  /// ones most lines would be fetched in vain.
  static constexpr std::size_t prefetched_bytes = 4096;

  [[nodiscard, gnu::always_inline]] Target aimed(const State& state, const User& user) const noexcept {
    Target target;
    target.key = index_key(user, key_seed_);
    target.shard = &state.shard_of(target.key);
    target.sequence = target.shard->sequence.begin_read();
    target.probe = target.shard->index.probe(state.context.space, target.key);
    __builtin_prefetch(target.probe.slot());
    return target;
  }
  [[nodiscard, gnu::always_inline]] static Handle resolved(const State& state, const Target& target) noexcept {
    const std::uint64_t* const word = UserIndex<words>::find(target.probe, target.key);
    const Handle handle{word == nullptr ? 0 : load_word_acquire(word)};
    prefetch_blocks(state.context.space.at(handle.block()), handle.size());
    return handle;
  }
  [[gnu::always_inline]] static void prefetch_blocks(const std::uint64_t* first, std::uint32_t granules) noexcept {
    const std::size_t bytes = std::size_t{granules} * granule_bytes;
    if (bytes > prefetched_bytes) return;
    for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(reinterpret_cast<const std::byte*>(first) + at);
  }
  static void set_status(UserStatus& status, bool known) noexcept {
    status.state = known ? UserState::known : UserState::missing;
    if (status.error) status.error.reset();
  }

  /// Whether what was found is still what it was. Asked once the answers are there: a stale handle leads to memory that
  /// can be read, whatever it says (see AddressSpace).
  [[nodiscard]] static bool unchanged(const Target& target) noexcept {
    return ReadSequence::is_stable(target.sequence) && target.shard->sequence.unchanged_since(target.sequence);
  }
  /// Both at once: one branch.
  [[nodiscard, gnu::always_inline]] static bool unchanged(const Target& first, const Target& second) noexcept {
    const unsigned still_first = first.shard->sequence.unchanged_since(first.sequence) ? 1 : 0;
    const unsigned still_second = second.shard->sequence.unchanged_since(second.sequence) ? 1 : 0;
    return ReadSequence::is_stable(first.sequence | second.sequence) && (still_first & still_second) != 0;
  }
  [[nodiscard]] bool is_current(const Targets& targets) const noexcept {
    return targets.state == current_->load(std::memory_order_acquire);
  }
  [[nodiscard]] static SplitBlockRef filter_of(const State& state, Handle handle) noexcept {
    return blocks_ref(state.context.space.at(handle.block()), handle.size());
  }
  [[nodiscard]] static bool are_filters(const Targets& targets) noexcept {
    return targets.count == 2 && targets.users[0].handle.kind() == RecordKind::filter &&
           targets.users[1].handle.kind() == RecordKind::filter;
  }

  [[gnu::noinline]] void answer_otherwise(const Targets& targets, std::span<const User> users, DigestSpan digests,
                                          std::uint32_t newest, std::uint8_t* seen_by,
                                          std::span<UserStatus> status) const noexcept {
    if (answer_at_once(targets, digests, seen_by)) {
      for (std::size_t u = 0; u < targets.count; ++u) {
        set_status(status[u], targets.users[u].handle.kind() != RecordKind::none);
      }
      return;
    }
    std::fill_n(seen_by, digests.size(), std::uint8_t{0});
    for (std::size_t u = 0; u < users.size(); ++u) {
      set_status(status[u], add_user(index_key(users[u], key_seed_), newest, digests, seen_by));
    }
  }

  /// False when a user has several parts, there are too many users, or a writer got in between.
  bool answer_at_once(const Targets& targets, DigestSpan digests, std::uint8_t* seen_by) const noexcept {
    if (targets.count == 0) return false;
    std::array<SplitBlockRef, few> filters;
    std::size_t filter_count = 0;
    for (std::size_t u = 0; u < targets.count; ++u) {
      const Handle handle = targets.users[u].handle;
      if (handle.kind() == RecordKind::extended) return false;
      if (handle.kind() == RecordKind::filter) filters[filter_count++] = filter_of(*targets.state, handle);
    }
    check_all({filters.data(), filter_count}, digests.data(), digests.size(), seen_by);
    add_exact(targets, digests, seen_by);
    for (std::size_t u = 0; u < targets.count; ++u) {
      if (!unchanged(targets.users[u])) return false;
    }
    return is_current(targets);
  }
  static void add_exact(const Targets& targets, DigestSpan digests, std::uint8_t* seen_by) noexcept {
    for (std::size_t u = 0; u < targets.count; ++u) {
      const Handle handle = targets.users[u].handle;
      if (handle.kind() != RecordKind::exact) continue;
      digests_check_add(targets.state->context.space.at(handle.block()), handle.items(), digests.digests, seen_by);
    }
  }

  /// One part that can still be asked: blocks of a filter, or exact digests.
  struct LivePart {
    const std::uint64_t* first;
    std::uint32_t size;
    std::uint32_t slice;
    bool is_exact;
  };
  /// A user's live parts, oldest slice first.
  struct LiveParts {
    std::uint32_t count = 0;
    std::array<LivePart, max_parts> parts;

    void add(const LivePart& part) noexcept { parts[count++] = part; }
    [[nodiscard]] std::span<const LivePart> list() const noexcept { return {parts.data(), count}; }
  };
  static void check_part(const LivePart& part, DigestSpan digests, std::uint8_t* hits) noexcept {
    if (part.is_exact) {
      std::fill_n(hits, digests.size(), std::uint8_t{0});
      digests_check_add(part.first, part.size, digests.digests, hits);
    } else {
      check(blocks_ref(part.first, part.size), digests.data(), digests.size(), hits);
    }
  }
  /// hits[i] = in how many parts digest i is.
  static void check_parts(const LiveParts& live, DigestSpan digests, std::uint8_t* hits) noexcept {
    std::array<SplitBlockRef, max_parts> filters;
    std::size_t count = 0;
    for (const LivePart& part : live.list()) {
      if (!part.is_exact) filters[count++] = blocks_ref(part.first, part.size);
    }
    check_all({filters.data(), count}, digests.data(), digests.size(), hits);
    for (const LivePart& part : live.list()) {
      if (part.is_exact) digests_check_add(part.first, part.size, digests.digests, hits);
    }
  }

  /// False when the record changed under the reader. The list of an extended record is copied and the sequence checked
  /// before anything it refers to is touched.
  static bool live_parts(const State& state, const Shard<words>& shard, std::uint32_t sequence, Handle handle,
                         std::uint32_t newest, LiveParts& live) noexcept {
    const AddressSpace& space = state.context.space;
    live.count = 0;
    if (handle.kind() == RecordKind::filter) live.add({space.at(handle.block()), handle.size(), 0, false});
    if (handle.kind() == RecordKind::exact) live.add({space.at(handle.block()), handle.items(), 0, true});
    if (handle.kind() != RecordKind::extended) return true;
    PartList parts;
    for (std::uint32_t i = 0; i < std::min(handle.size(), max_parts); ++i) {
      parts.push_back(Part::load(space.at(handle.block()) + std::size_t{i} * granule_words));
    }
    if (!shard.sequence.unchanged_since(sequence)) return false;
    for (const Part& part : parts) {
      if (part.kind == RecordKind::kept || !state.context.is_live(part.slice, newest)) continue;
      const bool is_exact = part.kind == RecordKind::exact;
      live.add({space.at(part.block), is_exact ? part.items : part.size, part.slice, is_exact});
    }
    return true;
  }

  /// Calls read(offset, chunk, parts) for each chunk of candidates until nothing it looked at was reused meanwhile, and
  /// once with an empty chunk when there are none. False when there is no such user.
  template <class Read>
  bool for_each_chunk(const Key& key, std::uint32_t newest, DigestSpan digests, Read&& read) const noexcept {
    bool known = false;
    LiveParts parts;
    std::size_t at = 0;
    do {
      const auto chunk = digests.subspan(at, std::min(chunk_size, digests.size() - at));
      const auto attempt = [&](const State& state, const Shard<words>& shard, std::uint32_t sequence) {
        const Handle handle = state.find(shard, key);
        known = handle.kind() != RecordKind::none;
        if (!live_parts(state, shard, sequence, handle, newest, parts)) return false;
        read(at, chunk, parts);
        return true;
      };
      bool done = false;
      for (int i = 0; i < optimistic_tries && !done; ++i) {
        const State* const state = current_->load(std::memory_order_acquire);
        const Shard<words>& shard = state->shard_of(key);
        const std::uint32_t sequence = shard.sequence.begin_read();
        done = ReadSequence::is_stable(sequence) && attempt(*state, shard, sequence) &&
               shard.sequence.unchanged_since(sequence) && state == current_->load(std::memory_order_acquire);
      }
      if (!done) {
        with_locked_shard(*current_, key, [&](State& state, Shard<words>& shard) {
          return attempt(state, shard, shard.sequence.begin_read());
        });
      }
      at += chunk.size();
    } while (at < digests.size());
    return known;
  }

  /// Adds one user's answers; false when there is no such user.
  bool add_user(const Key& key, std::uint32_t newest, DigestSpan digests, std::uint8_t* seen_by) const noexcept {
    std::array<std::uint8_t, chunk_size> hits;  // in how many parts
    std::size_t finished = 0;
    const auto add = [&](std::size_t until) {
      for (std::size_t i = finished; i < until; ++i) {
        seen_by[i] = static_cast<std::uint8_t>(seen_by[i] + (hits[i - finished] != 0 ? 1 : 0));
      }
      finished = until;
    };
    const bool known =
        for_each_chunk(key, newest, digests, [&](std::size_t at, DigestSpan chunk, const LiveParts& live) {
          add(at);  // the chunk before is settled
          check_parts(live, chunk, hits.data());
        });
    add(digests.size());
    return known;
  }

  const std::atomic<State*>* current_;
  std::uint64_t key_seed_;
};

SEENBY_DETAIL_END
