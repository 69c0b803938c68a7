// SPDX-License-Identifier: MIT
// ScalableFilter: grows without a history, and stays within its rate.

#include "seenby/filters/scalable_filter.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/filters/layout/split_block.hpp"
#include "support/binomial.hpp"
#include "support/random.hpp"

namespace {

using seenby::ClassicLayout;
using seenby::Digest;
using seenby::ErrorCode;
using seenby::ScalableFilter;
using seenby::SplitBlockLayout;
using Filter = ScalableFilter<std::uint64_t>;

TEMPLATE_TEST_CASE("a chain stays within its rate to 1,000 times the first capacity", "[scalable][003-06]",
                   ClassicLayout, SplitBlockLayout) {
  SEENBY_RANDOM(random);
  ScalableFilter<std::uint64_t, TestType> chain({.initial_items = 100, .target_fpr = 0.01},
                                                seenby::Xxh3Hash{random.seed()});
  constexpr std::uint64_t probes = 100'000;
  std::uint64_t inserted = 0;
  for (const std::uint64_t until : {100U, 1'000U, 10'000U, 100'000U}) {
    for (; inserted < until; ++inserted) chain.insert(inserted);
    std::uint64_t hits = 0;
    for (std::uint64_t probe = 0; probe < probes; ++probe) hits += chain.may_contain(probe + (1U << 30)) ? 1U : 0U;
    INFO(until << " items in " << chain.stages() << " filters, " << hits << " false positives");
    CHECK(hits <= seenby::test::most_hits(probes, 0.01));
    CHECK(chain.estimated_fpr() <= 0.01);
    std::uint64_t lost = 0;
    for (std::uint64_t item = 0; item < inserted; ++item) lost += chain.may_contain(item) ? 0U : 1U;
    CHECK(lost == 0);
  }
  CHECK(chain.stages() > 8);
}

TEST_CASE("one filter filled to 10 times its capacity breaks its rate where a chain keeps it", "[scalable][003-06]") {
  seenby::BloomFilter<std::uint64_t> alone({.expected_items = 1'000, .target_fpr = 0.01});
  Filter chain({.initial_items = 1'000, .target_fpr = 0.01});
  for (std::uint64_t item = 0; item < 10'000; ++item) {
    alone.insert(item);
    chain.insert(item);
  }
  CHECK(alone.estimated_fpr() > 0.9);
  CHECK(chain.estimated_fpr() < 0.01);
}

TEST_CASE("the shares of a chain's filters sum to its rate and no more", "[scalable]") {
  double sum = 0;
  for (std::size_t i = 0; i < 100'000; ++i) sum += Filter::stage_fpr(0.01, i);
  CHECK(sum < 0.01);
  CHECK(sum > 0.00999);
  for (std::size_t i = 1; i < 20; ++i) CHECK(Filter::stage_fpr(0.01, i) < Filter::stage_fpr(0.01, i - 1));
}

TEST_CASE("an item inserted again neither counts nor grows a chain", "[scalable]") {
  Filter chain({.initial_items = 10});
  for (int round = 0; round < 1'000; ++round) {
    for (std::uint64_t item = 0; item < 5; ++item) chain.insert(item);
  }
  CHECK(chain.size() == 5);
  CHECK(chain.stages() == 1);
  CHECK_FALSE(chain.insert_if_absent(std::uint64_t{3}));
  CHECK(chain.insert_if_absent(std::uint64_t{77}));
}

TEST_CASE("capacity says when a chain next adds a filter", "[scalable]") {
  Filter chain({.initial_items = 50, .target_fpr = 0.001});
  CHECK(chain.capacity() >= 50);
  std::uint64_t next = 0;
  while (chain.stages() == 1) chain.insert(next++);
  // Chance brings the end of a filter of 50 items forward by a fifth at most.
  CHECK(chain.size() > 40);
  CHECK(chain.size() <= 60);
  CHECK(chain.capacity() >= 140);
}

TEST_CASE("a batch answers as one by one", "[scalable]") {
  ScalableFilter<std::string> chain({.initial_items = 20, .target_fpr = 0.05});
  for (int i = 0; i < 700; ++i) chain.insert("item-" + std::to_string(i));
  REQUIRE(chain.stages() > 3);
  std::vector<Digest> digests;
  for (int i = 0; i < 2'000; ++i) digests.push_back(chain.digest("item-" + std::to_string(i)));
  std::vector<std::uint8_t> seen(digests.size(), 7);
  chain.may_contain(digests, seen);
  std::size_t different = 0;
  for (std::size_t i = 0; i < digests.size(); ++i)
    different += seen[i] == (chain.may_contain(digests[i]) ? 1 : 0) ? 0U : 1U;
  CHECK(different == 0);
  std::vector<std::uint8_t> short_room(3);
  CHECK_THROWS_WITH(chain.may_contain(digests, short_room), "seenby: expected room for 2000 answers, got 3");
}

TEST_CASE("a chain survives a round trip through bytes and grows on", "[scalable]") {
  Filter chain({.initial_items = 30, .target_fpr = 0.02, .growth_factor = 3});
  for (std::uint64_t item = 0; item < 500; ++item) chain.insert(item);
  auto copy = Filter::decode(chain.encode());
  REQUIRE(copy.has_value());
  CHECK(*copy == chain);
  CHECK(copy->capacity() == chain.capacity());
  CHECK(copy->encode() == chain.encode());
  for (std::uint64_t item = 500; item < 5'000; ++item) {
    chain.insert(item);
    copy->insert(item);
  }
  CHECK(*copy == chain);
  chain.clear();
  CHECK(chain.stages() == 1);
  CHECK_FALSE(chain.may_contain(std::uint64_t{1}));
}

TEST_CASE("damaged bytes of a chain are a typed error", "[scalable]") {
  Filter chain({.initial_items = 30});
  for (std::uint64_t item = 0; item < 100; ++item) chain.insert(item);
  const auto bytes = chain.encode();
  const auto code_of = [](std::span<const std::byte> damaged) {
    const auto result = Filter::decode(damaged);
    REQUIRE_FALSE(result.has_value());
    return result.error().code;
  };
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    CHECK(code_of(std::span(bytes).first(size)) == ErrorCode::truncated);
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(code_of(longer) == ErrorCode::corrupt);
  for (std::size_t at = 16; at < bytes.size(); at += 5) {
    auto flipped = bytes;
    flipped[at] ^= std::byte{0x10};
    CHECK(code_of(flipped) == ErrorCode::corrupt);
  }
  auto magic = bytes;
  magic[0] = std::byte{0x31};
  CHECK(code_of(magic) == ErrorCode::bad_magic);
  magic[0] = std::byte{0xC2};
  CHECK(code_of(magic) == ErrorCode::unsupported_version);
  auto kind = bytes;
  kind[1] = std::byte{2};
  CHECK(code_of(kind) == ErrorCode::wrong_type);
  const auto other_seed = Filter::decode(bytes, seenby::Xxh3Hash{9});
  CHECK(other_seed.error().code == ErrorCode::parameter_mismatch);
}

TEST_CASE("a chain refuses options that cannot be", "[scalable]") {
  CHECK_THROWS_AS(Filter({.initial_items = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Filter({.target_fpr = 1.0}), std::invalid_argument);
  CHECK_THROWS_WITH(Filter({.growth_factor = 1.0}), "seenby: expected a growth_factor from 1.1 to 16, got 1");
}

TEST_CASE("a chain whose rate no filter can keep is refused, as options and as bytes", "[scalable]") {
  CHECK_THROWS_AS(Filter({.target_fpr = 4.9e-324}), std::invalid_argument);
  CHECK_THROWS_AS(Filter({.target_fpr = 0x1p-65}), std::invalid_argument);
  CHECK_NOTHROW(Filter({.target_fpr = 1e-12}));
  auto bytes = Filter({.target_fpr = 0.01}).encode();
  seenby::detail::store_le(bytes.data() + 24, std::uint64_t{1});  // the smallest double
  const std::uint64_t checksum = seenby::detail::xxh3_bytes(bytes.data() + 8, bytes.size() - 8, 1);
  seenby::detail::store_le(bytes.data() + 4, static_cast<std::uint32_t>(checksum));
  CHECK(Filter::decode(bytes).error().code == seenby::ErrorCode::corrupt);
}

TEST_CASE("a batch with too little room for its answers is refused before anything is written", "[scalable]") {
  Filter filter({.initial_items = 8});
  std::vector<seenby::Digest> digests;
  for (std::uint64_t item = 0; item < 40; ++item) digests.push_back(filter.digest(item));
  filter.insert(digests);
  std::vector<std::uint8_t> out(39, 7);
  CHECK_THROWS_AS(filter.may_contain(digests, out), std::invalid_argument);
  CHECK(out == std::vector<std::uint8_t>(39, 7));
}

}  // namespace
