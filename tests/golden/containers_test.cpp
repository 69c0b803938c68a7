// SPDX-License-Identifier: MIT
// The containers as version 1 wrote them: read for ever, and written the same.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "seenby/filters/counting_bloom_filter.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/filters/rotating_filter.hpp"
#include "seenby/filters/scalable_filter.hpp"
#include "seenby_test_paths.hpp"
#include "support/files.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::test::read_bytes;
using seenby::test::source_file;

/// The bytes of a golden file. With SEENBY_WRITE_GOLDEN set, one that is missing is written; none is ever changed.
std::vector<std::byte> golden(const char* name, const std::vector<std::byte>& first) {
  const auto path = source_file(std::string("tests/golden/").append(name));
  if (std::getenv("SEENBY_WRITE_GOLDEN") != nullptr && !std::filesystem::exists(path))
    seenby::test::write_bytes(path, first);
  return read_bytes(path);
}

TEST_CASE("a chain of version 1 is read and written the same", "[golden][scalable]") {
  const auto bytes = read_bytes(source_file("tests/golden/v1-chain.container"));
  const auto chain = seenby::ScalableFilter<std::uint64_t>::decode(bytes);
  REQUIRE(chain.has_value());
  CHECK(chain->options().initial_items == 8);
  CHECK(chain->size() == 40);
  CHECK(chain->stages() == 3);
  for (std::uint64_t item = 0; item < 40; ++item) CHECK(chain->may_contain(item));
  CHECK(chain->encode() == bytes);
}

TEST_CASE("a chain of layout 3 is read and written the same", "[golden][scalable]") {
  seenby::ScalableFilter<std::uint64_t> chain({.initial_items = 8});
  for (std::uint64_t item = 0; item < 40; ++item) chain.insert(item);
  const auto bytes = golden("v1-chain-layout3.container", chain.encode());
  CHECK(chain.encode() == bytes);
  const auto read = seenby::ScalableFilter<std::uint64_t>::decode(bytes);
  REQUIRE(read.has_value());
  CHECK(*read == chain);
  CHECK(read->size() == chain.size());
}

TEST_CASE("a window of version 1 is read and written the same", "[golden][rotating]") {
  const auto bytes = read_bytes(source_file("tests/golden/v1-window.container"));
  seenby::Time now{1'700'000'060s};
  const auto window =
      seenby::RotatingFilter<std::uint64_t>::decode(bytes, seenby::Clock::simulated([&] { return now; }));
  REQUIRE(window.has_value());
  CHECK(window->slice_length() == 10s);
  CHECK(window->encode() == bytes);
  CHECK(window->live_slices() == 3);
  for (std::uint64_t item = 30; item < 60; ++item) CHECK(window->age_of(item) == 3 - (item - 30) / 10);
  now += 15s;
  CHECK_FALSE(window->may_contain(std::uint64_t{35}));
  CHECK(window->may_contain(std::uint64_t{45}));
}

TEST_CASE("a window of layout 3 is read and written the same", "[golden][rotating]") {
  seenby::Time then{1'700'000'000s};
  seenby::RotatingFilter<std::uint64_t> again(
      {.window = 30s, .slices = 3, .expected_items = 30, .clock = [&] { return then; }});
  for (std::uint64_t item = 0; item < 60; ++item, then += 1s) again.insert(item);
  const auto bytes = golden("v1-window-layout3.container", again.encode());
  CHECK(again.encode() == bytes);
  const auto window = seenby::RotatingFilter<std::uint64_t>::decode(bytes, [&] { return then; });
  REQUIRE(window.has_value());
  for (std::uint64_t item = 30; item < 60; ++item) CHECK(window->age_of(item) == again.age_of(item));
}

TEST_CASE("a counting filter of version 1 is read and written the same", "[golden][counting]") {
  const auto bytes = read_bytes(source_file("tests/golden/v1-counting.container"));
  auto filter = seenby::CountingBloomFilter<std::uint64_t>::decode(bytes);
  REQUIRE(filter.has_value());
  CHECK(filter->size() == 40);
  CHECK(filter->count_at_most(3) == 15);
  CHECK(filter->encode() == bytes);
  CHECK(filter->erase(std::uint64_t{5}));
}

TEST_CASE("a counting filter of layout 3 is read and written the same", "[golden][counting]") {
  seenby::CountingBloomFilter<std::uint64_t> filter({.expected_items = 40});
  for (std::uint64_t item = 0; item < 40; ++item) filter.insert(item);
  for (int again = 0; again < 20; ++again) filter.insert(std::uint64_t{3});
  const auto bytes = golden("v1-counting-layout3.container", filter.encode());
  CHECK(filter.encode() == bytes);
  auto read = seenby::CountingBloomFilter<std::uint64_t>::decode(bytes);
  REQUIRE(read.has_value());
  for (std::uint64_t item = 0; item < 40; ++item) CHECK(read->may_contain(item));
  CHECK(read->count_at_most(3) == 15);
  CHECK(read->erase(std::uint64_t{5}));
}

TEST_CASE("a partitioned filter of version 1 is mapped and saved the same", "[golden][partitioned]") {
  const auto path = source_file("tests/golden/v1-partitioned.container");
  const auto filter = seenby::PartitionedFilter<std::uint64_t>::open(path, {.verify = true});
  REQUIRE(filter.has_value());
  CHECK(filter->partitions() == 2);
  CHECK(filter->size() == 20);
  for (std::uint64_t item = 0; item < 20; ++item) CHECK(filter->may_contain(item));
  const auto copy = std::filesystem::path(SEENBY_BINARY_DIR) / "v1-partitioned.again";
  REQUIRE(filter->save(copy).has_value());
  CHECK(read_bytes(copy) == read_bytes(path));
  std::filesystem::remove(copy);
}

}  // namespace
