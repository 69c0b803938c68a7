#pragma once
// SPDX-License-Identifier: MIT
// The marketplace's posts, and the pools that rankers of different kinds make of them. Made up, and always the same.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <seenby/hash.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace feed {

using PostId = std::uint64_t;

struct Post {
  PostId id = 0;
  std::string title;
  std::string creator;
  std::string topic;
  bool tall = false;  ///< larger than most screens
};

/// Posts 1 to `size`.
class Catalogue {
 public:
  explicit Catalogue(std::size_t size) {
    constexpr std::array topics{"ceramics", "knitwear", "bicycles", "tea", "posters", "plants", "lamps", "records"};
    constexpr std::array creators{"Ada", "Bruno", "Chidi", "Dana", "Emil", "Farah", "Goro", "Hana", "Iris", "Jonas"};
    constexpr std::array words{"first light", "slow Sunday",  "small batch",
                               "second life", "winter stock", "night shift"};
    for (PostId id = 1; id <= size; ++id) {
      const std::uint64_t random = seenby::Mix64Hash{7}(id).value;
      const std::size_t topic = random % topics.size();
      posts_.push_back({id,
                        std::string(words[(random >> 8) % words.size()]).append(", no. ").append(std::to_string(id)),
                        creators[(random >> 16) % creators.size()], topics[topic], id % 17 == 0});
    }
  }
  [[nodiscard]] const Post& operator[](PostId id) const { return posts_.at(id - 1); }
  [[nodiscard]] bool contains(PostId id) const noexcept { return id >= 1 && id <= posts_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return posts_.size(); }

  /// Discovery: every post once in an order of the user's own, and some a second time, as when rankers overlap.
  [[nodiscard]] std::vector<PostId> discovery(std::string_view user, std::size_t count) const {
    std::vector<PostId> ids(posts_.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i + 1;
    const seenby::Mix64Hash taste{seenby::Xxh3Hash{}(user).value};
    std::sort(ids.begin(), ids.end(), [&](PostId a, PostId b) { return taste(a) < taste(b); });
    for (std::size_t i = 5; i < ids.size(); i += 10) ids[i] = ids[i - 5];
    ids.resize(std::min(count, ids.size()));
    return ids;
  }
  /// Trending: the same for everyone.
  [[nodiscard]] std::vector<PostId> trending(std::size_t count) const { return discovery("everyone", count); }

 private:
  std::vector<Post> posts_;
};

/// No creator three times in a row, as far as there are others: the reranking behind the filter.
inline void spread_creators(const Catalogue& posts, std::vector<std::size_t>& order, const auto& id_of) {
  for (std::size_t i = 2; i < order.size(); ++i) {
    const auto creator = [&](std::size_t at) -> const std::string& { return posts[id_of(order[at])].creator; };
    if (creator(i) != creator(i - 1) || creator(i) != creator(i - 2)) continue;
    const auto other = std::find_if(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(),
                                    [&](std::size_t next) { return posts[id_of(next)].creator != creator(i - 1); });
    if (other != order.end()) std::rotate(order.begin() + static_cast<std::ptrdiff_t>(i), other, other + 1);
  }
}

}  // namespace feed
