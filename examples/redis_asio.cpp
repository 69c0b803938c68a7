// SPDX-License-Identifier: MIT
// Beside an event loop: a RedisStore blocks its thread for a round trip, so it is asked on threads of its own.
//   redis_asio URL [REQUESTS]    measures both ways against a server: redis://127.0.0.1:6379?pool=8
//   redis_asio                   the same against a pretended server that takes 2 ms, and only says which way is better
#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <seenby/redis/store.hpp>
#include <seenby/seenby.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;
using Filter = seenby::SeenFilter<seenby::redis::RedisStore<std::uint64_t>>;

/// As many as the URL's `pool` has connections: more would wait for one.
constexpr std::size_t threads = 8;

/// Any client can carry the commands; this one answers "no such key" after 2 ms.
class PretendedServer final : public seenby::redis::Executor {
 public:
  seenby::Result<std::vector<seenby::redis::Reply>> execute(std::span<const seenby::redis::Command> batch,
                                                            seenby::redis::Deadline) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::vector<seenby::redis::Reply>(batch.size());
  }
  [[nodiscard]] std::string name() const override { return "a pretended server"; }
};

/// The longest time that the loop did not come back to its timer, which is due every millisecond.
class Heartbeat {
 public:
  explicit Heartbeat(asio::io_context& loop) : timer_(loop) { beat(); }
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }
  [[nodiscard]] Milliseconds longest_pause() const { return longest_; }

 private:
  void beat() {
    timer_.expires_after(std::chrono::milliseconds(1));
    timer_.async_wait([this, set = Clock::now()](const asio::error_code&) {
      longest_ = std::max<Milliseconds>(longest_, Clock::now() - set);
      if (!stopped_) beat();
    });
  }
  asio::steady_timer timer_;
  Milliseconds longest_{0};
  bool stopped_ = false;
};

struct Measured {
  double requests_per_second;
  Milliseconds longest_pause;
};

/// Requests that all arrive at once. `ask(user, done)` calls done in the loop once the user's page is there.
template <class Ask>
Measured serve(std::size_t requests, Ask&& ask) {
  asio::io_context loop;
  Heartbeat heartbeat(loop);
  std::size_t left = requests;
  const auto start = Clock::now();
  for (std::uint64_t user = 0; user < requests; ++user) {
    asio::post(loop, [&, user] {
      ask(loop, user, [&] {
        if (--left == 0) heartbeat.stop();
      });
    });
  }
  loop.run();
  const std::chrono::duration<double> took = Clock::now() - start;
  return {static_cast<double>(requests) / took.count(), heartbeat.longest_pause()};
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t requests = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 200;
  auto executor = argc > 1 ? seenby::redis::make_executor(argv[1]).or_throw() : std::make_shared<PretendedServer>();
  const Filter filter{seenby::redis::RedisStore<std::uint64_t>(executor, {.wrong_hide_rate = 0.01})};
  std::vector<std::uint64_t> items(100);
  std::iota(items.begin(), items.end(), std::uint64_t{1});
  const seenby::CandidatePool pool{items};
  const auto page = [&](std::uint64_t user) { return filter.select_unseen(pool, {user}, {.limit = 10}); };

  const Measured in_the_loop = serve(requests, [&](asio::io_context&, std::uint64_t user, auto done) {
    (void)page(user);
    done();
  });
  asio::thread_pool workers(threads);
  const Measured on_threads = serve(requests, [&](asio::io_context& loop, std::uint64_t user, auto done) {
    // The loop must not run out of work while its only work is on the other threads.
    asio::post(workers, [&, user, done, work = asio::make_work_guard(loop)] {
      (void)page(user);
      asio::post(loop, done);
    });
  });
  workers.join();

  const auto show = [&](const char* way, const Measured& measured) {
    if (argc > 1) {
      std::printf("%-12s %8.0f requests/s, the loop stood still for at most %.1f ms\n", way,
                  measured.requests_per_second, measured.longest_pause.count());
    } else {
      std::printf("%-12s the loop stood still for %s 100 ms\n", way,
                  measured.longest_pause > Milliseconds(100) ? "more than" : "less than");
    }
  };
  show("in the loop:", in_the_loop);
  show("on threads:", on_threads);
  return 0;
}
