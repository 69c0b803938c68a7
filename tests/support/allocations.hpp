#pragma once
// SPDX-License-Identifier: MIT
// What a piece of code allocates: how often, and how many bytes, on this thread.

#include <cstdint>

namespace seenby::test {

struct Allocations {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

/// Everything that operator new gave this thread so far.
[[nodiscard]] Allocations allocations_so_far() noexcept;

/// What `code()` allocates.
template <class Code>
[[nodiscard]] Allocations allocations_of(Code&& code) {
  const Allocations before = allocations_so_far();
  code();
  const Allocations after = allocations_so_far();
  return {after.count - before.count, after.bytes - before.bytes};
}

}  // namespace seenby::test
