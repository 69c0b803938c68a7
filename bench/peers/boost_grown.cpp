// SPDX-License-Identifier: MIT
// What one writes who keeps an item and its time exactly. Built with -march=native.

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <vector>

#include "grown.hpp"

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
    std::size_t total = 0;
    for (const Request& request : requests) {
      const Times& first = users_.find(request.users[0])->second;
      const Times& second = users_.find(request.users[1])->second;
      const Items& page = pages_[request.page];
      std::uint32_t* end = unseen_.data();
      for (std::uint32_t i = 0; i < page_size; ++i) {
        *end = i;
        end += is_live(first, page.items[i]) || is_live(second, page.items[i]) ? 0 : 1;
      }
      total += static_cast<std::size_t>(end - unseen_.data());
      asm volatile("" : : "r"(unseen_.data()) : "memory");
    }
    return total;
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
