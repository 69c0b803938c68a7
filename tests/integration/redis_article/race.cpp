// SPDX-License-Identifier: MIT
// The article's layout in the race harness: as published it loses a good part of what it acknowledged, mended nothing.

#include "support/race.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "seenby/redis_article/article_store.hpp"
#include "support/article_code.hpp"
#include "support/redis_server.hpp"

using namespace seenby;
using namespace seenby::redis;
using namespace std::chrono_literals;
using seenby::test::ArticleAsPublished;
using seenby::test::Race;
using seenby::test::RaceHistory;
using seenby::test::RaceOptions;
using seenby::test::RaceResult;
using seenby::test::RedisServer;

namespace {

/// The article's add, look-up and resize behind the store's members. Its header fault is left out: what shows is the
/// deletion and the refill alone.
class PublishedStore {
 public:
  PublishedStore(std::shared_ptr<Executor> executor, RaceHistory& history)
      : article_(std::move(executor), true), history_(history) {}

  [[nodiscard]] Xxh3Hash hasher() const noexcept { return {}; }

  void check(std::span<const std::uint64_t> users, const ItemBatch<std::uint64_t>& batch,
             std::span<std::uint8_t> seen_by, std::span<UserStatus> status) const {
    const std::string key = key_of(users.front());
    const std::uint32_t exponent = article_.read_size_exponent(key);
    const auto answers = article_.might_contain(key, batch.items, std::uint64_t{1} << exponent);
    for (std::size_t i = 0; i < answers.size(); ++i) seen_by[i] = answers[i] ? 1 : 0;
    status.front() = {};
  }

  Result<RecordOutcome> record(std::uint64_t user, const ItemBatch<std::uint64_t>& batch) {
    const std::string key = key_of(user);
    std::uint32_t exponent = article_.read_size_exponent(key);
    if (exponent == 0) {
      // Kinder than the article, which would go on with m = 1.
      exponent = ArticleAsPublished::default_exponent;
      article_.set_exponent(key, exponent);
    }
    article_.add(key, batch.items.front(), std::uint64_t{1} << exponent);
    if (article_.set_bits(key) * 2 >= std::uint64_t{1} << exponent) {
      std::vector<std::uint64_t> known;
      const auto past = history_.seen_since(user).value();
      for (const auto& seen : past) known.push_back(seen.item);
      article_.resize(key, known, exponent);
      ++resizes_;
    }
    return RecordOutcome{};
  }

  [[nodiscard]] std::uint64_t resizes() const noexcept { return resizes_; }

 private:
  [[nodiscard]] static std::string key_of(std::uint64_t user) { return "seen:" + std::to_string(user); }
  mutable ArticleAsPublished article_;
  RaceHistory& history_;
  std::atomic<std::uint64_t> resizes_{0};
};

}  // namespace

TEST_CASE("As published, deletion and refill calls a good part of what was acknowledged unseen",
          "[redis][race][article][000-20]") {
  const RedisServer server;
  RaceHistory history;
  PublishedStore store(make_executor(server.socket_url()).value(), history);
  RaceOptions options{.duration = seenby::test::race_duration(3s), .items_per_user = 1'500};
  options.seed = std::random_device{}();
  const RaceResult result = Race(store, history, options).run();
  std::cout << "as published: " << result << "; " << store.resizes() << " resizes\n";
  CHECK(store.resizes() > 3);
  CHECK(result.checks > 1'000);
  CHECK(result.false_negative_rate() > 0.05);
}

TEST_CASE("Mended, the article's layout loses nothing in the same race and under deletions besides",
          "[redis][race][article][concurrent][000-20]") {
  const RedisServer server;
  RaceHistory history;
  auto executor = make_executor(server.socket_url()).value();
  ArticleStore<std::uint64_t, std::uint64_t> store(executor, {.default_exponent = 6, .timeout = 5s});
  store.set_item_replay(item_replay_of(history));
  RaceOptions options{.duration = seenby::test::race_duration(3s), .items_per_user = 1'500};
  options.disturb_pause = 50ms;
  options.seed = std::random_device{}();
  options.disturb = [&](std::uint64_t user) {
    static_cast<void>(execute_one(*executor, Command::with_key(1, "DEL", store.key_of(user)), Deadline::after(5s)));
  };
  const RaceResult result = Race(store, history, options).run();
  const StoreCounters counters = store.counters();
  std::cout << "mended: " << result << "; " << counters.growths << " growths, " << counters.rebuilds << " rebuilds\n";
  CHECK(result.false_negatives == 0);
  CHECK(result.lost_for_good == 0);
  CHECK(result.refused == 0);
  CHECK(result.unreachable == 0);
  CHECK(counters.growths > 3);
  CHECK(counters.rebuilds > 10);
  CHECK(result.checks > 10'000);
}
