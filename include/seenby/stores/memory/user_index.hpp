#pragma once
// SPDX-License-Identifier: MIT
// The index of one shard: open addressing over slots of a key and a handle, in the shard's own arena.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "seenby/detail/user_key.hpp"
#include "seenby/hash.hpp"
#include "seenby/stores/memory/arena.hpp"
#include "seenby/stores/memory/user_record.hpp"

SEENBY_DETAIL_BEGIN

/// What the index keeps of a user: the number itself for integers; for anything else 128 bits of XXH3 (two of 10
/// billion users share them with a probability of 10^-19). `hash` places it and is not stored.
template <std::size_t Words>
struct IndexKey {
  std::array<std::uint64_t, Words> words;
  std::uint64_t hash;
};

template <class User>
inline constexpr std::size_t index_key_words = IntegerItem<User> ? 1 : 2;

/// The key of these words, with its hash.
[[nodiscard]] inline IndexKey<1> key_of_words(const std::array<std::uint64_t, 1>& words, std::uint64_t seed) noexcept {
  return {words, mix64(words[0] + 0x9e3779b97f4a7c15U + seed)};
}
[[nodiscard]] inline IndexKey<2> key_of_words(const std::array<std::uint64_t, 2>& words, std::uint64_t) noexcept {
  return {words, words[1]};
}

template <class User>
[[nodiscard, gnu::always_inline]] inline IndexKey<index_key_words<User>> index_key(const User& user,
                                                                                   std::uint64_t seed) noexcept {
  const UserKey key = user_key(user, seed);
  if constexpr (index_key_words<User> == 1) {
    return key_of_words(std::array{key.low}, seed);
  } else {
    return key_of_words(std::array{key.low, key.high}, seed);
  }
}

/// A table of slots: `Words` words of key, then the handle (0: free). Linear probing from a position that grows with
/// the hash, so any number of slots will do: growing by an eighth keeps 75 to 85% of them in use where doubling would
/// keep 43 to 85%. Readers need no lock; see ReadSequence for what they must check afterwards.
template <std::size_t Words>
class UserIndex {
 public:
  using Key = IndexKey<Words>;
  static constexpr std::size_t slot_words = Words + 1;

  /// Where a table is: its first granule and its number of slots in one word, so that readers see both or neither.
  struct Table {
    std::uint32_t block = 0;
    std::uint32_t slot_count = 0;
  };

  /// `skipped_bits` of the hash's top choose the shard, and say nothing about the position.
  explicit UserIndex(std::uint32_t skipped_bits) noexcept : skipped_bits_(skipped_bits) {}

  [[nodiscard]] Table table() const noexcept {
    const std::uint64_t word = table_.load(std::memory_order_acquire);
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
  [[nodiscard]] std::uint32_t users() const noexcept { return users_; }
  /// Tables are extents of the address space, outside the shard's arena: what an outgrown one leaves is no fragment.
  static constexpr std::uint32_t unit_slots = AddressSpace::unit_bytes / (slot_words * sizeof(std::uint64_t));
  [[nodiscard]] static std::uint32_t units_for(std::uint64_t users) noexcept {
    return static_cast<std::uint32_t>((users * 4 / 3 + unit_slots) / unit_slots);
  }
  [[nodiscard]] std::uint32_t units() const noexcept { return table().slot_count / unit_slots; }
  [[nodiscard]] bool is_full() const noexcept {
    return users_ + 1 > static_cast<std::uint64_t>(table().slot_count) * 85 / 100;
  }

  /// Where a look-up begins: the table as it was then, and the first slot to look at.
  struct Probe {
    std::uint64_t* first;
    std::uint32_t slot_count;
    std::uint32_t at;
    [[nodiscard]] std::uint64_t* slot() const noexcept { return first + std::size_t{at} * slot_words; }
  };
  [[nodiscard, gnu::always_inline]] Probe probe(const AddressSpace& space, const Key& key) const noexcept {
    const Table now = table();
    return {space.at(now.block), now.slot_count, position(key.hash, now.slot_count)};
  }
  /// The handle word of a key's slot, null when there is none. Safe beside a writer; bounded by the table's size.
  [[nodiscard, gnu::always_inline]] static std::uint64_t* find(Probe from, const Key& key) noexcept {
    for (std::uint32_t probes = 0; probes < from.slot_count; ++probes) {
      std::uint64_t* const slot = from.slot();
      if (load_word_acquire(slot + Words) == 0) return nullptr;
      if (same_key(slot, key)) return slot + Words;
      if (++from.at == from.slot_count) from.at = 0;
    }
    return nullptr;
  }
  [[nodiscard]] std::uint64_t* find(const AddressSpace& space, const Key& key) const noexcept {
    return find(probe(space, key), key);
  }

  /// Adds a key that is not there; the table must not be full.
  std::uint64_t* insert(const AddressSpace& space, const Key& key, Handle handle) noexcept {
    ++users_;
    const Table now = table();
    return place(space, now, key, handle.raw);
  }

  /// Takes a slot out and closes the gap. Between begin_shift and end_shift of the shard's sequence.
  void erase(const AddressSpace& space, std::uint64_t* handle_word, std::uint64_t seed) noexcept {
    const Table now = table();
    std::uint64_t* const first = space.at(now.block);
    auto hole = static_cast<std::uint32_t>(static_cast<std::size_t>(handle_word - Words - first) / slot_words);
    std::uint32_t at = hole;
    for (;;) {
      if (++at == now.slot_count) at = 0;
      const std::uint64_t* const slot = first + std::size_t{at} * slot_words;
      if (load_word(slot + Words) == 0) break;
      const std::uint32_t wanted = position(key_of_words(read_key(slot), seed).hash, now.slot_count);
      // The slot may move back to the hole unless its probe starts after the hole (cyclically).
      const bool starts_after_hole = hole < at ? (wanted > hole && wanted <= at) : (wanted > hole || wanted <= at);
      if (starts_after_hole) continue;
      copy_words(first + std::size_t{hole} * slot_words, slot, slot_words);
      hole = at;
    }
    zero_words(first + std::size_t{hole} * slot_words, slot_words);
    --users_;
  }

  /// Calls visit(key words, handle word) for every user.
  template <class Visit>
  void for_each(const AddressSpace& space, Visit&& visit) const {
    const Table now = table();
    for (std::uint32_t i = 0; i < now.slot_count; ++i) {
      std::uint64_t* const slot = space.at(now.block) + std::size_t{i} * slot_words;
      if (load_word(slot + Words) != 0) visit(read_key(slot), slot + Words);
    }
  }

  /// An empty table that is not this index's yet. Throws std::bad_alloc.
  [[nodiscard]] static Table make_table(AddressSpace& space, std::uint32_t units) {
    return {space.take(units), units * unit_slots};
  }
  /// Adds a key to any table that has room for it.
  std::uint64_t* place(const AddressSpace& space, Table table, const Key& key, std::uint64_t handle) const noexcept {
    std::uint64_t* const first = space.at(table.block);
    std::uint32_t at = position(key.hash, table.slot_count);
    while (load_word(first + std::size_t{at} * slot_words + Words) != 0) {
      if (++at == table.slot_count) at = 0;
    }
    std::uint64_t* const slot = first + std::size_t{at} * slot_words;
    for (std::size_t i = 0; i < Words; ++i) store_word(slot + i, key.words[i]);
    store_word_release(slot + Words, handle);
    return slot + Words;
  }
  /// Serves from another table with so many users in it, or from none. Tells the readers before the old one goes.
  void replace(AddressSpace& space, Table next, std::uint32_t users, ReadSequence& sequence) noexcept {
    const Table old = table();
    users_ = users;
    table_.store(next.block | (std::uint64_t{next.slot_count} << 32), std::memory_order_release);
    sequence.memory_unlinked();
    if (old.slot_count != 0) space.give_back(old.block, old.slot_count / unit_slots);
  }
  /// Moves all users into a table of another size. Throws std::bad_alloc.
  void resize(AddressSpace& space, std::uint32_t new_units, ReadSequence& sequence, std::uint64_t seed) {
    const Table next = make_table(space, new_units);
    for_each(space, [&](const std::array<std::uint64_t, Words>& words, const std::uint64_t* handle_word) {
      place(space, next, key_of_words(words, seed), load_word(handle_word));
    });
    replace(space, next, users_, sequence);
  }

 private:
  /// By the 32 bits of the hash after those that choose the shard.
  [[nodiscard]] std::uint32_t position(std::uint64_t hash, std::uint32_t slot_count) const noexcept {
    return static_cast<std::uint32_t>((((hash << skipped_bits_) >> 32) * slot_count) >> 32);
  }
  [[nodiscard]] static bool same_key(const std::uint64_t* slot, const Key& key) noexcept {
    for (std::size_t i = 0; i < Words; ++i) {
      if (load_word(slot + i) != key.words[i]) return false;
    }
    return true;
  }
  [[nodiscard]] static std::array<std::uint64_t, Words> read_key(const std::uint64_t* slot) noexcept {
    std::array<std::uint64_t, Words> words;
    for (std::size_t i = 0; i < Words; ++i) words[i] = load_word(slot + i);
    return words;
  }
  std::atomic<std::uint64_t> table_{0};
  std::uint32_t users_ = 0;
  std::uint32_t skipped_bits_;
};

SEENBY_DETAIL_END
