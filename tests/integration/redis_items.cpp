// SPDX-License-Identifier: MIT
// The store remembers the kind of its items, and takes every kind of user.

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "redis/transport/pool.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/redis/store.hpp"
#include "support/counting_executor.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

template <class Item, class Store>
Result<RecordOutcome> record_one(Store& store, const typename Store::user_type& user, const Item& item) {
  const std::array items{item};
  const std::array digests{store.hasher()(item)};
  return store.record(user, ItemBatch<Item>{items, digests});
}

/// One user's status and whether the item is seen.
template <class Item, class Store>
std::pair<UserStatus, bool> ask_one(const Store& store, const typename Store::user_type& user, const Item& item) {
  const std::array items{item};
  const std::array digests{store.hasher()(item)};
  std::array<std::uint8_t, 1> seen_by{};
  std::array<UserStatus, 1> status{};
  store.check(std::span<const typename Store::user_type>(&user, 1), ItemBatch<Item>{items, digests}, seen_by, status);
  return {status[0], seen_by[0] != 0};
}

enum class UserId : std::uint32_t {};

}  // namespace

TEST_CASE("A store of text refuses numbers, one of numbers refuses text, in this process and the next", "[redis]") {
  const RedisServer server;
  const std::string text = "42";
  constexpr std::uint64_t number = 42;
  RedisStore<std::string> writer(server.socket_url(), {});
  REQUIRE(record_one(writer, "u", text));
  CHECK(server.call_string({"GET", "seenby:items"}) == "text");
  RedisStore<std::string> next(server.socket_url(), {});
  for (RedisStore<std::string>* store : {&writer, &next}) {
    const auto [status, seen] = ask_one(*store, "u", number);
    REQUIRE(status.state == UserState::unreachable);
    CHECK(status.error->code == ErrorCode::parameter_mismatch);
    CHECK(status.error->message.find("text") != std::string::npos);
    CHECK(status.error->message.find("integer") != std::string::npos);
    CHECK(record_one(*store, "u", number).error().code == ErrorCode::parameter_mismatch);
    CHECK(ask_one(*store, "u", text).second);
  }
  // Nothing of the refused record was written, and another prefix is another store.
  RedisStore<std::string> other(server.socket_url(), {}, {.prefix = "other:"});
  REQUIRE(record_one(other, "u", number));
  CHECK(ask_one(other, "u", number).second);
  CHECK(ask_one(other, "u", text).first.error->code == ErrorCode::parameter_mismatch);
}

TEST_CASE("The kind of items is asked once a process, and costs a look-up no round trip", "[redis][000-05]") {
  const RedisServer server;
  RedisStore<> writer(server.socket_url(), {});
  REQUIRE(record(writer, 1, {1}));
  auto counting = std::make_shared<CountingExecutor>(make_executor(server.socket_url()).value());
  RedisStore<> store(counting, {});
  CHECK(ask(store, {1, 2}, {1}).seen() == 1);
  CHECK(counting->trips == 1);
  CHECK(counting->commands == 5);  // two a user, for the filter and for hides
  CHECK(ask(store, {1, 2}, {1}).seen() == 1);
  CHECK(counting->trips == 2);
  CHECK(counting->commands == 9);
}

TEST_CASE("Scoped enums, characters, strings and bytes are users in every store", "[redis]") {
  const RedisServer server;
  constexpr std::uint64_t item = 5;
  RedisStore<UserId> by_id(server.socket_url(), {}, {.prefix = "a:"});
  RedisStore<std::uint32_t> by_number(server.socket_url(), {}, {.prefix = "a:"});
  REQUIRE(record_one(by_id, UserId{7}, item));
  CHECK(by_id.key_of(UserId{7}) == "a:{7}");
  CHECK(ask_one(by_number, 7U, item).second);
  RedisStore<std::vector<std::byte>> by_bytes(server.socket_url(), {}, {.prefix = "b:"});
  RedisStore<std::string> by_text(server.socket_url(), {}, {.prefix = "b:"});
  REQUIRE(record_one(by_bytes, std::vector{std::byte{'x'}, std::byte{0}}, item));
  CHECK(ask_one(by_text, std::string("x\0", 2), item).second);
  RedisBloomStore<UserId> bloom(server.socket_url());
  CHECK(bloom.key_of(UserId{7}) == "seen:7");
}
