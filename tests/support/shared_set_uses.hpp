#pragma once
// SPDX-License-Identifier: MIT
// What a shortener and crawlers do with one shared set, whichever it is.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/binomial.hpp"

namespace seenby::test {

/// Gives out codes, every fourth of which was given out before: a code that the set calls new is free without a look
/// into storage.
template <class Set>
void give_out_codes(Set& codes) {
  std::vector<std::string> storage;
  std::uint64_t storage_reads = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string code = "c" + std::to_string(i % 300);
    if (codes.may_contain(code).value()) {
      ++storage_reads;
      if (std::find(storage.begin(), storage.end(), code) != storage.end()) continue;
    }
    REQUIRE(codes.add(code).has_value());
    storage.push_back(code);
  }
  CHECK(storage.size() == 300);
  CHECK(storage_reads >= 100);
  CHECK(storage_reads <= 100 + most_hits(300, 0.01));
}

/// Crawlers of their own connections take links off one list, each link twice: what the set calls new is fetched, what
/// it may hold is confirmed by the pages that are stored. Each link is fetched once.
template <class Open>
void crawl(const Open& open) {
  constexpr std::uint64_t links = 300;
  std::mutex storing;
  std::map<std::string, int> pages;
  std::atomic<std::uint64_t> confirmed{0};
  {
    std::vector<std::jthread> crawlers;
    for (std::uint64_t crawler = 0; crawler < 3; ++crawler) {
      crawlers.emplace_back([&, crawler] {
        auto seen = open();
        for (std::uint64_t i = 0; i < 2 * links; ++i) {
          const std::string link = "https://example.org/" + std::to_string((i + crawler * 100) % links);
          if (!seen.add(link).value()) {
            ++confirmed;
            const std::lock_guard lock(storing);
            if (pages.contains(link)) continue;
            // Another crawler was told "new" and has not stored it yet, or the filter errs: storage's key decides.
          }
          const std::lock_guard lock(storing);
          pages.try_emplace(link, 0).first->second += 1;
        }
      });
    }
  }
  CHECK(pages.size() == links);
  CHECK(confirmed >= 5 * links);  // of 6 links each, at most one is new
  CHECK(confirmed <= 5 * links + most_hits(links, 0.01));
}

}  // namespace seenby::test
