// SPDX-License-Identifier: MIT
// What a cluster's nodes may answer, played by scripted peers: redirections, refusals for the moment, odd topologies.

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/cluster.hpp"
#include "support/resp_peer.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::RespPeer;
namespace resp = seenby::test::resp;

namespace {

using Words = RespPeer::Words;

std::string node(const std::string& host, std::uint16_t port) {
  return resp::array({host.empty() ? resp::nil() : resp::bulk(host), resp::integer(port), resp::bulk("id")});
}
std::string range(int first, int last, const std::string& master) {
  return resp::array({resp::integer(first), resp::integer(last), master});
}
std::string address(const RespPeer& peer) { return peer.endpoint().text(); }

Command get(const std::string& key) { return Command::with_key(1, "GET", key); }

/// A cluster of two peers: slots below 8,192 at the first, the others at the second. "foo" (12,182) lies at the second,
/// "bar" (5,061) at the first.
struct TwoPeers {
  using Answer = std::function<std::string(const Words&)>;
  Answer first_answers;
  Answer second_answers;
  std::string topology{};
  RespPeer first{[this](const Words& words) { return answer(words, first_answers); }};
  RespPeer second{[this](const Words& words) { return answer(words, second_answers); }};

  TwoPeers(Answer at_first, Answer at_second)
      : first_answers(std::move(at_first)), second_answers(std::move(at_second)) {
    topology = resp::array({range(0, 8'191, node("127.0.0.1", first.endpoint().port)),
                            range(8'192, 16'383, node("127.0.0.1", second.endpoint().port))});
  }
  std::optional<std::string> answer(const Words& words, const Answer& otherwise) {
    return words[0] == "CLUSTER" ? topology : otherwise(words);
  }
};

std::string value(const Words&) { return resp::status("value"); }

}  // namespace

TEST_CASE("ASK is followed with ASKING, for that command alone, and changes no map", "[redis][cluster]") {
  std::string second;
  TwoPeers peers([&](const Words&) { return resp::error("ASK 5061 " + second); },
                 [](const Words& words) { return words[0] == "ASKING" ? resp::status("OK") : resp::status("asked"); });
  second = address(peers.second);
  ClusterExecutor executor({peers.first.endpoint()}, {});
  for (int i = 0; i < 2; ++i) {
    CHECK(execute_one(executor, get("bar"), Deadline::after(1s)).value().is_status("asked"));
  }
  CHECK(peers.second.commands() == std::vector<Words>{{"ASKING"}, {"GET", "bar"}, {"ASKING"}, {"GET", "bar"}});
  CHECK(executor.counters().asked == 2);
  CHECK(executor.counters().topology_refreshes == 1);
}

TEST_CASE("MOVED is followed and remembered, an empty host means the one that answered", "[redis][cluster]") {
  std::string moved;
  TwoPeers peers([&](const Words&) { return resp::error(moved); }, value);
  moved = "MOVED 5061 :" + std::to_string(peers.second.endpoint().port);
  ClusterExecutor executor({peers.first.endpoint()}, {});
  for (int i = 0; i < 3; ++i) CHECK(execute_one(executor, get("bar"), Deadline::after(1s)).has_value());
  CHECK(peers.first.count("GET") == 1);
  CHECK(peers.second.count("GET") == 3);
  CHECK(executor.counters().moved == 1);
}

TEST_CASE("Nodes that send a command round in circles end in their own error", "[redis][cluster]") {
  std::string first;
  std::string second;
  TwoPeers peers([&](const Words&) { return resp::error("MOVED 5061 " + second); },
                 [&](const Words&) { return resp::error("MOVED 5061 " + first); });
  first = address(peers.first);
  second = address(peers.second);
  ClusterExecutor executor({peers.first.endpoint()}, {});
  const auto reply = execute_one(executor, get("bar"), Deadline::after(5s));
  REQUIRE(!reply);
  CHECK(reply.error().message.starts_with("MOVED"));
  CHECK(executor.counters().moved == 16);
}

TEST_CASE("TRYAGAIN and its like are tried again, other errors are not", "[redis][cluster]") {
  for (const std::string word :
       {"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down",
        "LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down"}) {
    INFO(word);
    std::atomic<int> refusals{3};
    TwoPeers peers([&](const Words&) { return refusals-- > 0 ? resp::error(word) : resp::status("value"); }, value);
    ClusterExecutor executor({peers.first.endpoint()}, {});
    const auto replies = executor.execute(std::vector<Command>{get("foo"), get("bar")}, Deadline::after(2s)).value();
    CHECK(replies[0].is_status("value"));
    CHECK(replies[1].is_status("value"));
    CHECK(peers.first.count("GET") == 4);
    // What was answered is not asked again.
    CHECK(peers.second.count("GET") == 1);
    CHECK(executor.counters().retried == 3);
    refusals = 1'000'000;
    const auto started = std::chrono::steady_clock::now();
    const auto late = execute_one(executor, get("bar"), Deadline::after(100ms));
    CHECK(std::chrono::steady_clock::now() - started < 400ms);
    REQUIRE(!late);
    CHECK(late.error().code == ErrorCode::unreachable);
  }
  TwoPeers peers([&](const Words&) { return resp::error("WRONGTYPE no string"); }, value);
  ClusterExecutor executor({peers.first.endpoint()}, {});
  CHECK(execute_one(executor, get("bar"), Deadline::after(2s)).error().code == ErrorCode::wrong_type);
  CHECK(peers.first.count("GET") == 1);
}

TEST_CASE("A slot that moves for long costs time, not the answer", "[redis][cluster]") {
  std::string second;
  std::atomic<int> refusals{40};
  TwoPeers peers([&](const Words&) { return resp::error("ASK 5061 " + second); },
                 [&](const Words& words) {
                   if (words[0] == "ASKING") return resp::status("OK");
                   return refusals-- > 0 ? resp::error("TRYAGAIN Multiple keys request during rehashing of slot")
                                         : resp::status("asked");
                 });
  second = address(peers.second);
  ClusterExecutor executor({peers.first.endpoint()}, {});
  CHECK(execute_one(executor, get("bar"), Deadline::after(20s)).value().is_status("asked"));
  CHECK(executor.counters().asked == 41);
  CHECK(executor.counters().retried == 40);
}

TEST_CASE("Nodes work in parallel: a request costs as much as its slowest node", "[redis][cluster]") {
  const auto slow = [](const Words&) {
    std::this_thread::sleep_for(200ms);
    return resp::status("value");
  };
  TwoPeers peers(slow, slow);
  ClusterExecutor executor({peers.first.endpoint()}, {});
  const auto started = std::chrono::steady_clock::now();
  const auto replies = executor.execute(std::vector<Command>{get("foo"), get("bar")}, Deadline::after(2s)).value();
  const auto took = std::chrono::steady_clock::now() - started;
  CHECK(replies[0].is_status("value"));
  CHECK(replies[1].is_status("value"));
  CHECK(took >= 200ms);
  CHECK(took < 380ms);
}

TEST_CASE("A node that answers nonsense costs its own commands only", "[redis][cluster]") {
  TwoPeers peers([](const Words&) { return std::string("?what\r\n"); }, value);
  ClusterExecutor executor({peers.second.endpoint()}, {});
  const auto replies = executor.execute(std::vector<Command>{get("foo"), get("bar")}, Deadline::after(1s)).value();
  CHECK(replies[0].is_status("value"));
  REQUIRE(replies[1].is_error());
  CHECK(replies[1].error()->code == ErrorCode::corrupt);
}

TEST_CASE("A topology's gaps are errors of their slots, its unknown hosts are left out", "[redis][cluster]") {
  TwoPeers peers(value, value);
  // Only the first half is served, by a node that names no host; an owner of "?" is nobody.
  peers.topology = resp::array({range(0, 8'191, node("", peers.first.endpoint().port)),
                                range(8'192, 16'383, node("?", peers.second.endpoint().port)), resp::integer(3)});
  ClusterExecutor executor({peers.first.endpoint()}, {});
  const auto replies = executor.execute(std::vector<Command>{get("bar"), get("foo")}, Deadline::after(100ms)).value();
  CHECK(replies[0].is_status("value"));
  REQUIRE(replies[1].is_error());
  CHECK(replies[1].error()->code == ErrorCode::unreachable);
  CHECK(replies[1].error()->message.find("slot 12182") != std::string::npos);
  CHECK(peers.second.commands().empty());

  peers.topology = resp::status("nonsense");
  ClusterExecutor confused({peers.first.endpoint()}, {});
  CHECK(confused.execute(std::vector<Command>{get("bar")}, Deadline::after(100ms)).error().code == ErrorCode::corrupt);
}

TEST_CASE("A dead seed is passed over for the next", "[redis][cluster]") {
  TwoPeers peers(value, value);
  const Endpoint dead{.host = "127.0.0.1", .port = 1};
  ClusterExecutor executor({dead, peers.second.endpoint()}, {});
  CHECK(execute_one(executor, get("bar"), Deadline::after(1s)).has_value());
  CHECK(executor.name() == "redis-cluster://127.0.0.1:1," + address(peers.second));
}
