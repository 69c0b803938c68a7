// SPDX-License-Identifier: MIT
// SharedPool: refreshed under running requests, none of which mixes two versions.

#include "seenby/select/shared_pool.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "support/allocations.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"
#include "support/wait_until.hpp"

using namespace seenby;
using test::alice;
using test::Ids;
using test::picked;
using test::range;

TEST_CASE("a reading keeps its version while the pool is refreshed", "[000-23]") {
  SharedPool<std::uint64_t> shared{range(0, 3)};
  const auto first = shared.read();
  shared.refresh(range(10, 15));
  const auto second = shared.read();
  shared.refresh(Ids{7, 7});
  CHECK(first->items().front() == 0);
  CHECK(first->size() == 3);
  CHECK(second->items().back() == 14);
  CHECK(shared.read()->size() == 2);
  CHECK(shared.read()->duplicates() == 1);
}

TEST_CASE("a refresh waits while both versions before the newest are read, and no reading does",
          "[concurrent][000-23]") {
  SharedPool<std::uint64_t> shared{range(0, 1)};
  auto oldest = std::make_unique<SharedPool<std::uint64_t>::Reading>(shared.read());
  shared.refresh(range(0, 2));
  const auto middle = shared.read();
  shared.refresh(range(0, 3));
  std::atomic<bool> refreshed{false};
  std::thread refresher([&] {
    shared.refresh(range(0, 4));
    refreshed = true;
  });
  CHECK_FALSE(test::wait_until([&] { return refreshed.load(); }, std::chrono::milliseconds{20}));
  CHECK(shared.read()->size() == 3);
  CHECK((*oldest)->size() == 1);
  CHECK(middle->size() == 2);
  oldest.reset();
  refresher.join();
  CHECK(shared.read()->size() == 4);
  CHECK(middle->size() == 2);
}

TEST_CASE("no request mixes two versions of a pool that is refreshed all the time, and none allocates once warm",
          "[concurrent][000-11][000-23]") {
  SeenFilter filter{test::ExactStore<>{}};
  REQUIRE(filter.create(alice));
  // Version v holds v * 1000 and the 99 numbers behind it.
  SharedPool<std::uint64_t> shared{range(0, 100)};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> versions{0};
  std::thread refresher([&] {
    for (std::uint64_t v = 1; !stop; ++v) {
      shared.refresh(range(v * 1'000, v * 1'000 + 50 + v % 50));
      versions = v;
    }
  });
  const Ids users{alice};
  const SelectOptions<std::uint64_t> options;
  Selection<std::uint64_t> page;
  const CandidatePool largest{range(0, 100)};
  filter.select_unseen(largest, users, options, page);  // warm: no version is larger
  std::uint64_t newest = 0;
  std::uint64_t mixed = 0;
  std::uint64_t allocated = 0;
  const auto request = [&] {
    const auto count = [&] {
      const auto pool = shared.read();
      filter.select_unseen(*pool, users, options, page);
      const std::uint64_t version = page[0].item / 1'000;
      for (const auto& pick : page) mixed += pick.item / 1'000 == version ? 0U : 1U;
      mixed += version < newest || page.size() != (version == 0 ? 100 : 50 + version % 50) ? 1U : 0U;
      newest = version;
    };
    allocated += test::allocations_of(count).count;
  };
  int requests = 0;
  const bool refreshed = test::wait_until([&] {
    for (int i = 0; i < 1'000; ++i, ++requests) request();
    return requests >= 20'000 && versions >= 100;
  });
  stop = true;
  refresher.join();
  REQUIRE(refreshed);
  CHECK(mixed == 0);
  CHECK(allocated == 0);
  CHECK(newest > 0);
}

namespace {

/// XXH3 that takes its time over the last item of a version, so that there is always one half filled.
struct SlowHash : Xxh3Hash {
  template <HashableItem T>
  [[nodiscard]] Digest operator()(const T& item) const noexcept {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (item % 1'000 == 63) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return Xxh3Hash::operator()(item);
  }
};

}  // namespace

TEST_CASE("a reader that is interrupted before it is counted does not get a version that is being filled",
          "[concurrent][000-23]") {
  // Version v holds v * 1000 and the 63 numbers behind it.
  SharedPool<std::uint64_t, SlowHash> shared{range(0, 64)};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> torn{0};
  std::uint64_t readings = 0;
  std::thread reader([&] {
    for (; !stop; ++readings) {
      const auto pool = shared.read();
      torn += pool->distinct().digests.back() == Xxh3Hash{}(pool->items().back()) ? 0U : 1U;
    }
  });
  // They take the processors away from the reader wherever it happens to be, for some refreshes.
  std::vector<std::thread> others(2 * std::max(1U, std::thread::hardware_concurrency()));
  for (std::thread& other : others) {
    other = std::thread([&] {
      while (!stop) {}
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{3};
  std::uint64_t version = 0;
  while (torn == 0 && std::chrono::steady_clock::now() < end) {
    ++version;
    shared.refresh(range(version * 1'000, version * 1'000 + 64));
  }
  stop = true;
  reader.join();
  for (std::thread& other : others) other.join();
  INFO(version << " refreshes, " << readings << " readings");
  CHECK(torn == 0);
  CHECK(version > 10);
  CHECK(readings > 1'000);
}
