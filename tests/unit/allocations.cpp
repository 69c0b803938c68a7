// SPDX-License-Identifier: MIT
// Counts what operator new gives each thread, for tests that say what is allocated.

#include "support/allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

#include "seenby/config.hpp"

namespace {

thread_local seenby::test::Allocations allocations;

[[maybe_unused]] void* counted(std::size_t size, std::size_t alignment) {
  ++allocations.count;
  allocations.bytes += size;
  // aligned_alloc wants whole multiples of the alignment.
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* memory =
      alignment <= alignof(std::max_align_t) ? std::malloc(size == 0 ? 1 : size) : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

seenby::test::Allocations seenby::test::allocations_so_far() noexcept { return allocations; }

// ThreadSanitizer's own forms cannot be replaced: nothing is counted under it.
#if !defined(SEENBY_THREAD_SANITIZER)

// The other forms of new and delete end in these. Inlined, GCC would take the pair of malloc and free for a mismatch.
#define SEENBY_OUT_OF_LINE [[gnu::noinline]]
SEENBY_OUT_OF_LINE void* operator new(std::size_t size) { return counted(size, 1); }
SEENBY_OUT_OF_LINE void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
// AddressSanitizer has forms of its own of whatever is not replaced, and memory must go back the way it came.
SEENBY_OUT_OF_LINE void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return counted(size, 1);
  } catch (const std::bad_alloc&) { return nullptr; }
}
SEENBY_OUT_OF_LINE void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
SEENBY_OUT_OF_LINE void operator delete(void* memory) noexcept { std::free(memory); }
SEENBY_OUT_OF_LINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
SEENBY_OUT_OF_LINE void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
SEENBY_OUT_OF_LINE void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
