// SPDX-License-Identifier: MIT
// The allocation counter itself. Apart from its definition: beside it a compiler may take the counter for unchanged.

#include "support/allocations.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace {

TEST_CASE("the counter sees every allocation and its size", "[support]") {
  // A compiler may leave out an allocation whose address nobody can see.
  const void* volatile seen = nullptr;
  const auto made = seenby::test::allocations_of([&seen] {
    const std::vector<char> bytes(1000);
    seen = bytes.data();
    const auto number = std::make_unique<int>(7);
    seen = number.get();
  });
  CHECK(seen != nullptr);
  CHECK(made.count >= 2);
  CHECK(made.bytes >= 1004);
  CHECK(seenby::test::allocations_of([] {}).count == 0);
}

}  // namespace
