// SPDX-License-Identifier: MIT
// The smallest program that uses seenby: it fails unless the filter answers right.

#include <cstdio>
#include <seenby/filters/bloom_filter.hpp>
#include <seenby/version.hpp>
#include <string>

int main() {
  seenby::BloomFilter<std::string> filter{{.expected_items = 1'000, .target_fpr = 0.01}};
  filter.insert("a");
  const bool right = filter.may_contain("a") && !filter.may_contain("b");
  std::printf("seenby %s: %s\n", SEENBY_VERSION, right ? "right" : "wrong");
  return right ? 0 : 1;
}
