// SPDX-License-Identifier: MIT
// Boost's contenders, built with -march=native: Boost.Bloom chooses its vector code at compile time.

#define PEERS_BOOST_NAMESPACE boost_native
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <unordered_map>

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

}  // namespace boost_native

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
