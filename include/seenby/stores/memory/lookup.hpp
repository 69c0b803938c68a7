#pragma once
// SPDX-License-Identifier: MIT
// Looking up two users' filters without a lock: the hot path of a memory store, and what readers see of a shard.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/memory/filter_blocks.hpp"
#include "seenby/stores/memory/user_index.hpp"
#include "seenby/stores/memory/user_record.hpp"

SEENBY_DETAIL_BEGIN

/// What readers look at in a shard: one line.
template <std::size_t Words>
struct alignas(64) ShardFront {
  explicit ShardFront(std::uint32_t directory_bits) noexcept : index(directory_bits) {}
  ReadSequence sequence;
  UserIndex<Words> index;
};

/// Which shard a user is in: the top bits of their key's hash choose a slot, and a shard has as many slots in a row as
/// its depth leaves bits. A shard's slots change under its mutex; readers load them without.
template <std::size_t Words>
class ShardDirectory {
 public:
  using Front = ShardFront<Words>;

  explicit ShardDirectory(std::uint32_t bits)
      : shift_(63 - bits), slots_(new std::atomic<Front*>[std::size_t{1} << bits]) {}

  [[nodiscard]] std::uint32_t bits() const noexcept { return 63 - shift_; }
  [[nodiscard]] std::size_t size() const noexcept { return std::size_t{1} << bits(); }
  [[nodiscard]] std::size_t slot_of(const IndexKey<Words>& key) const noexcept {
    return key.hash >> 1 >> shift_;  // in two steps, since there may be no bits
  }
  [[nodiscard]] const std::atomic<Front*>& slot(const IndexKey<Words>& key) const noexcept {
    return slots_[slot_of(key)];
  }
  [[nodiscard]] Front& at(std::size_t slot) const noexcept { return *slots_[slot].load(std::memory_order_acquire); }
  [[nodiscard]] Front& of(const IndexKey<Words>& key) const noexcept { return at(slot_of(key)); }
  void set(std::size_t slot, Front& front) noexcept { slots_[slot].store(&front, std::memory_order_release); }

 private:
  std::uint32_t shift_;
  std::unique_ptr<std::atomic<Front*>[]> slots_;
};

/// A user's record: the handle, and the address of its block.
struct Loaded {
  Handle handle;
  const std::uint64_t* block;
  [[nodiscard]] SplitBlockRef filter() const noexcept { return blocks_ref(block, handle.size()); }
};

/// One user on the way from a key to their record.
template <std::size_t Words>
struct Located {
  IndexKey<Words> key;
  const std::atomic<ShardFront<Words>*>* slot = nullptr;
  const ShardFront<Words>* shard;
  typename UserIndex<Words>::Probe probe;
  std::uint32_t sequence;

  Located() noexcept {}  // leaves the rest to locate()

  /// Whether what was found is still what it was. Asked once the answers are there: a stale handle leads to memory that
  /// can be read, whatever it says (see AddressSpace). A shard that is split moves its sequence after its slots.
  [[nodiscard]] bool unchanged() const noexcept {
    return ReadSequence::is_stable(sequence) && shard->sequence.unchanged_since(sequence) &&
           slot->load(std::memory_order_relaxed) == shard;
  }
};

/// The most users that are asked about in one go.
inline constexpr std::size_t few_users = 8;

/// The users of a request on the way.
template <std::size_t Words>
struct Request {
  std::size_t count;
  std::array<Located<Words>, few_users> users;
  std::array<Loaded, few_users> records;

  Request() noexcept {}  // leaves everything to locate() and load(): most requests have two users
};

inline void set_status(UserStatus& status, bool known) noexcept {
  status.state = known ? UserState::known : UserState::missing;
  if (status.error || status.exact) {
    status.error.reset();
    status.exact.reset();
  }
}

/// The steps of a look-up, each asking for the lines that the next one reads.
template <std::size_t Words>
class Lookup {
 public:
  using Key = IndexKey<Words>;
  using User = Located<Words>;

  Lookup(const ShardDirectory<Words>& directory, const AddressSpace& space) noexcept
      : directory_(&directory), space_(&space) {}

  /// Two users on the way; none when `first.slot` is null.
  struct Pair {
    User first;
    User second;
  };

  /// First step: which shard, which slot; asks for the slot's line.
  [[gnu::always_inline]] void locate(const Key& key, User& user) const noexcept {
    user.key = key;
    user.slot = &directory_->slot(key);
    user.shard = user.slot->load(std::memory_order_acquire);
    user.sequence = user.shard->sequence.begin_read();
    user.probe = user.shard->index.probe(*space_, key);
    __builtin_prefetch(user.probe.slot());
  }
  /// Second step: the handle; asks for the blocks' lines.
  [[nodiscard, gnu::always_inline]] Loaded load(const User& user) const noexcept {
    const std::uint64_t* const word = UserIndex<Words>::find(user.probe, user.key);
    const Handle handle{word == nullptr ? 0 : load_word_acquire(word)};
    const std::uint64_t* const block = space_->at(handle.block());
    prefetch_blocks(block, handle.size());
    return {handle, block};
  }
  /// The answers for the request that most come as: two users with one filter each, without a detour through memory.
  /// False when the request is another, or a writer got in between.
  [[gnu::always_inline]] static bool check_loaded(const User& first, Loaded a, const User& second, Loaded b,
                                                  DigestSpan digests, std::uint8_t* seen_by,
                                                  std::span<UserStatus> status) noexcept {
    if (a.handle.kind() != RecordKind::filter || b.handle.kind() != RecordKind::filter) return false;
    detail::check_pair(a.filter(), b.filter(), digests.data(), digests.size(), seen_by);
    if (!unchanged(first, second)) return false;
    set_status(status[0], true);
    set_status(status[1], true);
    return true;
  }

  [[nodiscard]] const ShardDirectory<Words>& directory() const noexcept { return *directory_; }
  [[nodiscard]] const AddressSpace& space() const noexcept { return *space_; }

 private:
  /// Lines asked for ahead: all of a filter of 2,500 items, of which a hundred candidates touch four in five. In larger
  /// ones most lines would be fetched in vain.
  static constexpr std::size_t prefetched_bytes = 4096;

  [[gnu::always_inline]] static void prefetch_blocks(const std::uint64_t* first, std::uint32_t granules) noexcept {
    const std::size_t bytes = std::size_t{granules} * granule_bytes;
    if (bytes > prefetched_bytes) return;
    for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(reinterpret_cast<const std::byte*>(first) + at);
  }
  /// Both at once: one branch.
  [[nodiscard, gnu::always_inline]] static bool unchanged(const User& first, const User& second) noexcept {
    const unsigned still_first = first.shard->sequence.unchanged_since(first.sequence) ? 1 : 0;
    const unsigned still_second = second.shard->sequence.unchanged_since(second.sequence) ? 1 : 0;
    const unsigned same_first = first.slot->load(std::memory_order_relaxed) == first.shard ? 1 : 0;
    const unsigned same_second = second.slot->load(std::memory_order_relaxed) == second.shard ? 1 : 0;
    return ReadSequence::is_stable(first.sequence | second.sequence) &&
           (still_first & still_second & same_first & same_second) != 0;
  }

  const ShardDirectory<Words>* directory_;
  const AddressSpace* space_;
};

SEENBY_DETAIL_END
