// SPDX-License-Identifier: MIT
// Golden files: what any version of seenby ever wrote stays readable, and what this one writes stays the same bytes.
// Files are only ever added. FORMAT.md describes them.

#include <algorithm>
#include <array>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "support/files.hpp"

namespace {

using seenby::BloomFilter;
using seenby::ClassicLayout;
using seenby::Digest;
using seenby::FilterHeader;
using seenby::FilterShape;
using seenby::header_bytes;
using seenby::LayoutKind;
using seenby::Mix64Hash;
using seenby::SplitBlockLayout;
using seenby::Xxh3Hash;
using seenby::Xxh64Hash;
using Bytes = std::vector<std::byte>;

/// A golden filter holds the strings question-0 to question-39 and the integers 0 to 9, asked for by digest.
template <class Hash>
std::vector<Digest> golden_items(const Hash& hash) {
  std::vector<Digest> items;
  items.reserve(50);
  for (int i = 0; i < 40; ++i) items.push_back(hash("question-" + std::to_string(i)));
  for (std::uint64_t i = 0; i < 10; ++i) items.push_back(hash(i));
  return items;
}

template <LayoutKind kind>
using LayoutOf = std::conditional_t<kind == LayoutKind::split_block, SplitBlockLayout, ClassicLayout>;

template <LayoutKind kind, class Hash>
BloomFilter<std::string, LayoutOf<kind>, Hash> golden_filter(Hash hash) {
  // 576 bits: no power of two; a split block takes three of 256.
  FilterShape shape = LayoutOf<kind>::shape_of(576, kind == LayoutKind::split_block ? 8 : 7);
  shape.layout = kind;
  BloomFilter<std::string, LayoutOf<kind>, Hash> filter{shape, 0.01, hash};
  for (const Digest item : golden_items(hash)) filter.insert(item);
  return filter;
}

/// A file as encode() writes it.
template <LayoutKind kind, class Hash>
Bytes golden_file(Hash hash) {
  return golden_filter<kind>(hash).encode();
}

/// A value as a store keeps it: a generation, a sequence, and a checksum that leaves out what is counted in place.
template <LayoutKind kind, class Hash>
Bytes golden_live_value(Hash hash) {
  const auto filter = golden_filter<kind>(hash);
  Bytes bytes(header_bytes + filter.bits().size());
  std::copy(filter.bits().begin(), filter.bits().end(), bytes.begin() + header_bytes);
  const FilterHeader header{.shape = filter.shape(),
                            .hash = Hash::kind,
                            .covers_bits = false,
                            .generation = 0x0123456789abcdefU,
                            .sequence = 50,
                            .items = 50,
                            .target_fpr = 0.01,
                            .seed_check = seenby::seed_check(hash)};
  seenby::encode_header(header, {}, std::span<std::byte, header_bytes>(bytes.data(), header_bytes));
  return bytes;
}

/// Whether a file of this layout and hash is read and answers as it did.
template <LayoutKind kind, class Hash>
void check_reads(const Bytes& bytes, Hash hash) {
  using Filter = BloomFilter<std::string, LayoutOf<kind>, Hash>;
  const auto filter = Filter::decode(bytes, hash);
  REQUIRE(filter.has_value());
  const auto view = Filter::view_type::over(bytes, hash);
  REQUIRE(view.has_value());
  for (const Digest item : golden_items(hash)) {
    CHECK(filter->may_contain(item));
    CHECK(view->may_contain(item));
  }
  std::uint64_t hits = 0;
  for (int i = 1'000; i < 2'000; ++i) hits += filter->may_contain("question-" + std::to_string(i)) ? 1U : 0U;
  CHECK(hits < 60);  // 50 items at 11.5 to 15.4 bits each: half a percent
  CHECK(filter->size() <= 50);
  CHECK(filter->target_fpr() <= 0.01);
}

struct Golden {
  std::string_view name;
  std::uint64_t xxh3;  ///< of the whole file: a golden file is never edited
  Bytes (*write)();
  void (*check)(const Bytes&);
};

template <LayoutKind kind, class Hash, std::uint64_t seed>
constexpr Golden file(std::string_view name, std::uint64_t xxh3) {
  return {name, xxh3, [] { return golden_file<kind>(Hash{seed}); },
          [](const Bytes& bytes) { check_reads<kind>(bytes, Hash{seed}); }};
}
template <LayoutKind kind, class Hash, std::uint64_t seed>
constexpr Golden live(std::string_view name, std::uint64_t xxh3) {
  return {name, xxh3, [] { return golden_live_value<kind>(Hash{seed}); },
          [](const Bytes& bytes) { check_reads<kind>(bytes, Hash{seed}); }};
}

// A new format version adds lines; no line is ever changed or removed.
const std::array goldens{
    file<LayoutKind::classic_v1, Xxh3Hash, 0>("v1-classic-xxh3.filter", 0x9e39504dc8f3f47dU),
    file<LayoutKind::classic_v1, Xxh3Hash, 42>("v1-classic-xxh3-seed42.filter", 0xdce438d8c3c2f51cU),
    file<LayoutKind::classic_v1, Xxh64Hash, 0>("v1-classic-xxh64.filter", 0xaff9616b0c7a71d0U),
    file<LayoutKind::classic_v1, Mix64Hash, 0>("v1-classic-mix64.filter", 0x1226ecb5cf560746U),
    file<LayoutKind::split_block, Xxh3Hash, 0>("v1-split-block-xxh3.filter", 0x7a3c3cfc3301b94aU),
    file<LayoutKind::split_block, Xxh64Hash, 0>("v1-split-block-xxh64.filter", 0xfc0f810a8b5687beU),
    file<LayoutKind::split_block, Mix64Hash, 42>("v1-split-block-mix64-seed42.filter", 0x87bf7624ca5ea5d5U),
    live<LayoutKind::classic_v1, Xxh3Hash, 0>("v1-live-classic-xxh3.filter", 0xe5293380dcb5af14U),
    live<LayoutKind::split_block, Xxh3Hash, 42>("v1-live-split-block-xxh3-seed42.filter", 0xd4528722b43b03f6U),
    file<LayoutKind::classic, Xxh3Hash, 0>("v1-classic3-xxh3.filter", 0x60e1be53cb18fdb9U),
    file<LayoutKind::classic, Mix64Hash, 42>("v1-classic3-mix64-seed42.filter", 0x0a32a490fcdccc33U),
    live<LayoutKind::classic, Xxh3Hash, 42>("v1-live-classic3-xxh3-seed42.filter", 0xf023d5d17c645f8fU),
};

std::filesystem::path golden_folder() { return seenby::test::source_file("tests/golden"); }

std::uint64_t xxh3_of(const Bytes& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

TEST_CASE("every golden file is there, unchanged, and answers as it did", "[golden]") {
  for (const Golden& golden : goldens) {
    INFO(golden.name);
    const Bytes bytes = seenby::test::read_bytes(golden_folder() / golden.name);
    CHECK(xxh3_of(bytes) == golden.xxh3);
    golden.check(bytes);
  }
}

TEST_CASE("the files that this version writes are the golden ones, byte for byte", "[golden]") {
  for (const Golden& golden : goldens) {
    INFO(golden.name);
    CHECK(golden.write() == seenby::test::read_bytes(golden_folder() / golden.name));
  }
}

TEST_CASE("every file in the folder is accounted for", "[golden]") {
  std::set<std::string, std::less<>> known;
  for (const Golden& golden : goldens) known.emplace(golden.name);
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".filter") CHECK(known.contains(entry.path().filename().string()));
  }
}

// Run by hand when a format version is added: writes what is missing, never what is there, and prints the line for the
// table above.
TEST_CASE("missing golden files are written", "[.write-golden]") {
  for (const Golden& golden : goldens) {
    const auto path = golden_folder() / golden.name;
    if (std::filesystem::exists(path)) continue;
    const Bytes bytes = golden.write();
    seenby::test::write_bytes(path, bytes);
    std::printf("%s 0x%016llx\n", path.filename().c_str(), static_cast<unsigned long long>(xxh3_of(bytes)));
  }
}

std::string hex_dump(const Bytes& bytes) {
  std::string text;
  std::array<char, 24> cell{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 16 == 0) {
      std::snprintf(cell.data(), cell.size(), "%02zx", i);
      text.append(i == 0 ? "" : "\n").append(cell.data()).append(":");
    }
    std::snprintf(cell.data(), cell.size(), " %02x", std::to_integer<unsigned>(bytes[i]));
    text.append(cell.data());
  }
  return text;
}

TEST_CASE("the example that FORMAT.md works through is what is written", "[golden]") {
  BloomFilter<std::string> filter{ClassicLayout::shape_of(64, 3), 0.01};
  filter.insert("a");
  const Bytes page = seenby::test::read_bytes(golden_folder() / "FORMAT.md");
  const std::string text(reinterpret_cast<const char*>(page.data()), page.size());
  const std::string dump = hex_dump(filter.encode());
  INFO(dump);
  CHECK(text.find(dump) != std::string::npos);
}

// Digests that stored filters depend on.
TEST_CASE("digests are what they were", "[golden][hash]") {
  struct Row {
    std::string_view item;
    std::uint64_t xxh3;
    std::uint64_t xxh3_seed42;
    std::uint64_t xxh64;
  };
  const std::array strings{
      Row{"", 0x2d06800538d394c2U, 0xb029411ff43d84d2U, 0xef46db3751d8e999U},
      Row{"a", 0xe6c632b61e964e1fU, 0x4c437dd47f0716f4U, 0xd24ec4f1a98c6e5bU},
      Row{"question-17", 0x01629a6ee1f6c5e3U, 0x37d5f2bd82bb2d77U, 0x7f8398d214db9592U},
      Row{"a string of more than sixteen and up to one hundred and twenty-eight bytes", 0x3494ad3d30d5273dU,
          0xf9fc52250686bd4bU, 0xf2ee7ea767e0404fU},
  };
  for (const Row& row : strings) {
    INFO(row.item);
    CHECK(Xxh3Hash{}(row.item).value == row.xxh3);
    CHECK(Xxh3Hash{42}(row.item).value == row.xxh3_seed42);
    CHECK(Xxh64Hash{}(row.item).value == row.xxh64);
  }
  struct Number {
    std::int64_t item;
    std::uint64_t xxh3;
    std::uint64_t xxh64;
    std::uint64_t mix64;
    std::uint64_t mix64_seed42;
  };
  const std::array numbers{
      Number{0, 0xc77b3abb6f87acd9U, 0x34c96acdcadb1bbbU, 0xe220a8397b1dcdafU, 0x989b3f130a063869U},
      Number{1, 0x2fbc593564db792eU, 0x9f29cb17a2a49995U, 0x910a2dec89025cc1U, 0x391bd8fcfa4d758aU},
      Number{-1, 0x5111c7e47d784413U, 0x85d136adb773c6c9U, 0xe4d971771b652c20U, 0x607666806583ca10U},
      Number{9'585'059, 0x6bac726410b2e7f0U, 0xbeb274dd6fcbb3b7U, 0xbdfd8e0285540622U, 0x4e58bd5f9839d986U},
  };
  for (const Number& row : numbers) {
    INFO(row.item);
    CHECK(Xxh3Hash{}(row.item).value == row.xxh3);
    CHECK(Xxh64Hash{}(row.item).value == row.xxh64);
    CHECK(Mix64Hash{}(row.item).value == row.mix64);
    CHECK(Mix64Hash{42}(row.item).value == row.mix64_seed42);
  }
  CHECK(seenby::seed_check(Xxh3Hash{0}) == 0x8163);
  CHECK(seenby::seed_check(Xxh3Hash{42}) == 0x8f2c);
}

}  // namespace
