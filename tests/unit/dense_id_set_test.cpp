// SPDX-License-Identifier: MIT
// DenseIdSet: exact, listable, and bounded by its largest id.

#include "seenby/sets/dense_id_set.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

using seenby::DenseIdSet;

TEST_CASE("a bitmap of dense ids is exact, listable and bounded", "[dense][003-01]") {
  DenseIdSet set{1'000};
  CHECK(set.insert(3));
  CHECK_FALSE(set.insert(3));
  CHECK(set.insert(999));
  CHECK(set.insert(0));
  CHECK(set.contains(999));
  CHECK_FALSE(set.contains(998));
  CHECK_FALSE(set.contains(1'000'000'000));
  CHECK(set.items() == std::vector<std::uint64_t>{0, 3, 999});
  CHECK(set.memory_bytes() == 128);
  CHECK(set.erase(3));
  CHECK_FALSE(set.erase(3));
  CHECK(set.size() == 2);
  CHECK_THROWS_WITH(set.insert(1'000), "seenby: expected an id below 1000, got 1000");
  set.clear();
  CHECK(set.empty());
}

}  // namespace
