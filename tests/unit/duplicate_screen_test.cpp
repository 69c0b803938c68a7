// SPDX-License-Identifier: MIT
// DuplicateScreen: a negative skips the read, a positive is confirmed exactly, and one caller is first.

#include "seenby/gates/duplicate_screen.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "support/binomial.hpp"
#include "support/random.hpp"

namespace {

using seenby::Error;
using seenby::ErrorCode;
using seenby::Result;
using Screen = seenby::DuplicateScreen<std::string>;

/// The exact store: counts how often it is asked.
class Log {
 public:
  [[nodiscard]] auto contains() {
    return [this](const std::string& item) -> Result<bool> {
      const std::lock_guard lock(mutex_);
      ++reads_;
      if (failing_) return Error{ErrorCode::unreachable, "the log is down"};
      return items_.contains(item);
    };
  }
  [[nodiscard]] auto record() {
    return [this](const std::string& item) -> Result<bool> {
      const std::lock_guard lock(mutex_);
      if (failing_) return Error{ErrorCode::unreachable, "the log is down"};
      return items_.insert(item).second;
    };
  }
  void fail(bool failing) { failing_ = failing; }
  [[nodiscard]] std::uint64_t reads() const { return reads_; }
  [[nodiscard]] std::size_t size() const { return items_.size(); }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> items_;
  std::uint64_t reads_ = 0;
  bool failing_ = false;
};

std::string event(std::uint64_t number) { return std::string("event-").append(std::to_string(number)); }

Screen screen(std::uint64_t items, double fpr = 0.01) {
  return Screen(Screen::filter_type({.expected_items = items, .target_fpr = fpr, .partitions = 4}));
}

TEST_CASE("a negative skips the read and a positive is confirmed exactly", "[duplicates][004-08]") {
  constexpr std::uint64_t events = 20'000;
  Log log;
  Screen screen_ = screen(events);
  std::uint64_t first = 0;
  std::uint64_t again = 0;
  for (std::uint64_t i = 0; i < events; ++i) {
    first += screen_.claim(event(i), log.contains(), log.record()).value() ? 1U : 0U;
    // One in ten comes twice.
    if (i % 10 == 0) again += screen_.claim(event(i), log.contains(), log.record()).value() ? 1U : 0U;
  }
  CHECK(first == events);  // no event was dropped on a false positive
  CHECK(again == 0);
  CHECK(log.size() == events);
  const auto counters = screen_.counters();
  CHECK(counters.claims == events + events / 10);
  CHECK(counters.duplicates == events / 10);
  CHECK(counters.reads_skipped + counters.duplicates + counters.false_positives == counters.claims);
  CHECK(log.reads() == counters.duplicates + counters.false_positives);
  // While it fills, the filter errs less than at the end.
  CHECK(counters.false_positives <= seenby::test::most_hits(events, 0.01));
  CHECK(counters.false_positives > 0);
}

TEST_CASE("a filter that errs all the time drops nothing", "[duplicates][004-08]") {
  Log log;
  Screen screen_ = screen(8, 0.5);
  std::uint64_t first = 0;
  for (std::uint64_t i = 0; i < 5'000; ++i) {
    first += screen_.claim(event(i), log.contains(), log.record()).value() ? 1U : 0U;
  }
  CHECK(first == 5'000);
  CHECK(screen_.counters().false_positives > 4'000);
}

TEST_CASE("when the exact store is down the error comes through and the event stays claimable",
          "[duplicates][004-08]") {
  Log log;
  Screen screen_ = screen(100);
  log.fail(true);
  CHECK(screen_.claim(event(1), log.contains(), log.record()).error().code == ErrorCode::unreachable);
  CHECK(screen_.claim(event(1), log.contains(), log.record()).error().code == ErrorCode::unreachable);
  log.fail(false);
  CHECK(screen_.claim(event(1), log.contains(), log.record()).value());
  CHECK_FALSE(screen_.claim(event(1), log.contains(), log.record()).value());
  CHECK(screen_.counters().failures == 2);
}

TEST_CASE("of the threads that claim one event exactly one is first", "[duplicates][concurrent][004-08]") {
  constexpr std::uint64_t events = 5'000;
  constexpr unsigned threads = 4;
  Log log;
  Screen screen_ = screen(events, 0.05);
  std::vector<std::atomic<int>> firsts(events);
  {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < threads; ++t) {
      workers.emplace_back([&] {
        for (std::uint64_t i = 0; i < events; ++i) {
          if (screen_.claim(event(i), log.contains(), log.record()).value()) ++firsts[i];
        }
      });
    }
  }
  std::uint64_t wrong = 0;
  for (const auto& count : firsts) wrong += count == 1 ? 0U : 1U;
  CHECK(wrong == 0);
  const auto counters = screen_.counters();
  CHECK(counters.claims == threads * events);
  CHECK(counters.reads_skipped >= events - seenby::test::most_hits(events, 0.05));
  CHECK(counters.reads_skipped <= events);
}

}  // namespace
