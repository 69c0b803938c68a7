// SPDX-License-Identifier: MIT
// Built header-only and with seenby::core: prints the same answers either way.

#include <cstdint>
#include <cstdio>
#include <seenby/seenby.hpp>
#include <span>
#include <string>
#include <vector>

namespace {

template <class User>
void print_answers(const char* name, User (*user_of)(std::uint64_t)) {
  seenby::MemoryStore<User> store{{.wrong_hide_rate = 0.01, .users_per_request = 2, .seed = 7}};
  std::uint64_t sum = 0;
  for (std::uint64_t user = 0; user < 300; ++user) {
    std::vector<seenby::Digest> digests;
    for (std::uint64_t i = 0; i < user * 3; ++i) digests.push_back(store.hasher()(user * 1'000 + i));
    store.record_digests(user_of(user), digests).or_throw();
  }
  std::vector<seenby::Digest> asked;
  for (std::uint64_t i = 0; i < 2'000; ++i) asked.push_back(store.hasher()(i * 100));
  std::vector<std::uint8_t> seen_by(asked.size());
  for (std::uint64_t user = 0; user < 300; ++user) {
    const User users[2] = {user_of(user), user_of(299 - user)};
    seenby::UserStatus status[2];
    store.check_digests(users, asked, seen_by, status);
    for (const std::uint8_t seen : seen_by) sum = sum * 31 + seen;
  }
  std::printf("%s: %llu, %llu users\n", name, static_cast<unsigned long long>(sum),
              static_cast<unsigned long long>(store.counters().users));
}

/// The facade: what a page of a thousand shows two users who have seen some of it.
template <class Item>
void print_page(const char* name, Item (*item_of)(std::uint64_t)) {
  seenby::SeenFilter filter{seenby::MemoryStore{{.wrong_hide_rate = 0.01, .users_per_request = 2, .seed = 7}}};
  std::vector<Item> items;
  for (std::uint64_t i = 0; i < 1'000; ++i) items.push_back(item_of(i));
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    if (i % 3 != 0) filter.record(i % 3, items[i]).or_throw();
  }
  const auto pool = filter.pool(items);
  const auto page = filter.select_unseen(pool, {1, 2}, {.limit = 400, .relax = {seenby::SeenByAtMost{1}}});
  std::uint64_t sum = 0;
  for (const seenby::Pick& pick : page.picks())
    sum = sum * 31 + pick.index * 7 + static_cast<std::uint64_t>(pick.reason);
  std::printf("%s: a page of %zu, %llu\n", name, page.size(), static_cast<unsigned long long>(sum));
}

}  // namespace

int main() {
  print_answers<std::uint64_t>("integers", [](std::uint64_t user) { return user; });
  print_answers<std::string>("strings", [](std::uint64_t user) { return std::to_string(user); });
  print_page<std::uint64_t>("integers", [](std::uint64_t item) { return item; });
  print_page<std::string>("strings", [](std::uint64_t item) { return std::to_string(item); });
  std::printf("%zu kernels\n", seenby::available_kernels().size());
}
