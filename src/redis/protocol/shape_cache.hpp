#pragma once
// SPDX-License-Identifier: MIT
// ShapeCache: what a process remembers of users' values between requests. Never trusted: the identity is compared.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/store_value.hpp"
#include "seenby/hash.hpp"

namespace seenby::redis {

/// A value's outline.
struct Shape {
  std::string identity;       ///< of the first filter
  std::vector<Frame> frames;  ///< the first alone when only its header was read
  bool complete = false;      ///< all frames are here
  std::uint64_t value_bytes = 0;
};

/// A table of values' shapes by key, in sets of four. A full set forgets what was put into it first. Thread-safe.
class ShapeCache {
 public:
  explicit ShapeCache(std::size_t users) : sets_(std::max<std::size_t>(1, (users + ways - 1) / ways)) {}

  [[nodiscard]] std::shared_ptr<const Shape> find(std::string_view key) const {
    const std::uint64_t hash = hash_of(key);
    const std::lock_guard lock(mutex_of(hash));
    for (const Slot& slot : sets_[hash % sets_.size()]) {
      if (slot.hash == hash) return slot.shape;
    }
    return nullptr;
  }
  void put(std::string_view key, std::shared_ptr<const Shape> shape) {
    const std::uint64_t hash = hash_of(key);
    const std::lock_guard lock(mutex_of(hash));
    Set& set = sets_[hash % sets_.size()];
    auto at = std::find_if(set.begin(), set.end(), [&](const Slot& slot) { return slot.hash == hash; });
    if (at == set.end()) {
      at = std::prev(set.end());
      std::rotate(set.begin(), at, set.end());
      at = set.begin();
    }
    *at = {hash, std::move(shape)};
  }
  void forget(std::string_view key) {
    const std::uint64_t hash = hash_of(key);
    const std::lock_guard lock(mutex_of(hash));
    for (Slot& slot : sets_[hash % sets_.size()]) {
      if (slot.hash == hash) slot = {};
    }
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::shared_ptr<const Shape> shape;
  };
  static constexpr std::size_t ways = 4;
  static constexpr std::size_t stripes = 64;
  using Set = std::array<Slot, ways>;

  [[nodiscard]] static std::uint64_t hash_of(std::string_view key) noexcept { return Xxh3Hash{}(key).value; }
  [[nodiscard]] std::mutex& mutex_of(std::uint64_t hash) const noexcept {
    return mutexes_[hash % sets_.size() % stripes];
  }

  std::vector<Set> sets_;
  mutable std::array<std::mutex, stripes> mutexes_;
};

}  // namespace seenby::redis
