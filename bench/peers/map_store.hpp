#pragma once
// SPDX-License-Identifier: MIT
// What a program does that has one filter class and many users: a hash map from user to filter, and a loop.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "contender.hpp"

namespace peers {

/// The loop: the candidates that neither user's filter contains. `contains(filter, page, i)` asks for one.
template <class Map, class Contains>
std::size_t select_unseen(const Map& users, std::span<const Items> pages, std::span<const Request> requests,
                          std::vector<std::uint32_t>& unseen, const Contains& contains) {
  std::size_t total = 0;
  for (const Request& request : requests) {
    const auto& first = users.find(request.users[0])->second;
    const auto& second = users.find(request.users[1])->second;
    const Items& page = pages[request.page];
    std::uint32_t* end = unseen.data();
    for (std::uint32_t i = 0; i < page_size; ++i) {
      *end = i;
      end += contains(first, page, i) || contains(second, page, i) ? 0 : 1;
    }
    total += static_cast<std::size_t>(end - unseen.data());
    asm volatile("" : : "r"(unseen.data()) : "memory");
  }
  return total;
}

/// `Map` maps a user to a `Filter`; `make(size)` makes a filter. A Filter has `insert(item, digest)` and
/// `contains(item, digest)`.
template <class Map, class Make>
class MapStore final : public Store {
 public:
  explicit MapStore(Make make) : make_(std::move(make)) {}

  void record(User user, const Items& history) override {
    auto filter = make_(history.items.size());
    for (std::size_t i = 0; i < history.items.size(); ++i) filter.insert(history.items[i], history.digests[i]);
    filters_.emplace(user, std::move(filter));
  }
  void prepare(std::span<const Items> pages) override {
    pages_ = pages;
    unseen_.resize(page_size);
  }
  std::size_t select(std::span<const Request> requests) override {
    return select_unseen(filters_, pages_, requests, unseen_, [](const auto& filter, const Items& page, std::size_t i) {
      return filter.contains(page.items[i], page.digests[i]);
    });
  }

 private:
  Make make_;
  Map filters_;
  std::span<const Items> pages_;
  std::vector<std::uint32_t> unseen_;
};

template <class Filter>
class LoopSet final : public Set {
 public:
  explicit LoopSet(Filter filter) : filter_(std::move(filter)) {}
  void insert(std::span<const Item> items, std::span<const Digest> digests) override {
    for (std::size_t i = 0; i < items.size(); ++i) filter_.insert(items[i], digests[i]);
  }
  std::size_t count(std::span<const Item> items, std::span<const Digest> digests) override {
    std::size_t found = 0;
    for (std::size_t i = 0; i < items.size(); ++i) found += filter_.contains(items[i], digests[i]) ? 1U : 0U;
    return found;
  }
  void look_up(std::span<const Item> items, std::span<const Digest> digests, std::uint8_t* found) override {
    for (std::size_t i = 0; i < items.size(); ++i) found[i] = filter_.contains(items[i], digests[i]) ? 1 : 0;
  }

 private:
  Filter filter_;
};

}  // namespace peers
