#pragma once
// SPDX-License-Identifier: MIT
// What a store costs: a process of its own loads it and reports how much its resident set grew.

#include <string>

#include "contender.hpp"

namespace peers {

struct MemoryFigures {
  double bytes_per_user = 0;
  double fpr = 0;
  double ns_per_insert = 0;
};

/// Resident memory of this process that is no file's: the heap and whatever was mapped, not the program's own pages.
std::size_t resident_bytes();

/// Loads `users` histories into the contender in this process and prints the figures; the program's whole work when it
/// is called with --measure-memory.
void print_memory_figures(const Contender& contender, std::size_t users);

/// Runs this program again to measure one contender in a fresh heap.
MemoryFigures measure_memory(const std::string& contender, std::size_t users);

}  // namespace peers
