// SPDX-License-Identifier: MIT
// Connections, pool, scripts and breaker against a real redis-server, and against one that is not there.

#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "redis/transport/pool.hpp"
#include "redis/transport/script.hpp"
#include "support/redis_server.hpp"
#include "support/resp_peer.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::RedisServer;

namespace {

Command command_of(const std::vector<std::string>& arguments) {
  Command command;
  for (const std::string& argument : arguments) command.add(argument);
  return command;
}

}  // namespace

TEST_CASE("A pipeline's replies stand in the order of its commands, each of its own type", "[redis]") {
  const RedisServer server;
  for (const Endpoint& endpoint : {server.tcp(), server.socket()}) {
    PooledExecutor executor(endpoint, {});
    const std::vector<Command> batch{command_of({"SET", "key", std::string("a\0b\r\n", 5)}),
                                     command_of({"GET", "key"}),
                                     command_of({"GET", "absent"}),
                                     command_of({"INCR", "key"}),
                                     command_of({"RPUSH", "list", "x", "y"}),
                                     command_of({"LRANGE", "list", "0", "-1"}),
                                     command_of({"GET", "list"}),
                                     command_of({"NOSUCHCOMMAND"}),
                                     command_of({"DEL", "list"})};
    const auto replies = executor.execute(batch, Deadline::after(1s)).value();
    REQUIRE(replies.size() == batch.size());
    CHECK(replies[0].is_status("OK"));
    CHECK(*replies[1].string() == std::string("a\0b\r\n", 5));
    CHECK(replies[2].is_nil());
    CHECK(replies[3].error()->code == ErrorCode::refused);
    CHECK(*replies[4].integer() == 2);
    REQUIRE(replies[5].array()->size() == 2);
    CHECK(*(*replies[5].array())[1].string() == "y");
    CHECK(replies[6].error()->code == ErrorCode::wrong_type);
    CHECK(replies[7].error()->code == ErrorCode::unavailable);
    CHECK(*replies[8].integer() == 1);
    CHECK(executor.execute({}, Deadline::after(1s)).value().empty());
  }
}

TEST_CASE("Replies are read alike wherever the bytes are cut, and strings among other types", "[redis]") {
  namespace resp = seenby::test::resp;
  const auto string = [](std::string_view text) {
    return std::string("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
  };
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const std::string large(20'000 + random() % 200'000, static_cast<char>('a' + round % 26));
    const std::vector<std::string> kinds{string("with \r\n in it"),
                                         string(""),
                                         string(large),
                                         resp::nil(),
                                         resp::array({string("x"), resp::integer(7)}),
                                         resp::status("OK"),
                                         resp::error("WRONGTYPE no string"),
                                         resp::integer(-5)};
    std::vector<std::size_t> sent;
    std::string all;
    for (std::size_t i = 0; i < 24; ++i) all += kinds[sent.emplace_back(random() % kinds.size())];
    std::vector<std::size_t> cuts{0, all.size()};
    while (cuts.size() <= sent.size()) cuts.push_back(random() % (all.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::size_t next = 0;
    const seenby::test::RespPeer peer([&](const auto&) {
      const std::size_t at = next++;
      return std::optional(all.substr(cuts[at], cuts[at + 1] - cuts[at]));
    });
    PooledExecutor executor(peer.endpoint(), {.command_timeout = 10s});
    const std::vector<Command> batch(sent.size(), command_of({"ANY"}));
    const auto replies = executor.execute(batch, Deadline::after(10s));
    REQUIRE(replies);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Reply& reply = (*replies)[i];
      INFO("reply " << i << " of kind " << sent[i]);
      switch (sent[i]) {
        case 0: REQUIRE(reply.is_status("with \r\n in it")); break;
        case 1: REQUIRE(reply.is_status("")); break;
        case 2: REQUIRE(reply.is_status(large)); break;
        case 3: REQUIRE(reply.is_nil()); break;
        case 4: REQUIRE((*reply.array())[0].is_status("x")); break;
        case 5: REQUIRE(reply.is_status("OK")); break;
        case 6: REQUIRE(reply.error()->code == ErrorCode::wrong_type); break;
        default: REQUIRE(*reply.integer() == -5);
      }
    }
  }
}

TEST_CASE("A connection whose server says more than it was asked for, or nonsense, is dropped", "[redis]") {
  for (const std::string answer :
       {"$2\r\nok\r\n$5\r\nstray\r\n", "+OK\r\n+OK\r\n", ":1\r\n$", "$2\r\nokXX", "$-7\r\n", "$x\r\n", "?\r\n"}) {
    INFO(answer);
    const seenby::test::RespPeer peer([&](const auto&) { return std::optional(answer); });
    PooledExecutor executor(peer.endpoint(), {.command_timeout = 5s}, {.size = 1, .breaker = {}});
    const Command any = command_of({"ANY"});
    const auto outcome = executor.execute({&any, 1}, Deadline::after(5s));
    REQUIRE_FALSE(outcome.has_value());
    CHECK(outcome.error().code == ErrorCode::corrupt);
    CHECK(executor.connections().connections_dropped == 1);
  }
}

TEST_CASE("A batch of many megabytes goes out and comes back", "[redis]") {
  const RedisServer server;
  PooledExecutor executor(server.socket(), {.command_timeout = 20s});
  std::vector<Command> batch;
  const std::string value(1 << 20, 'v');
  for (int i = 0; i < 16; ++i) {
    batch.push_back(command_of({"SET", std::to_string(i), value}));
    batch.push_back(command_of({"GET", std::to_string(i)}));
  }
  const auto replies = executor.execute(batch, Deadline::after(20s)).value();
  for (std::size_t i = 1; i < replies.size(); i += 2) REQUIRE(*replies[i].string() == value);
}

TEST_CASE("Passwords, ACL users and databases are honoured, and refusals are typed", "[redis]") {
  RedisServer server("redis-server",
                     {"--requirepass", "open sesame", "--user", "reader", "on", ">p%4s", "~*", "+@all"});
  server.set_admin({.password = "open sesame"});
  const auto deadline = [] { return Deadline::after(2s); };
  CHECK(execute_one(*make_executor(server.tcp_url()).value(), command_of({"GET", "k"}), deadline()).error().code ==
        ErrorCode::refused);
  const std::string port = std::to_string(server.port());
  auto with_password = make_executor("redis://:open%20sesame@127.0.0.1:" + port + "/3").value();
  REQUIRE(execute_one(*with_password, command_of({"SET", "k", "three"}), deadline()));
  auto as_user = make_executor("redis://reader:p%254s@127.0.0.1:" + port + "/3?timeout_ms=500").value();
  CHECK(*execute_one(*as_user, command_of({"GET", "k"}), deadline()).value().string() == "three");
  auto by_socket = make_executor("unix://reader:p%254s@" + server.socket_path() + "?db=3").value();
  CHECK(*execute_one(*by_socket, command_of({"GET", "k"}), deadline()).value().string() == "three");
  auto wrong =
      execute_one(*make_executor("redis://reader:wrong@127.0.0.1:" + port).value(), command_of({"PING"}), deadline());
  REQUIRE(!wrong);
  CHECK(wrong.error().code == ErrorCode::refused);
  CHECK(wrong.error().message.find("wrong@") == std::string::npos);
  auto too_high = execute_one(*make_executor("redis://:open%20sesame@127.0.0.1:" + port + "/99").value(),
                              command_of({"PING"}), deadline());
  CHECK(too_high.error().code == ErrorCode::refused);
}

TEST_CASE("A connection is dropped after a time-out, so that no late reply answers the next request", "[redis]") {
  const RedisServer server;
  PooledExecutor executor(server.socket(), {.command_timeout = 10s}, {.size = 1, .breaker = {}});
  REQUIRE(
      executor.execute({{command_of({"SET", "a", "late"}), command_of({"SET", "b", "right"})}}, Deadline::after(1s)));
  server.call({"CLIENT", "PAUSE", "2000", "ALL"});
  const auto before = std::chrono::steady_clock::now();
  const Command get_a = command_of({"GET", "a"});
  const auto late = executor.execute({&get_a, 1}, Deadline::after(100ms));
  const auto took = std::chrono::steady_clock::now() - before;
  REQUIRE(!late);
  CHECK(late.error().code == ErrorCode::timed_out);
  CHECK(took >= 100ms);
  CHECK(took < 1'500ms);
  const Command get_b = command_of({"GET", "b"});
  CHECK(*executor.execute({&get_b, 1}, Deadline::after(10s)).value()[0].string() == "right");
  CHECK(executor.connections().connections_dropped == 1);
  CHECK(executor.connections().connects == 2);
}

TEST_CASE("Connections killed in the pool are replaced without an error", "[redis]") {
  const RedisServer server;
  PooledExecutor executor(server.tcp(), {}, {.size = 2, .breaker = {}});
  const Command ping = command_of({"PING"});
  REQUIRE(executor.execute({&ping, 1}, Deadline::after(1s)));
  server.call({"CLIENT", "KILL", "TYPE", "normal"});
  for (int i = 0; i < 3; ++i) CHECK(executor.execute({&ping, 1}, Deadline::after(1s)));
  CHECK(executor.connections().connects == 2);
}

TEST_CASE("A dead server costs microseconds once the breaker is open, and is found again when it is back", "[redis]") {
  RedisServer server;
  PooledExecutor executor(server.tcp(), {}, {.size = 4, .breaker = {.failures_to_open = 3, .first_pause = 400ms}});
  const Command ping = command_of({"PING"});
  REQUIRE(executor.execute({&ping, 1}, Deadline::after(1s)));
  server.kill_at_once();
  for (int i = 0; i < 4; ++i)
    CHECK(executor.execute({&ping, 1}, Deadline::after(1s)).error().code == ErrorCode::unreachable);
  CHECK(executor.connections().breaker_openings >= 1);
  // The best of many small rounds: a busy machine may take any of them away from us.
  auto best = std::chrono::steady_clock::duration::max();
  for (int round = 0; round < 30; ++round) {
    constexpr int asked = 10;
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < asked; ++i) {
      const auto refused = executor.execute({&ping, 1}, Deadline::after(1s));
      if (refused || refused.error().code != ErrorCode::unreachable) FAIL("a dead server answered");
    }
    best = std::min(best, (std::chrono::steady_clock::now() - before) / asked);
  }
  CHECK(best < 20us);
  CHECK(executor.connections().refused_by_breaker >= 100);
  server.start();
  const auto patience = Deadline::after(10s);
  bool back = false;
  while (!back && !patience.passed()) {
    back = executor.execute({&ping, 1}, Deadline::after(1s)).has_value();
    std::this_thread::sleep_for(5ms);
  }
  CHECK(back);
}

TEST_CASE("A server that accepts and never answers costs its time-out, then nothing", "[redis]") {
  const seenby::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/silent.sock";
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 64) == 0);
  PooledExecutor executor({.host = {}, .port = 0, .socket_path = path}, {.command_timeout = 30ms},
                          {.size = 4, .breaker = {.failures_to_open = 3, .first_pause = 5s}});
  const Command ping = command_of({"PING"});
  for (int i = 0; i < 3; ++i)
    CHECK(executor.execute({&ping, 1}, Deadline::after(30ms)).error().code == ErrorCode::timed_out);
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 20; ++i) {
    const auto before = std::chrono::steady_clock::now();
    CHECK(executor.execute({&ping, 1}, Deadline::after(1s)).error().code == ErrorCode::unreachable);
    best = std::min(best, std::chrono::steady_clock::now() - before);
  }
  CHECK(best < 1ms);
  close(listener);
}

TEST_CASE("Scripts survive SCRIPT FLUSH", "[redis]") {
  const RedisServer server;
  PooledExecutor executor(server.socket(), {});
  const Script script("return {KEYS[1], ARGV[1]}");
  const std::string_view key = "k";
  const std::string_view argument = "v";
  for (int round = 0; round < 3; ++round) {
    const auto reply = execute_script(executor, script, {&key, 1}, {&argument, 1}, Deadline::after(1s)).value();
    CHECK(*(*reply.array())[1].string() == "v");
    if (round == 1) server.call({"SCRIPT", "FLUSH"});
  }
  CHECK(script.sha1() == server.call_string({"SCRIPT", "LOAD", script.source()}));
}

TEST_CASE("Threads share a small pool and every one gets its own answers", "[redis][concurrent]") {
  const RedisServer server;
  PooledExecutor executor(server.socket(), {.command_timeout = 10s}, {.size = 3, .breaker = {}});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int id = 0; id < 8; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 0; i < 200; ++i) {
        const std::string text = std::to_string(id * 1000 + i);
        const auto reply = execute_one(executor, command_of({"ECHO", text}), Deadline::after(10s));
        if (!reply || *reply->string() != text) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(executor.connections().connects <= 3);
}

TEST_CASE("TLS without hiredis_ssl is refused with a typed error", "[redis]") {
  if (tls_available()) SKIP("SKIPPED: this build has TLS");
  const RedisServer server;
  auto executor = make_executor("rediss://127.0.0.1:" + std::to_string(server.port())).value();
  CHECK(execute_one(*executor, command_of({"PING"}), Deadline::after(1s)).error().code == ErrorCode::unavailable);
  // Sentinels are not asked in the clear either.
  auto sentinels = make_executor("rediss+sentinel://127.0.0.1:" + std::to_string(server.port()) + "/shop").value();
  const auto refused = execute_one(*sentinels, command_of({"PING"}), Deadline::after(1s));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message.find("expected a build with hiredis_ssl") != std::string::npos);
}
