// SPDX-License-Identifier: MIT
// Format v1: every field where FORMAT.md puts it, and everything else refused with a typed error.

#include <algorithm>
#include <array>
#include <catch2/catch_message.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "support/allocations.hpp"
#include "support/random.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using seenby::BloomFilter;
using seenby::ClassicLayout;
using seenby::decode_header;
using seenby::ErrorCode;
using seenby::FilterHeader;
using seenby::header_bytes;
using seenby::Mix64Hash;
using seenby::SplitBlockLayout;
using seenby::Xxh3Hash;
using seenby::Xxh64Hash;
using seenby::test::allocations_of;
using Bytes = std::vector<std::byte>;

using Number = std::uint64_t;
using Classic = BloomFilter<Number, ClassicLayout, Xxh3Hash>;
using Kinds =
    std::tuple<Classic, BloomFilter<Number, ClassicLayout, Mix64Hash>, BloomFilter<Number, SplitBlockLayout, Xxh3Hash>,
               BloomFilter<Number, SplitBlockLayout, Xxh64Hash>>;

template <class Filter>
Filter filled() {
  Filter filter{{.expected_items = 100, .target_fpr = 0.01}};
  for (Number item = 0; item < 100; ++item) filter.insert(item);
  return filter;
}

/// A value as a live store keeps it: the checksum leaves out the bits, the sequence and the item count.
Bytes live_value() {
  const Classic filter = filled<Classic>();
  Bytes bytes(header_bytes + filter.bits().size());
  std::copy(filter.bits().begin(), filter.bits().end(), bytes.begin() + header_bytes);
  const FilterHeader header{.shape = filter.shape(),
                            .hash = seenby::HashKind::xxh3_64,
                            .covers_bits = false,
                            .generation = 0x1122334455667788U,
                            .sequence = 7,
                            .items = 100,
                            .target_fpr = 0.01,
                            .seed_check = seenby::seed_check(Xxh3Hash{})};
  seenby::encode_header(header, {}, std::span<std::byte, header_bytes>(bytes.data(), header_bytes));
  return bytes;
}

void put(Bytes& bytes, std::size_t at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}
std::uint64_t get(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

/// Gives damaged bytes a checksum that fits them, by the rule of FORMAT.md, so that only the damage itself can be what
/// is refused.
void mend_checksum(Bytes& bytes) {
  Bytes covered(bytes.begin(), bytes.begin() + 28);
  std::uint64_t seed = 0;
  if (get(bytes, 1, 1) >= 0x80) {
    seed = XXH3_64bits_withSeed(bytes.data() + header_bytes, bytes.size() - header_bytes, 1);
  } else {
    std::fill(covered.begin() + 16, covered.begin() + 24, std::byte{0});
  }
  put(bytes, 28, XXH3_64bits_withSeed(covered.data(), covered.size(), seed), 4);
}

/// The code of the refusal of these bytes, by everything that reads them; none of them may allocate for the filter.
template <class Filter>
ErrorCode refusal(const Bytes& bytes) {
  ErrorCode code{};
  const auto made = allocations_of([&] {
    const auto filter = Filter::decode(bytes);
    const auto view = Filter::view_type::over(bytes);
    if (filter || view) throw std::logic_error("damaged bytes were taken for a filter");
    if (filter.error().code != view.error().code) throw std::logic_error("filter and view differ in their refusal");
    if (filter.error().message.rfind("seenby: expected ", 0) != 0) throw std::logic_error(filter.error().message);
    code = filter.error().code;
  });
  // Two messages of at most 200 characters, grown by appending.
  if (made.bytes > 2'048) throw std::logic_error("allocated " + std::to_string(made.bytes) + " bytes to refuse");
  return code;
}

// Fields

TEST_CASE("every field stands where the format puts it", "[serialization]") {
  const Bytes bytes = live_value();
  const std::uint64_t words = (bytes.size() - header_bytes) / 8;
  CHECK(get(bytes, 0, 1) == 0xb1);
  CHECK(get(bytes, 1, 1) == 3);
  CHECK(get(bytes, 2, 1) == filled<Classic>().hash_count());
  CHECK(get(bytes, 3, 1) == 1);
  CHECK(get(bytes, 4, 4) == words);
  CHECK(get(bytes, 8, 8) == 0x1122334455667788U);
  CHECK(get(bytes, 16, 4) == 7);
  CHECK(get(bytes, 20, 4) == 100);
  CHECK(get(bytes, 24, 2) == static_cast<std::uint64_t>(std::ceil(-std::log2(0.01) * 1'024)));
  CHECK(get(bytes, 26, 2) == Xxh3Hash{0}(std::string_view{"seenby seed check"}).value >> 48);
  Bytes mended = bytes;
  mend_checksum(mended);
  CHECK(mended == bytes);
}

TEST_CASE("a file says its layout, hash and that its bits are covered", "[serialization]") {
  const auto second_byte = [](const auto& filter) { return get(filter.encode(), 1, 1); };
  const auto hash_byte = [](const auto& filter) { return get(filter.encode(), 3, 1); };
  const auto classic = filled<BloomFilter<Number, ClassicLayout, Mix64Hash>>();
  const auto split = filled<BloomFilter<Number, SplitBlockLayout, Xxh64Hash>>();
  CHECK(second_byte(classic) == 0x83);
  CHECK(second_byte(split) == 0x82);
  CHECK(hash_byte(classic) == 3);
  CHECK(hash_byte(split) == 2);
  CHECK(get(split.encode(), 2, 1) == 8);
  CHECK(get(split.encode(), 4, 4) == split.bits().size() / 32);
  Bytes mended = split.encode();
  mend_checksum(mended);
  CHECK(mended == split.encode());
}

TEST_CASE("a header comes back as it was written", "[serialization]") {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 1'000; ++round) {
    const bool split = random.below(2) == 0;
    const std::uint64_t bits = 256 * (1 + random.below(64));
    const FilterHeader header{
        .shape = split ? SplitBlockLayout::shape_of(bits)
                       : ClassicLayout::shape_of(bits, static_cast<std::uint32_t>(1 + random.below(64))),
        .hash = static_cast<seenby::HashKind>(1 + random.below(3)),
        .covers_bits = random.below(2) == 0,
        .generation = random(),
        .sequence = static_cast<std::uint32_t>(random()),
        .items = static_cast<std::uint32_t>(random()),
        .target_fpr = std::exp2(-static_cast<double>(1 + random.below(65'535)) / 1'024),
        .seed_check = static_cast<std::uint16_t>(random())};
    Bytes bytes(header_bytes + header.shape.bytes());
    for (std::size_t i = header_bytes; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random());
    seenby::encode_header(header, std::span<const std::byte>(bytes).subspan(header_bytes),
                          std::span<std::byte, header_bytes>(bytes.data(), header_bytes));
    const auto decoded = decode_header(bytes);
    REQUIRE(decoded.has_value());
    REQUIRE(*decoded == header);
  }
}

TEST_CASE("the header of a long live value can be read alone", "[serialization]") {
  const Bytes bytes = live_value();
  const std::span<const std::byte> head = std::span<const std::byte>(bytes).first(header_bytes);
  REQUIRE(decode_header(head, bytes.size()).has_value());
  CHECK(decode_header(head, bytes.size())->generation == 0x1122334455667788U);
  CHECK(decode_header(head).error().code == ErrorCode::truncated);
  CHECK(decode_header(head, bytes.size() - 1).error().code == ErrorCode::truncated);
  CHECK(decode_header(head, bytes.size() + 1).error().code == ErrorCode::corrupt);
  // A file's checksum covers its bits, so its header alone proves nothing.
  const Bytes file = filled<Classic>().encode();
  CHECK(decode_header(std::span<const std::byte>(file).first(header_bytes), file.size()).error().code ==
        ErrorCode::invalid_argument);
}

TEST_CASE("the item count saturates and a tiny rate is kept as 2^-64", "[serialization]") {
  CHECK(seenby::detail::fpr_code(1e-300) == 65'535);
  CHECK(seenby::detail::fpr_code(0.9999999) == 1);
  const Classic filter{ClassicLayout::shape_of(64, 1), 1e-300};
  CHECK(Classic::decode(filter.encode())->target_fpr() == std::exp2(-65'535 / 1'024.0));
}

// Refusals

TEMPLATE_LIST_TEST_CASE("a file cut short at any length is truncated", "[serialization]", Kinds) {
  const Bytes bytes = filled<TestType>().encode();
  REQUIRE(TestType::decode(bytes).has_value());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    INFO("length " << length);
    REQUIRE(refusal<TestType>(cut) == ErrorCode::truncated);
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(refusal<TestType>(longer) == ErrorCode::corrupt);
}

TEMPLATE_LIST_TEST_CASE("a file with any one bit flipped is refused", "[serialization]", Kinds) {
  const Bytes bytes = filled<TestType>().encode();
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    INFO("byte " << bit / 8 << ", bit " << bit % 8);
    const ErrorCode code = refusal<TestType>(flipped);
    if (bit < 4) {
      REQUIRE(code == ErrorCode::unsupported_version);
    } else if (bit < 8) {
      REQUIRE(code == ErrorCode::bad_magic);
    } else {
      // The sizes that a flip gives are too large or too small for the bytes; everything else is caught as damage.
      const bool expected = code == ErrorCode::corrupt || code == ErrorCode::too_large ||
                            code == ErrorCode::truncated || code == ErrorCode::parameter_mismatch;
      REQUIRE(expected);
    }
  }
}

TEST_CASE("a live header with any one bit flipped is refused, but for what its store counts in place",
          "[serialization]") {
  const Bytes bytes = live_value();
  REQUIRE(Classic::decode(bytes).has_value());
  for (std::size_t bit = 0; bit < header_bytes * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    INFO("byte " << bit / 8 << ", bit " << bit % 8);
    const bool counted = bit / 8 >= 16 && bit / 8 < 24;
    REQUIRE(Classic::decode(flipped).has_value() == counted);
    REQUIRE(decode_header(flipped).has_value() == counted);
  }
}

TEMPLATE_LIST_TEST_CASE("a file of a future version is refused as one", "[serialization]", Kinds) {
  Bytes bytes = filled<TestType>().encode();
  for (const unsigned version : {0U, 2U, 3U, 15U}) {
    bytes[0] = static_cast<std::byte>(0xb0U | version);
    mend_checksum(bytes);
    CHECK(refusal<TestType>(bytes) == ErrorCode::unsupported_version);
  }
  CHECK_THAT(TestType::decode(bytes).error().message,
             ContainsSubstring("expected format version 1, got 15") && ContainsSubstring("a newer seenby"));
  bytes[0] = std::byte{0x1f};
  mend_checksum(bytes);
  CHECK(refusal<TestType>(bytes) == ErrorCode::bad_magic);
}

TEST_CASE("a filter of another layout, hash or seed is a mismatch", "[serialization]") {
  const Bytes bytes = filled<Classic>().encode();
  CHECK(refusal<BloomFilter<Number, SplitBlockLayout, Xxh3Hash>>(bytes) == ErrorCode::parameter_mismatch);
  CHECK(refusal<BloomFilter<Number, ClassicLayout, Xxh64Hash>>(bytes) == ErrorCode::parameter_mismatch);
  CHECK(refusal<BloomFilter<Number, ClassicLayout, Mix64Hash>>(bytes) == ErrorCode::parameter_mismatch);
  const auto other_seed = Classic::decode(bytes, Xxh3Hash{1});
  REQUIRE_FALSE(other_seed.has_value());
  CHECK(other_seed.error().code == ErrorCode::parameter_mismatch);
  CHECK_THAT(other_seed.error().message, ContainsSubstring("expected a filter of this seed"));
  CHECK_THAT((BloomFilter<Number, SplitBlockLayout>::decode(bytes).error().message),
             ContainsSubstring("expected a filter of layout split_block, got classic"));
}

TEST_CASE("fields out of range are refused even with a fitting checksum", "[serialization]") {
  struct Damage {
    std::size_t at;
    std::uint64_t value;
    std::size_t size;
    ErrorCode code;
  };
  const Damage damage = GENERATE(
      Damage{1, 0x80, 1, ErrorCode::corrupt}, Damage{1, 0x84, 1, ErrorCode::corrupt},
      Damage{1, 0xff, 1, ErrorCode::corrupt}, Damage{2, 0, 1, ErrorCode::corrupt}, Damage{2, 65, 1, ErrorCode::corrupt},
      Damage{2, 255, 1, ErrorCode::corrupt}, Damage{3, 0, 1, ErrorCode::corrupt}, Damage{3, 4, 1, ErrorCode::corrupt},
      Damage{4, 0, 4, ErrorCode::corrupt}, Damage{4, 0xffffffff, 4, ErrorCode::too_large},
      Damage{4, 0x80000001, 4, ErrorCode::too_large}, Damage{4, 0x80000000, 4, ErrorCode::truncated},
      Damage{4, 1, 4, ErrorCode::corrupt}, Damage{24, 0, 2, ErrorCode::corrupt});
  Bytes bytes = filled<Classic>().encode();
  put(bytes, damage.at, damage.value, damage.size);
  mend_checksum(bytes);
  INFO("offset " << damage.at << ", value " << damage.value);
  CHECK(refusal<Classic>(bytes) == damage.code);
}

TEST_CASE("a split-block header needs k = 8 and has half the largest size field", "[serialization]") {
  using Split = BloomFilter<Number, SplitBlockLayout, Xxh3Hash>;
  Bytes bytes = filled<Split>().encode();
  put(bytes, 2, 7, 1);
  mend_checksum(bytes);
  CHECK(refusal<Split>(bytes) == ErrorCode::corrupt);
  put(bytes, 2, 8, 1);
  put(bytes, 4, (std::uint64_t{1} << 29) + 1, 4);
  mend_checksum(bytes);
  CHECK(refusal<Split>(bytes) == ErrorCode::too_large);
  // 16 GiB announced, some hundred bytes there: refused before anybody asks for 16 GiB.
  put(bytes, 4, std::uint64_t{1} << 29, 4);
  mend_checksum(bytes);
  CHECK(refusal<Split>(bytes) == ErrorCode::truncated);
}

TEST_CASE("random bytes are never a filter", "[serialization]") {
  SEENBY_RANDOM(random);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(random.below(200));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    // Half of them get as far as the fields.
    if (!bytes.empty() && round % 2 == 0) bytes[0] = std::byte{0xb1};
    if (bytes.size() > 3 && round % 2 == 0) {
      bytes[1] = std::byte{0x81};
      bytes[2] = std::byte{7};
      bytes[3] = std::byte{1};
    }
    REQUIRE_FALSE(Classic::decode(bytes).has_value());
  }
}

TEST_CASE("a refused file leaves the filter that was to take it untouched", "[serialization]") {
  Classic filter = filled<Classic>();
  const Classic before = filter;
  Bytes bytes = filter.encode();
  bytes.back() ^= std::byte{1};
  if (auto decoded = Classic::decode(bytes)) filter = *std::move(decoded);
  CHECK(filter == before);
  CHECK(filter.size() == before.size());
}

}  // namespace
