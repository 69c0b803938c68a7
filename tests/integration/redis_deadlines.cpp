// SPDX-License-Identifier: MIT
// Deadlines hold whatever the server does: silent, dripping, half answering, endless; and replies have limits.

#include <sys/resource.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/pool.hpp"
#include "seenby/redis/bloom_store.hpp"
#include "seenby/redis/store.hpp"
#include "support/raw_peer.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"
#include "support/wait_until.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;
using namespace std::chrono_literals;

namespace {

/// A scheduler's tick, and what a machine that runs other tests takes before it wakes a sleeper.
constexpr auto tick = 150ms;

constexpr RawPeer::Over both_sockets[] = {RawPeer::Over::tcp, RawPeer::Over::unix_socket};

struct Behaviour {
  const char* name;
  RawPeer::Serve serve;
};

void be_silent(const RawPeer::Client& client) {
  while (client.hear()) {}
}
void drip(const RawPeer::Client& client) {
  if (!client.hear()) return;
  if (!client.say("$100000\r\n")) return;
  static_cast<void>(wait_until([&] { return !client.say("x"); }));
}
void answer_half(const RawPeer::Client& client) {
  while (client.hear() && client.say("$64\r\nhalf of it")) {}
}
void send_an_endless_line(const RawPeer::Client& client) {
  if (!client.hear() || !client.say("+")) return;
  while (client.say(std::string(60'000, 'x'))) {}
}
void send_an_endless_array(const RawPeer::Client& client) {
  if (!client.hear() || !client.say("*100000000\r\n")) return;
  while (client.say(":1\r\n:2\r\n:3\r\n")) {}
}
void send_a_long_error(const RawPeer::Client& client) {
  if (client.hear()) (void)client.say("-ERR " + std::string(50'000'000, 'x') + "\r\n");
}

template <class Call>
auto time_of(const Call& call) {
  const auto before = std::chrono::steady_clock::now();
  call();
  return std::chrono::steady_clock::now() - before;
}

std::size_t peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") break;
  }
  std::size_t kilobytes = 0;
  status >> kilobytes;
  return kilobytes;
}

}  // namespace

TEST_CASE("Every time-out ends within it and a tick, whatever the server does, over TCP and Unix sockets", "[redis]") {
  const Behaviour behaviours[] = {{"silent", be_silent},
                                  {"dripping", drip},
                                  {"half answering", answer_half},
                                  {"an endless line", send_an_endless_line},
                                  {"an endless array", send_an_endless_array},
                                  {"a long error", send_a_long_error}};
  for (const Behaviour& behaviour : behaviours) {
    for (const RawPeer::Over over : both_sockets) {
      const RawPeer peer(over, behaviour.serve);
      INFO(behaviour.name << " at " << peer.url());
      for (const auto timeout : {1ms, 2ms, 3ms, 4ms, 7ms, 30ms, 200ms}) {
        RedisStore<> store(std::make_shared<PooledExecutor>(peer.endpoint(), ConnectionOptions{},
                                                            PoolOptions{.size = 8, .breaker = {.failures_to_open = 0}}),
                           {}, {.timeout = timeout});
        CheckAnswer answer;
        CHECK(time_of([&] { answer = ask(store, {1, 2}, {1, 2, 3}); }) < timeout + tick);
        REQUIRE(answer.status[0].state == UserState::unreachable);
        CHECK(time_of([&] { CHECK_FALSE(record(store, 1, {1, 2, 3})); }) < timeout + tick);
      }
    }
  }
}

TEST_CASE("A stopped server costs every time-out and no more, also once it has answered", "[redis]") {
  const RedisServer server;
  for (const std::string& url : {server.tcp_url(), server.socket_url()}) {
    INFO(url);
    for (const auto timeout : {1ms, 3ms, 50ms, 500ms}) {
      RedisStore<> store(make_executor(url).value(), {}, {.timeout = 5s});
      RedisStore<> hasty(make_executor(url).value(), {}, {.timeout = timeout});
      REQUIRE(record(store, 1, {1}));
      (void)ask(hasty, {1}, {1});  // it has a connection, and a time left of its last answer
      kill(server.pid(), SIGSTOP);
      CHECK(time_of([&] { CHECK(ask(hasty, {1}, {1}).status[0].state == UserState::unreachable); }) < timeout + tick);
      CHECK(time_of([&] { CHECK_FALSE(record(hasty, 1, {2})); }) < timeout + tick);
      kill(server.pid(), SIGCONT);
    }
  }
}

TEST_CASE("A time-out of milliseconds::max() waits for ever and fails nothing", "[redis]") {
  const RedisServer server;
  constexpr auto forever = std::chrono::milliseconds::max();
  RedisStore<> store(std::make_shared<PooledExecutor>(
                         server.tcp(), ConnectionOptions{.connect_timeout = forever, .command_timeout = forever}),
                     {.window = std::chrono::hours{24}, .slices = 2}, {.timeout = forever, .rebuild_timeout = forever});
  TruthfulHistory history;
  store.set_replay(history.replay());
  CHECK(record(store, 1, {1, 2}).or_throw().newly_added <= 2);
  CHECK(ask(store, {1}, {1, 2}).seen() == 2);
  CHECK(Deadline::after(forever).left() > std::chrono::hours{24 * 365});
}

TEST_CASE("An announced length allocates nothing: memory follows the bytes that come", "[redis]") {
  for (const char* header : {"$500000000\r\n", "*100000000\r\n", "*8\r\n*100000000\r\n"}) {
    const RawPeer peer(RawPeer::Over::tcp, [&](const RawPeer::Client& client) {
      while (client.hear() && client.say(header)) {}
    });
    RedisStore<> store(peer.url(), {}, {.timeout = 20ms});
    const std::size_t before = peak_kilobytes();
    REQUIRE(ask(store, {1}, {1}).status[0].state == UserState::unreachable);
    CHECK(peak_kilobytes() < before + 32'768);
  }
}

TEST_CASE("A reply longer than its command allows is corrupt, and the connection is dropped", "[redis]") {
  const RawPeer peer(RawPeer::Over::tcp, [](const RawPeer::Client& client) {
    while (client.hear() && client.say("$100\r\n" + std::string(100, 'x') + "\r\n")) {}
  });
  PooledExecutor executor(peer.endpoint(), {});
  const Command short_answer = Command::with_key(1, "GETRANGE", "key", "0", "49").expects_at_most(50);
  const auto refused = executor.execute({&short_answer, 1}, Deadline::after(1s));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::corrupt);
  CHECK(executor.connections().connections_dropped == 1);
  const Command long_answer = Command::with_key(1, "GET", "key").expects_at_most(200);
  CHECK(executor.execute({&long_answer, 1}, Deadline::after(1s)));
}

TEST_CASE("A forked child opens connections of its own: no process reads another's answers", "[redis][window]") {
  const RedisServer server;
  RedisStore<> store(server.socket_url() + "?pool=2",
                     {.users_per_request = 1, .window = std::chrono::hours{24 * 30}, .slices = 30}, {.timeout = 10s});
  constexpr std::uint64_t users = 16;
  for (std::uint64_t user = 0; user < users; ++user) REQUIRE(record(store, user, sequence(user * 100, 50)));
  // What a user has not seen must not be told of another's answer either.
  const auto right = [&](std::uint64_t user) {
    const auto mine = ask(store, {user}, sequence(user * 100, 50));
    return mine.status[0].state == UserState::known && mine.seen() == 50 && record(store, user, {user * 100});
  };
  REQUIRE(right(3));  // a connection lies in the pool
  std::vector<pid_t> children;
  for (std::uint64_t id = 0; id < 12; ++id) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = true;
      for (int i = 0; i < 150 && good; ++i) good = right((id + static_cast<std::uint64_t>(i)) % users);
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  bool good = true;
  for (int i = 0; i < 300; ++i) good = right(static_cast<std::uint64_t>(i) % users) && good;
  CHECK(good);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  // The parent's connection was not touched.
  CHECK(right(5));
}
