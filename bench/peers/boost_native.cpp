// SPDX-License-Identifier: MIT
// Boost's contenders, built with -march=native: Boost.Bloom chooses its vector code at compile time.

#define PEERS_BOOST_NAMESPACE boost_native
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "boost_contender.hpp"

namespace peers {
namespace boost_native {

struct FlatSet {
  boost::unordered_flat_set<Item> set;
  void insert(Item item, Digest) { set.insert(item); }
  [[nodiscard]] bool contains(Item item, Digest) const { return set.contains(item); }
};

template <class Bloom>
std::unique_ptr<Store> bloom_store() {
  const auto make = [](std::size_t items) { return BoostFilter<Bloom>{Bloom(items, filter_fpr)}; };
  return std::make_unique<MapStore<boost::unordered_flat_map<User, BoostFilter<Bloom>>, decltype(make)>>(make);
}

}  // namespace boost_native

std::vector<Contender> boost_contenders() {
  using namespace boost_native;
  const auto make_flat_set = [](std::size_t items) {
    FlatSet set;
    set.set.reserve(items);
    return set;
  };
  return {{"boost_multiblock", bloom_store<Multiblock>,
           [](std::size_t items, double fpr) { return std::make_unique<BoostSet<Multiblock>>(items, fpr); }},
          {"boost_filter", bloom_store<Classic7>,
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
