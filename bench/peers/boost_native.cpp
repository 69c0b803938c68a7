// SPDX-License-Identifier: MIT
// Boost's contenders, built with -march=native: Boost.Bloom chooses its vector code at compile time.

#define PEERS_BOOST_NAMESPACE boost_native
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "boost_contender.hpp"

namespace peers {
namespace boost_native {

struct FlatSet {
  boost::unordered_flat_set<Item> set;
  void insert(Item item, Digest) { set.insert(item); }
  [[nodiscard]] bool contains(Item item, Digest) const { return set.contains(item); }
};

template <class Bloom>
std::unique_ptr<Store> bloom_store(double sizing_fpr) {
  // Boost searches for the size that meets a rate; a loader of many users would remember what it found.
  const auto make = [sizing_fpr, known = std::unordered_map<std::size_t, std::size_t>()](std::size_t items) mutable {
    std::size_t& capacity = known[items];
    if (capacity == 0) capacity = Bloom::capacity_for(items, sizing_fpr);
    return BoostFilter<Bloom>{Bloom(capacity)};
  };
  return std::make_unique<
      MapStore<boost::unordered_flat_map<User, BoostFilter<Bloom>>, std::remove_const_t<decltype(make)>>>(make);
}

/// The hash that ours uses.
template <class Key>
struct Xxh3 {
  using is_avalanching = void;
  std::size_t operator()(const Key& key) const noexcept { return seenby::Xxh3Hash{}(key).value; }
};

/// As one uses it who has keys and no digests: each filter hashes each key.
template <class Key, class Hash>
class FreshStore final : public Store {
  using Bloom = boost::bloom::filter<Key, 1, boost::bloom::fast_multiblock32<8>, 0, Hash>;

 public:
  void record(User user, const Items& history) override {
    std::size_t& capacity = capacities_[history.items.size()];
    if (capacity == 0) capacity = Bloom::capacity_for(history.items.size(), 0.0134);
    Bloom bloom(capacity);
    for (const Key& key : keys_of<Key>(history.items)) bloom.insert(key);
    filters_.emplace(user, std::move(bloom));
  }
  void prepare(std::span<const Items> pages) override {
    pages_.clear();
    for (const Items& page : pages) pages_.push_back(keys_of<Key>(page.items));
    unseen_.resize(page_size);
  }
  std::size_t select(std::span<const Request> requests) override {
    std::size_t total = 0;
    for (const Request& request : requests) {
      const Bloom& first = filters_.find(request.users[0])->second;
      const Bloom& second = filters_.find(request.users[1])->second;
      const std::vector<Key>& page = pages_[request.page];
      std::uint32_t* end = unseen_.data();
      for (std::uint32_t i = 0; i < page_size; ++i) {
        *end = i;
        end += first.may_contain(page[i]) || second.may_contain(page[i]) ? 0 : 1;
      }
      total += static_cast<std::size_t>(end - unseen_.data());
      asm volatile("" : : "r"(unseen_.data()) : "memory");
    }
    return total;
  }

 private:
  boost::unordered_flat_map<User, Bloom> filters_;
  std::unordered_map<std::size_t, std::size_t> capacities_;
  std::vector<std::vector<Key>> pages_;
  std::vector<std::uint32_t> unseen_;
};

template <class Key>
std::vector<Contender> fresh_contenders() {
  return {{"boost_multiblock", [] { return std::make_unique<FreshStore<Key, boost::hash<Key>>>(); }, {}},
          {"boost_multiblock_xxh3", [] { return std::make_unique<FreshStore<Key, Xxh3<Key>>>(); }, {}}};
}

}  // namespace boost_native

std::vector<Contender> boost_fresh_contenders(bool strings) {
  return strings ? boost_native::fresh_contenders<std::string>() : boost_native::fresh_contenders<Item>();
}

std::vector<Contender> boost_contenders() {
  using namespace boost_native;
  const auto make_flat_set = [](std::size_t items) {
    FlatSet set;
    set.set.reserve(items);
    return set;
  };
  return {{"boost_multiblock", [] { return bloom_store<Multiblock>(0.0134); },
           [](std::size_t items, double fpr) { return std::make_unique<BoostSet<Multiblock>>(items, fpr); }},
          {"boost_filter", [] { return bloom_store<Classic7>(mean_fpr); },
           [](std::size_t items, double fpr) { return std::make_unique<BoostSet<Classic7>>(items, fpr); }},
          {"boost_flat_set",
           [make_flat_set]() -> std::unique_ptr<Store> {
             using Map = boost::unordered_flat_map<User, FlatSet>;
             return std::make_unique<MapStore<Map, decltype(make_flat_set)>>(make_flat_set);
           },
           [make_flat_set](std::size_t items, double) {
             return std::make_unique<LoopSet<FlatSet>>(make_flat_set(items));
           }}};
}

}  // namespace peers
