#pragma once
// SPDX-License-Identifier: MIT
// The people and the questions of every workload: users with histories of skewed sizes, pages of candidates, requests.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "seenby/hash.hpp"

namespace peers {

using Item = std::uint64_t;
using User = std::uint64_t;
using seenby::Digest;

/// Items are numbered below this by histories, and from this on by candidates that no user has seen. Both fit 32 bits,
/// since CRoaring holds no more.
inline constexpr Item fresh_items = Item{1} << 31;
inline constexpr std::size_t page_size = 100;
inline constexpr std::size_t users_per_request = 2;
/// The rate that every contender's filters keep, as the mean over requests for fresh candidates. The rate at which they
/// must be sized for that is each contender's own (`sizing_fpr`): blocks round up, so that small filters err less than
/// they were sized for, and half of all users are small.
inline constexpr double mean_fpr = 0.005;

/// splitmix64, so that every part of the population can be computed on its own, at any time, in any order.
class Random {
 public:
  constexpr explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  constexpr std::uint64_t operator()() noexcept { return seenby::detail::mix64(state_ += 0x9e3779b97f4a7c15U); }
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>(static_cast<double>((*this)() >> 11) * 0x1p-53 * static_cast<double>(bound));
  }
  [[nodiscard]] double unit() noexcept { return (static_cast<double>((*this)() >> 11) + 0.5) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// A user's history size: lognormal with median 40 and 90th percentile 440 (so 99th 3,110 and mean 230).
[[nodiscard]] inline std::size_t history_size(User user) noexcept {
  Random random(user * 2 + 1);
  const double normal = std::sqrt(-2 * std::log(random.unit())) * std::cos(2 * std::numbers::pi * random.unit());
  const double size = 40 * std::exp(normal * std::log(11.0) / 1.2815515655);
  return static_cast<std::size_t>(std::clamp(std::round(size), 1.0, 200'000.0));
}

/// One user's history, or one page of candidates: items with their digests beside them.
struct Items {
  std::vector<Item> items;
  std::vector<Digest> digests;

  void add(Item item) {
    items.push_back(item);
    digests.push_back(seenby::Xxh3Hash{}(item));
  }
  void clear() {
    items.clear();
    digests.clear();
  }
};

/// An item as the contenders of request_fresh know it: the number, or a string of 12 bytes.
template <class Key>
[[nodiscard]] Key key_of(Item item) {
  if constexpr (std::is_same_v<Key, Item>) {
    return item;
  } else {
    char text[13];
    std::snprintf(text, sizeof text, "item%08x", static_cast<unsigned>(item));
    return Key(text, 12);
  }
}
template <class Key>
[[nodiscard]] std::vector<Key> keys_of(const std::vector<Item>& items) {
  std::vector<Key> keys;
  for (const Item item : items) keys.push_back(key_of<Key>(item));
  return keys;
}

inline void history_of(User user, Items& into) {
  into.clear();
  Random random(user * 2);
  for (std::size_t left = history_size(user); left > 0; --left) into.add(random() & (fresh_items - 1));
}

/// A page that no user has seen.
[[nodiscard]] inline Items fresh_page(std::uint64_t seed) {
  Items page;
  Random random(~seed);
  for (std::size_t i = 0; i < page_size; ++i) page.add(fresh_items + (random() & (fresh_items - 1)));
  return page;
}

struct Request {
  std::array<User, users_per_request> users{};
  std::uint32_t page = 0;
};

/// Requests, and the pages they ask about.
struct Workload {
  std::vector<Items> pages;
  std::vector<Request> requests;
};

/// Every user once, in random pairs: when a user comes round again the caches have forgotten them. Pages are few, as a
/// ranker's are, and stay in the cache.
[[nodiscard]] inline Workload cold_requests(std::size_t users) {
  Workload work;
  for (std::uint64_t i = 0; i < 32; ++i) work.pages.push_back(fresh_page(i));
  std::vector<User> order(users);
  for (User user = 0; user < users; ++user) order[user] = user;
  Random random(7);
  for (std::size_t i = users - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  for (std::size_t i = 0; i + 1 < users; i += 2) {
    work.requests.push_back({{order[i], order[i + 1]}, static_cast<std::uint32_t>(i / 2 % work.pages.size())});
  }
  return work;
}

/// Sixteen pairs of users, again and again; `seen` of each page's candidates are in the first user's history.
[[nodiscard]] inline Workload hot_requests(std::size_t users, std::size_t seen) {
  Workload work;
  Items history;
  Random random(11);
  while (work.requests.size() < 16) {
    const User first = random.below(users);
    const User second = random.below(users);
    history_of(first, history);
    Items page = fresh_page(1000 + work.requests.size());
    for (std::size_t i = 0; i < seen; ++i) {
      const std::size_t at = random.below(page_size);
      page.items[at] = history.items[random.below(history.items.size())];
      page.digests[at] = seenby::Xxh3Hash{}(page.items[at]);
    }
    work.requests.push_back({{first, second}, static_cast<std::uint32_t>(work.pages.size())});
    work.pages.push_back(std::move(page));
  }
  return work;
}

}  // namespace peers
