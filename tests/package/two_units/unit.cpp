// SPDX-License-Identifier: MIT
// Compiled twice into one program: as plain_unit without -mavx2, as avx2_unit with it.

#include "unit.hpp"

#include <cstddef>
#include <cstdint>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/filters/layout/split_block.hpp>
#include <vector>

int UNIT_NAME() {
  seenby::BloomFilter<std::uint64_t, seenby::SplitBlockLayout> filter{{.expected_items = 1'000, .target_fpr = 0.01}};
  for (std::uint64_t item = 0; item < 1'000; ++item) filter.insert(item);
  for (std::uint64_t item = 0; item < 1'000; ++item) {
    if (!filter.may_contain(item)) return -1;
  }
  std::vector<seenby::Digest> digests;
  for (std::uint64_t item = 1'000'000; item < 1'010'000; ++item) digests.push_back(filter.hasher()(item));
  std::vector<std::uint8_t> answers(digests.size());
  filter.may_contain(digests, answers);
  int present = 0;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if ((answers[i] != 0) != filter.may_contain(digests[i])) return -1;
    present += answers[i] != 0 ? 1 : 0;
  }
  return present;
}
