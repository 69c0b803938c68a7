// SPDX-License-Identifier: MIT
// Snapshots written by released versions stay readable, and this version still writes the same bytes.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "seenby/stores/memory_store.hpp"
#include "seenby_test_paths.hpp"

namespace {

using namespace std::chrono_literals;
using Store = seenby::MemoryStore<std::uint64_t>;

const std::filesystem::path golden =
    std::filesystem::path(SEENBY_SOURCE_DIR) / "tests" / "golden" / "memory_snapshot_v1.bin";

seenby::StorePolicy policy() {
  seenby::StorePolicy policy{.wrong_hide_rate = 0.01, .window = 6h, .slices = 6, .seed = 42};
  policy.clock = [] { return seenby::Time(1'000'008'000s); };
  return policy;
}
std::vector<seenby::Digest> items(const Store& store, std::uint64_t first, std::uint64_t count) {
  std::vector<seenby::Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(store.hasher()(first + i));
  return digests;
}
std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("the golden snapshot of version 1 is read") {
  Store store(policy());
  const auto result = store.restore(golden);
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  CHECK(store.users() == 3);
  const auto digests = items(store, 0, 60);
  for (const auto& [user, seen] : {std::pair<std::uint64_t, std::size_t>{1, 0}, {2, 3}, {3, 60}}) {
    std::vector<std::uint8_t> seen_by(digests.size());
    std::array<seenby::UserStatus, 1> status;
    store.check_digests(std::array{user}, digests, seen_by, status);
    CHECK(status[0].state == seenby::UserState::known);
    for (std::size_t i = 0; i < digests.size(); ++i) CHECK(seen_by[i] == (i < seen ? 1 : 0));
  }
}

TEST_CASE("the same store still writes the golden records") {
  Store store(policy(), {.shards = 1, .exact_items = 8});
  REQUIRE(store.create(1));
  REQUIRE(store.record_digests(2, items(store, 0, 3)));
  REQUIRE(store.record_digests(3, items(store, 0, 60)));
  const auto path = std::filesystem::temp_directory_path() / ("seenby-golden-" + std::to_string(::getpid()));
  REQUIRE(store.snapshot(path));
  const std::string written = bytes_of(path);
  std::filesystem::remove(path);
  // Users may stand in any order: compare what is left of the file when each byte is counted.
  std::string expected = bytes_of(golden);
  REQUIRE(written.size() == 400);
  CHECK(written.substr(0, 88) == expected.substr(0, 88));  // header, and the section's head up to its checksum
  CHECK(written.substr(368) == expected.substr(368));      // trailer
  std::string records = written.substr(96, 264);
  std::string expected_records = expected.substr(96, 264);
  std::sort(records.begin(), records.end());
  std::sort(expected_records.begin(), expected_records.end());
  CHECK(records == expected_records);
}
