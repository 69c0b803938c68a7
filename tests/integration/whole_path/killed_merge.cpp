// SPDX-License-Identifier: MIT
// merge_users and forget over Redis and a durable history, killed or cut off at every step: afterwards nothing has
// happened, or calling again finishes it.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/redis/store.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/sqlite/history.hpp"
#include "support/picks.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using namespace std::chrono_literals;
using Rows = SqliteHistory<std::uint64_t, std::uint64_t>;
using Store = redis::RedisStore<std::uint64_t>;

constexpr std::uint64_t carol = 3;

/// How the step of this number, from 0, ends what is under way.
enum class End { before, after };
struct Death {
  std::size_t step = SIZE_MAX;
  End end = End::before;
  bool process = false;  // all of it by SIGKILL, or only the call by an error

  /// Runs a step; nothing when it died.
  template <class Step>
  auto run(Step&& taken) -> decltype(taken()) {
    const bool dies = step-- == 0;
    if (dies && end == End::before) return died();
    auto result = taken();
    if (dies) return died();
    return result;
  }

 private:
  [[nodiscard]] Error died() const {
    if (process) ::raise(SIGKILL);
    return {ErrorCode::unreachable, "the connection was cut"};
  }
};

/// Every batch of commands is a step.
class Mortal final : public redis::Executor {
 public:
  Mortal(std::shared_ptr<redis::Executor> inner, std::shared_ptr<Death> death)
      : inner_(std::move(inner)), death_(std::move(death)) {}
  /// However slow the machine: no step ends for another reason than the test's.
  [[nodiscard]] Result<std::vector<redis::Reply>> execute(std::span<const redis::Command> batch,
                                                          redis::Deadline) override {
    return death_->run([&] { return inner_->execute(batch, redis::Deadline::after(20s)); });
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  /// So long a builder waits for another one, who is dead here.
  [[nodiscard]] std::chrono::milliseconds default_timeout() const override { return 100ms; }

 private:
  std::shared_ptr<redis::Executor> inner_;
  std::shared_ptr<Death> death_;
};

/// Every write of the history is a step.
struct MortalHistory {
  using user_type = std::uint64_t;
  using item_type = std::uint64_t;
  Rows rows;
  std::shared_ptr<Death> death;

  [[nodiscard]] Result<void> append(std::uint64_t user, std::span<const std::uint64_t> items, Time when) {
    return rows.append(user, items, when);
  }
  [[nodiscard]] Result<void> contains(std::uint64_t user, std::span<const std::uint64_t> items,
                                      std::span<std::uint8_t> out, Time since) {
    return rows.contains(user, items, out, since);
  }
  [[nodiscard]] Result<std::vector<SeenItem<std::uint64_t>>> seen_since(std::uint64_t user, Time since) {
    return rows.seen_since(user, since);
  }
  [[nodiscard]] Result<bool> forget(std::uint64_t user) {
    return death->run([&] { return rows.forget(user); });
  }
  [[nodiscard]] Result<bool> merge(std::uint64_t from, std::uint64_t into) {
    return death->run([&] { return rows.merge(from, into); });
  }
};

/// What one process holds: everything but the server and the file is its own.
struct Process {
  std::shared_ptr<Death> death = std::make_shared<Death>();
  MortalHistory history;
  SeenFilter<Store, MortalHistory> filter;

  Process(const RedisServer& server, const std::string& file, const StorePolicy& policy)
      : history{Rows::open(file, {.durable = false}).or_throw(), death},
        filter(Store(std::make_shared<Mortal>(redis::make_executor(server.socket_url()).or_throw(), death), policy),
               history) {
    filter.keep_last(3);
  }
  [[nodiscard]] std::size_t rows(std::uint64_t user) { return history.rows.seen_since(user, all_time)->size(); }
  [[nodiscard]] detail::ExactItems exact(std::uint64_t user) {
    return filter.store().protocol().exact(std::to_string(user)).or_throw();
  }
};

struct World {
  RedisServer server;
  TemporaryFolder folder;
  TestClock clock;
  StorePolicy policy;
  bool bob_exists = true;
  int files = 0;
  std::string file;

  /// A fresh server and history with what the users saw in them.
  void set_up() {
    (void)server.call({"FLUSHALL"});
    file = folder.path(std::to_string(files++));
    Process process(server, file, policy);
    process.filter.record_all(alice, range(0, 30)).or_throw();
    process.filter.hide(alice, 200).or_throw();
    process.filter.record_all(carol, range(0, 5)).or_throw();
    if (!bob_exists) return;
    process.filter.record_all(bob, range(20, 50)).or_throw();
    process.filter.hide(bob, 300).or_throw();
  }
  /// Runs it in a child that dies at the step, or in this process with an error there; false when it got through.
  bool dies(Death death, const std::function<bool(Process&)>& act) {
    const auto acted = [&] {
      Process process(server, file, policy);
      *process.death = death;
      return act(process);
    };
    if (!death.process) return !acted();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(acted() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE((status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)));
    return status != 0;
  }
  /// Calls check() after a death at each step.
  void at_each_step(const std::function<bool(Process&)>& act, const std::function<void()>& check) {
    for (const bool process : {false, true}) {
      for (const End end : {End::before, End::after}) {
        if (process && end == End::after) continue;  // as before the next step
        std::size_t steps = 0;
        for (bool died = true; died; ++steps) {
          CAPTURE(process, end == End::before, steps);
          set_up();
          died = dies({.step = steps, .end = end, .process = process}, act);
          check();
        }
        CHECK(steps >= 3);  // and one that got through
      }
    }
  }
  [[nodiscard]] std::size_t keys_of(std::uint64_t user) {
    Process process(server, file, policy);
    const std::string key = process.filter.store().key_of(user);
    std::size_t keys = 0;
    const redis::Reply all = server.call({"KEYS", "*"});
    for (const redis::Reply& found : *all.array()) { keys += found.string()->starts_with(key) ? 1U : 0U; }
    return keys;
  }
};

}  // namespace

TEST_CASE("A merge killed at any step loses nothing, and calling it again finishes it", "[redis][000-02]") {
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  World world;
  for (const bool windowed : {false, true}) {
    for (const bool bob_exists : {true, false}) {
      CAPTURE(windowed, bob_exists);
      // So large filters that no item of the test is hidden by chance.
      world.policy = {.wrong_hide_rate = 1e-6, .window = windowed ? 10 * day : 0s, .slices = windowed ? 5U : 1U};
      world.policy.clock = world.clock.clock();
      world.bob_exists = bob_exists;
      const std::uint64_t last = bob_exists ? 50 : 30;
      world.at_each_step(
          [](Process& process) { return process.filter.merge_users(alice, bob).has_value(); },
          [&] {
            Process process(world.server, world.file, world.policy);
            CHECK(process.rows(alice) + process.rows(bob) >= last);
            // Unseen of both is what neither saw, unless one of them is said to be unknown.
            const bool known = process.filter.ask(bob, 400) != Answer::unknown;
            for (std::uint64_t item = 0; known && item < last; ++item) {
              const bool seen =
                  process.filter.ask(alice, item) == Answer::seen || process.filter.ask(bob, item) == Answer::seen;
              if (!seen) FAIL_CHECK("item " << item << " is lost");
            }
            REQUIRE(process.filter.merge_users(alice, bob));
            const CandidatePool pool{range(0, 401)};
            Ids fresh = range(last, 401);
            std::erase_if(fresh, [&](std::uint64_t item) { return item == 200 || (bob_exists && item == 300); });
            CHECK(picked(process.filter.select_unseen(pool, {bob})) == fresh);
            CHECK(process.filter.ask(alice, 1) == Answer::unknown);
            CHECK(process.rows(alice) == 0);
            CHECK(process.rows(bob) == last);
            CHECK(process.exact(bob).kept.size() == (bob_exists ? 6 : 3));
            CHECK(world.keys_of(alice) == 0);
            CHECK(process.filter.ask(carol, 4) == Answer::seen);
          });
    }
  }
}

TEST_CASE("A forget killed at any step is finished by calling it again", "[redis]") {
  if (!RedisServer::installed("redis-server")) SKIP("redis-server is not installed");
  World world;
  for (const bool windowed : {false, true}) {
    CAPTURE(windowed);
    world.policy = {.wrong_hide_rate = 1e-6, .window = windowed ? 10 * day : 0s, .slices = windowed ? 5U : 1U};
    world.policy.clock = world.clock.clock();
    world.at_each_step([](Process& process) { return process.filter.forget(alice).has_value(); },
                       [&] {
                         Process process(world.server, world.file, world.policy);
                         if (world.keys_of(alice) != 0) {  // then all of them are
                           CHECK(process.filter.ask(alice, 1) == Answer::seen);
                           CHECK(process.filter.hidden(alice).value() == Ids{200});
                         }
                         REQUIRE(process.filter.forget(alice));
                         CHECK(world.keys_of(alice) == 0);
                         CHECK(process.rows(alice) == 0);
                         CHECK(process.filter.ask(alice, 1) == Answer::unknown);
                         // Nothing comes back with the next record.
                         REQUIRE(process.filter.record(alice, 500));
                         CHECK(process.filter.ask(alice, 1) == Answer::unseen);
                         CHECK(process.filter.ask(bob, 21) == Answer::seen);
                         CHECK(process.filter.hidden(bob).value() == Ids{300});
                       });
  }
}
