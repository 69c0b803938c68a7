// SPDX-License-Identifier: MIT
// How many addresses memory stores take: few for few users, and no more with each restore.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "seenby/detail/thread_counters.hpp"
#include "seenby/stores/memory_store.hpp"

namespace {

using Store = seenby::MemoryStore<std::uint64_t>;

std::vector<seenby::Digest> items(std::uint64_t count, std::uint64_t first = 0) {
  std::vector<seenby::Digest> digests;
  for (std::uint64_t i = 0; i < count; ++i) digests.push_back(seenby::Xxh3Hash{}(first + i));
  return digests;
}
bool sees(const Store& store, std::uint64_t user, std::uint64_t item) {
  const std::array users{user};
  const std::array digests{seenby::Xxh3Hash{}(item)};
  std::array<std::uint8_t, 1> seen{};
  std::array<seenby::UserStatus, 1> status;
  store.check_digests(users, digests, seen, status);
  return seen[0] != 0;
}

/// Runs in a process that may have 16 GiB of addresses; its exit code.
template <class Work>
int within_16_gib(Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{std::uint64_t{16} << 30, std::uint64_t{16} << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(90);
    ::_exit(work());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

std::uint64_t mapped_pages() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

// A sanitizer's own addresses are many more.
#if defined(__SANITIZE_ADDRESS__) || defined(SEENBY_THREAD_SANITIZER)
constexpr bool limited = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool limited = false;
#else
constexpr bool limited = true;
#endif
#else
constexpr bool limited = true;
#endif

}  // namespace

TEST_CASE("a store a tenant: two thousand stores fit in 16 GiB of addresses") {
  if (!limited) return;
  CHECK(within_16_gib([] {
          std::vector<std::unique_ptr<Store>> stores;
          for (std::uint64_t tenant = 0; tenant < 2'000; ++tenant) {
            stores.push_back(std::make_unique<Store>());
            if (!stores.back()->record_digests(tenant, items(20))) return 1;
          }
          for (std::uint64_t tenant = 0; tenant < 2'000; ++tenant) {
            if (!sees(*stores[tenant], tenant, 7)) return 2;
          }
          return stores[0]->memory_bytes() < 16'384 ? 0 : 3;
        }) == 0);
}

TEST_CASE("restoring again and again takes no more addresses and no more memory") {
  const auto path =
      (std::filesystem::temp_directory_path() / ("seenby-restore-" + std::to_string(::getpid()))).string();
  Store store{{}, {.max_bytes = std::uint64_t{8} << 20}};
  for (std::uint64_t user = 0; user < 3'000; ++user) REQUIRE(store.record_digests(user, items(100, user)));
  REQUIRE(store.snapshot(path));
  for (int i = 0; i < 5; ++i) REQUIRE(store.restore(path));
  const std::uint64_t memory = store.memory_bytes();
  const std::uint64_t pages = mapped_pages();
  for (int i = 0; i < 200; ++i) REQUIRE(store.restore(path));
  CHECK(store.memory_bytes() <= memory + memory / 10);
  CHECK(mapped_pages() <= pages + 1'024);
  CHECK(store.counters().users == 3'000);
  for (std::uint64_t user = 0; user < 3'000; ++user) CHECK(sees(store, user, user + 50));
  if (limited) {
    CHECK(within_16_gib([&] {
            Store other;
            for (int i = 0; i < 50; ++i) {
              if (!other.restore(path)) return 1;
            }
            return sees(other, 5, 55) ? 0 : 2;
          }) == 0);
  }
  std::filesystem::remove(path);
}

TEST_CASE("shards come with the users: one for a few, and no user is lost when they split") {
  Store store{{}, {.shards = 256}};
  REQUIRE(store.record_digests(1, items(3)));
  CHECK(store.memory_bytes() < 16'384);
  for (std::uint64_t user = 0; user < 40'000; ++user) {
    REQUIRE(store.record_digests(user, items(1 + user % 9, user)));
    if (user % 1'000 == 0) {
      for (std::uint64_t known = 0; known <= user; known += 97) CHECK(sees(store, known, known));
    }
  }
  CHECK(store.counters().users == 40'000);
  CHECK(store.counters().records == 3 + 40'000 / 9 * 45 + 1 + 2 + 3 + 4);
  for (std::uint64_t user = 0; user < 40'000; user += 2) REQUIRE(store.forget(user).value());
  CHECK(store.counters().users == 20'000);
  for (std::uint64_t user = 1; user < 40'000; user += 2) CHECK(sees(store, user, user));
}

TEST_CASE("a thread's number costs no memory and serves again") {
  CHECK(seenby::detail::ThreadSlots::mine() == seenby::detail::ThreadSlots::mine());
  CHECK(seenby::detail::ThreadSlots::mine() < seenby::detail::ThreadSlots::own);
}
