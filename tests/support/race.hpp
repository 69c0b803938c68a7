#pragma once
// SPDX-License-Identifier: MIT
// The race harness: one hot user at a time, eight threads that keep adding, growth all the while, rebuilds and random
// deletions, and readers who check every acknowledged item.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/stores/filter_store.hpp"

namespace seenby::test {

using RaceHistory = MemoryHistory<std::uint64_t, std::uint64_t>;

struct RaceOptions {
  std::chrono::milliseconds duration{3'000};
  int writers = 8;
  int readers = 2;
  /// Then the next user becomes the hot one, so that filters stay small enough to grow and to be rebuilt all the time.
  std::uint64_t items_per_user = 3'000;
  /// Called again and again with the hot user, by a thread of its own: rebuilds, deletions.
  std::function<void(std::uint64_t user)> disturb{};
  std::chrono::milliseconds disturb_pause{20};  ///< drawn anew each time between 0 and twice this
  std::uint64_t seed = 1;
};

struct RaceResult {
  std::uint64_t acknowledged = 0;
  std::uint64_t refused = 0;          ///< records that ended in an error
  std::uint64_t checks = 0;           ///< of acknowledged items, answered
  std::uint64_t false_negatives = 0;  ///< of those, "unseen"
  std::uint64_t missing = 0;          ///< checks whose user was missing: told, so no wrong answer
  std::uint64_t unreachable = 0;
  std::uint64_t disturbances = 0;
  std::uint64_t lost_for_good = 0;  ///< acknowledged items that are "unseen" after the race and one more record a user

  [[nodiscard]] double false_negative_rate() const {
    return checks == 0 ? 0 : static_cast<double>(false_negatives) / static_cast<double>(checks);
  }
};

inline std::ostream& operator<<(std::ostream& out, const RaceResult& result) {
  return out << result.acknowledged << " acknowledged, " << result.refused << " refused, " << result.checks
             << " checks, " << result.false_negatives << " false negatives (" << 100 * result.false_negative_rate()
             << "%), " << result.missing << " of missing users, " << result.unreachable << " unreachable, "
             << result.disturbances << " disturbances, " << result.lost_for_good << " lost for good";
}

/// A few seconds; a minute with SEENBY_SOAK=1.
inline std::chrono::milliseconds race_duration(std::chrono::milliseconds usual) {
  const char* soak = std::getenv("SEENBY_SOAK");
  const bool long_run = soak != nullptr && std::string_view(soak) == "1";
  return long_run ? std::chrono::milliseconds(60'000) : usual;
}

/// Runs the race over a store whose filters hold std::uint64_t users and items. The history is written first, as the
/// library asks.
template <class Store>
class Race {
 public:
  Race(Store& store, RaceHistory& history, RaceOptions options)
      : store_(store), history_(history), options_(std::move(options)), acknowledged_(most_items) {}

  RaceResult run() {
    std::cout << "race seed " << options_.seed << '\n';
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.writers; ++i) threads.emplace_back([this] { write(); });
    for (int i = 0; i < options_.readers; ++i) threads.emplace_back([this, i] { read(static_cast<std::uint64_t>(i)); });
    if (options_.disturb) threads.emplace_back([this] { disturb(); });
    std::this_thread::sleep_for(options_.duration);
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    look_back();
    return result();
  }

 private:
  static constexpr std::size_t most_items = std::size_t{1} << 22;

  [[nodiscard]] std::uint64_t user_of(std::uint64_t item) const { return item / options_.items_per_user; }

  [[nodiscard]] bool record(std::uint64_t user, std::uint64_t item) {
    const std::uint64_t items[] = {item};
    const Digest digests[] = {store_.hasher()(item)};
    if (!history_.append(user, items, system_time())) return false;
    return store_.record(user, ItemBatch<std::uint64_t>{items, digests}).has_value();
  }

  void write() {
    while (!stop_) {
      const std::uint64_t item = next_.fetch_add(1);
      if (item >= most_items) return;
      if (record(user_of(item), item)) {
        acknowledged_[item].store(1, std::memory_order_release);
        ++count_acknowledged_;
      } else {
        ++refused_;
      }
    }
  }

  /// Checks up to 64 items of one user that were acknowledged before the question.
  void ask(std::uint64_t user, const std::vector<std::uint64_t>& items, std::atomic<std::uint64_t>& unseen) {
    if (items.empty()) return;
    std::vector<Digest> digests;
    for (const std::uint64_t item : items) digests.push_back(store_.hasher()(item));
    std::vector<std::uint8_t> seen(items.size());
    UserStatus status;
    store_.check(std::span<const std::uint64_t>(&user, 1), ItemBatch<std::uint64_t>{items, digests}, seen,
                 std::span<UserStatus>(&status, 1));
    if (status.state == UserState::known) {
      checks_ += items.size();
      unseen += static_cast<std::uint64_t>(std::count(seen.begin(), seen.end(), std::uint8_t{0}));
    } else {
      (status.state == UserState::missing ? missing_ : unreachable_) += items.size();
    }
  }

  void read(std::uint64_t id) {
    std::mt19937_64 random(options_.seed * 1'000 + id);
    while (!stop_) {
      const std::uint64_t newest = next_.load();
      if (newest == 0) continue;
      // Mostly the hot user, sometimes the one before.
      std::uint64_t user = user_of(newest - 1);
      if (user > 0 && random() % 4 == 0) --user;
      const std::uint64_t first = user * options_.items_per_user;
      const std::uint64_t end = std::min(newest, first + options_.items_per_user);
      std::vector<std::uint64_t> items;
      for (int tries = 0; tries < 128 && items.size() < 64; ++tries) {
        const std::uint64_t item = first + random() % (end - first);
        if (acknowledged_[item].load(std::memory_order_acquire) != 0) items.push_back(item);
      }
      ask(user, items, false_negatives_);
    }
  }

  void disturb() {
    std::mt19937_64 random(options_.seed * 1'000 + 999);
    while (!stop_) {
      const auto most = static_cast<std::uint64_t>(2 * options_.disturb_pause.count());
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % (most + 1)));
      const std::uint64_t newest = next_.load();
      options_.disturb(user_of(newest == 0 ? 0 : newest - 1));
      ++disturbances_;
    }
  }

  /// After the race: one more record mends a user whose filter was just deleted; then everything is asked once.
  void look_back() {
    const std::uint64_t newest = std::min<std::uint64_t>(next_.load(), most_items);
    // Too many users to ask for in a long run: the last hundred.
    const std::uint64_t last = newest == 0 ? 0 : user_of(newest - 1);
    for (std::uint64_t user = last > 100 ? last - 100 : 0; user <= last; ++user) {
      std::vector<std::uint64_t> items;
      for (std::uint64_t i = user * options_.items_per_user; i < std::min(newest, (user + 1) * options_.items_per_user);
           ++i) {
        if (acknowledged_[i].load() != 0) items.push_back(i);
      }
      if (items.empty() || !record(user, items.front())) continue;
      for (std::size_t at = 0; at < items.size(); at += 64) {
        const auto begin = items.begin() + static_cast<std::ptrdiff_t>(at);
        ask(user, {begin, begin + static_cast<std::ptrdiff_t>(std::min<std::size_t>(64, items.size() - at))},
            lost_for_good_);
      }
    }
  }

  [[nodiscard]] RaceResult result() const {
    return {.acknowledged = count_acknowledged_,
            .refused = refused_,
            .checks = checks_,
            .false_negatives = false_negatives_,
            .missing = missing_,
            .unreachable = unreachable_,
            .disturbances = disturbances_,
            .lost_for_good = lost_for_good_};
  }

  Store& store_;
  RaceHistory& history_;
  RaceOptions options_;
  std::vector<std::atomic<std::uint8_t>> acknowledged_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> count_acknowledged_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> checks_{0};
  std::atomic<std::uint64_t> false_negatives_{0};
  std::atomic<std::uint64_t> missing_{0};
  std::atomic<std::uint64_t> unreachable_{0};
  std::atomic<std::uint64_t> disturbances_{0};
  std::atomic<std::uint64_t> lost_for_good_{0};
};

}  // namespace seenby::test
