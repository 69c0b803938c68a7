// SPDX-License-Identifier: MIT
// Namespace: surfaces and tenants apart.

#include "seenby/select/namespace.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

using namespace seenby;

TEST_CASE("namespaces keep one user's surfaces and tenants apart") {
  const Namespace quiz{"quiz"};
  const Namespace feed{"feed"};
  SeenFilter filter{MemoryStore<std::string>{}};
  REQUIRE(filter.record(quiz("alice"), std::uint64_t{7}));
  REQUIRE(filter.create(feed("alice")));
  CHECK(filter.ask(quiz("alice"), std::uint64_t{7}) == Answer::seen);
  CHECK(filter.ask(feed("alice"), std::uint64_t{7}) == Answer::unseen);
  CHECK(Namespace{"a:b"}("c") != Namespace{"a"}("b:c"));
  CHECK(Namespace{"a\\"}(":c") != Namespace{"a"}("\\:c"));
  CHECK(Namespace{"tenant"}.inside("42")(std::uint64_t{7}) == "tenant:42:7");
}

TEST_CASE("strong ids and bytes are users of a namespace, too") {
  enum class UserId : std::uint32_t {};
  const Namespace feed{"feed"};
  CHECK(feed(UserId{7}) == "feed:7");
  CHECK(feed(7) == "feed:7");
  CHECK(feed(-7) == "feed:-7");
  CHECK(feed(std::vector<std::byte>{std::byte{'a'}, std::byte{':'}}) == "feed:a\\:");
}
