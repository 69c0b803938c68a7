// SPDX-License-Identifier: MIT
// SplitBlockLayout is Apache Parquet's split-block Bloom filter, byte for byte.

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/hash.hpp"
#include "support/random.hpp"

namespace {

using seenby::BloomFilter;
using seenby::Digest;
using seenby::FilterShape;
using seenby::SplitBlockLayout;
using seenby::Xxh64Hash;

/// The specification's pseudo code ("Parquet Bloom Filter", Technical Approach) written down as it stands, bit by bit,
/// sharing nothing with the library.
class SpecifiedFilter {
 public:
  explicit SpecifiedFilter(std::uint64_t blocks) : blocks_(blocks) {}

  void filter_insert(std::uint64_t x) {
    Block& block = block_of(x);
    const Block masked = mask(static_cast<std::uint32_t>(x & 0xffffffffU));
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::uint32_t j = 0; j < 32; ++j) {
        if ((masked[i] >> j & 1U) != 0) block[i] |= 1U << j;
      }
    }
  }
  bool filter_check(std::uint64_t x) {
    const Block& block = block_of(x);
    const Block masked = mask(static_cast<std::uint32_t>(x & 0xffffffffU));
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::uint32_t j = 0; j < 32; ++j) {
        if ((masked[i] >> j & 1U) != 0 && (block[i] >> j & 1U) == 0) return false;
      }
    }
    return true;
  }
  /// The bitset as it stands in a file: words in little-endian order.
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> bytes;
    for (const Block& block : blocks_) {
      for (const std::uint32_t word : block) {
        for (std::uint32_t shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(word >> shift));
      }
    }
    return bytes;
  }

 private:
  using Block = std::array<std::uint32_t, 8>;

  static Block mask(std::uint32_t x) {
    constexpr Block salt{0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                         0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};
    Block result{};
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint32_t y = x * salt[i];
      result[i] |= 1U << (y >> 27);
    }
    return result;
  }
  Block& block_of(std::uint64_t x) {
    const std::uint64_t h_top_bits = x >> 32;
    const std::uint64_t z_as_64_bit = blocks_.size();
    return blocks_[(h_top_bits * z_as_64_bit) >> 32];
  }
  std::vector<Block> blocks_;
};

template <class Filter>
std::vector<std::byte> bytes_of(const Filter& filter) {
  return {filter.bits().begin(), filter.bits().end()};
}

std::array<std::uint32_t, 8> words_of(std::span<const std::byte> block) {
  std::array<std::uint32_t, 8> words{};
  for (std::size_t i = 0; i < 32; ++i) words[i / 4] |= std::to_integer<std::uint32_t>(block[i]) << (8 * (i % 4));
  return words;
}

// The four strings of the filter that parquet-mr wrote for apache/parquet-testing (data/bloom_filter.xxhash.bin, 1,024
// bytes). The digests and words are worked out from the two specifications (XXH64 and the split-block filter) by a
// program that shares nothing with this library; its 1,024 bytes are that file's.
TEST_CASE("a filter of strings has Parquet's bytes", "[split_block]") {
  struct Known {
    std::string_view item;
    std::uint64_t digest;
    std::size_t block;
    std::array<std::uint32_t, 8> words;
  };
  constexpr std::array known{
      Known{"hello",
            0x26c7827d889f6da3U,
            4,
            {0x00100000U, 0x00000200U, 0x00000400U, 0x00000080U, 0x00000200U, 0x80000000U, 0x10000000U, 0x08000000U}},
      Known{"parquet",
            0x3c9d29275c52e429U,
            7,
            {0x00000004U, 0x00400000U, 0x00400000U, 0x00080000U, 0x04000000U, 0x00002000U, 0x00000010U, 0x00000002U}},
      Known{"bloom",
            0x50c8fb9e62dbc53cU,
            10,
            {0x00200000U, 0x00000800U, 0x00000100U, 0x20000000U, 0x00800000U, 0x08000000U, 0x00000100U, 0x00001000U}},
      Known{"filter",
            0x2a5736cdfcd7a9a1U,
            5,
            {0x00800000U, 0x10000000U, 0x00000001U, 0x10000000U, 0x00000020U, 0x00200000U, 0x40000000U, 0x00080000U}},
  };
  BloomFilter<std::string_view, SplitBlockLayout, Xxh64Hash> filter{SplitBlockLayout::shape_of(1'024 * 8)};
  for (const Known& one : known) {
    CHECK(Xxh64Hash{}(one.item).value == one.digest);
    filter.insert(one.item);
  }
  std::vector<std::byte> rest = bytes_of(filter);
  for (const Known& one : known) {
    INFO(one.item);
    CHECK(filter.may_contain(one.item));
    CHECK(words_of(filter.bits().subspan(one.block * 32, 32)) == one.words);
    std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(one.block) * 32, 32, std::byte{0});
  }
  CHECK(rest == std::vector<std::byte>(1'024));
}

// Worked out as above: an INT64 column of 0 to 9, -1 and the smallest number, over three blocks.
TEST_CASE("a filter of 64-bit integers has Parquet's bytes", "[split_block]") {
  constexpr std::array<std::array<std::uint32_t, 8>, 3> expected{{
      {0x00000211U, 0x04010084U, 0x08803000U, 0x0a020200U, 0x00080032U, 0x10400003U, 0x00404200U, 0x00005108U},
      {0x0a088008U, 0x02000806U, 0x02004122U, 0x58220000U, 0x04000150U, 0x08824004U, 0x00100440U, 0x40400908U},
      {0x08100200U, 0x04440000U, 0x00800400U, 0x04040040U, 0x22400000U, 0x80028000U, 0x24000040U, 0x00002030U},
  }};
  BloomFilter<std::int64_t, SplitBlockLayout, Xxh64Hash> filter{SplitBlockLayout::shape_of(3 * 256)};
  for (std::int64_t number = 0; number < 10; ++number) filter.insert(number);
  filter.insert(-1);
  filter.insert(std::numeric_limits<std::int64_t>::min());
  for (std::size_t block = 0; block < 3; ++block) {
    CHECK(words_of(filter.bits().subspan(block * 32, 32)) == expected[block]);
  }
}

TEST_CASE("any digest sets and finds what the specification says", "[split_block]") {
  SEENBY_RANDOM(random);
  for (const std::uint64_t blocks : {1U, 2U, 3U, 7U, 64U, 1'000U}) {
    const FilterShape shape = SplitBlockLayout::shape_of(blocks * 256);
    std::vector<std::byte> bits(shape.bytes());
    SpecifiedFilter specified(blocks);
    for (std::uint64_t i = 0; i < blocks * 20; ++i) {
      const Digest digest{random()};
      const bool was_new = !specified.filter_check(digest.value);
      specified.filter_insert(digest.value);
      REQUIRE(SplitBlockLayout::insert(bits.data(), shape, digest) == was_new);
    }
    CHECK(bits == specified.bytes());
    std::vector<Digest> queries(2'000);
    for (Digest& query : queries) query.value = random();
    std::vector<std::uint8_t> answers(queries.size());
    SplitBlockLayout::test_batch(bits.data(), shape, queries, answers.data());
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const bool expected = specified.filter_check(queries[i].value);
      REQUIRE(SplitBlockLayout::test(bits.data(), shape, queries[i]) == expected);
      REQUIRE((answers[i] != 0) == expected);
    }
  }
}

TEST_CASE("an item sets one bit in each of eight words, and needs them all", "[split_block][000-01][001-03]") {
  SEENBY_RANDOM(random);
  const FilterShape shape = SplitBlockLayout::shape_of(2'560);
  for (int round = 0; round < 100; ++round) {
    const Digest digest{random()};
    std::vector<std::byte> bits(shape.bytes());
    CHECK_FALSE(SplitBlockLayout::test(bits.data(), shape, digest));
    CHECK(SplitBlockLayout::insert(bits.data(), shape, digest));
    CHECK(SplitBlockLayout::test(bits.data(), shape, digest));
    CHECK_FALSE(SplitBlockLayout::insert(bits.data(), shape, digest));
    REQUIRE(seenby::detail::count_ones(bits) == 8);
    for (std::uint64_t position = 0; position < shape.bits; ++position) {
      if (!seenby::detail::test_bit(bits.data(), position)) continue;
      const auto mask = static_cast<std::byte>(1U << (position % 8));
      bits[position / 8] ^= mask;
      REQUIRE_FALSE(SplitBlockLayout::test(bits.data(), shape, digest));
      bits[position / 8] ^= mask;
    }
  }
}

TEST_CASE("the first and the last digest stay inside the largest filter", "[split_block]") {
  const std::uint64_t most = seenby::max_filter_bits / 256;
  CHECK(seenby::detail::block_index(Digest{0}, most) == 0);
  CHECK(seenby::detail::block_index(Digest{~std::uint64_t{0}}, most) == most - 1);
  CHECK(seenby::detail::block_index(Digest{~std::uint64_t{0}}, 1) == 0);
}

}  // namespace
