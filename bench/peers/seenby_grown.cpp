// SPDX-License-Identifier: MIT
// Ours where users grow item by item: without a history, with one that is read again, and in a window.

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "contender.hpp"
#include "grown.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace peers {
namespace {

using Filter = seenby::SeenFilter<seenby::MemoryStore<User>>;

[[nodiscard]] seenby::StorePolicy policy_of(Growth growth) {
  seenby::StorePolicy policy{.wrong_hide_rate = 0.01, .users_per_request = users_per_request};
  if (growth == Growth::window) {
    policy.window = remembered;
    policy.slices = 30;
    policy.clock = seenby::Clock::simulated([] { return present; });
  }
  return policy;
}

class SeenbyGrownStore final : public GrownStore {
 public:
  explicit SeenbyGrownStore(Growth growth) : growth_(growth), filter_(seenby::MemoryStore<User>(policy_of(growth))) {
    if (growth_ != Growth::history) return;
    filter_.store().set_replay(
        [this](const User& user, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
          std::vector<seenby::SeenDigest> digests;
          history_of(user, replayed_);
          for (std::size_t i = 0; i < recorded_[user]; ++i) digests.push_back({replayed_.digests[i]});
          return digests;
        });
  }
  void reserve(std::size_t users) override { recorded_.resize(growth_ == Growth::history ? users : 0); }
  void record(User user, Item item, seenby::Time when) override {
    if (growth_ == Growth::history && recorded_[user]++ == 0) filter_.create(user).or_throw();
    if (growth_ == Growth::window) {
      filter_.record(user, item, when).or_throw();
    } else {
      filter_.record(user, item).or_throw();
    }
  }
  void record(User user, const Items& history) override {
    for (std::size_t i = 0; i < history.items.size(); ++i) record(user, history.items[i], time_of(i));
  }
  void prepare(std::span<const Items> pages) override {
    pools_.clear();
    for (const Items& page : pages) pools_.emplace_back(page.items);
  }
  std::size_t select(std::span<const Request> requests) override {
    std::size_t total = 0;
    for (const Request& request : requests) {
      filter_.select_unseen(pools_[request.page], std::span<const User>(request.users), {}, page_);
      total += page_.size();
    }
    return total;
  }

 private:
  Growth growth_;
  Items replayed_;
  std::vector<std::uint32_t> recorded_;
  Filter filter_;
  std::vector<seenby::CandidatePool<Item>> pools_;
  seenby::Selection<Item> page_;
};

}  // namespace

std::unique_ptr<GrownStore> make_seenby_grown(Growth growth) { return std::make_unique<SeenbyGrownStore>(growth); }

}  // namespace peers
