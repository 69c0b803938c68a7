// SPDX-License-Identifier: MIT
// Screening ids that do not exist: a filter of all ids answers "not found" without cache or database. A positive proves
// nothing: it goes the normal way.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <seenby/filters/bloom_filter.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace {

struct Counters {
  std::size_t screened = 0;    // answered by the filter alone
  std::size_t cache_hits = 0;  // a record, or the memory that there is none
  std::size_t database_reads = 0;
  std::size_t false_positives = 0;  // database reads that found nothing
};

/// The product pages of a shop. Ids come from outside: from links, crawlers and people who guess.
class Products {
 public:
  explicit Products(std::size_t expected) : ids_({.expected_items = expected, .target_fpr = 0.01}) {}

  /// The id is in the filter before the record can be seen; a write that fails leaves a harmless bit.
  void add(std::uint64_t id, std::string name) {
    ids_.insert(id);
    absent_.erase(id);
    database_.emplace(id, std::move(name));
  }

  [[nodiscard]] std::optional<std::string> find(std::uint64_t id) {
    if (filter_trusted_ && !ids_.may_contain(id)) {
      ++counters.screened;
      return std::nullopt;
    }
    if (const auto cached = cache_.find(id); cached != cache_.end()) return ++counters.cache_hits, cached->second;
    if (absent_.contains(id)) return ++counters.cache_hits, std::nullopt;
    ++counters.database_reads;
    const auto row = database_.find(id);
    if (row == database_.end()) {
      ++counters.false_positives;
      absent_.insert(id);  // the same id does not reach the database again
      return std::nullopt;
    }
    return cache_.emplace(id, row->second).first->second;
  }

  /// Without the filter, or while it is rebuilt, every id goes the normal way.
  void trust_filter(bool trusted) { filter_trusted_ = trusted; }
  Counters counters;

 private:
  seenby::BloomFilter<std::uint64_t> ids_;
  bool filter_trusted_ = true;
  std::unordered_map<std::uint64_t, std::string> cache_;
  std::unordered_set<std::uint64_t> absent_;
  std::unordered_map<std::uint64_t, std::string> database_;
};

void report(const char* what, const Counters& counters) {
  std::printf("%-36s %6zu screened, %6zu cache hits, %6zu database reads (%zu found nothing)\n", what,
              counters.screened, counters.cache_hits, counters.database_reads, counters.false_positives);
}

}  // namespace

int main() {
  constexpr std::uint64_t products = 100'000;
  constexpr std::uint64_t guesses = 500'000;
  Products shop(products);
  for (std::uint64_t id = 0; id < products; ++id) shop.add(id * 37, "product " + std::to_string(id));

  for (std::uint64_t i = 0; i < guesses; ++i) {
    if (shop.find(i * 37 + 1)) return 1;  // a positive never makes up a product
  }
  report("500,000 ids that do not exist:", std::exchange(shop.counters, {}));

  for (std::uint64_t i = 0; i < guesses; ++i) (void)shop.find(i * 37 + 1);
  report("the same ids again:", std::exchange(shop.counters, {}));

  for (std::uint64_t id = 0; id < 50'000; ++id) {
    if (!shop.find(id * 37)) return 1;  // every product is found
  }
  report("50,000 products:", std::exchange(shop.counters, {}));

  shop.trust_filter(false);
  for (std::uint64_t i = 0; i < 1'000; ++i) (void)shop.find(i * 37 + 2);
  report("1,000 that do not exist, no filter:", shop.counters);
}
