// SPDX-License-Identifier: MIT
// The hot paths as one deterministic program each, for counting instructions under callgrind.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/kernels.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace {

using Item = std::uint64_t;
using User = std::uint64_t;
constexpr User user_count = 200;
constexpr std::size_t page_size = 100;

std::vector<Item> items(std::size_t count, Item first) {
  std::vector<Item> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + i;
  return all;
}

/// A few users of every size: exact, small, in registers, larger.
std::size_t history_size(User user) { return 3 + (user * user * 7) % 900; }

seenby::SeenFilter<seenby::MemoryStore<User>> loaded_filter() {
  seenby::SeenFilter filter{seenby::MemoryStore<User>{{.wrong_hide_rate = 0.01, .users_per_request = 2}}};
  for (User user = 0; user < user_count; ++user) {
    filter.record_all(user, items(history_size(user), user * 10'000)).value();
  }
  return filter;
}

// Each returns something that depends on all its work. `rounds` repeats the measured part only, so that the difference
// between two counts is free of set-up.

std::uint64_t request(std::size_t rounds) {
  const auto filter = loaded_filter();
  const seenby::CandidatePool<Item> pool(items(page_size, 500));
  seenby::Selection<Item> page;
  std::uint64_t picks = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    const User users[2] = {i % user_count, (i * 31 + 1) % user_count};
    filter.select_unseen(pool, std::span<const User>(users), {}, page);
    picks += page.size();
  }
  return picks;
}

std::uint64_t request_many(std::size_t rounds) {
  using Filter = seenby::SeenFilter<seenby::MemoryStore<User>>;
  const Filter filter = loaded_filter();
  const seenby::CandidatePool<Item> pool(items(page_size, 500));
  std::vector<User> users;
  for (std::size_t i = 0; i < 64; ++i) users.push_back(i * 31 % user_count);
  std::vector<Filter::Request<Item>> requests;
  for (std::size_t i = 0; i < 32; ++i) requests.emplace_back(pool, std::span(users).subspan(2 * i, 2));
  std::vector<seenby::Selection<Item>> pages(requests.size());
  std::uint64_t picks = 0;
  for (std::size_t i = 0; i < rounds; i += requests.size()) {
    filter.select_many(requests, pages);
    for (const auto& page : pages) picks += page.size();
  }
  return picks;
}

std::uint64_t record(std::size_t rounds) {
  auto filter = loaded_filter();
  std::uint64_t added = 0;
  for (std::size_t i = 0; i < rounds; ++i)
    added += filter.record(i % user_count, Item{1'000'000 + i}).value().newly_added;
  return added;
}

template <class Layout>
std::uint64_t look_up(std::size_t rounds) {
  seenby::BloomFilter<Item, Layout> filter({.expected_items = 10'000, .target_fpr = 0.01});
  for (Item item = 0; item < 10'000; ++item) filter.insert(item);
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < rounds; ++i) found += filter.may_contain(Item{i * 2}) ? 1U : 0U;
  return found;
}

template <class Layout>
std::uint64_t insert(std::size_t rounds) {
  seenby::BloomFilter<Item, Layout> filter({.expected_items = 10'000, .target_fpr = 0.01});
  for (std::size_t i = 0; i < rounds; ++i) filter.insert(Item{i});
  return filter.size();
}

std::uint64_t pool(std::size_t rounds) {
  const auto candidates = items(page_size, 500);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < rounds; ++i)
    sum += seenby::CandidatePool<Item>(candidates).distinct().digests[0].value & 1;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string_view, std::uint64_t (*)(std::size_t)> paths{
      {"request", request},
      {"request_many", request_many},
      {"record", record},
      {"look_up/classic", look_up<seenby::ClassicLayout>},
      {"look_up/split_block", look_up<seenby::SplitBlockLayout>},
      {"insert/classic", insert<seenby::ClassicLayout>},
      {"insert/split_block", insert<seenby::SplitBlockLayout>},
      {"pool", pool},
  };
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    for (const auto& [name, path] : paths) std::cout << name << '\n';
    return EXIT_SUCCESS;
  }
  const auto path = argc == 3 ? paths.find(argv[1]) : paths.end();
  if (path == paths.end()) {
    std::cerr << "usage: seenby_hot_paths --list | PATH ROUNDS\n";
    return EXIT_FAILURE;
  }
  // The same instructions on every machine: what valgrind has, whatever this machine has beyond it.
  seenby::use_kernel("avx2").value();
  std::cout << path->second(std::stoul(argv[2])) << '\n';
  return EXIT_SUCCESS;
}
