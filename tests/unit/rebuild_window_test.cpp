// SPDX-License-Identifier: MIT
// A rebuild reads the rows of the window and no others, over every store in memory.

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "seenby/histories/memory_history.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/map_blobs.hpp"
#include "support/test_clock.hpp"

namespace {

using namespace seenby;
using History = MemoryHistory<std::uint64_t, std::uint64_t>;

/// A year's rows, one a day; the store rebuilds the user when one more is recorded. How many rows it read.
template <class Store>
std::size_t rows_read(Store store, const test::TestClock& clock) {
  History history;
  for (std::uint64_t days_ago = 0; days_ago < 365; ++days_ago) {
    history
        .append(1, std::vector<std::uint64_t>{days_ago}, clock.now() - static_cast<std::int64_t>(days_ago) * test::day)
        .value();
  }
  std::size_t rows = 0;
  store.set_replay([&, read = replay_of(history, store.hasher())](const std::uint64_t& user, Time since) {
    auto seen = read(user, since);
    rows += seen->size();
    return seen;
  });
  const std::uint64_t item = 1'000;
  const Digest digest = store.hasher()(item);
  store.record(1, ItemBatch<std::uint64_t>{{&item, 1}, {&digest, 1}}).value();
  // What the window holds is there again.
  for (std::uint64_t days_ago = 0; days_ago < 30; ++days_ago) {
    const Digest recent = store.hasher()(days_ago);
    const std::uint64_t user = 1;
    std::uint8_t seen = 0;
    UserStatus status;
    store.check({&user, 1}, ItemBatch<std::uint64_t>{{&days_ago, 1}, {&recent, 1}}, {&seen, 1}, {&status, 1});
    CHECK(seen == 1);
  }
  return rows;
}

TEST_CASE("A rebuild reads the window's rows, not everything ever seen", "[002-19]") {
  test::TestClock clock;
  StorePolicy policy{.window = 30 * test::day, .slices = 10, .clock = clock.clock()};
  // Ten slices of three days and the one that is leaving.
  CHECK(rows_read(MemoryStore<std::uint64_t>{policy}, clock) >= 30);
  CHECK(rows_read(MemoryStore<std::uint64_t>{policy}, clock) <= 33);
  CHECK(rows_read(BlobStore<test::MapBlobs>{test::MapBlobs{}, policy}, clock) <= 33);
  policy.window = std::chrono::seconds{0};
  policy.slices = 1;
  CHECK(rows_read(MemoryStore<std::uint64_t>{policy}, clock) == 365);
}

}  // namespace
