#pragma once
// SPDX-License-Identifier: MIT
// Asking a memory store without a lock, whatever the users' records are: locate them, load them, check them, and look
// whether they moved.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/core.hpp"
#include "seenby/stores/memory/filter_blocks.hpp"
#include "seenby/stores/memory/lookup.hpp"
#include "seenby/stores/memory/segments.hpp"
#include "seenby/stores/memory/state.hpp"
#include "seenby/stores/memory/table_record.hpp"

SEENBY_DETAIL_BEGIN

/// Answers checks from a memory store. Writes nothing shared, allocates nothing; any thread.
///
/// A request of few users with one part each (a filter, a table or a few digests) is answered in one go: the users'
/// slots are fetched first, then all their blocks, then a kernel runs over them, and only then the sequences are looked
/// at again. Everything else goes user by user in chunks of candidates whose answers fit on the stack. A reader that
/// keeps losing against writers takes the shard's lock.
template <std::size_t Words>
class MemoryReader {
 public:
  using Key = IndexKey<Words>;

  explicit MemoryReader(const MemoryState<Words>& state) noexcept
      : state_(state), lookup_(state.shards.directory, state.context.space) {}

  /// The answers for users that were loaded. Overwrites both spans.
  void check(const Request<Words>& request, DigestSpan digests, std::uint32_t newest, std::uint8_t* seen_by,
             std::span<UserStatus> status) const noexcept {
    if (request.count == 2 && status.size() == 2 &&
        Lookup<Words>::check_loaded(request.users[0], request.records[0], request.users[1], request.records[1], digests,
                                    seen_by, status)) {
      return;
    }
    if (check_at_once(request, digests, newest, seen_by)) {
      for (std::size_t u = 0; u < request.count; ++u) {
        set_status(status[u], request.records[u].handle.kind() != RecordKind::none);
      }
      return;
    }
    std::fill_n(seen_by, digests.size(), std::uint8_t{0});
    for (std::size_t u = 0; u < request.count; ++u) {
      set_status(status[u], add_user(request.users[u].key, newest, digests, seen_by));
    }
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
          return check_parts(live, newest, chunk, hits.data());
        });
    add(digests.size());
    return known;
  }

  /// Slices since the user last saw each candidate, as far as the parts tell; 255 for unseen or unknown.
  void age(const Key& key, std::uint32_t newest, DigestSpan digests, std::uint8_t* ages) const noexcept {
    for_each_chunk(key, newest, digests, [&](std::size_t at, DigestSpan chunk, const LiveParts& live) {
      std::fill_n(ages + at, chunk.size(), std::uint8_t{255});
      std::array<std::uint8_t, chunk_size> hits;
      for (const LivePart& part : live.list()) {  // the newest slice comes last and has the last word
        if (part.kind == RecordKind::table || part.kind == RecordKind::segmented) continue;
        check_part(part, chunk, hits.data());
        const auto slices_ago = static_cast<std::uint8_t>(std::min(newest - std::min(newest, part.slice), 254U));
        for (std::size_t i = 0; i < chunk.size(); ++i) {
          if (hits[i] != 0) ages[at + i] = slices_ago;
        }
      }
      for (const LivePart& part : live.list()) {
        if (part.kind == RecordKind::table) age_by_table(table_ref(part, newest), chunk, ages + at);
        const auto take = [&](std::size_t i, const FingerprintRef& table, Digest digest) {
          ages[at + i] = std::min(ages[at + i], fingerprint_age(table, digest));
        };
        if (part.kind == RecordKind::segmented && !ask_segments(part, newest, chunk, take)) return false;
      }
      return true;
    });
  }

 private:
  /// How often a reader tries without the lock. A writer unlinks memory at most once a record; a reader that loses this
  /// often waits for the lock instead.
  static constexpr int optimistic_tries = 64;
  /// Candidates answered between two looks at the sequence.
  static constexpr std::size_t chunk_size = 256;

  /// False when a user has several parts, or a writer got in between.
  bool check_at_once(const Request<Words>& request, DigestSpan digests, std::uint32_t newest,
                     std::uint8_t* seen_by) const noexcept {
    std::array<SplitBlockRef, few_users> filters;
    std::size_t filter_count = 0;
    for (std::size_t u = 0; u < request.count; ++u) {
      const Handle handle = request.records[u].handle;
      if (handle.kind() == RecordKind::extended) return false;
      if (handle.kind() == RecordKind::filter) filters[filter_count++] = request.records[u].filter();
    }
    check_all(filters.data(), filter_count, digests.data(), digests.size(), seen_by);
    for (std::size_t u = 0; u < request.count; ++u) {
      const auto& [handle, block] = request.records[u];
      if (handle.kind() == RecordKind::exact) {
        digests_check_add(block, std::min(handle.items(), max_exact_items), digests.digests, seen_by);
      } else if (handle.kind() == RecordKind::inlined) {
        InlinedLanes(handle).check_add(digests.digests, seen_by);
      } else if (handle.kind() == RecordKind::table) {
        // A head that is being changed may say anything: it is believed as far as the block reaches.
        const TableHead head = TableHead::of(load_word(block), handle.size());
        if (!head.is_sound(handle.size())) return false;
        if (state_.context.is_live(head.newest, newest)) {
          check_add(table_ref(head, block, newest), digests.data(), digests.size(), seen_by);
        }
      }
    }
    for (std::size_t u = 0; u < request.count; ++u) {
      if (!request.users[u].unchanged()) return false;
    }
    return true;
  }

  /// One part that can still be asked: blocks of a filter, exact digests, or a table.
  struct LivePart {
    const std::uint64_t* first;
    std::uint32_t size;
    std::uint32_t slice;
    RecordKind kind;
    std::uint64_t head;  // of a table
  };
  /// A user's live parts, oldest slice first.
  struct LiveParts {
    std::uint32_t count = 0;
    std::array<LivePart, max_parts> parts;
    InlinedTable few{Handle{}};  ///< of a user who has no more

    LiveParts() noexcept {}  // leaves the array as it is: 10 KB that most users need 40 bytes of
    void add(const LivePart& part) noexcept { parts[count++] = part; }
    [[nodiscard]] std::span<const LivePart> list() const noexcept { return {parts.data(), count}; }
  };
  static void age_by_table(const FingerprintRef& table, DigestSpan digests, std::uint8_t* ages) noexcept {
    for (std::size_t i = 0; i < digests.size(); ++i) {
      ages[i] = std::min(ages[i], fingerprint_age(table, digests[i]));
    }
  }
  [[nodiscard]] FingerprintRef table_ref(const TableHead& head, const std::uint64_t* block,
                                         std::uint32_t newest) const noexcept {
    const FingerprintView view = head.view(block);
    return head.shape.sliced ? view.ref(state_.context.window_at(std::max(newest, head.newest))) : view.ref();
  }
  [[nodiscard]] FingerprintRef table_ref(const LivePart& part, std::uint32_t newest) const noexcept {
    return table_ref(TableHead::of(part.head, part.size), part.first, newest);
  }
  static void check_part(const LivePart& part, DigestSpan digests, std::uint8_t* hits) noexcept {
    if (part.kind == RecordKind::exact) {
      std::fill_n(hits, digests.size(), std::uint8_t{0});
      digests_check_add(part.first, part.size, digests.digests, hits);
    } else {
      detail::check(blocks_ref(part.first, part.size), digests.data(), digests.size(), hits);
    }
  }
  /// hits[i] = in how many parts digest i is. False when the record changed under the reader.
  bool check_parts(const LiveParts& live, std::uint32_t newest, DigestSpan digests, std::uint8_t* hits) const noexcept {
    std::fill_n(hits, digests.size(), std::uint8_t{0});
    const auto take = [&](std::size_t i, const FingerprintRef& table, Digest digest) {
      hits[i] = static_cast<std::uint8_t>(hits[i] + (fingerprint_test(table, digest) ? 1 : 0));
    };
    for (const LivePart& part : live.list()) {
      switch (part.kind) {
        case RecordKind::exact: digests_check_add(part.first, part.size, digests.digests, hits); break;
        case RecordKind::table: check_add(table_ref(part, newest), digests.data(), digests.size(), hits); break;
        case RecordKind::segmented:
          if (!ask_segments(part, newest, digests, take)) return false;
          break;
        default: check_add(blocks_ref(part.first, part.size), digests.data(), digests.size(), hits);
      }
    }
    return true;
  }
  /// Calls ask(i, table, digest as the table has it) for each candidate whose table is live; each table's lines are
  /// asked for before they are read. False when a writer got in between.
  template <class Ask>
  bool ask_segments(const LivePart& part, std::uint32_t newest, DigestSpan digests, Ask&& ask) const noexcept {
    constexpr std::size_t ahead = 16;
    std::array<Handle, ahead> handles;
    const SegmentDirectory directory{part.first, SegmentDirectory::bits_of(part.size)};
    for (std::size_t at = 0; at < digests.size(); at += ahead) {
      const std::size_t count = std::min(ahead, digests.size() - at);
      for (std::size_t i = 0; i < count; ++i) {
        handles[i] = directory.at(directory.slot_of(digests.digests[at + i]));
        __builtin_prefetch(lookup_.space().at(handles[i].block()));
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (handles[i].size() == 0) continue;
        const std::uint64_t* const block = lookup_.space().at(handles[i].block());
        // A word that is being reused may say anything: it is believed as far as the block reaches.
        const TableHead head = TableHead::of(load_word(block), handles[i].size());
        if (!head.is_sound(handles[i].size()) || handles[i].items() > directory.bits) return false;
        if (!state_.context.is_live(head.newest, newest)) continue;
        ask(at + i, table_ref(head, block, newest), Digest{digests.digests[at + i].value << handles[i].items()});
      }
    }
    return true;
  }

  /// False when the record changed under the reader. The list of an extended record is copied and the sequence checked
  /// before anything it refers to is touched.
  bool live_parts(const ShardFront<Words>& shard, std::uint32_t sequence, Handle handle, std::uint32_t newest,
                  LiveParts& live) const noexcept {
    const AddressSpace& space = lookup_.space();
    live.count = 0;
    const auto add = [&](RecordKind kind, std::uint32_t block, std::uint32_t size, std::uint32_t slice) {
      const std::uint64_t* const first = space.at(block);
      live.add({first, size, slice, kind, kind == RecordKind::table ? load_word(first) : 0});
    };
    switch (handle.kind()) {
      case RecordKind::filter: add(RecordKind::filter, handle.block(), handle.size(), 0); return true;
      case RecordKind::exact:
        add(RecordKind::exact, handle.block(), std::min(handle.items(), max_exact_items), 0);
        return true;
      case RecordKind::table: add(RecordKind::table, handle.block(), handle.size(), 0); break;
      case RecordKind::inlined:
        live.few = InlinedTable(handle);
        live.add({live.few.block(), 1, 0, RecordKind::table, live.few.head().word()});
        return true;
      case RecordKind::extended: break;
      default: return true;
    }
    PartList parts;
    for (std::uint32_t i = 0; handle.kind() == RecordKind::extended && i < std::min(handle.size(), max_parts); ++i) {
      parts.push_back(Part::load(space.at(handle.block()) + std::size_t{i} * granule_words));
    }
    if (!shard.sequence.unchanged_since(sequence)) return false;
    for (const Part& part : parts) {
      // A table's own head says how new it is.
      if (!part.is_table() && !state_.context.is_live(part.slice, newest)) continue;
      add(part.kind, part.block, part.kind == RecordKind::exact ? part.items : part.size, part.slice);
    }
    // What a table's head says decides where its bytes are: it is believed once nothing has moved.
    if (!shard.sequence.unchanged_since(sequence)) return false;
    drop_dead_tables(live, newest);
    return true;
  }
  void drop_dead_tables(LiveParts& live, std::uint32_t newest) const noexcept {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < live.count; ++i) {
      const LivePart part = live.parts[i];
      const bool dead =
          part.kind == RecordKind::table && !state_.context.is_live(TableHead::of(part.head, part.size).newest, newest);
      if (!dead) live.parts[kept++] = part;
    }
    live.count = kept;
  }

  /// Calls read(offset, chunk, parts) for each chunk of candidates until it says that it could and nothing it looked at
  /// was reused meanwhile, and once with an empty chunk when there are none. False when there is no such user.
  template <class Read>
  bool for_each_chunk(const Key& key, std::uint32_t newest, DigestSpan digests, Read&& read) const noexcept {
    bool known = false;
    LiveParts parts;
    std::size_t at = 0;
    do {
      const auto chunk = digests.subspan(at, std::min(chunk_size, digests.size() - at));
      const auto attempt = [&](const ShardFront<Words>& shard, std::uint32_t sequence) {
        const std::uint64_t* const word = shard.index.find(lookup_.space(), key);
        const Handle handle{word == nullptr ? 0 : load_word_acquire(word)};
        known = handle.kind() != RecordKind::none;
        if (!live_parts(shard, sequence, handle, newest, parts)) return false;
        return read(at, chunk, parts);
      };
      bool done = false;
      for (int i = 0; i < optimistic_tries && !done; ++i) {
        const ShardFront<Words>& shard = lookup_.directory().of(key);
        const std::uint32_t sequence = shard.sequence.begin_read();
        done = ReadSequence::is_stable(sequence) && attempt(shard, sequence) &&
               shard.sequence.unchanged_since(sequence) && &shard == &lookup_.directory().of(key);
      }
      if (!done) {
        state_.shards.locked(key, [&](Shard<Words>& shard) { return attempt(shard, shard.sequence.begin_read()); });
      }
      at += chunk.size();
    } while (at < digests.size());
    return known;
  }

  const MemoryState<Words>& state_;
  Lookup<Words> lookup_;
};

SEENBY_DETAIL_END
