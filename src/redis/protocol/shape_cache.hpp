#pragma once
// SPDX-License-Identifier: MIT
// ShapeCache: what a process remembers of users' values between requests. Never trusted: the identity is compared.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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

/// A direct-mapped table of values' shapes by key. A collision only forgets. Thread-safe.
class ShapeCache {
 public:
  explicit ShapeCache(std::size_t users) : slots_(std::max<std::size_t>(1, users)) {}

  [[nodiscard]] std::shared_ptr<const Shape> find(std::string_view key) const {
    const std::uint64_t hash = hash_of(key);
    const std::lock_guard lock(mutex_of(hash));
    const Slot& slot = slots_[hash % slots_.size()];
    return slot.hash == hash ? slot.shape : nullptr;
  }
  void put(std::string_view key, std::shared_ptr<const Shape> shape) {
    const std::uint64_t hash = hash_of(key);
    const std::lock_guard lock(mutex_of(hash));
    slots_[hash % slots_.size()] = {hash, std::move(shape)};
  }
  void forget(std::string_view key) {
    const std::uint64_t hash = hash_of(key);
    const std::lock_guard lock(mutex_of(hash));
    Slot& slot = slots_[hash % slots_.size()];
    if (slot.hash == hash) slot = {};
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::shared_ptr<const Shape> shape;
  };
  static constexpr std::size_t stripes = 64;

  [[nodiscard]] static std::uint64_t hash_of(std::string_view key) noexcept { return Xxh3Hash{}(key).value; }
  [[nodiscard]] std::mutex& mutex_of(std::uint64_t hash) const noexcept {
    return mutexes_[hash % slots_.size() % stripes];
  }

  std::vector<Slot> slots_;
  mutable std::array<std::mutex, stripes> mutexes_;
};

}  // namespace seenby::redis
