// SPDX-License-Identifier: MIT
// SharedPool: refreshed under running requests, none of which mixes two versions.

#include "seenby/select/shared_pool.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "support/allocations.hpp"
#include "support/exact_store.hpp"
#include "support/picks.hpp"

using namespace seenby;
using test::Ids;
using test::picked;
using test::range;

namespace {

constexpr std::uint64_t alice = 1;

}  // namespace

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
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(refreshed);
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
  for (int request = 0; request < 20'000 || versions < 100; ++request) {
    const auto count = [&] {
      const auto pool = shared.read();
      filter.select_unseen(*pool, users, options, page);
      const std::uint64_t version = page[0].item / 1'000;
      for (const auto& pick : page) mixed += pick.item / 1'000 == version ? 0U : 1U;
      mixed += version < newest || page.size() != (version == 0 ? 100 : 50 + version % 50) ? 1U : 0U;
      newest = version;
    };
    const auto cost = test::allocations_of(count);
    allocated += cost.count;
  }
  stop = true;
  refresher.join();
  CHECK(mixed == 0);
  CHECK(allocated == 0);
  CHECK(newest > 0);
}
