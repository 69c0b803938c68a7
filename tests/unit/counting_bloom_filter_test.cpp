// SPDX-License-Identifier: MIT
// CountingBloomFilter: items can be erased, at four times the memory.

#include "seenby/filters/counting_bloom_filter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/binomial.hpp"
#include "support/random.hpp"

namespace {

using seenby::CountingBloomFilter;
using seenby::ErrorCode;
using Filter = CountingBloomFilter<std::uint64_t>;

TEST_CASE("a counting filter forgets what is erased and nothing else", "[counting][003-05]") {
  Filter filter({.expected_items = 2'000, .target_fpr = 0.001});
  for (std::uint64_t item = 0; item < 2'000; ++item) filter.insert(item);
  std::uint64_t refused = 0;
  for (std::uint64_t item = 0; item < 1'000; ++item) refused += filter.erase(item) ? 0U : 1U;
  CHECK(refused == 0);
  CHECK(filter.size() == 1'000);
  std::uint64_t lost = 0;
  std::uint64_t still = 0;
  for (std::uint64_t item = 1'000; item < 2'000; ++item) lost += filter.may_contain(item) ? 0U : 1U;
  for (std::uint64_t item = 0; item < 1'000; ++item) still += filter.may_contain(item) ? 1U : 0U;
  CHECK(lost == 0);
  CHECK(still <= seenby::test::most_hits(1'000, 0.001));
}

TEST_CASE("erasing what was certainly never inserted is refused and changes nothing", "[counting][003-05]") {
  Filter filter({.expected_items = 1'000});
  CHECK_FALSE(filter.erase(std::uint64_t{1}));
  for (std::uint64_t item = 0; item < 1'000; ++item) filter.insert(item);
  const auto before = filter.encode();
  std::uint64_t refused = 0;
  for (std::uint64_t item = 10'000; item < 12'000; ++item) {
    if (filter.may_contain(item)) continue;  // a false positive cannot be told from an item
    CHECK_FALSE(filter.erase(item));
    ++refused;
  }
  CHECK(refused > 1'900);
  CHECK(filter.refused() == refused + 1);
  CHECK(filter.encode() == before);
  CHECK(filter.erase(std::uint64_t{5}));
  CHECK_FALSE(filter.erase(std::uint64_t{5}));  // erased as often as inserted; alone at one of its places
}

TEST_CASE("a counting filter states its memory: four bits a counter, four times the plain filter",
          "[counting][003-05]") {
  const seenby::BloomFilterOptions options{.expected_items = 10'000, .target_fpr = 0.01};
  const Filter counting(options);
  const seenby::BloomFilter<std::uint64_t> plain(options);
  CHECK(counting.counters() == plain.capacity_bits());
  CHECK(counting.memory_bytes() == 4 * plain.bits().size());
  CHECK(counting.capacity() == plain.capacity());
  CHECK(static_cast<double>(counting.memory_bytes()) * 8 / 10'000 < 38.5);
}

TEST_CASE("what is inserted twice stays until it is erased twice", "[counting][003-05]") {
  CountingBloomFilter<std::string> filter({.expected_items = 100});
  filter.insert("a");
  filter.insert("a");
  CHECK(filter.count_at_most("a") == 2);
  CHECK(filter.erase("a"));
  CHECK(filter.may_contain("a"));
  CHECK(filter.erase("a"));
  CHECK_FALSE(filter.may_contain("a"));
  CHECK_FALSE(filter.erase("a"));
  CHECK(filter.size() == 0);
}

TEST_CASE("a counter at 15 stays there: erasing can no longer lose the item", "[counting][003-05]") {
  Filter filter({.expected_items = 100});
  for (int i = 0; i < 15; ++i) filter.insert(std::uint64_t{1});
  CHECK(filter.saturated() == filter.hash_count());
  CHECK(filter.count_at_most(std::uint64_t{1}) == Filter::max_count);
  for (int i = 0; i < 30; ++i) CHECK(filter.erase(std::uint64_t{1}));
  CHECK(filter.may_contain(std::uint64_t{1}));
  for (int i = 0; i < 5; ++i) filter.insert(std::uint64_t{1});
  CHECK(filter.saturated() == filter.hash_count());
  filter.clear();
  CHECK(filter.saturated() == 0);
  CHECK_FALSE(filter.may_contain(std::uint64_t{1}));
}

TEST_CASE("a counting filter is the plain filter of what is in it", "[counting]") {
  const seenby::BloomFilterOptions options{.expected_items = 500, .target_fpr = 0.01};
  Filter counting(options);
  seenby::BloomFilter<std::uint64_t> plain(options);
  for (std::uint64_t item = 0; item < 800; ++item) counting.insert(item);
  for (std::uint64_t item = 0; item < 300; ++item) REQUIRE(counting.erase(item));
  for (std::uint64_t item = 300; item < 800; ++item) plain.insert(item);
  CHECK(counting.to_bloom_filter() == plain);
}

TEST_CASE("items that share counters in a tiny filter agree with a model", "[counting][property]") {
  SEENBY_RANDOM(random);
  // 64 counters and k = 5: places fall together within and between items all the time.
  Filter filter(seenby::ClassicLayout::shape_of(64, 5));
  std::map<std::uint64_t, int> model;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t item = random() % 12;
    int& count = model[item];
    if (count < 3 && random() % 2 == 0) {
      filter.insert(item);
      ++count;
    } else if (count > 0) {
      if (!filter.erase(item)) FAIL("refused to erase " << item << " at step " << step);
      --count;
    }
    for (const auto& [known, times] : model) {
      if (times > 0 && !filter.may_contain(known)) FAIL("lost " << known << " at step " << step);
      if (filter.count_at_most(known) < static_cast<std::uint32_t>(times)) FAIL("undercounts at step " << step);
    }
  }
  std::uint64_t left = 0;
  for (auto& [item, count] : model) {
    for (; count > 0; --count) left += filter.erase(item) ? 0U : 1U;
  }
  CHECK(left == 0);
  if (filter.saturated() == 0) CHECK(filter.to_bloom_filter().fill_ratio() == 0);
}

TEST_CASE("batches of a counting filter answer as one by one", "[counting]") {
  Filter filter({.expected_items = 100});
  for (std::uint64_t item = 0; item < 100; ++item) filter.insert(item);
  std::vector<seenby::Digest> digests;
  for (std::uint64_t item = 0; item < 300; ++item) digests.push_back(filter.digest(item));
  std::vector<std::uint8_t> seen(300);
  filter.may_contain(digests, seen);
  for (std::uint64_t item = 0; item < 300; ++item) CHECK(seen[item] == (filter.may_contain(item) ? 1 : 0));
  CHECK_THROWS_AS(filter.may_contain(digests, std::span(seen).first(9)), std::invalid_argument);
}

TEST_CASE("a counting filter comes back from its bytes, damaged ones are a typed error", "[counting]") {
  Filter filter({.expected_items = 100});
  for (std::uint64_t item = 0; item < 100; ++item) filter.insert(item);
  for (int i = 0; i < 20; ++i) filter.insert(std::uint64_t{7});
  const auto bytes = filter.encode();
  auto copy = Filter::decode(bytes);
  REQUIRE(copy.has_value());
  CHECK(copy->encode() == bytes);
  CHECK(copy->saturated() == filter.saturated());
  CHECK(copy->erase(std::uint64_t{50}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK(Filter::decode(std::span(bytes).first(size)).error().code == ErrorCode::truncated);
  }
  for (std::size_t at = 16; at < bytes.size(); ++at) {
    auto flipped = bytes;
    flipped[at] ^= std::byte{1};
    CHECK(Filter::decode(flipped).error().code == ErrorCode::corrupt);
  }
  CHECK(Filter::decode(bytes, seenby::Xxh3Hash{1}).error().code == ErrorCode::parameter_mismatch);
  CHECK_THROWS_AS(Filter({.expected_items = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Filter(seenby::FilterShape{.hash_count = 3, .bits = 100}), std::invalid_argument);
}

}  // namespace
