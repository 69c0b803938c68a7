// SPDX-License-Identifier: MIT
// Random histories of a filter against an exact set: whatever is done to it, it forgets nothing.

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "support/random.hpp"

namespace {

using seenby::BloomFilter;
using seenby::ClassicLayout;
using seenby::FilterShape;
using seenby::Mix64Hash;
using seenby::SplitBlockLayout;
using seenby::Xxh3Hash;
using seenby::Xxh64Hash;
using seenby::test::Random;

using Filters = std::tuple<
    BloomFilter<std::uint64_t, ClassicLayout, Xxh3Hash>, BloomFilter<std::uint64_t, ClassicLayout, Mix64Hash>,
    BloomFilter<std::uint64_t, SplitBlockLayout, Xxh3Hash>, BloomFilter<std::string, ClassicLayout, Xxh64Hash>,
    BloomFilter<std::string, SplitBlockLayout, Xxh64Hash>>;

template <class Filter>
typename Filter::item_type item_of(std::uint64_t number) {
  if constexpr (std::same_as<typename Filter::item_type, std::string>) {
    return std::string(number % 40, 'x').append(std::to_string(number));
  } else {
    return number;
  }
}

/// Any shape at all: k from 1 to 64, from one word to 100,000 bits.
template <class Filter>
FilterShape any_shape(Random& random) {
  using Layout = typename Filter::layout_type;
  const std::uint64_t bits = std::uint64_t{1} + random.below(std::uint64_t{1} << (6 + random.below(12)));
  return Layout::shape_of(
      bits, Layout::kind == seenby::LayoutKind::classic ? static_cast<std::uint32_t>(1 + random.below(64)) : 8);
}

template <class Filter>
Filter filled(const FilterShape& shape, std::uint64_t items, Random& random) {
  Filter filter{shape, 0.01, typename Filter::hasher_type{42}};
  for (std::uint64_t i = 0; i < items; ++i) filter.insert(item_of<Filter>(random.below(1'000)));
  return filter;
}

TEMPLATE_LIST_TEST_CASE("a filter forgets nothing, whatever is done to it", "[property][000-02]", Filters) {
  SEENBY_RANDOM(random);
  using Item = typename TestType::item_type;
  for (int history = 0; history < 200; ++history) {
    TestType filter{any_shape<TestType>(random), 0.01, typename TestType::hasher_type{random()}};
    std::unordered_set<Item> exact;
    for (int step = 0; step < 300; ++step) {
      const Item item = item_of<TestType>(random.below(5'000));
      switch (random.below(12)) {
        case 0: {
          filter.grow_to(1 + random.below(2'000), exact);
          break;
        }
        case 1: {
          auto decoded = TestType::decode(filter.encode(), filter.hasher());
          REQUIRE(decoded.has_value());
          filter = *std::move(decoded);
          break;
        }
        case 2: {
          TestType other{filter.shape(), 0.01, filter.hasher()};
          other.insert(item);
          exact.insert(item);
          REQUIRE(filter.merge(other).has_value());
          break;
        }
        case 3: {
          const TestType copy = filter;
          filter = copy;
          break;
        }
        case 4: {
          if (random.below(20) == 0) {
            filter.clear();
            exact.clear();
          }
          break;
        }
        case 5: {
          // Newly added is certain: what the exact set holds is never said to be new.
          const bool added = filter.insert_if_absent(item);
          REQUIRE_FALSE((added && exact.contains(item)));
          exact.insert(item);
          break;
        }
        default: {
          filter.insert(item);
          exact.insert(item);
        }
      }
      REQUIRE(filter.may_contain(item) >= exact.contains(item));
    }
    for (const Item& item : exact) REQUIRE(filter.may_contain(item));
  }
}

TEMPLATE_LIST_TEST_CASE("merge commutes, associates and repeats itself without effect", "[property]", Filters) {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 400; ++round) {
    const FilterShape shape = any_shape<TestType>(random);
    const auto a = filled<TestType>(shape, random.below(100), random);
    const auto b = filled<TestType>(shape, random.below(100), random);
    const auto c = filled<TestType>(shape, random.below(100), random);
    const auto merged = [](TestType into, const TestType& from) {
      REQUIRE(into.merge(from).has_value());
      return into;
    };
    REQUIRE(merged(a, b) == merged(b, a));
    REQUIRE(merged(merged(a, b), c) == merged(a, merged(b, c)));
    REQUIRE(merged(a, a) == a);
    REQUIRE(merged(merged(a, b), b) == merged(a, b));
    REQUIRE(merged(a, TestType{shape, 0.01, a.hasher()}) == a);
  }
}

TEMPLATE_LIST_TEST_CASE("a merge is the filter of both sets of items", "[property]", Filters) {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 400; ++round) {
    const FilterShape shape = any_shape<TestType>(random);
    TestType a{shape};
    TestType b{shape};
    TestType both{shape};
    for (std::uint64_t i = random.below(200); i > 0; --i) {
      const auto item = item_of<TestType>(random());
      (i % 2 == 0 ? a : b).insert(item);
      both.insert(item);
    }
    REQUIRE(a.merge(b).has_value());
    REQUIRE(a == both);
  }
}

TEMPLATE_LIST_TEST_CASE("the order of inserts leaves no trace", "[property]", Filters) {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 400; ++round) {
    const FilterShape shape = any_shape<TestType>(random);
    TestType forward{shape};
    TestType backward{shape};
    std::vector<std::uint64_t> numbers(random.below(200));
    for (auto& number : numbers) number = random();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      forward.insert(item_of<TestType>(numbers[i]));
      backward.insert(item_of<TestType>(numbers[numbers.size() - 1 - i]));
    }
    REQUIRE(forward == backward);
  }
}

TEMPLATE_LIST_TEST_CASE("what is decoded is what was encoded", "[property]", Filters) {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 500; ++round) {
    const auto filter = filled<TestType>(any_shape<TestType>(random), random.below(300), random);
    const std::vector<std::byte> encoded = filter.encode();
    const auto decoded = TestType::decode(encoded, filter.hasher());
    REQUIRE(decoded.has_value());
    REQUIRE(*decoded == filter);
    REQUIRE(decoded->size() == filter.size());
    REQUIRE(decoded->encode() == encoded);
    // The rate is stored to 1/1024 of a binary order, never looser than it was.
    REQUIRE(decoded->target_fpr() <= filter.target_fpr());
    REQUIRE(decoded->target_fpr() > filter.target_fpr() * 0.9993);
  }
}

TEST_CASE("every rate that a header can hold comes back as itself", "[property]") {
  for (std::uint32_t code = 1; code <= 65'535; ++code) {
    const double fpr = std::exp2(-static_cast<double>(code) / seenby::detail::fpr_code_scale);
    REQUIRE(seenby::detail::fpr_code(fpr) == code);
  }
}

}  // namespace
