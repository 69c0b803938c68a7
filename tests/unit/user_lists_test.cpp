// SPDX-License-Identifier: MIT
// detail::UserLists: no entry stays for a user without a list.

#include "seenby/detail/user_lists.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "support/picks.hpp"

using seenby::test::alice;
using seenby::test::bob;

namespace {

using List = std::vector<int>;
using Lists = seenby::detail::UserLists<std::uint64_t, List, std::hash<std::uint64_t>>;

bool has(const Lists& lists, std::uint64_t user) {
  bool found = false;
  lists.read(user, [&](const List&) { found = true; });
  return found;
}
bool refuse(List&) { throw std::runtime_error("refused"); }

}  // namespace

TEST_CASE("a change that throws leaves no empty list, and keeps what a list had") {
  Lists lists;
  CHECK_THROWS(lists.change(alice, refuse));
  CHECK(lists.empty());
  lists.change(alice, [](List& list) { return list.emplace_back(1); });
  CHECK_THROWS(lists.change(alice, refuse));
  CHECK_THROWS(lists.edit(alice, refuse));
  CHECK(has(lists, alice));
}

TEST_CASE("a merge that throws leaves the list where it was, and no empty one") {
  Lists lists;
  lists.change(alice, [](List& list) { return list.emplace_back(1); });
  CHECK_THROWS(lists.merge(alice, bob, [](List& from, List&) { refuse(from); }));
  CHECK(has(lists, alice));
  CHECK_FALSE(has(lists, bob));
}

TEST_CASE("a list that a change empties is gone") {
  Lists lists;
  lists.change(alice, [](List& list) { return list.emplace_back(1); });
  lists.change(bob, [](List& list) { return list.emplace_back(2); });
  CHECK(lists.edit(alice, [](List& list) { return list.clear(), true; }));
  CHECK_FALSE(has(lists, alice));
  CHECK_FALSE(lists.empty());
  lists.change(bob, [](List& list) { return list.clear(), true; });
  CHECK(lists.empty());
}
