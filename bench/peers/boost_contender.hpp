#pragma once
// SPDX-License-Identifier: MIT
// Boost.Bloom as a contender. Included by one translation unit with -march=native and by one without.

#include <boost/bloom.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "map_store.hpp"

namespace peers::PEERS_BOOST_NAMESPACE {

/// Digests are hashed already.
struct Prehashed {
  using is_avalanching = void;
  std::size_t operator()(std::uint64_t digest) const noexcept { return digest; }
};

/// std::allocator under a name of its own: the linker must not serve both builds from one copy of Boost's functions.
template <class T>
struct Allocator : std::allocator<T> {
  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) noexcept {}
  template <class U>
  struct rebind {
    using other = Allocator<U>;
  };
};

template <std::size_t K, class Subfilter>
using Filter = boost::bloom::filter<std::uint64_t, K, Subfilter, 0, Prehashed, Allocator<unsigned char>>;
using Multiblock = Filter<1, boost::bloom::fast_multiblock32<8>>;
using Classic7 = Filter<7, boost::bloom::block<unsigned char, 1>>;

template <class Bloom>
struct BoostFilter {
  Bloom filter;
  void insert(Item, Digest digest) { filter.insert(digest.value); }
  [[nodiscard]] bool contains(Item, Digest digest) const { return filter.may_contain(digest.value); }
};

/// Boost's bulk operations, which prefetch, where a set is asked for many.
template <class Bloom>
class BoostSet final : public Set {
 public:
  BoostSet(std::size_t items, double fpr) : filter_(items, fpr) {}
  void insert(std::span<const Item>, std::span<const Digest> digests) override {
    filter_.insert(values(digests), values(digests) + digests.size());
  }
  std::size_t count(std::span<const Item>, std::span<const Digest> digests) override {
    std::size_t found = 0;
    for (const Digest digest : digests) found += filter_.may_contain(digest.value) ? 1U : 0U;
    return found;
  }
  void look_up(std::span<const Item>, std::span<const Digest> digests, std::uint8_t* found) override {
    filter_.may_contain(values(digests), values(digests) + digests.size(),
                        [&found](const std::uint64_t&, bool hit) { *found++ = hit ? 1 : 0; });
  }

 private:
  static const std::uint64_t* values(std::span<const Digest> digests) { return &digests.data()->value; }
  Bloom filter_;
};

}  // namespace peers::PEERS_BOOST_NAMESPACE
