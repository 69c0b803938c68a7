// SPDX-License-Identifier: MIT
// Values written by hand, after tests/golden/FORMAT-REDIS.md, are what the store reads; what it writes is what the page
// says.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/redis/store.hpp"
#include "support/files.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

/// The golden live value: 40 strings and 10 integers under seed 42.
std::string golden_value() {
  std::string text;
  for (const std::byte byte : read_bytes(source_file("tests/golden/v1-live-split-block-xxh3-seed42.filter"))) {
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

/// Where a table's sections begin.
std::size_t table_bytes(const std::string& value) {
  const auto header = decode_table_header(std::as_bytes(std::span(value)), value.size()).value();
  return table_header_bytes + static_cast<std::size_t>(header.shape.bytes());
}

constexpr std::int64_t noon = 1'700'000'000;

StorePolicy windowed() {
  return {.window = std::chrono::hours(24 * 30), .slices = 6, .seed = 42, .clock = [] {
            return Time(std::chrono::seconds(noon));
          }};
}

}  // namespace

TEST_CASE("A value written by hand in format v1 is read", "[redis][golden]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.seed = 42});
  REQUIRE(store.key_of(7) == "seenby:{7}");
  server.call({"SET", "seenby:{7}", golden_value()});
  CHECK(ask(store, {7}, sequence(0, 10)).seen() == 10);
  CHECK(ask(store, {7}, sequence(1'000, 1'000)).seen() < 60);
  // Two filters one after the other: both are asked, the first is written to.
  RedisStore<> other(server.socket_url(), {.seed = 42}, {.prefix = "other:"});
  REQUIRE(record(other, 7, {5'000}));
  server.call({"SET", "seenby:{7}", server.call_string({"GET", "other:{7}"}) + golden_value()});
  CHECK(ask(store, {7}, sequence(0, 10)).seen() == 10);
  CHECK(ask(store, {7}, {5'000}).seen() == 1);
  REQUIRE(record(store, 7, {6'000}));
  const std::string after = server.call_string({"GET", "seenby:{7}"});
  CHECK(after.substr(after.size() - golden_value().size()) == golden_value());
  CHECK(ask(store, {7}, {6'000}).seen() == 1);
}

TEST_CASE("A value with the building mark is unknown to readers and open to writers", "[redis][golden]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.seed = 42});
  std::string marked = golden_value();
  marked[1] = static_cast<char>(marked[1] | 0x40);
  server.call({"SET", "seenby:{7}", marked});
  CHECK(ask(store, {7}, {1}).status[0].state == UserState::missing);
  CHECK(record(store, 7, {5'000}));
  CHECK(server.call_string({"GETRANGE", "seenby:{7}", "0", "15"}) == marked.substr(0, 16));
}

TEST_CASE("A list of slices written by hand is read, and a listed slice that is not there is noticed",
          "[redis][golden]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), windowed());
  const std::int64_t seconds = 5 * 86'400;
  const std::int64_t newest = noon / seconds;
  const std::string list = std::string("\xd1\0\0\0", 4) + little_endian(static_cast<std::uint64_t>(seconds), 4) +
                           little_endian(0x1122334455667788U, 8) +
                           little_endian(static_cast<std::uint64_t>(newest - 2), 8);
  const std::string slice = "seenby:{7}:" + std::to_string(newest - 2);
  server.call({"SET", "seenby:{7}", list});
  CHECK(ask(store, {7}, {1}).status[0].state == UserState::missing);
  server.call({"SET", slice, golden_value()});
  CHECK(ask(store, {7}, sequence(0, 10)).seen() == 10);
  // The first record takes it over: the slice's filters are a section of the table, its key is gone.
  REQUIRE(record(store, 7, {5'000}));
  const std::string table = server.call_string({"GET", "seenby:{7}"});
  CHECK(table.substr(table.size() - golden_value().size()) == golden_value());
  CHECK(table.substr(table.size() - golden_value().size() - 8, 8) ==
        little_endian(static_cast<std::uint64_t>((newest - 2) * seconds), 8));
  CHECK(server.call({"KEYS", "seenby:{7}*"}).array()->size() == 1);
  CHECK(ask(store, {7}, sequence(0, 10)).seen() == 10);
  CHECK(ask(store, {7}, {5'000}).seen() == 1);
  const auto old_items = sequence(0, 10);
  std::vector<std::uint8_t> ages(10);
  store.age(7, ItemBatch<std::uint64_t>{old_items, digests_of(old_items, Xxh3Hash{42})}, ages);
  CHECK(ages == std::vector<std::uint8_t>(10, 2));
  std::string building = list;
  building[1] = 0x40;
  server.call({"SET", "seenby:{7}", building});
  CHECK(ask(store, {7}, {1}).status[0].state == UserState::missing);
  server.call({"SET", "seenby:{7}", golden_value()});
  CHECK(ask(store, {7}, {1}).status[0].error->code == ErrorCode::bad_magic);
  server.call({"SET", "seenby:{7}", list.substr(0, 20)});
  CHECK(ask(store, {7}, {1}).status[0].error->code == ErrorCode::truncated);
}

TEST_CASE("A windowed user's table of an earlier version is read and added to", "[redis][golden]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), windowed());
  std::string value;
  for (const std::byte byte : read_bytes(source_file("tests/golden/v2-redis-window.value"))) {
    value.push_back(static_cast<char>(byte));
  }
  server.call({"SET", "seenby:{7}", value});
  // Item i was seen i % 7 slices ago; the last eight are recent and not in the table yet.
  const auto items = sequence(0, 31);
  std::vector<std::uint8_t> ages(items.size());
  store.age(7, ItemBatch<std::uint64_t>{items, digests_of(items, Xxh3Hash{42})}, ages);
  for (std::size_t i = 0; i < 30; ++i) CHECK(ages[i] == i % 7);
  CHECK(ages[30] == 255);
  CHECK(ask(store, {7}, sequence(0, 30)).seen() == 30);
  std::string marked = value;
  marked[1] = static_cast<char>(marked[1] | 0x40);
  server.call({"SET", "seenby:{8}", marked});
  CHECK(ask(store, {8}, {1}).status[0].state == UserState::missing);
  // In place: an entry behind the others, their number, the sequence; nothing else.
  REQUIRE(record(store, 7, {30}));
  const std::string after = server.call_string({"GET", "seenby:{7}"});
  REQUIRE(after.size() == value.size());
  std::vector<std::size_t> changed;
  for (std::size_t at = 0; at < value.size(); ++at) {
    if (after[at] != value[at]) changed.push_back(at);
  }
  const std::size_t recent = table_bytes(value);
  REQUIRE(changed.size() >= 5);
  CHECK(changed[0] == 24);
  CHECK(changed[1] == recent + 2);
  CHECK(changed[2] >= recent + 8 + std::size_t{6} * static_cast<unsigned char>(value[recent + 2]));
  CHECK(changed.back() < recent + 8 + std::size_t{6} * static_cast<unsigned char>(after[recent + 2]));
  CHECK(ask(store, {7}, items).seen() == 31);
  for (const std::size_t bytes : {value.size() - 1, std::size_t{60}, std::size_t{20}}) {
    server.call({"SET", "seenby:{7}", value.substr(0, bytes)});
    CHECK(ask(store, {7}, {1}).status[0].error->code == ErrorCode::truncated);
  }
}

TEST_CASE("Write the golden table", "[.write-golden]") {
  const std::string file = source_file("tests/golden/v2-redis-window.value");
  if (std::filesystem::exists(file)) return;
  const RedisServer server;
  RedisStore<> store(server.socket_url(), windowed());
  const auto record_at = [&](std::uint64_t item) {
    const std::vector<std::uint64_t> items{item};
    const Time when{std::chrono::seconds(noon - 5 * 86'400 * static_cast<std::int64_t>(item % 7))};
    REQUIRE(store.record(7, ItemBatch<std::uint64_t>{items, digests_of(items, Xxh3Hash{42})}, when));
  };
  for (std::uint64_t item = 0; item < 30; ++item) record_at(item);
  const std::string value = server.call_string({"GET", "seenby:{7}"});
  std::ofstream(file, std::ios::binary).write(value.data(), static_cast<std::streamsize>(value.size()));
}

TEST_CASE("What the store writes decodes as a filter in format v1", "[redis][golden]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url(), {.seed = 42});
  for (std::uint64_t item = 0; item < 12; ++item) REQUIRE(record(store, 7, {item}));
  const std::string value = server.call_string({"GET", "seenby:{7}"});
  const auto header = decode_header(std::as_bytes(std::span(value))).value();
  CHECK(header.shape.layout == LayoutKind::split_block);
  CHECK_FALSE(header.covers_bits);
  CHECK(header.items == 12);
  CHECK(header.sequence >= 11);
  CHECK(header.seed_check == seed_check(Xxh3Hash{42}));
}
