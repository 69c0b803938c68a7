// SPDX-License-Identifier: MIT
// What one writes who keeps an item and its time exactly. Built with -march=native.

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <vector>

#include "grown.hpp"
#include "map_store.hpp"

namespace peers {
namespace {

class FlatMapStore final : public GrownStore {
 public:
  void reserve(std::size_t users) override { users_.reserve(users); }
  void record(User user, Item item, seenby::Time when) override { users_[user][item] = when; }
  void record(User user, const Items& history) override {
    for (std::size_t i = 0; i < history.items.size(); ++i) record(user, history.items[i], time_of(i));
  }
  void prepare(std::span<const Items> pages) override {
    pages_ = pages;
    unseen_.resize(page_size);
  }
  std::size_t select(std::span<const Request> requests) override {
    return select_unseen(users_, pages_, requests, unseen_, [](const Times& times, const Items& page, std::size_t i) {
      return is_live(times, page.items[i]);
    });
  }

 private:
  using Times = boost::unordered_flat_map<Item, seenby::Time>;
  [[nodiscard]] static bool is_live(const Times& times, Item item) {
    const auto found = times.find(item);
    return found != times.end() && found->second > present - remembered;
  }

  boost::unordered_flat_map<User, Times> users_;
  std::span<const Items> pages_;
  std::vector<std::uint32_t> unseen_;
};

}  // namespace

std::unique_ptr<GrownStore> make_boost_grown() { return std::make_unique<FlatMapStore>(); }

}  // namespace peers
