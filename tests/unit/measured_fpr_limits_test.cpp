// SPDX-License-Identifier: MIT
// The rate at the ends of what sizing allows: small filters with tight rates, and filters past 2^32 bits. Positions
// that follow from one another show there and nowhere else: layout 1 fails every test of this file.

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "seenby/filters/layout/classic.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/hash.hpp"
#include "seenby/sizing.hpp"
#include "support/binomial.hpp"
#include "support/random.hpp"

namespace {

using seenby::ClassicLayout;
using seenby::Digest;
using seenby::FilterShape;
using seenby::SplitBlockLayout;
using seenby::test::Random;

/// Hits among queries of items that were never inserted, spread over filters of `items` each. Many filters: the rate of
/// each wanders, their mean does not.
template <class Layout>
std::uint64_t hits_among(const FilterShape& shape, std::uint64_t items, std::uint64_t queries, Random& random) {
  constexpr std::uint64_t each = 4'096;
  std::uint64_t hits = 0;
  std::vector<std::byte> bits(shape.bytes());
  for (std::uint64_t asked = 0; asked < queries; asked += each) {
    std::fill(bits.begin(), bits.end(), std::byte{0});
    for (std::uint64_t item = 0; item < items; ++item) Layout::insert(bits.data(), shape, Digest{random()});
    for (std::uint64_t i = 0; i < each; ++i) hits += Layout::test(bits.data(), shape, Digest{random()}) ? 1U : 0U;
  }
  return hits;
}

template <class Layout>
void check_small(std::uint64_t items, double fpr, std::uint64_t queries, Random& random) {
  const FilterShape shape = Layout::shape_for(items, fpr);
  const double expected = seenby::sizing::expected_fpr(shape, items);
  const std::uint64_t hits = hits_among<Layout>(shape, items, queries, random);
  INFO(items << " items at " << fpr << ": " << shape.bits << " bits, k = " << shape.hash_count << ": " << hits << " of "
             << queries << " hit, expected rate " << expected);
  CHECK(hits <= seenby::test::most_hits(queries, expected));
  CHECK(hits >= seenby::test::fewest_hits(queries, expected));
}

TEST_CASE("a small filter with a tight rate keeps it", "[fpr][000-03]") {
  SEENBY_RANDOM(random);
  for (const double fpr : {0.01, 1e-4, 1e-6, 1e-9}) check_small<ClassicLayout>(1, fpr, 1 << 22, random);
  check_small<ClassicLayout>(10, 1e-4, 1 << 22, random);
  check_small<SplitBlockLayout>(10, 1e-4, 1 << 22, random);
}

// Two minutes: run by name where positions or sizing change.
TEST_CASE("small filters keep rates down to 1e-7, measured", "[.slow]") {
  SEENBY_RANDOM(random);
  for (const std::uint64_t items : {1U, 10U, 100U, 1'000U}) {
    for (const double fpr : {0.01, 1e-4, 1e-6, 1e-7}) {
      check_small<ClassicLayout>(items, fpr, std::uint64_t{1} << 28, random);
      check_small<SplitBlockLayout>(items, fpr, std::uint64_t{1} << 28, random);
    }
  }
}

/// The rate of a filter of shape.bits, of whose bits only the first 1 / windows are kept: all items are inserted,
/// queries are those whose positions all fall among the bits kept.
void check_large(const FilterShape& shape, double fill, std::uint64_t windows, Random& random) {
  const std::uint64_t kept = shape.bits / windows;
  std::vector<std::uint64_t> bits(kept / 64 + 1);
  const auto items =
      static_cast<std::uint64_t>(-std::log1p(-fill) * static_cast<double>(shape.bits) / shape.hash_count);
  for (std::uint64_t item = 0; item < items; ++item) {
    seenby::detail::ClassicPositions positions(Digest{random()}, shape);
    for (std::uint32_t i = 0; i < shape.hash_count; ++i) {
      const std::uint64_t position = positions.next();
      if (position < kept) bits[position / 64] |= std::uint64_t{1} << (position % 64);
    }
  }
  std::uint64_t set = 0;
  for (const std::uint64_t word : bits) set += static_cast<std::uint64_t>(std::popcount(word));
  const double rate = std::pow(static_cast<double>(set) / static_cast<double>(kept), shape.hash_count);
  std::uint64_t asked = 0;
  std::uint64_t hits = 0;
  while (asked < 2'000'000) {
    // The first position is the digest's high half: this one falls among the bits kept.
    seenby::detail::ClassicPositions positions(Digest{random() / windows}, shape);
    bool inside = true;
    bool hit = true;
    for (std::uint32_t i = 0; i < shape.hash_count && inside; ++i) {
      const std::uint64_t position = positions.next();
      inside = position < kept;
      hit = hit && inside && (bits[position / 64] >> (position % 64) & 1U) != 0;
    }
    asked += inside ? 1 : 0;
    hits += inside && hit ? 1 : 0;
  }
  INFO(shape.bits << " bits, k = " << shape.hash_count << ", " << items << " items: " << hits << " of " << asked
                  << " hit, by the bits " << rate);
  CHECK(hits <= seenby::test::most_hits(asked, rate));
  CHECK(hits >= seenby::test::fewest_hits(asked, rate));
}

// Minutes: run by name where positions change.
TEST_CASE("filters of 2^33 and 2^36 bits have the rate of their bits, measured", "[.slow]") {
  SEENBY_RANDOM(random);
  check_large(ClassicLayout::shape_of(std::uint64_t{1} << 33, 2), 0.25, 16, random);
  check_large(ClassicLayout::shape_of(std::uint64_t{1} << 36, 3), 0.25, 32, random);
}

}  // namespace
