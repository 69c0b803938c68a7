// SPDX-License-Identifier: MIT
// The contenders without Boost: a textbook filter, libbloom, std::unordered_set and CRoaring.

#include <bloom.h>
#include <roaring/roaring.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "map_store.hpp"

#if defined(PEERS_HAVE_BOOST)
#include <boost/unordered/unordered_flat_map.hpp>
#endif

namespace peers {
namespace {

#if defined(PEERS_HAVE_BOOST)
template <class Filter>
using Map = boost::unordered_flat_map<User, Filter>;
#else
template <class Filter>
using Map = std::unordered_map<User, Filter>;
#endif

/// Kirsch and Mitzenmacher's two hashes, m = -n ln p / (ln 2)^2, k = m / n ln 2, stopping at the first clear bit.
class Textbook {
 public:
  Textbook(std::size_t items, double fpr) {
    const double bits =
        std::ceil(-static_cast<double>(items) * std::log(fpr) / (std::numbers::ln2 * std::numbers::ln2));
    bit_count_ = static_cast<std::uint64_t>(bits);
    hash_count_ = std::max(1, static_cast<int>(std::lround(bits / static_cast<double>(items) * std::numbers::ln2)));
    words_.resize((bit_count_ + 63) / 64);
  }
  void insert(Item, Digest digest) {
    const std::uint64_t step = step_of(digest);
    std::uint64_t at = digest.value;
    for (int i = 0; i < hash_count_; ++i, at += step)
      words_[at % bit_count_ / 64] |= std::uint64_t{1} << (at % bit_count_ % 64);
  }
  [[nodiscard]] bool contains(Item, Digest digest) const {
    const std::uint64_t step = step_of(digest);
    std::uint64_t at = digest.value;
    for (int i = 0; i < hash_count_; ++i, at += step) {
      const std::uint64_t bit = at % bit_count_;
      if ((words_[bit / 64] >> (bit % 64) & 1) == 0) return false;
    }
    return true;
  }

 private:
  static std::uint64_t step_of(Digest digest) { return (digest.value >> 17 | digest.value << 47) | 1; }
  std::uint64_t bit_count_ = 0;
  int hash_count_ = 0;
  std::vector<std::uint64_t> words_;
};

class LibBloom {
 public:
  LibBloom(std::size_t items, double fpr) : filter_(std::make_unique<bloom>()) {
    // Fewer than 1,000 entries libbloom refuses.
    if (bloom_init(filter_.get(), static_cast<int>(std::max<std::size_t>(items, 1000)), fpr) != 0) {
      throw std::runtime_error("bloom_init refused its arguments");
    }
  }
  LibBloom(LibBloom&&) = default;
  LibBloom& operator=(LibBloom&&) = delete;
  ~LibBloom() {
    if (filter_) bloom_free(filter_.get());
  }
  void insert(Item item, Digest) { bloom_add(filter_.get(), &item, sizeof item); }
  [[nodiscard]] bool contains(Item item, Digest) const { return bloom_check(filter_.get(), &item, sizeof item) == 1; }

 private:
  std::unique_ptr<bloom> filter_;
};

struct StdSet {
  std::unordered_set<Item> set;
  void insert(Item item, Digest) { set.insert(item); }
  [[nodiscard]] bool contains(Item item, Digest) const { return set.contains(item); }
};

class Roaring {
 public:
  Roaring() : bitmap_(roaring_bitmap_create()) {}
  Roaring(Roaring&& other) noexcept : bitmap_(std::exchange(other.bitmap_, nullptr)) {}
  Roaring& operator=(Roaring&&) = delete;
  ~Roaring() {
    if (bitmap_ != nullptr) roaring_bitmap_free(bitmap_);
  }
  void insert(Item item, Digest) { roaring_bitmap_add(bitmap_, static_cast<std::uint32_t>(item)); }
  [[nodiscard]] bool contains(Item item, Digest) const {
    return roaring_bitmap_contains(bitmap_, static_cast<std::uint32_t>(item));
  }

 private:
  roaring_bitmap_t* bitmap_;
};

template <class Filter, class Make>
Contender contender(const char* name, double sizing_fpr, Make make) {
  return {name,
          [make, sizing_fpr]() -> std::unique_ptr<Store> {
            const auto make_one = [make, sizing_fpr](std::size_t items) { return make(items, sizing_fpr); };
            return std::make_unique<MapStore<Map<Filter>, decltype(make_one)>>(make_one);
          },
          [make](std::size_t items, double fpr) { return std::make_unique<LoopSet<Filter>>(make(items, fpr)); }};
}

}  // namespace

std::vector<Contender> classic_contenders() {
  std::vector<Contender> all;
  all.push_back(
      contender<Textbook>("textbook", 0.0021, [](std::size_t items, double fpr) { return Textbook(items, fpr); }));
  all.push_back(
      contender<LibBloom>("libbloom", mean_fpr, [](std::size_t items, double fpr) { return LibBloom(items, fpr); }));
  all.push_back(contender<StdSet>("std_unordered_set", mean_fpr, [](std::size_t, double) { return StdSet{}; }));
  all.push_back(contender<Roaring>("croaring", mean_fpr, [](std::size_t, double) { return Roaring{}; }));
  return all;
}

}  // namespace peers
