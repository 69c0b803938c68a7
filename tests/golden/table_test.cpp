// SPDX-License-Identifier: MIT
// Fingerprint tables as format 2 writes them: read for ever, and written the same.

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/stores/exact_sections.hpp"
#include "seenby_test_paths.hpp"
#include "support/files.hpp"

namespace {

using seenby::ErrorCode;
using seenby::FingerprintItem;
using seenby::FingerprintShape;
using seenby::FingerprintTable;
using seenby::SectionEntry;
using seenby::SectionKind;
using seenby::TableHeader;
using seenby::test::read_bytes;
using seenby::test::source_file;
using Bytes = std::vector<std::byte>;

seenby::Digest digest_of(std::uint32_t item) { return seenby::Xxh3Hash{}("item-" + std::to_string(item)); }

/// A value of this header, with its table filled by `fill`.
template <class Fill>
Bytes value_of(TableHeader header, Fill&& fill, const Bytes& sections = {}) {
  Bytes value(seenby::table_header_bytes + header.shape.bytes());
  FingerprintTable table(header.shape, 0, value.data() + seenby::table_header_bytes);
  fill(table);
  header.count = table.count();
  header.seed_check = seenby::seed_check(seenby::Xxh3Hash{});
  header.section_bytes = static_cast<std::uint32_t>(sections.size());
  value.insert(value.end(), sections.begin(), sections.end());
  encode_table_header(header, std::span(value).subspan(seenby::table_header_bytes),
                      std::span<std::byte, seenby::table_header_bytes>(value.data(), seenby::table_header_bytes));
  return value;
}

std::vector<FingerprintItem> items(std::uint32_t count, std::uint32_t first_slice) {
  std::vector<FingerprintItem> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({digest_of(i), static_cast<std::uint8_t>(first_slice + i)});
  return all;
}

Bytes plain() {
  TableHeader header{.covers_body = true, .share = 0.005};
  header.shape = {.bucket_bits = 1, .capacity = 12};
  return value_of(header, [](FingerprintTable& table) {
    auto all = items(12, 0);
    REQUIRE(table.rebuild(nullptr, all, {}));
  });
}

const std::array hides{SectionEntry{digest_of(3), 1'700'000'000, "item-3"}};
const std::array kept{SectionEntry{digest_of(10), 1'700'000'100, "item-10"},
                      SectionEntry{digest_of(11), 1'700'000'200, ""}};

Bytes sliced() {
  TableHeader header{
      .covers_body = true, .slice_seconds = 86'400, .newest = 20'011, .share = 0.0005, .section_count = 2};
  header.shape = {.bucket_bits = 1, .tail_bytes = 1, .sliced = true, .capacity = 12};
  Bytes sections;
  append_section(sections, SectionKind::hides, hides);
  append_section(sections, SectionKind::kept_last, kept);
  const auto fill = [](FingerprintTable& table) {
    auto all = items(12, 20'000);
    REQUIRE(table.rebuild(nullptr, all, {static_cast<std::uint8_t>(20'011), 30}));
  };
  return value_of(header, fill, sections);
}

seenby::Time at(std::int64_t seconds) { return seenby::Time{std::chrono::seconds{seconds}}; }

/// As a store writes them: kinds 1, 2 and 4.
seenby::detail::ExactItems exact_items() {
  return {.hides = {{digest_of(3), "titem-3", at(1'700'000'000)}, {digest_of(1), "titem-1", at(1'600'000'000)}},
          .kept = {{digest_of(10), at(1'700'000'100)}},
          .in_flight = {{digest_of(11), seenby::Time::max(), at(1'700'000'300)},
                        {digest_of(12), seenby::Time::max(), at(1'700'000'200)}}};
}

Bytes marked() {
  TableHeader header{.covers_body = true, .share = 0.005};
  header.shape = {.bucket_bits = 1, .capacity = 12};
  Bytes sections;
  header.section_count = append_exact(sections, exact_items());
  const auto fill = [](FingerprintTable& table) {
    auto all = items(12, 0);
    REQUIRE(table.rebuild(nullptr, all, {}));
  };
  return value_of(header, fill, sections);
}

Bytes live() {
  TableHeader header{.generation = 0x0123456789abcdef, .sequence = 200, .share = 0.005};
  header.shape = {.bucket_bits = 5, .capacity = 256};
  return value_of(header, [](FingerprintTable& table) {
    for (const FingerprintItem& item : items(200, 0)) CHECK(table.insert(item) == FingerprintTable::Inserted::added);
  });
}

TEST_CASE("a table of format 2 is read and written the same", "[golden][fingerprint_table]") {
  const Bytes bytes = read_bytes(source_file("tests/golden/v2-table.value"));
  CHECK(plain() == bytes);
  const auto value = seenby::decode_table(bytes);
  REQUIRE(value.has_value());
  CHECK(value->header.count == 12);
  CHECK(value->table.shape().bucket_bits == 1);
  CHECK(value->sections.empty());
  for (std::uint32_t i = 0; i < 12; ++i) CHECK(value->table.may_contain(digest_of(i)));
  CHECK_FALSE(value->table.may_contain(digest_of(12)));
}

TEST_CASE("a table with slices and sections is read and written the same", "[golden][fingerprint_table]") {
  const Bytes bytes = read_bytes(source_file("tests/golden/v2-table-sliced.value"));
  CHECK(sliced() == bytes);
  const auto value = seenby::decode_table(bytes);
  REQUIRE(value.has_value());
  const seenby::FingerprintWindow window{static_cast<std::uint8_t>(value->header.newest), 30};
  for (std::uint32_t i = 0; i < 12; ++i) CHECK(value->table.age(digest_of(i), window) == 11 - i);
  const auto hidden = seenby::decode_entries(value->section(SectionKind::hides));
  REQUIRE(hidden.has_value());
  CHECK(std::equal(hidden->begin(), hidden->end(), hides.begin(), hides.end()));
  const auto last = seenby::decode_entries(value->section(SectionKind::kept_last));
  REQUIRE(last.has_value());
  CHECK(std::equal(last->begin(), last->end(), kept.begin(), kept.end()));
}

TEST_CASE("what is hidden, kept last and in flight is read and written the same", "[golden][fingerprint_table]") {
  const Bytes bytes = read_bytes(source_file("tests/golden/v2-table-marked.value"));
  CHECK(marked() == bytes);
  const auto value = seenby::decode_table(bytes);
  REQUIRE(value.has_value());
  CHECK(value->header.section_count == 3);
  const auto read = seenby::detail::read_exact(value->sections);
  REQUIRE(read.has_value());
  const seenby::detail::ExactItems expected = exact_items();
  CHECK(read->hides == expected.hides);
  CHECK(read->kept == expected.kept);
  CHECK(read->in_flight == expected.in_flight);
  // Byte for byte by the page: u16 4, u16 0, u32 size, then each entry's digest, deadline and empty text.
  Bytes tail(8 + 2 * 18);
  tail[0] = std::byte{4};
  tail[4] = std::byte{36};
  for (std::size_t i = 0; i < 2; ++i) {
    seenby::detail::store_le(tail.data() + 8 + 18 * i, digest_of(static_cast<std::uint32_t>(11 + i)).value);
    seenby::detail::store_le(tail.data() + 16 + 18 * i, std::uint64_t{1'700'000'300 - 100 * i});
  }
  CHECK(std::equal(tail.begin(), tail.end(), bytes.end() - static_cast<std::ptrdiff_t>(tail.size())));
}

TEST_CASE("a live table is read and written the same", "[golden][fingerprint_table]") {
  const Bytes bytes = read_bytes(source_file("tests/golden/v2-table-live.value"));
  CHECK(live() == bytes);
  const auto value = seenby::decode_table(bytes);
  REQUIRE(value.has_value());
  CHECK(value->header.sequence == 200);
  for (std::uint32_t i = 0; i < 200; ++i) CHECK(value->table.may_contain(digest_of(i)));
  // A remote insert changes sequence and count, and the checksum stays.
  Bytes changed = bytes;
  FingerprintTable table(value->header.shape, value->header.count, changed.data() + seenby::table_header_bytes);
  REQUIRE(table.insert({digest_of(200)}) == FingerprintTable::Inserted::added);
  seenby::detail::store_le(changed.data() + 24, std::uint32_t{201});
  seenby::detail::store_le(changed.data() + 28, table.count());
  CHECK(seenby::decode_table(changed).has_value());
}

TEST_CASE("a damaged table is refused with what is wrong", "[golden][fingerprint_table]") {
  const auto code_of = [](const Bytes& bytes) {
    const auto value = seenby::decode_table(bytes);
    return value.has_value() ? ErrorCode::io : value.error().code;
  };
  const Bytes good = plain();
  for (std::size_t size = 1; size < good.size(); ++size) {
    CHECK(code_of(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))) == ErrorCode::truncated);
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes flipped = good;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    CHECK_FALSE(seenby::decode_table(flipped).has_value());
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  CHECK(code_of(longer) == ErrorCode::corrupt);
  Bytes version_one = good;
  version_one[0] = std::byte{0xB1};
  CHECK(code_of(version_one) == ErrorCode::unsupported_version);
  CHECK(code_of({}) == ErrorCode::truncated);
  // A live value's checksum leaves out the body, so the index must hold by itself.
  Bytes live_value = live();
  live_value[seenby::table_header_bytes + 3] ^= std::byte{0x40};
  CHECK(code_of(live_value) == ErrorCode::corrupt);
}

}  // namespace
