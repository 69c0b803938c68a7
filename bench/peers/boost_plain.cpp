// SPDX-License-Identifier: MIT
// Boost.Bloom without -march: what a program gets that must run on any x86-64.

#define PEERS_BOOST_NAMESPACE boost_plain
#include "boost_contender.hpp"

namespace peers {

std::vector<Contender> boost_plain_contenders() {
  return {{"boost_multiblock_plain", {}, [](std::size_t items, double fpr) {
             return std::make_unique<boost_plain::BoostSet<boost_plain::Multiblock>>(items, fpr);
           }}};
}

}  // namespace peers
