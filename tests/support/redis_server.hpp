#pragma once
// SPDX-License-Identifier: MIT
// RedisServer: a redis-server or valkey-server of the test's own, on a loopback port and a Unix socket, ended by pid.

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "redis/transport/connection.hpp"
#include "support/temporary_folder.hpp"

namespace seenby::test {

/// The full path of a program, if it is installed.
inline std::optional<std::string> program_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder;
    candidate.append("/").append(name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

/// A loopback port nobody listens on. Below 20,000 so that a cluster's bus port (10,000 higher) is no ephemeral port.
inline std::uint16_t free_port() {
  static std::uint16_t next = static_cast<std::uint16_t>(11'000 + getpid() % 400 * 22);
  for (int attempt = 0; attempt < 5'000; ++attempt) {
    const std::uint16_t port = next;
    next = static_cast<std::uint16_t>(next >= 19'990 ? 11'000 : next + 1);
    bool both_free = true;
    for (const int candidate : {static_cast<int>(port), port + 10'000}) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<std::uint16_t>(candidate));
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the sockets API
      both_free = both_free && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      close(fd);
    }
    if (both_free) return port;
  }
  throw std::runtime_error("no free loopback port");
}

/// A server process. It has a port and a socket of its own, saves nothing, and dies with the test process.
class RedisServer {
 public:
  /// Starts `program` ("redis-server" or "valkey-server", or a path) and waits until it answers. With the path of a
  /// Sentinel's configuration, which it rewrites, it is a Sentinel.
  explicit RedisServer(std::string program = "redis-server", std::vector<std::string> arguments = {},
                       std::string sentinel_file = {})
      : program_(std::move(program)),
        extra_(std::move(arguments)),
        sentinel_file_(std::move(sentinel_file)),
        port_(free_port()) {
    // Tests run side by side: another process may take the port between our look and the server's bind.
    for (int attempt = 0;; ++attempt) {
      try {
        start();
        return;
      } catch (const std::runtime_error& failure) {
        if (attempt == 5 || std::string(failure.what()).find("Address already in use") == std::string::npos) throw;
        port_ = free_port();
      }
    }
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;
  ~RedisServer() { stop(); }

  [[nodiscard]] static bool installed(const std::string& program) { return program_path(program).has_value(); }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string socket_path() const { return folder_.path() + "/server.sock"; }
  [[nodiscard]] std::string folder() const { return folder_.path(); }
  [[nodiscard]] std::string tcp_url() const { return std::string("redis://127.0.0.1:").append(std::to_string(port_)); }
  [[nodiscard]] std::string socket_url() const { return std::string("unix://").append(socket_path()); }
  [[nodiscard]] redis::Endpoint tcp() const { return {.host = "127.0.0.1", .port = port_, .socket_path = {}}; }
  [[nodiscard]] redis::Endpoint socket() const { return {.host = {}, .port = 0, .socket_path = socket_path()}; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Starts it again on the same port and socket (after `kill_at_once` or `stop`). Throws if it does not come up.
  void start() {
    const auto path = program_.find('/') == std::string::npos ? program_path(program_) : std::optional(program_);
    if (!path) throw std::runtime_error(program_ + " is not installed");
    std::vector<std::string> arguments{*path};
    if (!sentinel_file_.empty()) arguments.insert(arguments.end(), {sentinel_file_, "--sentinel"});
    arguments.insert(arguments.end(), {"--port", std::to_string(port_), "--bind", "127.0.0.1", "--unixsocket",
                                       socket_path(), "--dir", folder_.path(), "--logfile", folder_.path() + "/log"});
    if (sentinel_file_.empty()) arguments.insert(arguments.end(), {"--save", "", "--appendonly", "no"});
    arguments.insert(arguments.end(), extra_.begin(), extra_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(126);
      execv(argv[0], argv.data());
      _exit(127);
    }
    wait_until_it_answers();
  }

  /// The crash: SIGKILL, then the process is reaped.
  void kill_at_once() { end(SIGKILL); }
  /// The orderly end.
  void stop() { end(SIGTERM); }

  /// Sends one command over a connection of its own; throws on a transport error. An error reply is returned.
  redis::Reply call(const std::vector<std::string>& arguments) const {
    const auto deadline = redis::Deadline::after(std::chrono::seconds(10));
    auto connection = redis::Connection::open(admin_endpoint(), admin_, deadline);
    redis::Command command;
    for (const std::string& argument : arguments) command.add(argument);
    return std::move(connection.value().execute({&command, 1}, deadline).value().front());
  }
  /// As `call`, for an integer reply; throws on any other.
  std::int64_t call_integer(const std::vector<std::string>& arguments) const {
    const redis::Reply reply = call(arguments);
    if (reply.integer() == nullptr) throw std::runtime_error("expected an integer, got " + text_of(reply));
    return *reply.integer();
  }
  /// As `call`, for a string reply; throws on any other.
  std::string call_string(const std::vector<std::string>& arguments) const {
    const redis::Reply reply = call(arguments);
    if (reply.string() == nullptr) throw std::runtime_error("expected a string, got " + text_of(reply));
    return *reply.string();
  }
  /// A field of INFO as text; empty when there is none.
  std::string info(const std::string& section, const std::string& field) const {
    std::istringstream lines(call_string({"INFO", section}));
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(field + ":", 0) == 0) return line.substr(field.size() + 1, line.find('\r') - field.size() - 1);
    }
    return {};
  }
  /// How `call` authenticates, for servers with a password.
  void set_admin(redis::ConnectionOptions options) { admin_ = std::move(options); }

  static std::string text_of(const redis::Reply& reply) {
    if (reply.error() != nullptr) return reply.error()->message;
    if (reply.string() != nullptr) return *reply.string();
    if (reply.integer() != nullptr) return std::to_string(*reply.integer());
    return std::string(reply.type_name());
  }

 private:
  [[nodiscard]] redis::Endpoint admin_endpoint() const { return socket(); }

  void wait_until_it_answers() {
    const auto deadline = redis::Deadline::after(std::chrono::seconds(20));
    while (!deadline.passed()) {
      auto connection = redis::Connection::open(admin_endpoint(), {}, deadline);
      if (connection) {
        redis::Command ping;
        ping.add("PING");
        auto replies = connection->execute({&ping, 1}, deadline);
        // NOAUTH is an answer too; LOADING is not.
        if (replies && (!replies->front().is_error() || replies->front().error()->code != ErrorCode::unreachable))
          return;
      }
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        throw std::runtime_error(program_ + " ended at once: " + log());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw std::runtime_error(program_ + " did not answer: " + log());
  }
  [[nodiscard]] std::string log() const {
    std::ifstream file(folder_.path() + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    kill(pid_, SIGCONT);  // a stopped server cannot hear SIGTERM
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
  }

  TemporaryFolder folder_;
  std::string program_;
  std::vector<std::string> extra_;
  std::string sentinel_file_;
  std::uint16_t port_;
  redis::ConnectionOptions admin_;
  pid_t pid_ = -1;
};

}  // namespace seenby::test
