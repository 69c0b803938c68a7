// SPDX-License-Identifier: MIT
// Redis URLs: what each part means, and that nonsense is refused without repeating a password.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <string>

#include "seenby/redis/store.hpp"
#include "seenby/redis/url.hpp"

using seenby::ErrorCode;
using seenby::redis::parse_url;
using namespace std::chrono_literals;

TEST_CASE("A Redis URL names server, user, password, database and options", "[redis]") {
  const auto url =
      parse_url("redis://al%40ice:p%3Aw@cache.example:7000/5?timeout_ms=250&connect_timeout_ms=90&pool=3").value();
  CHECK(url.endpoints.front().host == "cache.example");
  CHECK(url.endpoints.front().port == 7000);
  CHECK(url.connection.username == "al@ice");
  CHECK(url.connection.password == "p:w");
  CHECK(url.connection.database == 5);
  CHECK(url.connection.command_timeout == 250ms);
  CHECK(url.connection.connect_timeout == 90ms);
  CHECK(url.pool_size == 3);
  CHECK_FALSE(url.connection.tls.enabled);
}

TEST_CASE("What a Redis URL leaves out has its default", "[redis]") {
  const auto url = parse_url("redis://localhost").value();
  CHECK(url.endpoints.front().text() == "localhost:6379");
  CHECK(url.connection.username.empty());
  CHECK(url.connection.password.empty());
  CHECK(parse_url("redis://:secret@localhost").value().connection.password == "secret");
}

TEST_CASE("TLS, sockets, IPv6 and clusters have URLs of their own", "[redis]") {
  const auto tls = parse_url("rediss://h:1?ca=/a%20b.pem&cert=/c&key=/k&sni=name").value();
  CHECK(tls.connection.tls.enabled);
  CHECK(tls.connection.tls.ca_file == "/a b.pem");
  CHECK(tls.connection.tls.server_name == "name");
  const auto socket = parse_url("unix://user:pw@/run/redis@1/r.sock?db=2").value();
  CHECK(socket.endpoints.front().text() == "unix:/run/redis@1/r.sock");
  CHECK(socket.connection.database == 2);
  CHECK(socket.connection.username == "user");
  CHECK(parse_url("redis://[::1]:6380").value().endpoints.front().text() == "[::1]:6380");
  const auto cluster = parse_url("redis-cluster://:pw@a:1,b,[::1]:3?replicas=1").value();
  CHECK(cluster.cluster);
  CHECK(cluster.read_from_replicas);
  REQUIRE(cluster.endpoints.size() == 3);
  CHECK(cluster.endpoints[1].port == 6379);
  CHECK(cluster.endpoints[2].host == "::1");
  CHECK(parse_url("rediss-cluster://a:1").value().connection.tls.enabled);
}

TEST_CASE("A Sentinel URL names the Sentinels, the master and its database", "[redis][sentinel]") {
  const auto url =
      parse_url("redis+sentinel://u:pw@a,b:5000,[::1]/my%2Fshop/3?sentinel_password=s%26t&timeout_ms=9").value();
  REQUIRE(url.endpoints.size() == 3);
  CHECK(url.endpoints[0].text() == "a:26379");
  CHECK(url.endpoints[1].text() == "b:5000");
  CHECK(url.endpoints[2].text() == "[::1]:26379");
  CHECK(url.sentinel_master == "my/shop");
  CHECK(url.sentinel_password == "s&t");
  CHECK(url.connection.username == "u");
  CHECK(url.connection.password == "pw");
  CHECK(url.connection.database == 3);
  CHECK_FALSE(url.cluster);
  CHECK_FALSE(url.connection.tls.enabled);
  CHECK(parse_url("rediss+sentinel://a/m").value().connection.tls.enabled);
  CHECK(parse_url("redis://a").value().sentinel_master.empty());
  for (const char* text : {"redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel:///m", "redis+sentinel://a//2",
                           "redis+sentinel://a/m/x"}) {
    CAPTURE(text);
    CHECK(parse_url(text).error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("A malformed Redis URL is refused and its password not repeated", "[redis]") {
  for (const char* text : {"",
                           "redis",
                           "http://h",
                           "redis://",
                           "redis://:secret@",
                           "redis://h:0",
                           "redis://h:65536",
                           "redis://h:",
                           "redis://h:12x",
                           "redis://h/x",
                           "redis://h/-1",
                           "redis://a,b",
                           "redis://[::1",
                           "redis://[::1]x",
                           "unix://",
                           "unix://relative",
                           "redis://h?pool=0",
                           "redis://h?pool=9999",
                           "redis://h?timeout_ms=0",
                           "redis://h?tiemout_ms=5",
                           "redis://h?pool",
                           "redis://h?ca=%4",
                           "redis://%zz:secret@h",
                           "redis://user@h",
                           "redis-cluster://a/3",
                           "redis://:secret/x@h",
                           "redis://:a/secret@h",
                           "redis://:a?secret@h",
                           "redis://:a?secret=1@h",
                           "redis://:a?db=secret@h",
                           "redis://:a#secret@h:1:2",
                           "redis://u:p@secret@h:x",
                           "unix://:a/secret@/run/x?y",
                           "redis://[secret@h",
                           "rediss-cluster://:a,secret@h/secret",
                           "redis://h?replicas=yes"}) {
    INFO(text);
    const auto url = parse_url(text);
    REQUIRE_FALSE(url.has_value());
    CHECK(url.error().code == ErrorCode::invalid_argument);
    CHECK_THROWS_WITH(seenby::redis::RedisStore<>(text, {}), !Catch::Matchers::ContainsSubstring("secret"));
    CHECK(url.error().message.find("secret") == std::string::npos);
  }
}
