// SPDX-License-Identifier: MIT
// The memory store's arena and address space, and its table of capacities.

#include "seenby/stores/memory/arena.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <new>
#include <random>
#include <vector>

#include "seenby/sizing.hpp"
#include "seenby/stores/memory/capacity_table.hpp"

namespace {

using seenby::detail::AddressSpace;
using seenby::detail::Arena;
using seenby::detail::granule_words;

bool is_zero(const AddressSpace& space, std::uint32_t block, std::uint32_t granules) {
  const std::uint64_t* words = space.at(block);
  return std::all_of(words, words + std::size_t{granules} * granule_words,
                     [](std::uint64_t word) { return word == 0; });
}
void fill(const AddressSpace& space, std::uint32_t block, std::uint32_t granules, std::uint64_t value) {
  std::fill_n(space.at(block), std::size_t{granules} * granule_words, value);
}

}  // namespace

TEST_CASE("arena blocks come zeroed, never overlap and keep their bytes") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  AddressSpace space(0);
  {
    Arena arena(space);
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint64_t>> blocks;  // first granule: granules, content
    std::size_t wrong = 0;
    std::uint64_t used = 0;
    for (std::uint64_t step = 1; step < 20'000; ++step) {
      if (random() % 5 < 3 || blocks.empty()) {
        const auto granules = static_cast<std::uint32_t>(1 + random() % (random() % 50 == 0 ? 4'000 : 80));
        const std::uint32_t block = arena.allocate(granules);
        wrong += is_zero(space, block, granules) ? 0U : 1U;
        const auto after = blocks.lower_bound(block);
        wrong += after != blocks.end() && after->first < block + granules ? 1U : 0U;
        wrong += after != blocks.begin() && std::prev(after)->first + std::prev(after)->second.first > block ? 1U : 0U;
        fill(space, block, granules, step);
        blocks.emplace(block, std::pair{granules, step});
        used += granules;
      } else {
        auto victim = blocks.lower_bound(static_cast<std::uint32_t>(random()));
        if (victim == blocks.end()) victim = blocks.begin();
        const auto [granules, content] = victim->second;
        const std::uint64_t* words = space.at(victim->first);
        wrong +=
            static_cast<std::size_t>(std::count_if(words, words + std::size_t{granules} * granule_words,
                                                   [value = content](std::uint64_t word) { return word != value; }));
        arena.release(victim->first, granules);
        used -= granules;
        blocks.erase(victim);
      }
    }
    CHECK(wrong == 0);
    CHECK(arena.held_bytes() - arena.wasted_bytes() == used * 32);
    CHECK(arena.fragmented_bytes() <= arena.wasted_bytes());
  }
  CHECK(space.resident_bytes() == 0);
}

TEST_CASE("blocks that only grow in number leave little waste") {
  std::mt19937_64 random(3);
  AddressSpace space(0);
  Arena arena(space);
  for (int i = 0; i < 20'000; ++i) (void)arena.allocate(static_cast<std::uint32_t>(1 + random() % 20));
  CHECK(arena.wasted_bytes() < arena.held_bytes() / 25);
}

TEST_CASE("returned extents are joined, reused and empty") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  AddressSpace space(0);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held;
  std::uint32_t highest = 0;
  std::size_t dirty = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 50; ++i) {
      const auto units = static_cast<std::uint32_t>(1 + random() % 30);
      const std::uint32_t extent = space.take(units);
      dirty += is_zero(space, extent, units * AddressSpace::unit_granules) ? 0U : 1U;
      fill(space, extent, units * AddressSpace::unit_granules, ~std::uint64_t{0});
      held.emplace_back(extent, units);
      if (round < 2) highest = std::max(highest, extent + units * AddressSpace::unit_granules);
      if (round >= 2) dirty += extent + units * AddressSpace::unit_granules > highest * 3 ? 1U : 0U;
    }
    std::shuffle(held.begin(), held.end(), random);
    for (const auto& [extent, units] : held) space.give_back(extent, units);
    held.clear();
  }
  CHECK(dirty == 0);
  CHECK(space.resident_bytes() == 0);
}

TEST_CASE("an address space over its limit refuses and goes on") {
  AddressSpace space(64 * 1024);
  const std::uint32_t extent = space.take(60);
  CHECK_THROWS_AS(space.take(5), std::bad_alloc);
  space.give_back(extent, 60);
  CHECK(space.take(64) != 0);
}

TEST_CASE("tabled capacities are those of sizing, and never more") {
  for (const double fpr : {0.02, 0.005, 0.0004}) {
    const seenby::detail::CapacityTable table(fpr);
    std::uint32_t before = 0;
    for (std::uint32_t blocks = 1; blocks <= table.largest_block_count; blocks += 1 + blocks / 7) {
      const seenby::FilterShape shape{
          .layout = seenby::LayoutKind::split_block, .hash_count = 8, .bits = std::uint64_t{blocks} * 256};
      const auto exact = seenby::sizing::capacity_of(shape, fpr);
      const auto tabled = table.capacity(blocks);
      CAPTURE(fpr, blocks, exact, tabled);
      CHECK(tabled <= exact + exact / 5'000);
      CHECK(tabled + 1 + exact / 1'000 >= exact);
      CHECK(tabled >= before);
      if (tabled > before) CHECK(table.blocks_for(tabled) == blocks);
      before = tabled;
    }
    CHECK(table.blocks_for(1'000'000'000) == 0);
  }
}
