#pragma once
// SPDX-License-Identifier: MIT
// RepairJob: finds filters that lost what the history knows, and rebuilds them.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/result.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/record_many.hpp"

namespace seenby {

/// What was found of one user's filter.
enum class FilterState : std::uint8_t {
  healthy,      ///< it knows what the history knows
  expired,      ///< there is none, and nothing within the window to hold
  lost,         ///< there was none although the window holds items: expired early, evicted or never built
  incomplete,   ///< it lacked items that the history knows
  over_budget,  ///< it hides more than its share
};
/// The enumerator's name; "unnamed" for a value that is none.
[[nodiscard]] constexpr std::string_view to_string(FilterState state) noexcept {
  switch (state) {
    case FilterState::healthy: return "healthy";
    case FilterState::expired: return "expired";
    case FilterState::lost: return "lost";
    case FilterState::incomplete: return "incomplete";
    case FilterState::over_budget: return "over_budget";
  }
  return "unnamed";
}

/// One user's check and repair.
struct Repair {
  FilterState found = FilterState::healthy;  ///< what the check said
  std::uint64_t items = 0;                   ///< in the history, within the window
  std::uint64_t false_negatives = 0;         ///< of those, called unseen by the filter
  /// Whether it was written anew.
  bool repaired = false;
};

/// What a sweep has done so far.
struct RepairProgress {
  std::uint64_t users = 0;            ///< users looked at
  std::uint64_t items = 0;            ///< of their histories, within the window
  std::uint64_t false_negatives = 0;  ///< of those, called unseen by a filter
  std::uint64_t healthy = 0;          ///< users found so
  std::uint64_t expired = 0;          ///< users found so
  std::uint64_t lost = 0;             ///< users found so
  std::uint64_t incomplete = 0;       ///< users found so
  std::uint64_t over_budget = 0;      ///< users found so
  std::uint64_t repaired = 0;         ///< users whose filter was written anew
  std::uint64_t errors = 0;           ///< users that could not be checked or repaired
};

/// How a RepairJob looks and how fast it goes.
struct RepairOptions {
  /// How many fresh candidates each filter is asked about, to see whether it hides more than it may. 0: it is not
  /// asked.
  std::size_t probes = 1'024;
  std::size_t page = 500;                                 ///< users read from the history at once; at least 1
  double users_per_second = 0;                            ///< of a sweep; 0: as fast as it goes
  bool repair = true;                                     ///< false: only looks
  std::function<void(const RepairProgress&)> progress{};  ///< after each user of a sweep
};

/// Compares users' filters with the history and rebuilds what differs: a filter that is missing, expired early,
/// evicted, or holds less than the history says. On read, for the users whom a page calls unknown, or as a sweep over
/// all.
///
/// A missing filter is made by one record; a store that reads the history (`set_replay`) rebuilds the whole window
/// then, at once, so that no reader finds half of it. What an existing filter lacks is recorded. A filter over its
/// budget is rebuilt where the store can (`rebuild`), and told of where it cannot. Nothing is deleted: hides and items
/// that the history does not know stay. A sweep records what up to a thousand users lack in one go (record_many).
///
/// History and store must outlive it. Thread-safe: two calls for one user are one repair.
template <EventHistory History, class Store>
requires FilterStoreFor<Store, typename History::item_type>
class RepairJob {
 public:
  using User = typename History::user_type;  ///< who sees
  using Item = typename History::item_type;  ///< what is seen

  /// Writes nothing before `repair` or `sweep` is called. Throws std::invalid_argument for a page of no users.
  RepairJob(History& history, Store& store, RepairOptions options = {})
      : history_(history), store_(store), options_(std::move(options)) {
    if (options_.page == 0) throw std::invalid_argument("seenby: expected a page of 1 user or more, got 0");
    for (std::size_t i = 0; i < options_.probes; ++i) {
      probes_.push_back(probe(i));
      probe_digests_.push_back(store_.hasher()(probes_.back()));
    }
  }

  /// Checks one user, and repairs. Where another thread is at it, waits for it and checks again: once it is repaired
  /// that costs a look. Errors: the history's, the store's.
  Result<Repair> repair(const User& user) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return !running_.contains(user); });
    return run(user, std::move(lock));
  }
  /// As `repair`, but gives nothing at once where another thread is at it: for a request that answers by policy.
  Result<std::optional<Repair>> try_repair(const User& user) {
    std::unique_lock lock(mutex_);
    if (running_.contains(user)) return std::optional<Repair>{};
    auto done = run(user, std::move(lock));
    if (!done) return std::move(done).error();
    return std::optional<Repair>{*done};
  }

  /// Repairs all users of the history, page by page, until asked to stop: then it ends with the users in hand, at most
  /// a thousand. An error of the history while it lists users ends the sweep; a user's own error is counted, and the
  /// sweep goes on.
  Result<RepairProgress> sweep(const std::stop_token& stop = {}) {
    RepairProgress progress;
    std::optional<User> after;
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      auto page = history_.users(after, options_.page);
      if (!page) return std::move(page).error();
      const auto users = std::span<const User>(*page);
      for (std::size_t first = 0; first < users.size(); first += together()) {
        if (stop.stop_requested()) return progress;
        keep_pace(begin, progress.users);
        for (const auto& done : repair_many(users.subspan(first, std::min(together(), users.size() - first)))) {
          add(progress, done);
          if (options_.progress) options_.progress(progress);
        }
      }
      if (page->size() < options_.page) return progress;
      after = page->back();
    }
  }

 private:
  using Request = RecordRequest<User, Item>;
  /// What was found of one user.
  struct Found {
    Repair repair{};
    std::vector<Item> lacking{};  ///< what their filter lacks, the oldest first
    std::vector<Digest> digests{};
    std::vector<Time> when{};
  };
  /// Users that this call repairs, until its end.
  class Running {
   public:
    Running(RepairJob& job, std::vector<User> users) : job_(job), users_(std::move(users)) {}
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
      {
        const std::lock_guard ending(job_.mutex_);
        for (const User& user : users_) job_.running_.erase(user);
      }
      job_.ended_.notify_all();
    }

   private:
    RepairJob& job_;
    std::vector<User> users_;
  };

  Result<Repair> run(const User& user, std::unique_lock<std::mutex> lock) {
    running_.insert(user);
    lock.unlock();
    const Running running(*this, {user});
    return std::move(check_and_repair(std::span(&user, 1)).front());
  }
  /// A sweep's users at once: what their filters lack is recorded in one go. Those that another thread is at come last.
  std::vector<Result<Repair>> repair_many(std::span<const User> users) {
    std::vector<User> mine;
    std::vector<bool> is_mine;
    {
      const std::lock_guard lock(mutex_);
      for (const User& user : users) {
        is_mine.push_back(running_.insert(user).second);
        if (is_mine.back()) mine.push_back(user);
      }
    }
    std::vector<Result<Repair>> done = [&] {
      const Running running(*this, mine);
      return check_and_repair(mine);
    }();
    std::vector<Result<Repair>> all;
    std::size_t next = 0;
    for (std::size_t i = 0; i < users.size(); ++i)
      all.push_back(is_mine[i] ? std::move(done[next++]) : repair(users[i]));
    return all;
  }
  /// How many users a sweep repairs at once: as many as its pace allows in a hundredth of a second.
  [[nodiscard]] std::size_t together() const noexcept {
    constexpr double most = 1'000;
    if (options_.users_per_second <= 0) return static_cast<std::size_t>(most);
    return static_cast<std::size_t>(std::clamp(options_.users_per_second / 100, 1.0, most));
  }

  std::vector<Result<Repair>> check_and_repair(std::span<const User> users) {
    std::vector<Result<Repair>> repairs;
    std::vector<Found> all;
    for (const User& user : users) {
      Found& found = all.emplace_back();
      auto looked = look(user, found);
      repairs.push_back(looked ? Result<Repair>(found.repair) : Result<Repair>(std::move(looked).error()));
    }
    std::vector<Request> requests;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < users.size(); ++i) {
      const FilterState state = all[i].repair.found;
      if (!repairs[i] || !options_.repair || state == FilterState::healthy || state == FilterState::expired) continue;
      if constexpr (requires {
                      { store_.rebuild(users[i]) } -> std::same_as<Result<void>>;
                    }) {
        auto done = store_.rebuild(users[i]);
        note(repairs[i], done ? nullptr : &done.error());
      } else if (state != FilterState::over_budget) {
        requests.push_back({users[i], ItemBatch<Item>{all[i].lacking, all[i].digests}, all[i].when});
        of.push_back(i);
      }
    }
    const auto outcomes = detail::record_requests(store_, std::span<const Request>(requests));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      note(repairs[of[i]], outcomes[i] ? nullptr : &outcomes[i].error());
    }
    return repairs;
  }
  static void note(Result<Repair>& repair, const Error* error) {
    if (error != nullptr) {
      repair = *error;
    } else {
      repair->repaired = true;
    }
  }

  /// Asks a user's filter about what the history knows and, in the same question, about the probes.
  Result<void> look(const User& user, Found& found) {
    const StorePolicy& policy = store_.policy();
    auto seen = history_.seen_since(user, window_start(policy.clock(), policy.window));
    if (!seen) return std::move(seen).error();
    std::stable_sort(seen->begin(), seen->end(), [](const auto& a, const auto& b) { return a.seen_at < b.seen_at; });
    const std::size_t count = seen->size();
    std::vector<Item> items;
    std::vector<Digest> digests;
    for (auto& entry : *seen) {
      digests.push_back(store_.hasher()(entry.item));
      items.push_back(std::move(entry.item));
    }
    items.insert(items.end(), probes_.begin(), probes_.end());
    digests.insert(digests.end(), probe_digests_.begin(), probe_digests_.end());
    std::vector<std::uint8_t> answers(items.size());
    UserStatus status;
    store_.check(std::span(&user, 1), ItemBatch<Item>{items, digests}, std::span(answers), std::span(&status, 1));
    if (status.state == UserState::unreachable) return *status.error;
    const bool known = status.state == UserState::known;

    Repair& repair = found.repair;
    repair.items = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (known && answers[i] != 0) continue;
      found.digests.push_back(digests[i]);
      found.lacking.push_back(std::move(items[i]));
      found.when.push_back((*seen)[i].seen_at);
    }
    if (!known) {
      repair.found = count == 0 ? FilterState::expired : FilterState::lost;
      return {};
    }
    repair.false_negatives = found.lacking.size();
    if (repair.false_negatives != 0) {
      repair.found = FilterState::incomplete;
    } else if (over_budget(std::span(answers).subspan(count))) {
      repair.found = FilterState::over_budget;
    }
    return {};
  }

  /// Whether more of the random probes, which no user has seen, are hidden than five standard deviations above a
  /// filter's share: one healthy filter in millions is suspected.
  [[nodiscard]] bool over_budget(std::span<const std::uint8_t> answers) const {
    const double expected =
        static_cast<double>(answers.size()) * store_.policy().wrong_hide_rate / store_.policy().users_per_request;
    const auto hidden = answers.size() - static_cast<std::size_t>(std::count(answers.begin(), answers.end(), 0));
    return static_cast<double>(hidden) > expected + 5 * std::sqrt(expected) + 1;
  }
  [[nodiscard]] static Item probe(std::size_t i) {
    const std::uint64_t random = detail::mix64(0x5eeb'9a3d'0000'0000U + i);
    if constexpr (IntegerItem<Item>) {
      return static_cast<Item>(random);
    } else {
      const std::string text = std::string("\1seenby probe ").append(std::to_string(random));
      if constexpr (StringItem<Item>) {
        return Item(text);
      } else {
        const auto bytes = std::as_bytes(std::span(text));
        return Item(bytes.begin(), bytes.end());
      }
    }
  }

  void keep_pace(std::chrono::steady_clock::time_point begin, std::uint64_t users) const {
    if (options_.users_per_second <= 0) return;
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(static_cast<double>(users) / options_.users_per_second)));
  }
  static void add(RepairProgress& progress, const Result<Repair>& done) {
    ++progress.users;
    if (!done) {
      ++progress.errors;
      return;
    }
    progress.items += done->items;
    progress.false_negatives += done->false_negatives;
    progress.repaired += done->repaired ? 1U : 0U;
    switch (done->found) {
      case FilterState::healthy: ++progress.healthy; break;
      case FilterState::expired: ++progress.expired; break;
      case FilterState::lost: ++progress.lost; break;
      case FilterState::incomplete: ++progress.incomplete; break;
      case FilterState::over_budget: ++progress.over_budget; break;
    }
  }

  History& history_;
  Store& store_;
  RepairOptions options_;
  std::vector<Item> probes_;  // random items that no user has seen
  std::vector<Digest> probe_digests_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<User> running_;
};

}  // namespace seenby
