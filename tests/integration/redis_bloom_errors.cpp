// SPDX-License-Identifier: MIT
// What the module's clients must understand, played by a scripted peer: works where the module cannot be had.

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "seenby/redis/bloom_store.hpp"
#include "support/counting_executor.hpp"
#include "support/resp_peer.hpp"

using namespace seenby;
using namespace seenby::redis;
using seenby::test::RespPeer;
namespace resp = seenby::test::resp;

namespace {

using Store = RedisBloomStore<std::string, std::string>;
using Replies = std::map<std::string, std::string>;

/// A peer that has the module and answers each command by its name; EVALSHA is the add script.
RespPeer peer_with(Replies replies) {
  return RespPeer([replies = std::move(replies)](const RespPeer::Words& words) -> std::optional<std::string> {
    if (const auto found = replies.find(words[0]); found != replies.end()) return found->second;
    if (words[0] == "COMMAND") {
      const std::string known = resp::array({resp::status("bf.reserve"), resp::integer(-1)});
      return resp::array({known, known, known});
    }
    if (words[0] == "GET") return resp::nil();  // nothing is hidden
    return resp::error("ERR the test expected no " + words[0]);
  });
}

Result<RecordOutcome> add(Store& store, const std::vector<std::string>& items) {
  const std::vector<Digest> digests(items.size());
  return store.record("u", {items, digests});
}

struct Answer {
  std::vector<std::uint8_t> seen;
  UserStatus status;
};
Answer ask(const Store& store, const std::vector<std::string>& items) {
  const std::vector<std::string> users{"u"};
  const std::vector<Digest> digests(items.size());
  std::vector<UserStatus> status(1);
  Answer answer{std::vector<std::uint8_t>(items.size(), 9), {}};
  store.check(users, {items, digests}, answer.seen, status);
  answer.status = status[0];
  return answer;
}

}  // namespace

TEST_CASE("An existing item is no error of BF.RESERVE, every other error is", "[redis][bloom][001-05]") {
  RespPeer peer = peer_with({{"EVALSHA", resp::array({resp::error("ERR item exists"), resp::integer(1)})}});
  Store store(peer.url());
  CHECK(add(store, {"a"}).value().newly_added == 1);
  CHECK(peer.count("EVALSHA") == 1);

  struct Case {
    std::string reply;
    ErrorCode code;
  };
  const std::vector<Case> cases{
      {"ERR (0 < error rate range < 1) ", ErrorCode::refused},
      {"ERR (capacity should be larger than 0)", ErrorCode::refused},
      {"ERR Insufficient memory to create filter", ErrorCode::refused},
      {"OOM command not allowed when used memory > 'maxmemory'.", ErrorCode::refused},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", ErrorCode::wrong_type},
      {"ERR Unknown Redis command called from script script: 3f, on @user_script:1.", ErrorCode::unavailable},
  };
  for (const Case& each : cases) {
    for (const bool inside : {true, false}) {
      const std::string error = resp::error(each.reply);
      RespPeer failing = peer_with({{"EVALSHA", inside ? resp::array({error}) : error}});
      Store refused(failing.url());
      const auto created = refused.create("u");
      REQUIRE(!created);
      CHECK(created.error().code == each.code);
      CHECK(created.error().message.find(each.reply) != std::string::npos);
      CHECK(created.error().message.find("seen:u") != std::string::npos);
    }
  }
}

TEST_CASE("Added, present and failed are three things to an add", "[redis][bloom][001-06]") {
  const std::string reply = resp::array({resp::integer(0), resp::integer(1), resp::integer(0), resp::integer(1)});
  RespPeer peer = peer_with({{"EVALSHA", reply}});
  Store store(peer.url());
  CHECK(add(store, {"a", "b", "c"}).value().newly_added == 2);
  CHECK(store.counters().records == 3);
  CHECK(store.counters().write_failures == 0);
}

TEST_CASE("A full filter's reply is understood, cut short with a reason or without", "[redis][bloom]") {
  const std::string with_reason = resp::array(
      {resp::integer(0), resp::integer(1), resp::integer(0), resp::error("ERR non scaling filter is full")});
  const std::string without = resp::array({resp::integer(0), resp::integer(1), resp::integer(0)});
  for (const std::string& reply : {with_reason, without}) {
    RespPeer peer = peer_with({{"EVALSHA", reply}});
    Store store(peer.url());
    const auto outcome = add(store, {"a", "b", "c", "d"});
    REQUIRE(!outcome);
    CHECK(outcome.error().code == ErrorCode::too_large);
    CHECK(outcome.error().message.find("acknowledged 2 of 4") != std::string::npos);
    CHECK(store.counters().records == 2);
    CHECK(store.counters().write_failures == 2);
    CHECK(store.bloom_counters().full_filters == 1);
  }
}

TEST_CASE("A rate of 1e-7 and the reserve's other words stand in the command as they are", "[redis][bloom][001-07]") {
  // The first call finds the filter missing, so that the second one creates it.
  int calls = 0;
  RespPeer peer([&](const RespPeer::Words& words) -> std::optional<std::string> {
    if (words[0] == "COMMAND") return resp::array({resp::nil(), resp::nil(), resp::nil()});
    return ++calls == 1 ? resp::array({resp::status("missing")}) : resp::array({resp::status("OK"), resp::integer(1)});
  });
  auto executor = make_executor(peer.url()).value();
  BloomProtocol absent(executor, {});
  CHECK(absent.bloom_counters().module == ModuleState::absent);

  RespPeer there([&](const RespPeer::Words& words) -> std::optional<std::string> {
    if (words[0] == "COMMAND") return resp::error("NOPERM this user has no permissions to run the 'command' command");
    return ++calls == 1 ? resp::array({resp::status("missing")}) : resp::array({resp::status("OK"), resp::integer(1)});
  });
  Store store(there.url(), {.capacity = 100'000,
                            .error_rate = 1e-7,
                            .expansion = 0,
                            .time_to_live = TimeToLive::refreshed,
                            .ttl = std::chrono::seconds{60}});
  // An ACL that hides COMMAND does not make the module absent.
  CHECK(store.module_state() == ModuleState::unknown);
  REQUIRE(add(store, {"item"}).value().newly_added == 1);
  CHECK(store.module_state() == ModuleState::present);
  const auto commands = there.commands();
  const RespPeer::Words& create = commands.back();
  // EVALSHA sha 1 key create rate capacity expansion ttl refresh item
  REQUIRE(create.size() == 11);
  CHECK(create[3] == "seen:u");
  CHECK(create[4] == "1");
  CHECK(std::strtod(create[5].c_str(), nullptr) == 1e-7);
  CHECK(create[5].find('e') != std::string::npos);
  CHECK(create[6] == "100000");
  CHECK(create[7] == "0");
  CHECK(create[8] == "60000");
  CHECK(create[9] == "1");
  CHECK(create[10] == "item");
}

TEST_CASE("Many users' items are one command a user, sent together", "[redis][bloom][002-05]") {
  RespPeer peer = peer_with({{"EVALSHA", resp::array({resp::integer(0), resp::integer(1), resp::integer(1)})}});
  const auto counting = std::make_shared<seenby::test::CountingExecutor>(make_executor(peer.url()).or_throw());
  Store store(counting);
  const std::vector<std::string> first{"media1", "media2"};
  const std::vector<std::string> second{"media7", "media9"};
  const std::vector<RecordRequest<std::string, std::string>> flush{{"userA", {first, {}}}, {"userB", {second, {}}}};
  counting->trips = 0;
  for (const auto& outcome : store.record_many(flush)) CHECK(outcome.value().newly_added == 2);
  CHECK(counting->trips == 1);
  const auto commands = peer.commands();
  REQUIRE(commands.size() == 3);
  CHECK(commands[1][3] == "seen:userA");
  CHECK(std::vector<std::string>(commands[1].end() - 2, commands[1].end()) == first);
  CHECK(commands[2][3] == "seen:userB");
  CHECK(std::vector<std::string>(commands[2].end() - 2, commands[2].end()) == second);
  CHECK(store.counters().records == 4);
}

TEST_CASE("A missing or odd key is told from 'no' whatever BF.MEXISTS says", "[redis][bloom][002-12]") {
  struct Case {
    std::string type;
    std::string answers;
    UserState state;
    std::optional<ErrorCode> error;
  };
  const std::vector<Case> cases{
      {resp::status("MBbloom--"), resp::integers({1, 0}), UserState::known, std::nullopt},
      {resp::status("none"), resp::integers({0, 0}), UserState::missing, std::nullopt},
      {resp::status("string"), resp::integers({0, 0}), UserState::unreachable, ErrorCode::wrong_type},
      {resp::status("MBbloom--"), resp::integers({1}), UserState::unreachable, ErrorCode::corrupt},
      {resp::status("MBbloom--"), resp::error("ERR bad"), UserState::unreachable, ErrorCode::refused},
      {resp::status("MBbloom--"), resp::array({resp::integer(1), resp::error("ERR bad")}), UserState::unreachable,
       ErrorCode::refused},
      {resp::status("none"), resp::error("ERR unknown command 'BF.MEXISTS', with args beginning with: "),
       UserState::unreachable, ErrorCode::unavailable},
      {resp::integer(3), resp::integers({0, 0}), UserState::unreachable, ErrorCode::corrupt},
  };
  for (const Case& each : cases) {
    RespPeer peer = peer_with({{"TYPE", each.type}, {"BF.MEXISTS", each.answers}});
    const Store store(peer.url());
    const Answer answer = ask(store, {"x", "y"});
    CHECK(answer.status.state == each.state);
    CHECK(answer.seen ==
          (each.state == UserState::known ? std::vector<std::uint8_t>{1, 0} : std::vector<std::uint8_t>{0, 0}));
    if (each.error) {
      REQUIRE(answer.status.error != nullptr);
      CHECK(answer.status.error->code == *each.error);
    }
    // One pipeline: the question stands between the two looks at the type.
    const auto commands = peer.commands();
    REQUIRE(commands.size() == 5);
    CHECK(commands[1] == RespPeer::Words{"GET", "{seen:u}:hides"});
    CHECK(commands[2] == RespPeer::Words{"TYPE", "seen:u"});
    CHECK(commands[3] == RespPeer::Words{"BF.MEXISTS", "seen:u", "x", "y"});
    CHECK(commands[4] == RespPeer::Words{"TYPE", "seen:u"});
  }
}

TEST_CASE("A key that comes back between the two looks is still missing for this answer", "[redis][bloom]") {
  int looks = 0;
  RespPeer peer([&](const RespPeer::Words& words) -> std::optional<std::string> {
    if (words[0] == "TYPE") return resp::status(++looks == 1 ? "none" : "MBbloom--");
    if (words[0] == "BF.MEXISTS") return resp::integers({0});
    if (words[0] == "GET") return resp::nil();
    return resp::error("NOPERM");
  });
  const Store store(peer.url());
  CHECK(ask(store, {"x"}).status.state == UserState::missing);
}

TEST_CASE("BF.INFO is read by its names, and a missing filter is an unknown user", "[redis][bloom]") {
  const std::string reply =
      resp::array({resp::status("Capacity"), resp::integer(100'000), resp::status("Size"), resp::integer(137'848),
                   resp::status("Number of filters"), resp::integer(1), resp::status("Number of items inserted"),
                   resp::integer(42), resp::status("Expansion rate"), resp::nil()});
  RespPeer peer = peer_with({{"BF.INFO", reply}});
  const BloomInfo info = Store(peer.url()).info("u").value();
  CHECK(info.capacity == 100'000);
  CHECK(info.size_bytes == 137'848);
  CHECK(info.filters == 1);
  CHECK(info.items == 42);
  CHECK(info.expansion == 0);
  RespPeer empty = peer_with({{"BF.INFO", resp::error("ERR not found")}});
  CHECK(Store(empty.url()).info("u").error().code == ErrorCode::unknown_user);
}

TEST_CASE("A peer that hangs up or talks nonsense costs a typed error", "[redis][bloom]") {
  RespPeer hangs_up([](const RespPeer::Words&) -> std::optional<std::string> { return std::nullopt; });
  Store lost(hangs_up.url());
  CHECK(add(lost, {"a"}).error().code == ErrorCode::unreachable);
  CHECK(ask(lost, {"a"}).status.state == UserState::unreachable);
  CHECK(lost.counters().write_failures == 1);
  RespPeer babbles([](const RespPeer::Words&) -> std::optional<std::string> { return "?what\r\n"; });
  Store confused(babbles.url());
  CHECK(add(confused, {"a"}).error().code == ErrorCode::corrupt);
}
