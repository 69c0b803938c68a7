// SPDX-License-Identifier: MIT
// The allocation counter itself. Apart from its definition: beside it a compiler may take the counter for unchanged.

#include "support/allocations.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace {

TEST_CASE("the counter sees every allocation and its size", "[support]") {
  std::vector<char> bytes;
  std::unique_ptr<int> number;
  // Both outlive the lambda: a compiler may leave out an allocation that nobody can see.
  const auto made = seenby::test::allocations_of([&] {
    bytes.resize(1000);
    number = std::make_unique<int>(7);
  });
  CHECK(bytes.size() + static_cast<std::size_t>(*number) == 1007);
  CHECK(made.count >= 2);
  CHECK(made.bytes >= 1004);
  CHECK(seenby::test::allocations_of([] {}).count == 0);
}

}  // namespace
