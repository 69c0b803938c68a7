// SPDX-License-Identifier: MIT
// CandidatePool: hashed once, repeats dropped, assigned again without allocating.

#include "seenby/select/candidate_pool.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "support/allocations.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"
#include "support/random.hpp"

using namespace seenby;
using test::alice;
using test::bob;
using test::Ids;
using test::picked;
using test::range;

namespace {

/// Counts what it hashes.
struct CountingHash : Xxh3Hash {
  using Xxh3Hash::Xxh3Hash;
  static inline std::atomic<std::size_t> hashed{0};
  template <HashableItem T>
  [[nodiscard]] Digest operator()(const T& item) const noexcept {
    ++hashed;
    return Xxh3Hash::operator()(item);
  }
};
using Counted = CandidatePool<std::uint64_t, CountingHash>;

}  // namespace

TEST_CASE("a pool hashes each item once, and no request hashes one again", "[000-09][000-10][000-11]") {
  SeenFilter filter{test::ExactStore<false, false, CountingHash>{{.users_per_request = 2}}};
  REQUIRE(filter.record_all(alice, range(0, 4)));
  REQUIRE(filter.record_all(bob, range(1'000, 9'000)));
  CountingHash::hashed = 0;
  const auto pool = filter.pool(Ids{2, 8'999, 500, 501, 500});
  const auto next = filter.pool(Ids{500, 600});
  CHECK(CountingHash::hashed == 7);
  const SelectOptions<std::uint64_t, CountingHash> options{.limit = 4, .relax = {NextPool{next}, SeenByAtMost{1}}};
  for (int i = 0; i < 3; ++i) CHECK(picked(filter.select_unseen(pool, {alice, bob}, options)) == Ids{500, 501, 600, 2});
  const Ids users{alice, bob};
  const std::vector<decltype(filter)::Request<std::uint64_t>> requests{{pool, users, options}, {pool, users, options}};
  std::vector<Selection<std::uint64_t>> pages(2);
  filter.select_many(requests, pages);
  CHECK(CountingHash::hashed == 7);
}

TEST_CASE("literals become strings") {
  const CandidatePool pool{"rivers", "lakes"};
  STATIC_REQUIRE(std::same_as<decltype(pool)::item_type, std::string>);
  CHECK(pool[1] == "lakes");
  std::vector<const char*> names{"a", "b", "a"};
  const CandidatePool from_pointers{names};
  STATIC_REQUIRE(std::same_as<decltype(from_pointers)::item_type, std::string>);
  CHECK(from_pointers.duplicates() == 1);
  const CandidatePool one{"seas"};
  CHECK(one.size() == 1);
  CHECK(one[0] == "seas");
  STATIC_REQUIRE(std::same_as<decltype(CandidatePool{std::vector{1, 2}})::item_type, int>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<CandidatePool<char>, std::string>);
}

TEST_CASE("repeats are found as a model finds them, at every size", "[002-09]") {
  SEENBY_RANDOM(random);
  CandidatePool<std::uint64_t> again;
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = random() % (round % 10 == 0 ? 5'000 : 200);
    const std::uint64_t values = 1 + random() % (2 * count + 1);
    Ids items(count);
    for (auto& item : items) item = random() % values;
    std::map<std::uint64_t, std::uint32_t> first;
    Ids distinct;
    std::vector<std::uint32_t> places;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!first.emplace(items[i], i).second) continue;
      distinct.push_back(items[i]);
      places.push_back(i);
    }
    const CandidatePool pool{items};
    again.assign(items);
    for (const auto* made : {&pool, static_cast<const CandidatePool<std::uint64_t>*>(&again)}) {
      REQUIRE(made->size() == count);
      REQUIRE(made->duplicates() == count - distinct.size());
      const auto batch = made->distinct();
      REQUIRE(Ids(batch.items.begin(), batch.items.end()) == distinct);
      for (std::size_t i = 0; i < distinct.size(); ++i) {
        REQUIRE(made->index_of(i) == places[i]);
        REQUIRE(batch.digests[i] == Xxh3Hash{}(distinct[i]));
        REQUIRE(made->candidates().digest_at(places[i]) == batch.digests[i]);
      }
    }
  }
}

TEST_CASE("a pool that is assigned again allocates nothing once it was as large") {
  Ids items = range(0, 100);
  items[70] = 3;
  const Ids fewer = range(500, 550);
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(Xxh3Hash{}(item));
  CandidatePool<std::uint64_t> pool;
  CHECK(pool.empty());
  pool.assign(items);
  const auto allocated = test::allocations_of([&] {
    pool.assign(fewer);
    pool.assign(items);
    pool.assign(items, digests);
  });
  CHECK(allocated.count == 0);
  CHECK(pool.size() == 100);
  CHECK(pool.duplicates() == 1);
  pool.assign(fewer);
  CHECK(pool.size() == 50);
  CHECK(pool.items().back() == 549);
  CHECK(pool.duplicates() == 0);

  CandidatePool<std::string> names;
  const std::vector<std::string> many{"a name that has its own memory, being long", "b", "b"};
  const std::vector<std::string> none;
  names.assign(many);
  CHECK(test::allocations_of([&] { names.assign(none), names.assign(many); }).count == 0);
  CHECK(names.duplicates() == 1);
}

TEST_CASE("digests that the caller keeps serve as those the pool makes") {
  const Ids items{5, 6, 5, 7};
  std::vector<Digest> digests;
  for (const std::uint64_t item : items) digests.push_back(CountingHash{}(item));
  CountingHash::hashed = 0;
  const auto pool = Counted::with_digests(items, digests);
  CHECK(CountingHash::hashed == 1);  // compared, lest it is another hasher's
  CHECK(pool.duplicates() == 1);
  digests.assign(digests.size(), Digest{});  // the pool keeps its own
  CHECK(pool.distinct().digests[2] == Xxh3Hash{}(std::uint64_t{7}));
  CHECK_THROWS_AS(Counted::with_digests(items, digests), std::invalid_argument);
  CHECK_THROWS_AS(Counted::with_digests(items, std::span(digests).first(3)), std::invalid_argument);
  CHECK(Counted::with_digests({}, {}).empty());
}

TEST_CASE("a copy of a pool outlives it") {
  auto pool = std::make_unique<CandidatePool<std::string>>(std::vector<std::string>{"a", "b", "a"});
  const CandidatePool<std::string> copy = *pool;
  const CandidatePool<std::string> moved = std::move(*pool);
  pool.reset();
  for (const auto* kept : {&copy, &moved}) {
    CHECK(kept->duplicates() == 1);
    CHECK(kept->distinct().items[1] == "b");
    CHECK(kept->distinct().digests[1] == Xxh3Hash{}("b"));
  }
}
