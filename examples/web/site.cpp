// SPDX-License-Identifier: MIT
#include "site.hpp"

#include <fcntl.h>
#include <httplib.h>
#include <sys/random.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <thread>

namespace web {
namespace {

std::map<std::string, std::string> cookies_of(const httplib::Request& request) {
  std::map<std::string, std::string> cookies;
  const std::string header = request.get_header_value("Cookie");
  for (std::size_t at = 0; at < header.size();) {
    std::size_t end = header.find(';', at);
    if (end == std::string::npos) end = header.size();
    while (at < end && header[at] == ' ') ++at;
    const std::size_t equals = header.find('=', at);
    if (equals < end) cookies[header.substr(at, equals - at)] = header.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return cookies;
}

void answer(const httplib::Request& request, httplib::Response& response, const Site::Handler& handler, bool has_body) {
  Answer made;
  try {
    Call call{.body = nullptr, .cookies = cookies_of(request)};
    if (has_body) call.body = Json::parse(request.body);
    made = handler(call);
  } catch (const Refused& refused) {
    made = {.body = {{"error", refused.what()}}, .status = refused.status};
  } catch (const Json::exception&) {
    made = {.body = {{"error", "expected a JSON object with the fields of this call"}}, .status = 400};
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s: %s\n", request.path.c_str(), failure.what());
    made = {.body = {{"error", "the server could not do it; its log says why"}}, .status = 500};
  }
  for (const std::string& each : made.set_cookies) response.headers.emplace("Set-Cookie", each);
  response.status = made.status;
  response.set_header("Cache-Control", "no-store");
  response.set_content(made.body.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
}

}  // namespace

struct Site::State {
  httplib::Server server;
};

Site::Site(const std::vector<std::string>& folders) : state_(std::make_unique<State>()) {
  for (const std::string& folder : folders) {
    if (!state_->server.set_mount_point("/", folder)) {
      throw std::invalid_argument("expected a folder of files to serve, got " + folder);
    }
  }
  state_->server.set_payload_max_length(1 << 20);
  state_->server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                                      {"Content-Security-Policy",
                                       "default-src 'self'; img-src 'self' data:; style-src "
                                       "'self' 'unsafe-inline'"}});
}
Site::~Site() = default;

void Site::get(const std::string& path, Handler handler) {
  state_->server.Get(path, [handler = std::move(handler)](const auto& request, auto& response) {
    answer(request, response, handler, false);
  });
}
void Site::post(const std::string& path, Handler handler) {
  state_->server.Post(path, [handler = std::move(handler)](const auto& request, auto& response) {
    answer(request, response, handler, true);
  });
}
void Site::text(const std::string& path, std::function<std::string()> content) {
  state_->server.Get(path, [content = std::move(content)](const auto&, auto& response) {
    response.set_content(content(), "text/plain; version=0.0.4");
  });
}

namespace {
sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  return signals;
}
}  // namespace

void hold_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool Site::run(std::uint16_t port) {
  const sigset_t signals = stop_signals();
  // A thread of its own waits for the signals, so that stopping is done outside of a signal handler.
  std::thread stopper([&] {
    int received = 0;
    sigwait(&signals, &received);
    state_->server.stop();
  });
  const int bound = port == 0 ? state_->server.bind_to_any_port("127.0.0.1")
                              : (state_->server.bind_to_port("127.0.0.1", port) ? port : -1);
  if (bound > 0) {
    std::printf("http://127.0.0.1:%d/\n", bound);
    std::fflush(stdout);
    state_->server.listen_after_bind();
  } else {
    std::fprintf(stderr, "expected port %u of 127.0.0.1 to be free, but it cannot be listened on\n", port);
  }
  pthread_kill(stopper.native_handle(), SIGUSR1);
  stopper.join();
  return bound > 0;
}

std::string cookie(const std::string& name, const std::string& value) {
  std::string text = name + "=" + value + "; Path=/; HttpOnly; SameSite=Lax";
  return text.append(value.empty() ? "; Max-Age=0" : "; Max-Age=2592000");
}

std::vector<std::byte> secret_of(const std::string& path) {
  std::vector<std::byte> secret(32);
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    const bool whole = ::read(file, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
    ::close(file);
    if (whole) return secret;
  }
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    throw std::runtime_error("expected 32 random bytes of the system");
  }
  file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || ::write(file, secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    throw std::runtime_error("expected to write the cookies' secret to " + path);
  }
  ::close(file);
  return secret;
}

}  // namespace web
