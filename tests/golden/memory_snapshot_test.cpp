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

const std::filesystem::path folder = std::filesystem::path(SEENBY_SOURCE_DIR) / "tests" / "golden";

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

TEST_CASE("the golden snapshots of all versions are read, and what they hold grows on") {
  for (const char* name : {"memory_snapshot_v1.bin", "memory_snapshot_v2.bin", "memory_snapshot_v2_kept.bin"}) {
    CAPTURE(name);
    Store store(policy());
    const auto result = store.restore(folder / name);
    INFO((result ? std::string() : result.error().message));
    REQUIRE(result);
    CHECK(store.users() == 3);
    for (const std::uint64_t more : {0U, 40U}) {
      for (std::uint64_t i = 0; i < more; ++i) {
        for (const std::uint64_t user : {2U, 3U}) REQUIRE(store.record_digests(user, items(store, 1'000 + i, 1)));
      }
      const auto digests = items(store, 0, 60);
      for (const auto& [user, seen] : {std::pair<std::uint64_t, std::size_t>{1, 0}, {2, 3}, {3, 60}}) {
        std::vector<std::uint8_t> seen_by(digests.size());
        std::array<seenby::UserStatus, 1> status;
        store.check_digests(std::array{user}, digests, seen_by, status);
        CHECK(status[0].state == seenby::UserState::known);
        for (std::size_t i = 0; i < digests.size(); ++i) CHECK(seen_by[i] == (i < seen ? 1 : 0));
      }
    }
  }
}

TEST_CASE("the same store still writes the golden records") {
  Store store(policy(), {.shards = 1});
  REQUIRE(store.create(1));
  REQUIRE(store.record_digests(2, items(store, 0, 3)));
  REQUIRE(store.record_digests(3, items(store, 0, 60)));
  const auto path = std::filesystem::temp_directory_path() / ("seenby-golden-" + std::to_string(::getpid()));
  REQUIRE(store.snapshot(path));
  const std::string written = bytes_of(path);
  std::filesystem::remove(path);
  const std::string expected = bytes_of(folder / "memory_snapshot_v2.bin");
  REQUIRE(written.size() == expected.size());
  const std::size_t trailer = expected.size() - 32;
  const std::size_t end = trailer - 8;
  CHECK((written.substr(0, 88) == expected.substr(0, 88)));  // header, and the section's head up to its checksum
  CHECK((written.substr(trailer) == expected.substr(trailer)));
  // Users may come in any order: compare what is left of the section when each byte is counted.
  std::string records = written.substr(96, end - 96);
  std::string expected_records = expected.substr(96, end - 96);
  std::sort(records.begin(), records.end());
  std::sort(expected_records.begin(), expected_records.end());
  CHECK((records == expected_records));  // in parentheses: Catch2 cannot print bytes
}

TEST_CASE("a large user's golden snapshot is read, and written byte for byte") {
  const auto make = [] { return Store({.wrong_hide_rate = 0.01, .seed = 42}, {.shards = 1, .table_bytes = 2'048}); };
  Store store = make();
  for (std::uint64_t i = 0; i < 2'000; i += 4) REQUIRE(store.record_digests(5, items(store, i, 4)));
  const auto path = std::filesystem::temp_directory_path() / ("seenby-golden-" + std::to_string(::getpid()));
  REQUIRE(store.snapshot(path));
  const std::string written = bytes_of(path);
  std::filesystem::remove(path);
  CHECK((written == bytes_of(folder / "memory_snapshot_v3.bin")));
  Store restored = make();
  REQUIRE(restored.restore(folder / "memory_snapshot_v3.bin"));
  for (std::uint64_t i = 2'000; i < 3'000; i += 4) REQUIRE(restored.record_digests(5, items(store, i, 4)));
  const auto digests = items(store, 0, 3'000);
  std::vector<std::uint8_t> seen_by(digests.size());
  std::array<seenby::UserStatus, 1> status;
  restored.check_digests(std::array<std::uint64_t, 1>{5}, digests, seen_by, status);
  CHECK(std::count(seen_by.begin(), seen_by.end(), 1) == 3'000);
}

TEST_CASE("what users hid and saw last is read from the golden snapshot, and written byte for byte") {
  Store store(policy(), {.shards = 1});
  store.keep_last(1);
  const seenby::Time at(1'000'000'000s);
  REQUIRE(store.record(7, seenby::ItemBatch<std::uint64_t>{{}, items(store, 5, 2)}, seenby::Time(1'000'004'000s)));
  REQUIRE(store.hide(7, std::vector<seenby::HiddenItem>{{items(store, 1, 1)[0], "tone", at}}));
  const auto path = std::filesystem::temp_directory_path() / ("seenby-golden-" + std::to_string(::getpid()));
  REQUIRE(store.snapshot(path));
  const std::string written = bytes_of(path);
  std::filesystem::remove(path);
  CHECK((written == bytes_of(folder / "memory_snapshot_v2_hides.bin")));

  Store restored(policy());
  REQUIRE(restored.restore(folder / "memory_snapshot_v2_hides.bin"));
  CHECK(restored.hidden(7).value() == store.hidden(7).value());
  std::array<seenby::UserStatus, 1> status;
  restored.check_digests(std::array<std::uint64_t, 1>{7}, {}, {}, status);
  REQUIRE(status[0].exact != nullptr);
  CHECK(*status[0].exact == seenby::ExactList{{items(store, 6, 1)[0], seenby::Time(1'000'004'000s)},
                                              {items(store, 1, 1)[0], seenby::Time::max()}});
}
