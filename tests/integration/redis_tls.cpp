// SPDX-License-Identifier: MIT
// TLS to a real listener, where this build has hiredis_ssl.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "seenby/redis/store.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace seenby::test;

namespace {

/// A certificate authority of the test's own and a server certificate for localhost signed by it.
struct Certificates {
  TemporaryFolder folder;
  std::string ca = folder.path() + "/ca.crt";
  std::string certificate = folder.path() + "/server.crt";
  std::string key = folder.path() + "/server.key";

  Certificates() {
    const std::string at = folder.path();
    run("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=seenby-test-ca -keyout " + at + "/ca.key -out " +
        ca);
    run("openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout " + key + " -out " + at + "/server.csr");
    run("openssl x509 -req -days 2 -CA " + ca + " -CAkey " + at + "/ca.key -CAcreateserial -in " + at +
        "/server.csr -out " + certificate);
  }
  static void run(const std::string& command) {
    const int status = std::system((command + " >/dev/null 2>&1").c_str());
    if (status != 0) throw std::runtime_error("failed: " + command);
  }
};

}  // namespace

TEST_CASE("Over TLS a store reads and records, and an unknown authority is refused", "[redis]") {
  if (!tls_available()) SKIP("SKIPPED: built without hiredis_ssl (hiredis before 1.0 has none)");
  if (!program_path("openssl")) SKIP("SKIPPED: openssl is not installed");
  const Certificates certificates;
  const std::uint16_t tls_port = free_port();
  const RedisServer server("redis-server", {"--tls-port", std::to_string(tls_port), "--tls-cert-file",
                                            certificates.certificate, "--tls-key-file", certificates.key,
                                            "--tls-ca-cert-file", certificates.ca, "--tls-auth-clients", "no"});
  const std::string address = "rediss://localhost:" + std::to_string(tls_port);
  RedisStore<> store(address + "?ca=" + certificates.ca, {});
  // Larger than a TLS record and than the socket's buffers.
  REQUIRE(record(store, 1, sequence(0, 100'000)));
  CHECK(ask(store, {1}, sequence(0, 100'000)).seen() == 100'000);
  REQUIRE(record(store, 2, {5}));
  CHECK(ask(store, {1, 2}, {5}).seen_by[0] == 2);

  RedisStore<> distrustful(address, {});
  const auto refused = ask(distrustful, {1}, {5});
  REQUIRE(refused.status[0].state == UserState::unreachable);
  CHECK(refused.status[0].error->code == ErrorCode::unreachable);
  RedisStore<> misled("rediss://localhost:" + std::to_string(server.port()) + "?connect_timeout_ms=300", {});
  CHECK(ask(misled, {1}, {5}).status[0].state == UserState::unreachable);
  CHECK(make_executor(address + "?ca=/no/such/file").value() != nullptr);
  RedisStore<> no_file(address + "?ca=/no/such/file", {});
  CHECK(ask(no_file, {1}, {5}).status[0].error->code == ErrorCode::invalid_argument);
}

TEST_CASE("Sentinels and the master that they name are asked over TLS alone", "[redis][sentinel]") {
  if (!tls_available()) SKIP("SKIPPED: built without hiredis_ssl (hiredis before 1.0 has none)");
  if (!program_path("openssl")) SKIP("SKIPPED: openssl is not installed");
  const Certificates certificates;
  const auto over_tls = [&](std::uint16_t port) {
    return std::vector<std::string>{"--tls-port",         std::to_string(port),
                                    "--tls-cert-file",    certificates.certificate,
                                    "--tls-key-file",     certificates.key,
                                    "--tls-ca-cert-file", certificates.ca,
                                    "--tls-auth-clients", "no",
                                    "--tls-replication",  "yes"};
  };
  const std::uint16_t master_port = free_port();
  const RedisServer master("redis-server", over_tls(master_port));
  const std::string file = certificates.folder.path() + "/sentinel.conf";
  std::ofstream(file) << "sentinel monitor shop 127.0.0.1 " << master_port << " 1\n";
  const std::uint16_t sentinel_port = free_port();
  const RedisServer sentinel("redis-server", over_tls(sentinel_port), file);
  const auto url = [&](std::uint16_t port) {
    return std::string("rediss+sentinel://localhost:").append(std::to_string(port)).append("/shop");
  };
  RedisStore<> store(url(sentinel_port) + "?ca=" + certificates.ca, {});
  REQUIRE(record(store, 1, {5}));
  CHECK(ask(store, {1}, {5, 6}).seen_by[0] == 1);

  RedisStore<> distrustful(url(sentinel_port), {});
  CHECK(ask(distrustful, {1}, {5}).status[0].state == UserState::unreachable);
  RedisStore<> misled(url(sentinel.port()) + "?connect_timeout_ms=300&ca=" + certificates.ca, {});
  CHECK(ask(misled, {1}, {5}).status[0].state == UserState::unreachable);  // the port that speaks without TLS
}
