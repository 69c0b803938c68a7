#pragma once
// SPDX-License-Identifier: MIT
// RespPeer: a server of the test's own that answers Redis commands by a script, for what no real server does on demand.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/redis/url.hpp"

namespace seenby::test {

/// Pieces of RESP2.
namespace resp {
inline std::string status(std::string_view text) { return std::string("+").append(text).append("\r\n"); }
inline std::string error(std::string_view text) { return std::string("-").append(text).append("\r\n"); }
inline std::string integer(std::int64_t number) {
  return std::string(":").append(std::to_string(number)).append("\r\n");
}
inline std::string nil() { return "$-1\r\n"; }
inline std::string bulk(std::string_view text) {
  return std::string("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
}
inline std::string array(const std::vector<std::string>& parts) {
  std::string out = std::string("*").append(std::to_string(parts.size())).append("\r\n");
  for (const std::string& part : parts) out.append(part);
  return out;
}
inline std::string integers(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (const int number : numbers) parts.push_back(integer(number));
  return array(parts);
}
}  // namespace resp

/// Listens on a loopback port. Every command is handed to `answer`, on the peer's one thread; what that returns is sent
/// as it is, and nothing closes the connection.
class RespPeer {
 public:
  using Words = std::vector<std::string>;
  using Answer = std::function<std::optional<std::string>(const Words&)>;

  explicit RespPeer(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the sockets API
    if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("expected to listen on a loopback port");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  RespPeer(const RespPeer&) = delete;
  RespPeer& operator=(const RespPeer&) = delete;
  ~RespPeer() {
    stop_ = true;
    thread_.join();
    for (auto& [fd, unread] : clients_) ::close(fd);
    ::close(listener_);
  }

  [[nodiscard]] redis::Endpoint endpoint() const { return {.host = "127.0.0.1", .port = port_}; }
  [[nodiscard]] std::string url() const { return std::string("redis://127.0.0.1:").append(std::to_string(port_)); }
  /// Every command that came, in order.
  [[nodiscard]] std::vector<Words> commands() const {
    const std::lock_guard lock(mutex_);
    return commands_;
  }
  /// How many of them began with this word.
  [[nodiscard]] std::size_t count(std::string_view word) const {
    const std::lock_guard lock(mutex_);
    std::size_t found = 0;
    for (const Words& words : commands_) found += words.front() == word ? 1U : 0U;
    return found;
  }

 private:
  void serve() {
    while (!stop_) {
      std::vector<pollfd> entries{{.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const auto& [fd, unread] : clients_) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      if (::poll(entries.data(), entries.size(), 5) <= 0) continue;
      for (const pollfd& entry : entries) {
        if (entry.revents == 0) continue;
        if (entry.fd == listener_) {
          if (const int fd = ::accept(listener_, nullptr, nullptr); fd >= 0) welcome(fd);
        } else if (!hear(entry.fd)) {
          ::close(entry.fd);
          clients_.erase(entry.fd);
        }
      }
    }
  }
  /// As a real server: the second reply of a pipeline does not wait for the client to acknowledge the first.
  void welcome(int fd) {
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    clients_[fd];
  }
  bool hear(int fd) {
    char buffer[65'536];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    std::string& unread = clients_[fd];
    unread.append(buffer, static_cast<std::size_t>(got));
    while (const auto words = take_command(unread)) {
      {
        const std::lock_guard lock(mutex_);
        commands_.push_back(*words);
      }
      const auto reply = answer_(*words);
      if (!reply) return false;
      if (::send(fd, reply->data(), reply->size(), MSG_NOSIGNAL) < 0) return false;
    }
    return true;
  }
  /// Cuts one whole command, an array of bulk strings, off the front.
  static std::optional<Words> take_command(std::string& unread) {
    std::size_t at = 0;
    const auto number = [&](char kind) -> std::optional<std::size_t> {
      const auto end = unread.find("\r\n", at);
      if (at >= unread.size() || unread[at] != kind || end == std::string::npos) return std::nullopt;
      const std::size_t value = std::strtoull(unread.c_str() + at + 1, nullptr, 10);
      at = end + 2;
      return value;
    };
    const auto count = number('*');
    if (!count) return std::nullopt;
    Words words;
    for (std::size_t i = 0; i < *count; ++i) {
      const auto size = number('$');
      if (!size || at + *size + 2 > unread.size()) return std::nullopt;
      words.push_back(unread.substr(at, *size));
      at += *size + 2;
    }
    unread.erase(0, at);
    return words;
  }

  Answer answer_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::map<int, std::string> clients_;
  mutable std::mutex mutex_;
  std::vector<Words> commands_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace seenby::test
