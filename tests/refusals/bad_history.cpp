// SPDX-License-Identifier: MIT
// A history without any member: SeenFilter says each that is missing, in a line of its own.
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

struct History {};

int main() {
  History history;
  const seenby::SeenFilter filter{seenby::MemoryStore{}, history};
}
