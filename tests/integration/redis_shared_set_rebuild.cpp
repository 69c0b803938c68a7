// SPDX-License-Identifier: MIT
// SharedSet: what a rebuild leaves behind when it is refused or loses a part, and what its options may be.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seenby/redis/shared_set.hpp"
#include "support/counting_executor.hpp"
#include "support/redis_server.hpp"
#include "support/redis_store_fixture.hpp"

namespace {

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using test::RedisServer;
using Set = SharedSet<std::uint64_t>;

const std::string key = "seenby:set:{crawled}";

Set open_set(const RedisServer& server, SharedSetOptions options = {.expected_items = 1'000}) {
  return Set(make_executor(server.socket_url()).or_throw(), "crawled", std::move(options));
}
std::string string_of(std::uint64_t version) {
  return std::string(key).append(":").append(std::to_string(version)) + ":0";
}

}  // namespace

TEST_CASE("A rebuild that is refused leaves nothing behind", "[redis][004-10]") {
  for (const std::string& program : test::installed_servers()) {
    const RedisServer server(program);
    Set first = open_set(server);
    Set second = open_set(server);
    first.create().or_throw();
    const auto rebuild = first.begin_rebuild(1'000).or_throw();
    const std::int64_t keys = server.call_integer({"DBSIZE"});
    CHECK(second.begin_rebuild(1'000).error().code == ErrorCode::conflict);
    CHECK(server.call_integer({"DBSIZE"}) == keys);
    CHECK(server.call_integer({"EXISTS", string_of(rebuild.version())}) == 1);
  }
}

TEST_CASE("A version in the making that lost a part is given up; the set takes adds and says which it holds",
          "[redis][004-10]") {
  for (const std::string& program : test::installed_servers()) {
    const RedisServer server(program);
    Set builder = open_set(server);
    Set set = open_set(server);
    set.create().or_throw();
    set.add(1).or_throw();
    auto rebuild = builder.begin_rebuild(1'000).or_throw();
    const std::vector<std::uint64_t> known{1};
    rebuild.add(known).or_throw();
    server.call({"DEL", string_of(rebuild.version())});
    CHECK(set.add(2).or_throw());
    CHECK(set.add(3).or_throw());
    for (const std::uint64_t item : {1U, 2U, 3U}) CHECK(set.may_contain(item).or_throw());
    CHECK(set.info().or_throw().next == 0);
    CHECK(rebuild.add(known).error().code == ErrorCode::conflict);
    const auto refused = rebuild.commit();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::conflict);
    CHECK(refused.error().message.find(std::to_string(rebuild.version())) != std::string::npos);
    // The next builder need not wait for a lease.
    auto again = set.begin_rebuild(1'000).or_throw();
    again.add(std::vector<std::uint64_t>{1, 2, 3}).or_throw();
    again.commit().or_throw();
    for (const std::uint64_t item : {1U, 2U, 3U}) CHECK(builder.may_contain(item).or_throw());
  }
}

TEST_CASE("What is known of a set is one round trip", "[redis]") {
  const RedisServer server;
  const auto counting = std::make_shared<test::CountingExecutor>(make_executor(server.socket_url()).or_throw());
  Set set(counting, "crawled", {.expected_items = 1'000});
  set.create().or_throw();
  for (std::uint64_t item = 0; item < 10; ++item) set.add(item).or_throw();
  counting->trips = 0;
  const SharedSetInfo info = set.info().or_throw();
  CHECK(counting->trips == 1);
  CHECK(info.items == 10);
  CHECK(info.expected_items == 1'000);
}

TEST_CASE("Options that cannot be kept are refused, and the longest times there are can be", "[redis]") {
  const RedisServer server;
  const auto executor = make_executor(server.socket_url()).or_throw();
  const SharedSetOptions good{.expected_items = 1'000};
  const auto refuse = [&](auto change, const std::string& name = "crawled") {
    SharedSetOptions options = good;
    change(options);
    CHECK_THROWS_AS(Set(executor, name, options), std::invalid_argument);
  };
  CHECK_THROWS_AS(Set(nullptr, "crawled", good), std::invalid_argument);
  refuse([](auto&) {}, "");
  refuse([](auto&) {}, "a{b}");
  refuse([](auto& options) { options.prefix = "set:{"; });
  refuse([](auto& options) { options.expected_items = 0; });
  refuse([](auto& options) { options.target_fpr = 1; });
  refuse([](auto& options) { options.timeout = 0ms; });
  refuse([](auto& options) { options.build_lease = 0ms; });
  refuse([](auto& options) { options.write_lag = -1ms; });
  refuse([](auto& options) { options.grace = -1ms; });

  constexpr auto longest = std::chrono::milliseconds::max();
  Set set = open_set(
      server,
      {.expected_items = 1'000, .timeout = longest, .write_lag = longest, .grace = longest, .build_lease = longest});
  set.create().or_throw();
  set.add(1).or_throw();
  auto rebuild = set.begin_rebuild(1'000).or_throw();
  set.add(2).or_throw();
  rebuild.commit().or_throw();
  for (const std::uint64_t item : {1U, 2U}) CHECK(set.may_contain(item).or_throw());
}

namespace {

/// Answers fewer commands than it was sent, once it is told to.
class Short final : public Executor {
 public:
  explicit Short(std::shared_ptr<Executor> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Result<std::vector<Reply>> execute(std::span<const Command> batch, Deadline deadline) override {
    auto replies = inner_->execute(batch, deadline);
    if (replies && errs) replies->pop_back();
    return replies;
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  bool errs = false;

 private:
  std::shared_ptr<Executor> inner_;
};

}  // namespace

TEST_CASE("A client that answers less than it was asked is an error", "[redis]") {
  const RedisServer server;
  const auto client = std::make_shared<Short>(make_executor(server.socket_url()).or_throw());
  Set set(client, "crawled", {.expected_items = 1'000});
  set.create().or_throw();
  set.add(1).or_throw();
  client->errs = true;
  CHECK(set.may_contain(1).error().code == ErrorCode::corrupt);
  CHECK(set.begin_rebuild(1'000).error().code == ErrorCode::corrupt);
}
