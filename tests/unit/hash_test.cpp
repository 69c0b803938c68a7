// SPDX-License-Identifier: MIT
// Digests: one item has one digest however it is written down, and different items have different ones.

#include "seenby/hash.hpp"

#include <array>
#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/counting_bloom_filter.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/filters/rotating_filter.hpp"
#include "seenby/filters/scalable_filter.hpp"

namespace {

using seenby::Digest;
using seenby::Mix64Hash;
using seenby::Xxh3Hash;
using seenby::Xxh64Hash;

TEMPLATE_TEST_CASE("a string has one digest whichever type holds it", "[hash]", Xxh3Hash, Xxh64Hash, Mix64Hash) {
  const TestType hash{7};
  const std::string owned = "question-17";
  const char array[] = "question-17";
  const Digest digest = hash(owned);
  CHECK(hash(std::string_view{owned}) == digest);
  CHECK(hash(owned.c_str()) == digest);
  CHECK(hash(array) == digest);
  CHECK(hash(std::as_bytes(std::span{owned})) == digest);
}

TEMPLATE_TEST_CASE("an integer has one digest at every width", "[hash]", Xxh3Hash, Xxh64Hash, Mix64Hash) {
  enum class Question : std::uint16_t { answer = 42 };
  const TestType hash{};
  const Digest digest = hash(42);
  CHECK(hash(42U) == digest);
  CHECK(hash(42L) == digest);
  CHECK(hash(std::uint8_t{42}) == digest);
  CHECK(hash(std::int64_t{42}) == digest);
  CHECK(hash(Question::answer) == digest);
  CHECK(hash(std::int8_t{-1}) == hash(std::int64_t{-1}));
  CHECK(hash(-1) != hash(std::uint32_t{0xffffffff}));
}

TEMPLATE_TEST_CASE("a character has one digest whether or not the platform gives it a sign", "[hash]", Xxh3Hash,
                   Xxh64Hash, Mix64Hash) {
  const TestType hash{};
  CHECK(hash(static_cast<char>(0xe9)) == hash(0xe9));
  CHECK(hash(static_cast<signed char>(-23)) == hash(-23));
  CHECK(hash(static_cast<unsigned char>(0xe9)) == hash(0xe9));
  enum class Letter : char { e_acute = static_cast<char>(0xe9) };
  CHECK(hash(Letter::e_acute) == hash(0xe9));
}

template <class Filter>
concept TakesBraces = requires(Filter filter) {
  filter.insert({42});
};

TEST_CASE("a number in braces is no digest", "[hash]") {
  STATIC_REQUIRE_FALSE(TakesBraces<seenby::BloomFilter<std::uint64_t>>);
  STATIC_REQUIRE_FALSE(TakesBraces<seenby::ScalableFilter<std::uint64_t>>);
  STATIC_REQUIRE_FALSE(TakesBraces<seenby::RotatingFilter<std::uint64_t>>);
  STATIC_REQUIRE_FALSE(TakesBraces<seenby::CountingBloomFilter<std::uint64_t>>);
  STATIC_REQUIRE_FALSE(TakesBraces<seenby::PartitionedFilter<std::uint64_t>>);
}

TEMPLATE_TEST_CASE("the integer 42 is not the string 42", "[hash]", Xxh3Hash, Xxh64Hash, Mix64Hash) {
  const TestType hash{};
  CHECK(hash(42) != hash("42"));
  CHECK(hash(42) != hash(std::string{"42"}));
  CHECK(hash('*') == hash(42));  // a char is the number it stands for
}

TEMPLATE_TEST_CASE("another seed gives other digests", "[hash]", Xxh3Hash, Xxh64Hash, Mix64Hash) {
  CHECK(TestType{1}(42) != TestType{2}(42));
  CHECK(TestType{1}(42) == TestType{1}(42));
  CHECK(seenby::seed_check(TestType{1}) != seenby::seed_check(TestType{2}));
}

TEST_CASE("the empty string and zero are items like any other", "[hash]") {
  const Xxh3Hash hash{};
  CHECK(hash("") == hash(std::string_view{}));
  CHECK(hash("") != hash(0));
  const std::string nul(1, '\0');
  CHECK(hash(nul) != hash(""));
}

// From xxHash's own specification and test suite: XXH64 and XXH3_64 of the empty input.
TEST_CASE("digests equal the published vectors of xxHash", "[hash]") {
  CHECK(Xxh64Hash{0}("").value == 0xef46db3751d8e999U);
  CHECK(Xxh3Hash{0}("").value == 0x2d06800538d394c2U);
  CHECK(Xxh64Hash{0}("abc").value == 0x44bc2cf5ad770999U);
  CHECK(Xxh3Hash{0}("abc").value == 0x78af5f94892f3950U);
}

TEMPLATE_TEST_CASE("sequential integers do not collide and spread over every bit", "[hash]", Xxh3Hash, Xxh64Hash,
                   Mix64Hash) {
  constexpr std::uint64_t count = 100'000;
  const TestType hash{};
  std::unordered_set<std::uint64_t> distinct;
  std::array<int, 64> ones{};
  for (std::uint64_t item = 0; item < count; ++item) {
    const std::uint64_t value = hash(item).value;
    distinct.insert(value);
    for (std::size_t bit = 0; bit < 64; ++bit) ones[bit] += static_cast<int>((value >> bit) & 1U);
  }
  CHECK(distinct.size() == count);
  // Each bit is a fair coin: 100,000 throws leave 50,000 by more than 6 sigma (949) once in 10^9.
  for (const int bit_ones : ones) CHECK((bit_ones > 50'000 - 949 && bit_ones < 50'000 + 949));
}

TEMPLATE_TEST_CASE("one flipped input bit flips half the digest", "[hash]", Xxh3Hash, Xxh64Hash, Mix64Hash) {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  const TestType hash{};
  std::int64_t flipped = 0;
  constexpr int rounds = 10'000;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t item = random();
    const std::uint64_t other = item ^ (std::uint64_t{1} << (random() % 64));
    flipped += std::popcount(hash(item).value ^ hash(other).value);
  }
  // 640,000 fair coins: the mean is 320,000, six sigma are 2,400.
  CHECK(flipped > 320'000 - 2'400);
  CHECK(flipped < 320'000 + 2'400);
}

}  // namespace
