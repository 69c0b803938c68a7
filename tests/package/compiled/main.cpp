// SPDX-License-Identifier: MIT
// Built header-only and with seenby::core: prints the same answers either way.

#include <cstdint>
#include <cstdio>
#include <seenby/kernels.hpp>
#include <seenby/stores/memory_store.hpp>
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

}  // namespace

int main() {
  print_answers<std::uint64_t>("integers", [](std::uint64_t user) { return user; });
  print_answers<std::string>("strings", [](std::uint64_t user) { return std::to_string(user); });
  std::printf("%zu kernels\n", seenby::available_kernels().size());
}
