// SPDX-License-Identifier: MIT
// Our single look-up from a build with -march=native, where it inlines as Boost's does.

#include "contender.hpp"
#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace peers {
namespace {

/// A type of its own: the linker must not serve the plain build from this build's code.
class NativeHash : public seenby::Xxh3Hash {};

class NativeSet final : public Set {
 public:
  NativeSet(std::size_t items, double fpr) : filter_({.expected_items = items, .target_fpr = fpr}) {}
  void insert(std::span<const Item>, std::span<const Digest> digests) override { filter_.insert(digests); }
  std::size_t count(std::span<const Item>, std::span<const Digest> digests) override {
    std::size_t found = 0;
    for (const Digest digest : digests) found += filter_.may_contain(digest) ? 1U : 0U;
    return found;
  }
  void look_up(std::span<const Item>, std::span<const Digest> digests, std::uint8_t* found) override {
    filter_.may_contain(digests, {found, digests.size()});
  }

 private:
  seenby::BloomFilter<Item, seenby::SplitBlockLayout, NativeHash> filter_;
};

}  // namespace

std::vector<Contender> seenby_native_contenders() {
  return {{"seenby_native", {}, [](std::size_t items, double fpr) { return std::make_unique<NativeSet>(items, fpr); }}};
}

}  // namespace peers
