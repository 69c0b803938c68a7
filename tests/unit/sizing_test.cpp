// SPDX-License-Identifier: MIT
// Sizing says what is true: figures worked out by hand, exact rates by enumeration, refusals.

#include "seenby/sizing.hpp"

#include <array>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "seenby/filters/layout/classic.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using seenby::FilterShape;
using seenby::LayoutKind;
namespace sizing = seenby::sizing;

FilterShape classic(std::uint64_t bits, std::uint32_t k) {
  return {.layout = LayoutKind::classic, .hash_count = k, .bits = bits};
}
FilterShape split_block(std::uint64_t blocks) {
  return {.layout = LayoutKind::split_block, .hash_count = 8, .bits = blocks * 256};
}
double bits_per_item(double fpr) { return static_cast<double>(sizing::textbook_bits(1'000'000, fpr)) / 1'000'000; }

// Known figures

TEST_CASE("a million items at 1% are 9,585,059 bits with 7 hashes", "[sizing][000-03]") {
  CHECK(sizing::textbook_bits(1'000'000, 0.01) == 9'585'059);
  CHECK(sizing::textbook_hash_count(9'585'059, 1'000'000) == 7);
}

TEST_CASE("an item takes 9.6 bits at 1% and 14.4 at 0.1%", "[sizing][000-03]") {
  CHECK(bits_per_item(0.01) == Approx(9.585).margin(0.001));
  CHECK(bits_per_item(0.001) == Approx(14.378).margin(0.001));
}

TEST_CASE("there is always at least one hash", "[sizing][000-03]") {
  CHECK(sizing::textbook_hash_count(64, 1'000'000) == 1);
  CHECK(sizing::textbook_hash_count(1'000, 10'000) == 1);
  CHECK(sizing::shape_for(LayoutKind::classic, 1'000, 0.9).hash_count == 1);
}

TEST_CASE("four hashes over 2,048 bits and 100 items give 0.099%, not 0.001%", "[sizing][000-16]") {
  // fill = 1 - e^(-400/2048) = 0.177423; to the fourth power 0.000991.
  CHECK(sizing::textbook_fpr(100, 2'048, 4) == Approx(0.000991).margin(0.000001));
  CHECK(sizing::expected_fpr(classic(2'048, 4), 100) == Approx(0.000991).epsilon(0.01));
}

TEST_CASE("half full with four hashes means 6.25%, and 12.1% for a pair", "[sizing][000-17]") {
  // Half full: n = m ln 2 / k.
  const auto items = static_cast<std::uint64_t>(std::round((1 << 20) * std::log(2.0) / 4));
  const double rate = sizing::expected_fpr(classic(1 << 20, 4), items);
  CHECK(rate == Approx(0.0625).epsilon(0.001));
  CHECK(sizing::combined_rate(rate, 2) == Approx(0.1211).epsilon(0.001));
}

TEST_CASE("the resize threshold follows from the budget: fill p^(1/k)", "[sizing][000-17]") {
  for (const std::uint32_t k : {2U, 4U, 7U, 10U}) {
    const FilterShape shape = classic(1 << 20, k);
    const double capacity = static_cast<double>(sizing::capacity_of(shape, 0.01));
    const double fill = -std::expm1(-capacity * k / (1 << 20));
    CHECK(fill == Approx(std::pow(0.01, 1.0 / k)).epsilon(0.001));
  }
}

TEST_CASE("2,000 items at 1% are 2.4 KB, 100 million such users 240 GB against 1.6 TB of ids", "[sizing][003-02]") {
  const double bytes = static_cast<double>(sizing::shape_for(LayoutKind::classic, 2'000, 0.01).bytes());
  CHECK(bytes == Approx(2'400).margin(16));
  CHECK(bytes * 1e8 == Approx(240e9).epsilon(0.01));
  const double exact_bytes = 2'000 * 8;
  CHECK(exact_bytes == 16'000);
  CHECK(exact_bytes * 1e8 == Approx(1.6e12));
  CHECK(exact_bytes / bytes > 6);
  CHECK(exact_bytes / bytes < 7);
}

TEST_CASE("thirty filters at 1% hide 26%, so the budget is split over them", "[sizing][003-04]") {
  CHECK(sizing::combined_rate(0.01, 30) == Approx(0.2603).margin(0.0001));
  const double each = sizing::split_budget(0.01, 30);
  CHECK(each == Approx(0.000335).margin(0.000001));
  CHECK(sizing::combined_rate(each, 30) == Approx(0.01).epsilon(1e-12));
}

TEST_CASE("more hashes help up to a point and then only hurt", "[sizing][001-04]") {
  // 10 bits an item: the best k is 10 ln 2 = 6.9.
  std::vector<double> rates;
  for (std::uint32_t k = 1; k <= 20; ++k) rates.push_back(sizing::expected_fpr(classic(100'032, k), 10'000));
  for (std::size_t i = 1; i < rates.size(); ++i) {
    INFO("k = " << i + 1);
    CHECK((i + 1 <= 7 ? rates[i] < rates[i - 1] : rates[i] > rates[i - 1]));
  }
}

// The table of the Parquet specification (BloomFilter.md, "Sizing an SBBF"), to the digits that it gives.
TEST_CASE("split-block rates equal the published ones", "[sizing][split_block]") {
  CHECK(sizing::expected_fpr(split_block(1'024), 26'214) == Approx(0.0126).margin(0.00005));
  CHECK(sizing::expected_fpr(split_block(1'024), 52'428) == Approx(0.18).margin(0.005));
  CHECK(sizing::expected_fpr(split_block(1'024), 13'107) == Approx(0.0004).margin(0.00005));
  const auto rate_at = [](double bits_an_item) {
    return sizing::expected_fpr(split_block(4'096), static_cast<std::uint64_t>(4'096 * 256 / bits_an_item));
  };
  CHECK(rate_at(6.0) == Approx(0.10).epsilon(0.05));
  CHECK(rate_at(10.5) == Approx(0.01).epsilon(0.05));
  CHECK(rate_at(16.9) == Approx(0.001).epsilon(0.05));
  CHECK(rate_at(26.4) == Approx(0.0001).epsilon(0.05));
  CHECK(rate_at(41.0) == Approx(0.00001).epsilon(0.05));
}

// Exact rates

/// The rate of a classic filter by brute force: the chance of every number of set bits after all the positions of all
/// items (each lands on a set bit with chance set/m), then the mean of (set/m)^k.
long double enumerated_classic_rate(std::uint32_t m, std::uint32_t k, std::uint32_t items) {
  std::vector<long double> chance(m + 1, 0);
  chance[0] = 1;
  for (std::uint32_t position = 0; position < k * items; ++position) {
    for (std::uint32_t set = m; set >= 1; --set) {
      chance[set] = chance[set] * set / m + chance[set - 1] * (m - set + 1) / m;
    }
    chance[0] = 0;
  }
  long double rate = 0;
  for (std::uint32_t set = 0; set <= m; ++set) {
    rate += chance[set] * std::pow(static_cast<long double>(set) / m, static_cast<long double>(k));
  }
  return rate;
}

/// The same without any formula: every way in which the positions of the items and of the query can fall.
double counted_classic_rate(std::uint32_t m, std::uint32_t k, std::uint32_t items) {
  const std::uint32_t positions = k * (items + 1);
  std::vector<std::uint32_t> at(positions, 0);
  std::uint64_t all = 0;
  std::uint64_t hits = 0;
  for (;;) {
    std::uint64_t set = 0;
    for (std::uint32_t i = 0; i < k * items; ++i) set |= std::uint64_t{1} << at[i];
    bool hit = true;
    for (std::uint32_t i = k * items; i < positions; ++i) hit = hit && ((set >> at[i]) & 1U) != 0;
    ++all;
    hits += hit ? 1 : 0;
    std::uint32_t digit = 0;
    while (digit < positions && ++at[digit] == m) at[digit++] = 0;
    if (digit == positions) return static_cast<double>(hits) / static_cast<double>(all);
  }
}

TEST_CASE("the classic rate equals a count of every way the bits can fall", "[sizing][000-03]") {
  CHECK(sizing::expected_fpr(classic(2, 2), 3) == Approx(counted_classic_rate(2, 2, 3)).epsilon(1e-12));
  CHECK(sizing::expected_fpr(classic(3, 2), 2) == Approx(counted_classic_rate(3, 2, 2)).epsilon(1e-12));
  CHECK(sizing::expected_fpr(classic(5, 3), 1) == Approx(counted_classic_rate(5, 3, 1)).epsilon(1e-12));
  CHECK(sizing::expected_fpr(classic(7, 2), 3) == Approx(counted_classic_rate(7, 2, 3)).epsilon(1e-12));
  CHECK(sizing::expected_fpr(classic(8, 1), 6) == Approx(counted_classic_rate(8, 1, 6)).epsilon(1e-12));
}

/// The chance that an item's digest is that of one of so many.
double same_digest(std::uint64_t items) { return static_cast<double>(items) * 0x1p-64; }

TEST_CASE("the classic rate is exact in small filters at every k and fill", "[sizing][000-03]") {
  const std::uint32_t m = GENERATE(64U, 128U, 512U, 1'024U);
  for (const std::uint32_t k : {1U, 2U, 4U, 7U, 13U, 16U, 17U, 30U, 64U}) {
    for (const double load : {0.02, 0.1, 0.3, 0.693, 1.0, 2.0}) {
      const auto items = static_cast<std::uint32_t>(std::max(1.0, m * load / k));
      INFO("m = " << m << ", k = " << k << ", items = " << items);
      const auto exact = static_cast<double>(enumerated_classic_rate(m, k, items));
      CHECK(sizing::expected_fpr(classic(m, k), items) == Approx(exact + same_digest(items)).epsilon(1e-7));
    }
  }
}

TEST_CASE("the classic rate stays exact where the formula for large filters takes over", "[sizing][000-03]") {
  for (const std::uint32_t m : {4'096U, 4'160U}) {
    for (const std::uint32_t k : {1U, 4U, 7U, 16U}) {
      const auto items = static_cast<std::uint32_t>(m * 0.693 / k);
      INFO("m = " << m << ", k = " << k << ", items = " << items);
      const auto exact = static_cast<double>(enumerated_classic_rate(m, k, items));
      CHECK(sizing::expected_fpr(classic(m, k), items) == Approx(exact).epsilon(2e-5));
    }
  }
}

TEST_CASE("a nearly empty large filter has a tiny rate, not a garbled one", "[sizing]") {
  // One item sets 64 of 2^30 bits, so a query hits them all with about (2^-24)^64: what is left are equal digests.
  CHECK(sizing::expected_fpr(classic(std::uint64_t{1} << 30, 64), 1) == same_digest(1));
  CHECK(sizing::expected_fpr(classic(std::uint64_t{1} << 30, 1), 1) == Approx(1 / 1073741824.0).epsilon(1e-9));
  CHECK(sizing::capacity_of(classic(std::uint64_t{1} << 37, 64), 0.01) > 1'000'000'000);
}

/// The split-block rate by its definition: the binomial mean over the loads of a block, in long doubles.
long double summed_split_block_rate(std::uint32_t blocks, std::uint32_t items) {
  const long double p = 1.0L / blocks;
  long double rate = 0;
  for (std::uint32_t load = 0; load <= items; ++load) {
    long double log_chance = 0;  // of `load` items out of `items` in one block
    for (std::uint32_t i = 0; i < load; ++i) log_chance += std::log(static_cast<long double>(items - i) / (i + 1));
    log_chance += load * std::log(p) + (blocks == 1 ? 0.0L : (items - load) * std::log1p(-p));
    if (blocks == 1 && load != items) continue;
    rate += std::exp(log_chance) * std::pow(1 - std::pow(31.0L / 32, static_cast<long double>(load)), 8.0L);
  }
  return rate;
}

TEST_CASE("the split-block rate is the binomial mean over its blocks", "[sizing][split_block]") {
  for (const std::uint32_t blocks : {1U, 2U, 3U, 16U, 40U}) {
    for (const std::uint32_t load : {1U, 5U, 25U, 60U}) {
      INFO(blocks << " blocks, " << load << " items each");
      // Half the digest makes the mask: two items of a block have the same one once in 2^32.
      const auto exact = static_cast<double>(summed_split_block_rate(blocks, blocks * load)) + load * 0x1p-32;
      CHECK(sizing::expected_fpr(split_block(blocks), blocks * load) == Approx(exact).epsilon(1e-9));
    }
  }
}

TEST_CASE("no number of items makes the rate anything but a probability", "[sizing]") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const FilterShape shape =
      GENERATE(classic(64, 1), classic(64, 64), classic(4'160, 7), classic(seenby::max_filter_bits, 64), split_block(1),
               split_block(3), split_block(seenby::max_filter_bits / 256));
  double last = 0;
  for (std::uint64_t items = 0; items < most / 2; items = items * 2 + 1) {
    const double rate = sizing::expected_fpr(shape, items);
    INFO("items = " << items);
    CHECK((rate >= last && rate <= 1));
    last = rate;
  }
  CHECK(sizing::expected_fpr(shape, most) == Approx(1));
  CHECK(sizing::expected_fpr(shape, 0) == 0);
}

TEST_CASE("blocks that a few digests more fall into raise the rate", "[sizing][split_block]") {
  // 2^32 over 3 * 2^27 is 10 2/3: two thirds of the blocks have 11 of the digest's high halves, the others 10.
  constexpr std::uint64_t blocks = std::uint64_t{3} << 27;
  const double even = sizing::expected_fpr(split_block(1 << 16), 25 << 16);
  const double uneven = sizing::expected_fpr(split_block(blocks), 25 * blocks);
  CHECK(uneven > even * 1.02);
  CHECK(uneven < even * 1.10);
  CHECK(sizing::expected_fpr(split_block(std::uint64_t{1} << 29), std::uint64_t{25} << 29) ==
        Approx(even).epsilon(1e-4));
}

// Shapes

TEST_CASE("any request from 1 to 10^10 items at 0.5 to 1e-9 keeps its rate or is refused", "[sizing][000-03]") {
  const auto layout = GENERATE(LayoutKind::classic, LayoutKind::split_block);
  for (std::uint64_t items = 1; items <= 10'000'000'000; items *= 10) {
    for (const double fpr : {0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9}) {
      INFO(items << " items at " << fpr);
      try {
        const FilterShape shape = sizing::shape_for(layout, items, fpr);
        CHECK(sizing::expected_fpr(shape, items) <= fpr);
      } catch (const std::invalid_argument& refusal) {
        CHECK_THAT(refusal.what(), ContainsSubstring("at most 2^37 bits"));
        CHECK(items >= 1'000'000'000);
      }
    }
  }
}

TEST_CASE("the shape asked for is the smallest that keeps the rate", "[sizing][000-03]") {
  const auto layout = GENERATE(LayoutKind::classic, LayoutKind::split_block);
  const std::uint64_t unit = layout == LayoutKind::classic ? 64 : 256;
  for (const std::uint64_t items : {1U, 2U, 7U, 100U, 1'000U, 20'000U, 1'000'000U}) {
    for (const double fpr : {0.3, 0.05, 0.01, 0.001, 1e-6, 1e-9}) {
      const FilterShape shape = sizing::shape_for(layout, items, fpr);
      INFO(items << " items at " << fpr << ": " << shape.bits << " bits, k = " << shape.hash_count);
      CHECK(shape.bits % unit == 0);
      CHECK(sizing::expected_fpr(shape, items) <= fpr);
      if (shape.bits > unit) {
        FilterShape smaller = shape;
        smaller.bits -= unit;
        CHECK(sizing::expected_fpr(smaller, items) > fpr);
      }
      CHECK(sizing::capacity_of(shape, fpr) >= items);
    }
  }
}

TEST_CASE("no other number of hashes would need fewer bits", "[sizing][000-03]") {
  for (const std::uint64_t items : {1U, 10U, 100U, 5'000U}) {
    for (const double fpr : {0.2, 0.05, 0.01, 0.003, 0.0001}) {
      const FilterShape shape = sizing::shape_for(LayoutKind::classic, items, fpr);
      if (shape.bits == 64) continue;
      for (std::uint32_t k = 1; k <= 20; ++k) {
        INFO(items << " items at " << fpr << ": " << shape.bits << " bits, k = " << shape.hash_count << ", not " << k);
        CHECK(sizing::expected_fpr(classic(shape.bits - 64, k), items) > fpr);
      }
    }
  }
}

TEST_CASE("capacity is the last number of items within the rate", "[sizing][000-08]") {
  const FilterShape shape = GENERATE(classic(64, 4), classic(2'048, 4), classic(9'592'960, 7), split_block(1),
                                     split_block(10), split_block(40'000));
  for (const double fpr : {0.5, 0.0625, 0.01, 0.0001}) {
    const std::uint64_t capacity = sizing::capacity_of(shape, fpr);
    INFO(shape.bits << " bits at " << fpr << " hold " << capacity);
    CHECK(sizing::expected_fpr(shape, capacity) <= fpr);
    CHECK(sizing::expected_fpr(shape, capacity + 1) > fpr);
  }
  CHECK(sizing::capacity_of(classic(64, 64), 1e-12) == 0);
}

TEST_CASE("a filter may be as large as 2^37 bits and no larger", "[sizing]") {
  const auto layout = GENERATE(LayoutKind::classic, LayoutKind::split_block);
  // The textbook's 2^36.2 bits, and then what the layout needs.
  const FilterShape shape = sizing::shape_for(layout, 8'000'000'000, 0.01);
  CHECK(shape.bits > std::uint64_t{1} << 36);
  CHECK(shape.bits <= seenby::max_filter_bits);
  CHECK_THROWS_WITH((void)sizing::shape_for(layout, 15'000'000'000, 0.01), ContainsSubstring("at most 2^37 bits"));
}

TEST_CASE("a filter grows with what its user saw", "[sizing][000-15]") {
  const auto layout = GENERATE(LayoutKind::classic, LayoutKind::split_block);
  std::uint64_t last = 0;
  for (std::uint64_t items = 1; items < 1'000'000; items *= 2) {
    const std::uint64_t bytes = sizing::shape_for(layout, items, 0.01).bytes();
    INFO(items << " items, " << bytes << " bytes");
    CHECK(bytes >= last);
    CHECK(static_cast<double>(bytes) <= 1.5 * static_cast<double>(items) + 32);
    last = bytes;
  }
}

// Refusals

TEST_CASE("a rate outside (0, 1) is refused with what was expected and what came", "[sizing]") {
  const auto layout = GENERATE(LayoutKind::classic, LayoutKind::split_block);
  const double rate = GENERATE(0.0, 1.0, -1.0, 2.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity());
  CHECK_THROWS_AS((void)sizing::shape_for(layout, 100, rate), std::invalid_argument);
  CHECK_THROWS_WITH((void)sizing::shape_for(layout, 100, rate), ContainsSubstring("expected 0 < fpr < 1, got"));
  CHECK_THROWS_AS((void)sizing::textbook_bits(100, rate), std::invalid_argument);
  CHECK_THROWS_AS((void)sizing::capacity_of(classic(64, 4), rate), std::invalid_argument);
  CHECK_THROWS_AS((void)sizing::split_budget(rate, 2), std::invalid_argument);
  CHECK_THROWS_AS((void)sizing::combined_rate(rate, 2), std::invalid_argument);
}

TEST_CASE("a capacity of 0 or 2^60 is refused with what was expected and what came", "[sizing]") {
  const auto layout = GENERATE(LayoutKind::classic, LayoutKind::split_block);
  CHECK_THROWS_WITH((void)sizing::shape_for(layout, 0, 0.01), ContainsSubstring("expected at least 1 item, got 0"));
  // Whatever the rate: a nearly useless one makes the textbook ask for few bits.
  const double rate = GENERATE(0.01, 0.5, 1e-300, 0.999999, 1 - 1e-12, 1 - 1e-16);
  const std::uint64_t items = std::uint64_t{1} << 60;
  CHECK_THROWS_AS((void)sizing::shape_for(layout, items, rate), std::invalid_argument);
  CHECK_THROWS_WITH((void)sizing::shape_for(layout, items, rate),
                    ContainsSubstring("at most 2^37 bits") && ContainsSubstring("1152921504606846976 items"));
}

TEST_CASE("a shape out of range is refused with what was expected and what came", "[sizing]") {
  CHECK_THROWS_WITH((void)seenby::ClassicLayout::shape_of(0, 4), ContainsSubstring("expected 1 to 2^37 bits, got 0"));
  CHECK_THROWS_WITH((void)seenby::ClassicLayout::shape_of(seenby::max_filter_bits + 1, 4),
                    ContainsSubstring("expected 1 to 2^37 bits, got 137438953473"));
  CHECK_THROWS_WITH((void)seenby::ClassicLayout::shape_of(std::numeric_limits<std::uint64_t>::max(), 4),
                    ContainsSubstring("expected 1 to 2^37 bits"));
  CHECK_THROWS_WITH((void)seenby::ClassicLayout::shape_of(64, 0), ContainsSubstring("expected 1 to 64 hashes, got 0"));
  CHECK_THROWS_WITH((void)seenby::ClassicLayout::shape_of(64, 65),
                    ContainsSubstring("expected 1 to 64 hashes, got 65"));
  CHECK_THROWS_WITH((void)seenby::SplitBlockLayout::shape_of(0), ContainsSubstring("expected 1 to 2^37 bits, got 0"));
  CHECK_THROWS_WITH((void)seenby::SplitBlockLayout::shape_of(256, 7), ContainsSubstring("expected hash_count 8"));
  CHECK_THROWS_WITH((void)sizing::split_budget(0.01, 0), ContainsSubstring("expected at least one filter"));
}

TEST_CASE("sizes that are no multiple of 8 are rounded up to whole words", "[sizing][001-02]") {
  CHECK(seenby::ClassicLayout::shape_of(1, 3) == classic(64, 3));
  CHECK(seenby::ClassicLayout::shape_of(1'001, 3) == classic(1'024, 3));
  CHECK(seenby::ClassicLayout::shape_of(1'024, 3) == classic(1'024, 3));
  CHECK(seenby::SplitBlockLayout::shape_of(1'001) == split_block(4));
  CHECK(seenby::ClassicLayout::shape_of(1'001, 3).bytes() == 128);
}

}  // namespace
