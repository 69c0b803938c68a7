#pragma once
// SPDX-License-Identifier: MIT
// RawPeer: a server of the test's own that sends bytes when and as a test says, over TCP or a Unix socket.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/redis/url.hpp"
#include "support/temporary_folder.hpp"

namespace seenby::test {

/// Listens, and gives every connection that comes to `serve` on a thread of its own. `serve` returns when it is done
/// or when a send says so.
class RawPeer {
 public:
  enum class Over { tcp, unix_socket };

  /// One client of the peer.
  class Client {
   public:
    Client(int fd, const std::atomic<bool>& stop) : fd_(fd), stop_(stop) {}
    /// Waits for a request; false when the client is gone or the test is over.
    [[nodiscard]] bool hear() const {
      char buffer[65'536];
      while (!stop_) {
        pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
        if (::poll(&entry, 1, 5) > 0) return ::recv(fd_, buffer, sizeof buffer, 0) > 0;
      }
      return false;
    }
    /// Sends all of it; false when the client is gone or the test is over.
    [[nodiscard]] bool say(std::string_view bytes) const {
      while (!bytes.empty()) {
        pollfd entry{.fd = fd_, .events = POLLOUT, .revents = 0};
        if (stop_) return false;
        if (::poll(&entry, 1, 5) <= 0) continue;
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      }
      return true;
    }

   private:
    int fd_;
    const std::atomic<bool>& stop_;
  };
  using Serve = std::function<void(const Client&)>;

  RawPeer(Over over, Serve serve) : over_(over), serve_(std::move(serve)) {
    if (over_ == Over::tcp) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      listen_on(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof address);  // NOLINT: the sockets API
      port_ = ntohs(address.sin_port);
    } else {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path_ = folder_.path() + "/peer.sock";
      path_.copy(address.sun_path, sizeof address.sun_path - 1);
      listen_on(AF_UNIX, reinterpret_cast<sockaddr*>(&address), sizeof address);  // NOLINT: the sockets API
    }
    acceptor_ = std::thread([this] { accept_all(); });
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;
  ~RawPeer() {
    stop_ = true;
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }

  [[nodiscard]] redis::Endpoint endpoint() const { return {.host = "127.0.0.1", .port = port_, .socket_path = path_}; }
  [[nodiscard]] std::string url() const {
    return over_ == Over::tcp ? "redis://127.0.0.1:" + std::to_string(port_) : "unix://" + path_;
  }

 private:
  void listen_on(int family, sockaddr* address, socklen_t size) {
    listener_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, address, size) != 0 || ::listen(listener_, 64) != 0 ||
        (family == AF_INET && ::getsockname(listener_, address, &size) != 0)) {
      throw std::runtime_error("expected to listen on a socket of the test's own");
    }
  }
  void accept_all() {
    while (!stop_) {
      pollfd entry{.fd = listener_, .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, 5) <= 0) continue;
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) continue;
      threads_.emplace_back([this, fd] {
        serve_(Client(fd, stop_));
        ::close(fd);
      });
    }
  }

  TemporaryFolder folder_;
  Over over_;
  Serve serve_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::string path_;
  std::atomic<bool> stop_{false};
  std::thread acceptor_;
  std::vector<std::thread> threads_;
};

}  // namespace seenby::test
