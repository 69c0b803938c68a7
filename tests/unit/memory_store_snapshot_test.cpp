// SPDX-License-Identifier: MIT
// Snapshots of a MemoryStore: whole or not at all, and nothing believed that a checksum does not hold.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "seenby/stores/memory_store.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Digest;
using seenby::ErrorCode;
using Store = seenby::MemoryStore<std::uint64_t>;
using Bytes = std::vector<char>;

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("seenby-snapshot-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

Digest item(std::uint64_t i) { return seenby::Xxh3Hash{}(i); }

void record(Store& store, std::uint64_t user, std::uint64_t first, std::uint64_t count) {
  std::vector<Digest> batch;
  for (std::uint64_t i = 0; i < count; ++i) batch.push_back(item(first + i));
  REQUIRE(store.record_digests(user, batch));
}
std::vector<std::uint8_t> answers(const Store& store, std::uint64_t users, std::uint64_t items) {
  std::vector<Digest> digests;
  for (std::uint64_t i = 0; i < items; ++i) digests.push_back(item(i));
  std::vector<std::uint8_t> all;
  for (std::uint64_t user = 0; user < users; ++user) {
    std::vector<std::uint8_t> seen_by(items);
    std::array<seenby::UserStatus, 1> status;
    store.check_digests(std::array{user}, digests, seen_by, status);
    all.insert(all.end(), seen_by.begin(), seen_by.end());
    all.push_back(static_cast<std::uint8_t>(status[0].state));
  }
  return all;
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::remove(path);  // overwriting in place makes some file systems wait for the disk
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Every kind of record: empty, exact, one filter, a chain.
void fill(Store& store) {
  REQUIRE(store.create(0));
  record(store, 1, 0, 3);
  record(store, 2, 0, 100);
  for (std::uint64_t i = 0; i < 300; ++i) record(store, 3, i, 1);
  record(store, 5, 7, 8);
}

ErrorCode restore_error(Store& store, const std::filesystem::path& path) {
  const auto result = store.restore(path);
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find(path.filename().string()) != std::string::npos);
  return result.error().code;
}

}  // namespace

TEST_CASE("a snapshot restores every kind of record, into any number of shards") {
  const Folder folder;
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 4}};
  fill(store);
  REQUIRE(store.snapshot(folder / "s"));
  for (const std::uint32_t shards : {1U, 4U, 64U}) {
    Store other{{.wrong_hide_rate = 0.01}, {.shards = shards}};
    record(other, 99, 0, 50);  // replaced with everything else
    REQUIRE(other.restore(folder / "s"));
    CHECK(other.users() == 5);
    CHECK(answers(other, 7, 1'000) == answers(store, 7, 1'000));
    CHECK(other.counters().over_budget == 0);
    record(other, 3, 300, 500);  // and goes on growing
    CHECK(other.counters().over_budget == 0);
    CHECK(answers(other, 4, 800)[3 * 801 + 799] == 1);
  }
  Store stricter{{.wrong_hide_rate = 0.001}};
  REQUIRE(stricter.restore(folder / "s"));
  CHECK(stricter.counters().over_budget > 0);
  CHECK(answers(stricter, 7, 1'000) == answers(store, 7, 1'000));
}

TEST_CASE("a restored window knows which slices have passed") {
  const Folder folder;
  auto now = std::make_shared<seenby::Time>(1'000'008'000s);
  seenby::StorePolicy policy{.wrong_hide_rate = 0.01, .window = 6h, .slices = 6};
  policy.clock = seenby::Clock::simulated([now] { return *now; });
  Store store(policy);
  record(store, 1, 0, 30);
  *now += 3h;
  record(store, 1, 100, 5);
  REQUIRE(store.snapshot(folder / "s"));
  *now -= 20h;  // the machine that restores has a slow clock
  Store other(policy);
  REQUIRE(other.restore(folder / "s"));
  CHECK(answers(other, 2, 200) == answers(store, 2, 200));
  *now += 24h + 1h;  // the first slice leaves the window, the second does not
  const auto seen = answers(other, 2, 200);
  CHECK(seen[201 + 0] + seen[201 + 1] + seen[201 + 2] == 0);
  CHECK(seen[201 + 100] + seen[201 + 104] == 2);
}

TEST_CASE("a forgotten user is not in the snapshot") {
  const Folder folder;
  Store store{{}, {.shards = 1}};
  record(store, 0x1122334455667788U, 0, 5);
  record(store, 2, 1'000, 5);
  REQUIRE(store.forget(0x1122334455667788U).value());
  REQUIRE(store.snapshot(folder / "s"));
  const Bytes bytes = read_file(folder / "s");
  const std::uint64_t key = 0x1122334455667788U;
  const std::uint64_t digest = item(0).value;
  for (const std::uint64_t gone : {key, digest}) {
    const auto* first = reinterpret_cast<const char*>(&gone);
    CHECK(std::search(bytes.begin(), bytes.end(), first, first + 8) == bytes.end());
  }
}

TEST_CASE("a truncated, flipped, foreign or future snapshot is refused and leaves the store as it was") {
  const Folder folder;
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 2}};
  fill(store);
  REQUIRE(store.snapshot(folder / "s"));
  const auto before = answers(store, 7, 500);
  const auto memory = store.memory_bytes();
  const Bytes good = read_file(folder / "s");

  std::size_t accepted = 0;
  for (std::size_t size = 0; size < good.size(); size += size < 200 ? 1 : 37) {
    write_file(folder / "cut", Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    const auto result = store.restore(folder / "cut");
    accepted += result ? 1U : 0U;
    if (!result) CHECK(result.error().code == ErrorCode::truncated);
  }
  std::mt19937_64 random(7);
  for (std::size_t bit = 0; bit < good.size() * 8; bit += bit < 1'024 ? 1 : 1 + random() % 61) {
    Bytes flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write_file(folder / "flip", flipped);
    accepted += store.restore(folder / "flip") ? 1U : 0U;
  }
  CHECK(accepted == 0);
  Bytes longer = good;
  longer.push_back(0);
  write_file(folder / "long", longer);
  CHECK(restore_error(store, folder / "long") == ErrorCode::corrupt);
  Bytes future = good;
  future[8] = 4;
  write_file(folder / "future", future);
  CHECK(restore_error(store, folder / "future") == ErrorCode::unsupported_version);
  write_file(folder / "text", Bytes(1'000, 'x'));
  CHECK(restore_error(store, folder / "text") == ErrorCode::bad_magic);
  CHECK(restore_error(store, folder / "absent") == ErrorCode::io);
  std::filesystem::create_directory(folder / "dir");
  CHECK(restore_error(store, folder / "dir") == ErrorCode::io);

  Store seeded{{.seed = 5}};
  CHECK(restore_error(seeded, folder / "s") == ErrorCode::parameter_mismatch);
  Store windowed{{.window = 6h, .slices = 6}};
  CHECK(restore_error(windowed, folder / "s") == ErrorCode::parameter_mismatch);
  seenby::MemoryStore<std::uint64_t, seenby::Mix64Hash> mixed{{}};
  CHECK(mixed.restore(folder / "s").error().code == ErrorCode::parameter_mismatch);
  seenby::MemoryStore<std::string> named{{}};
  CHECK(named.restore(folder / "s").error().code == ErrorCode::parameter_mismatch);

  CHECK(answers(store, 7, 500) == before);
  CHECK(store.memory_bytes() < memory + 1024);  // a shard that waits for the next restore, however many were refused
}

TEST_CASE("records that contradict themselves under right checksums are refused or harmless") {
  const Folder folder;
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
  fill(store);
  REQUIRE(store.snapshot(folder / "s"));
  const Bytes good = read_file(folder / "s");
  const auto checksum = [](Bytes& bytes, std::size_t from, std::size_t to) {
    const std::uint64_t sum = seenby::detail::xxh3_bytes(bytes.data() + from, to - from, 0);
    std::memcpy(bytes.data() + to, &sum, sizeof sum);
  };
  for (int round = 0; round < 600; ++round) {
    Bytes bad = good;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      // Sections' heads, records, trailer: anything but the checksums, which are then set right.
      bad[64 + random() % (bad.size() - 64)] ^= static_cast<char>(1U << (random() % 8));
    }
    checksum(bad, 64, 88);
    checksum(bad, 96, bad.size() - 32 - 8);
    checksum(bad, bad.size() - 32, bad.size() - 8);
    write_file(folder / "bad", bad);
    Store other{{.wrong_hide_rate = 0.01}, {.shards = 1}};
    if (!other.restore(folder / "bad")) continue;
    (void)answers(other, 7, 50);
    // What a counterfeit claims of a user may be more than memory holds: an error that says so is harmless.
    const auto require_done_or_too_large = [](const auto& result) {
      if (!result) REQUIRE(result.error().code == ErrorCode::too_large);
    };
    std::vector<Digest> batch;
    for (std::uint64_t i = 0; i < 40; ++i) batch.push_back(item(5'000 + i));
    for (std::uint64_t user = 0; user < 6; ++user) require_done_or_too_large(other.record_digests(user, batch));
    require_done_or_too_large(other.merge_users(2, 3));
    REQUIRE(other.forget(3).has_value());
  }
}

TEST_CASE("a table whose index leaves its lanes is refused, whatever its checksums say") {
  const Folder folder;
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 1}};
  for (std::uint64_t i = 0; i < 60; ++i) record(store, 1, i, 1);
  REQUIRE(store.snapshot(folder / "s"));
  const Bytes good = read_file(folder / "s");
  const auto refused_with = [&](std::size_t at, char byte) {
    CAPTURE(at);
    Bytes bad = good;
    bad[at] = byte;
    const std::uint64_t sum = seenby::detail::xxh3_bytes(bad.data() + 96, bad.size() - 32 - 8 - 96, 0);
    std::memcpy(bad.data() + bad.size() - 32 - 8, &sum, sizeof sum);
    write_file(folder / "bad", bad);
    Store other{{.wrong_hide_rate = 0.01}, {.shards = 1}};
    CHECK(restore_error(other, folder / "bad") == ErrorCode::corrupt);
  };
  // The section's head ends at 96; key, count and part take 48 bytes more, then come the head's word and the index.
  constexpr std::size_t word = 96 + 48;
  REQUIRE(good[word] == 60);
  REQUIRE(good[word + 3] == 3);  // eight buckets: nine ends
  for (std::size_t end = 0; end <= 8; ++end) refused_with(word + 8 + end, static_cast<char>(255));
  refused_with(word + 8 + 8, 59);                         // a lane that no bucket has
  refused_with(word + 3, static_cast<char>(3 | 1 << 7));  // slices, in a store without a window
  refused_with(word, 61);
}

TEST_CASE("a snapshot that cannot be written says so and leaves the old one") {
  const Folder folder;
  Store store{{}};
  record(store, 1, 0, 10);
  const auto result = store.snapshot(folder / "absent" / "s");
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::io);
}

TEST_CASE("a kill at any moment leaves the old snapshot or the new one") {
  const Folder folder;
  const auto path = folder / "s";
  std::mt19937_64 random(std::random_device{}());
  Store first{{}};
  record(first, 1, 0, 1);
  REQUIRE(first.snapshot(path));
  std::uint64_t kills = 0;
  for (int round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // user 1 gets one item more before each snapshot: its number tells which snapshot this is
      Store store{{}, {.shards = 8}};
      if (!store.restore(path)) ::_exit(1);
      std::vector<Digest> bulk;
      for (std::uint64_t i = 0; i < 2'000; ++i) bulk.push_back(item(1'000'000 + i));
      for (std::uint64_t user = 2; user < 40; ++user) (void)store.record_digests(user, bulk);
      for (std::uint64_t i = 1;; ++i) {
        const Digest next = item(i % 100'000);
        if (!store.record_digests(1, std::span(&next, 1)) || !store.snapshot(path)) ::_exit(2);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2'000 + random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    kills += WIFSIGNALED(status) ? 1U : 0U;
    Store restored{{}};
    const auto result = restored.restore(path);
    INFO((result ? std::string("restored") : result.error().message));
    REQUIRE(result);
    CHECK(answers(restored, 2, 1)[2] == 1);  // item 0 of user 1 was in the very first snapshot
  }
  CHECK(kills == 25);
}

TEST_CASE("a snapshot is taken and restored while readers and writers go on", "[concurrent]") {
  const Folder folder;
  Store store{{.wrong_hide_rate = 0.01}, {.shards = 4}};
  for (std::uint64_t user = 0; user < 50; ++user) record(store, user, user * 1'000, 20 + user);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> lost{0};
  std::thread writer([&] {
    for (std::uint64_t i = 0; !stop.load(); ++i) {
      const Digest digest = item(500'000 + i);
      if (!store.record_digests(i % 60, std::span(&digest, 1))) lost.fetch_add(1);
    }
  });
  std::thread reader([&] {
    std::mt19937_64 random(5);
    while (!stop.load()) {
      const std::array<std::uint64_t, 2> users{random() % 50, random() % 50};
      const Digest digest = item(users[0] * 1'000 + random() % 20);
      std::array<std::uint8_t, 1> seen_by{};
      std::array<seenby::UserStatus, 2> status;
      store.check_digests(users, {&digest, 1}, seen_by, status);
      if (seen_by[0] == 0) lost.fetch_add(1);
    }
  });
  for (int round = 0; round < 20; ++round) {
    CHECK(store.snapshot(folder / "s"));
    if (round % 4 == 3) CHECK(store.restore(folder / "s"));
  }
  stop.store(true);
  writer.join();
  reader.join();
  CHECK(lost.load() == 0);
  Store other{{.wrong_hide_rate = 0.01}};
  REQUIRE(other.restore(folder / "s"));
  CHECK(other.users() >= 50);
}
