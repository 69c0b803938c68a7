// SPDX-License-Identifier: MIT
// A small HTTP service whose users' filters are in Redis: what a deadline, a pool and a server that is down mean.
//   redis_service URL [PORT]    serves until it is ended; the URL: redis://127.0.0.1:6379?timeout_ms=50&pool=16
//   redis_service               shows what it answers while no Redis can be reached, then ends
//
//   POST /users/ID                    a new user: known from now on, with nothing seen
//   GET  /users/ID/feed               ten items that the user has not seen; ?strict=1: none when Redis cannot be asked
//   POST /users/ID/seen?item=N        the client had item N on the screen
//   DELETE /users/ID                  forgets the user
// With curl a POST needs a body, if an empty one: curl -d '' http://127.0.0.1:8080/users/ada
#include <httplib.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <seenby/redis/store.hpp>
#include <seenby/seenby.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Item = std::uint64_t;
using Filter = seenby::SeenFilter<seenby::redis::RedisStore<std::string>>;

constexpr std::size_t threads = 8;

/// One status for each kind of failure, so that a proxy or a client can tell them apart.
int status_of(const seenby::Error& error) {
  switch (error.code) {
    case seenby::ErrorCode::timed_out: return 504;
    case seenby::ErrorCode::unreachable: return 503;
    default: return 500;
  }
}

void answer(httplib::Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_content(text + "\n", "text/plain");
}

class Service {
 public:
  explicit Service(std::string_view url)
      : filter_(seenby::redis::RedisStore<std::string>(
            url, {.wrong_hide_rate = 0.01, .window = std::chrono::hours{24 * 30}, .slices = 6})),
        pool_(candidates()) {
    server_.set_tcp_nodelay(true);  // else an answer waits for the client's acknowledgement of its head: 40 ms
    server_.new_task_queue = [] { return new httplib::ThreadPool(threads); };
    server_.Post(R"(/users/(\w+))", [this](const auto& request, auto& response) { create(request, response); });
    server_.Get(R"(/users/(\w+)/feed)", [this](const auto& request, auto& response) { feed(request, response); });
    server_.Post(R"(/users/(\w+)/seen)", [this](const auto& request, auto& response) { seen(request, response); });
    server_.Delete(R"(/users/(\w+))", [this](const auto& request, auto& response) { forget(request, response); });
  }
  httplib::Server& server() { return server_; }

 private:
  static std::vector<Item> candidates() {
    std::vector<Item> items(100);
    std::iota(items.begin(), items.end(), Item{1});
    return items;
  }

  /// Without this a new user is unknown, like one whose filter was lost.
  void create(const httplib::Request& request, httplib::Response& response) {
    const auto made = filter_.create(request.matches[1].str());
    answer(response, made ? 201 : status_of(made.error()), made ? "created" : "not created");
  }

  /// Fail-open by default: a user who cannot be asked about gets items, some of which they may have seen. With strict
  /// an error instead. A new user's filter, which is merely missing, hides nothing either way.
  void feed(const httplib::Request& request, httplib::Response& response) {
    const bool strict = request.has_param("strict");
    const auto page = filter_.select_unseen(
        pool_, {request.matches[1].str()},
        {.limit = 10, .on_unreachable = strict ? seenby::OnUnknown::fail : seenby::OnUnknown::show});
    if (page.error()) return answer(response, status_of(*page.error()), "cannot tell what was seen");
    std::string text;
    for (const auto& pick : page) text.append(text.empty() ? "" : " ").append(std::to_string(pick.item));
    if (!page.unknown_users().empty()) text.append(" (may repeat)");
    answer(response, 200, text);
  }

  /// What is not acknowledged is not recorded: the client keeps it and reports again.
  void seen(const httplib::Request& request, httplib::Response& response) {
    const Item item = std::strtoull(request.get_param_value("item").c_str(), nullptr, 10);
    const auto recorded = filter_.record(request.matches[1].str(), item);
    answer(response, recorded ? 200 : status_of(recorded.error()),
           recorded ? "recorded" : "not recorded: report again");
  }

  void forget(const httplib::Request& request, httplib::Response& response) {
    const auto gone = filter_.forget(request.matches[1].str());
    answer(response, gone ? 200 : status_of(gone.error()), gone ? "forgotten" : "not forgotten: ask again");
  }

  Filter filter_;
  seenby::CandidatePool<Item> pool_;
  httplib::Server server_;
};

void show(const char* what, const httplib::Result& result) {
  std::printf("%-28s %d %s", what, result->status, result->body.c_str());
}

/// Nothing listens on port 1 of this machine.
int demonstrate() {
  Service service("redis://127.0.0.1:1?timeout_ms=50");
  const int port = service.server().bind_to_any_port("127.0.0.1");
  std::thread serving([&] { service.server().listen_after_bind(); });
  httplib::Client client("127.0.0.1", port);
  show("GET /users/ada/feed", client.Get("/users/ada/feed"));
  show("GET ...?strict=1", client.Get("/users/ada/feed?strict=1"));
  show("POST /users/ada/seen?item=3", client.Post("/users/ada/seen?item=3"));
  show("POST /users/ada", client.Post("/users/ada"));
  service.server().stop();
  serving.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return demonstrate();
  Service service(argv[1]);
  const int wanted = argc > 2 ? std::atoi(argv[2]) : 8080;
  const int port = wanted == 0 ? service.server().bind_to_any_port("127.0.0.1")
                               : (service.server().bind_to_port("127.0.0.1", wanted) ? wanted : -1);
  if (port < 0) {
    std::fprintf(stderr, "redis_service: expected a free port, got %d, which cannot be listened on\n", wanted);
    return 1;
  }
  std::printf("http://127.0.0.1:%d/users/ada/feed\n", port);
  std::fflush(stdout);
  return service.server().listen_after_bind() ? 0 : 1;
}
