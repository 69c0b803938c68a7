// SPDX-License-Identifier: MIT
// The estimates from a filter's bits are within 1% of the truth.

#include <algorithm>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "seenby/filters/layout/classic.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "support/random.hpp"

namespace {

using seenby::ClassicLayout;
using seenby::Digest;
using seenby::FilterShape;
using seenby::SplitBlockLayout;

/// The mean of an estimate of n over many filters, and its standard error.
struct Mean {
  double value;
  double error;
};

template <class Layout>
Mean estimated(const FilterShape& shape, std::uint64_t items, std::uint64_t filters, seenby::test::Random& random) {
  std::vector<std::byte> bits(shape.bytes());
  double sum = 0;
  double squares = 0;
  for (std::uint64_t filter = 0; filter < filters; ++filter) {
    std::fill(bits.begin(), bits.end(), std::byte{0});
    for (std::uint64_t item = 0; item < items; ++item) Layout::insert(bits.data(), shape, Digest{random()});
    const double estimate = Layout::estimate_items(bits.data(), shape);
    sum += estimate;
    squares += estimate * estimate;
  }
  const double count = static_cast<double>(filters);
  return {sum / count, std::sqrt(std::max(0.0, squares / count - sum * sum / count / count) / count)};
}

TEMPLATE_TEST_CASE("the estimated number of items is unbiased to 1%", "[estimators]", ClassicLayout, SplitBlockLayout) {
  SEENBY_RANDOM(random);
  // From half empty to three times the capacity at 1%.
  for (const std::uint64_t bits : {std::uint64_t{2'048}, std::uint64_t{65'536}, std::uint64_t{1} << 20}) {
    for (const double bits_per_item : {20.0, 10.0, 5.0, 3.5}) {
      const FilterShape shape = TestType::shape_of(bits, TestType::kind == seenby::LayoutKind::classic ? 7 : 8);
      const auto items = static_cast<std::uint64_t>(static_cast<double>(bits) / bits_per_item);
      const auto filters = std::max<std::uint64_t>(10, 400'000 / items);
      const Mean mean = estimated<TestType>(shape, items, filters, random);
      const auto truth = static_cast<double>(items);
      INFO(bits << " bits, " << items << " items, estimated " << mean.value << " +- " << mean.error);
      // The bias, less the chance of the sample: six standard errors are passed once in 10^9 runs.
      CHECK(std::abs(mean.value - truth) <= 0.01 * truth + 6 * mean.error);
    }
  }
}

TEMPLATE_TEST_CASE("the estimate of one large filter is within 1%", "[estimators]", ClassicLayout, SplitBlockLayout) {
  SEENBY_RANDOM(random);
  const FilterShape shape =
      TestType::shape_of(std::uint64_t{1} << 22, TestType::kind == seenby::LayoutKind::classic ? 7 : 8);
  std::vector<std::byte> bits(shape.bytes());
  constexpr std::uint64_t items = 400'000;
  for (std::uint64_t item = 0; item < items; ++item) TestType::insert(bits.data(), shape, Digest{random()});
  // Its standard deviation is below 0.1% here, so 1% is ten of them.
  CHECK(std::abs(TestType::estimate_items(bits.data(), shape) / items - 1) < 0.01);
}

TEMPLATE_TEST_CASE("an estimate that has no number is infinite, not a crash", "[estimators]", ClassicLayout,
                   SplitBlockLayout) {
  const FilterShape shape = TestType::shape_of(2'048, 8);
  const std::vector<std::byte> full(shape.bytes(), std::byte{0xff});
  CHECK(TestType::estimate_items(full.data(), shape) == std::numeric_limits<double>::infinity());
  CHECK(TestType::estimate_fpr(full.data(), shape) == 1);
  const std::vector<std::byte> empty(shape.bytes());
  CHECK(TestType::estimate_items(empty.data(), shape) == 0);
  CHECK(TestType::estimate_fpr(empty.data(), shape) == 0);
}

TEST_CASE("the classic estimates are the published formulas", "[estimators]") {
  // 512 of 2,048 bits: items = -m/k ln(1 - 1/4), rate = (1/4)^k.
  const FilterShape shape = ClassicLayout::shape_of(2'048, 4);
  std::vector<std::byte> bits(shape.bytes());
  for (std::size_t i = 0; i < bits.size() / 4; ++i) bits[i] = std::byte{0xff};
  CHECK(std::abs(ClassicLayout::estimate_items(bits.data(), shape) - 147.2932) < 0.001);
  CHECK(std::abs(ClassicLayout::estimate_fpr(bits.data(), shape) - 1.0 / 256) < 1e-12);
}

TEST_CASE("the split-block rate is the mean over blocks of the product of their words' fills", "[estimators]") {
  // Two blocks: one with half of every word set, one with seven full words and an empty one.
  const FilterShape shape = SplitBlockLayout::shape_of(512);
  std::vector<std::byte> bits(shape.bytes(), std::byte{0x0f});
  for (std::size_t i = 32; i < 60; ++i) bits[i] = std::byte{0xff};
  for (std::size_t i = 60; i < 64; ++i) bits[i] = std::byte{0};
  CHECK(std::abs(SplitBlockLayout::estimate_fpr(bits.data(), shape) - (1.0 / 256 + 0) / 2) < 1e-12);
  // ln(128/256) + ln(32/256) over ln(31/32): 21.83 + 65.49.
  CHECK(std::abs(SplitBlockLayout::estimate_items(bits.data(), shape) - 87.33) < 0.01);
}

}  // namespace
