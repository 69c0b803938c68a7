#pragma once
// SPDX-License-Identifier: MIT
// What every EventHistory promises, checked on one of integers and one of strings. A history's own test calls these.

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/histories/history.hpp"

namespace seenby::test {

inline Time at(std::int64_t seconds) { return Time{std::chrono::seconds{seconds}}; }

template <class History>
std::vector<std::uint8_t> contained(History& history, const typename History::user_type& user,
                                    const std::vector<typename History::item_type>& items, Time since = all_time) {
  std::vector<std::uint8_t> out(items.size(), 77);
  history.contains(user, items, out, since).value();
  return out;
}
/// Items with their latest times, in order.
template <class History>
std::map<typename History::item_type, Time> seen(History& history, const typename History::user_type& user,
                                                 Time since = all_time) {
  std::map<typename History::item_type, Time> all;
  const auto list = history.seen_since(user, since).value();
  for (const auto& [item, when] : list) {
    CHECK(all.emplace(item, when).second);  // each item once
  }
  return all;
}
/// All users, by pages of so many.
template <class History>
std::vector<typename History::user_type> all_users(History& history, std::size_t page_size) {
  std::vector<typename History::user_type> all;
  std::optional<typename History::user_type> after;
  for (;;) {
    const auto page = history.users(after, page_size).value();
    REQUIRE(page.size() <= page_size);
    all.insert(all.end(), page.begin(), page.end());
    if (page.size() < page_size) return all;
    after = page.back();
  }
}

/// `user(n)` and `item(n)` make the n-th of each. The history is empty at first and at the end.
template <class History, class MakeUser, class MakeItem>
void check_history(History& history, const MakeUser& user, const MakeItem& item) {
  static_assert(EventHistory<History>);
  using User = typename History::user_type;
  using Item = typename History::item_type;
  using Event = SeenEvent<User, Item>;
  using Items = std::vector<Item>;
  const User alice = user(1);
  const User bob = user(2);
  const auto append = [&](const std::vector<Event>& events) {
    return history.append(std::span<const Event>(events)).value();
  };
  const auto clear = [&] {
    const auto users = all_users(history, 100);
    for (const User& any : users) CHECK(history.forget(any).value());
  };

  // Append by items: the later time is kept, in either order; the same again is as once.
  history.append(alice, Items{item(1), item(2)}, at(1'000)).value();
  history.append(alice, Items{item(2), item(3)}, at(2'000)).value();
  history.append(alice, Items{item(3)}, at(1'500)).value();
  history.append(alice, Items{item(3)}, at(1'500)).value();
  CHECK(seen(history, alice) == std::map<Item, Time>{{item(1), at(1'000)}, {item(2), at(2'000)}, {item(3), at(2'000)}});
  CHECK(seen(history, bob).empty());
  CHECK(history.event_count(item(3)).value() == 2);
  CHECK(contained(history, alice, {item(3), item(4), item(1)}) == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(contained(history, bob, {item(3), item(4), item(1)}) == std::vector<std::uint8_t>{0, 0, 0});
  CHECK(contained(history, alice, {}).empty());

  // Within a window: its first second belongs to it.
  CHECK(contained(history, alice, {item(1), item(2)}, at(1'000)) == std::vector<std::uint8_t>{1, 1});
  CHECK(contained(history, alice, {item(1), item(2)}, at(1'001)) == std::vector<std::uint8_t>{0, 1});
  CHECK(seen(history, alice, at(1'001)) == std::map<Item, Time>{{item(2), at(2'000)}, {item(3), at(2'000)}});
  CHECK(seen(history, alice, at(2'001)).empty());
  CHECK(history.item_count(alice, all_time).value() == 3);
  CHECK(history.item_count(alice, at(1'001)).value() == 2);
  clear();

  // An event is once, however often it is delivered: in one batch, in two; a second sight under its own id is another.
  const std::vector<Event> twice{{alice, item(1), at(5), "e1"},
                                 {alice, item(1), at(5), "e1"},
                                 {alice, item(1), at(9), "e2"},
                                 {bob, item(1), at(7), "e1"},
                                 {bob, item(2), at(7), {}}};
  CHECK(append(twice) == 4);
  CHECK(append(twice) == 0);
  CHECK(history.event_count(item(1)).value() == 3);
  CHECK(seen(history, alice) == std::map<Item, Time>{{item(1), at(9)}});
  CHECK(seen(history, bob) == std::map<Item, Time>{{item(1), at(7)}, {item(2), at(7)}});
  // A late event changes nothing that is newer.
  CHECK(append({{alice, item(1), at(1), "late"}}) == 1);
  CHECK(seen(history, alice) == std::map<Item, Time>{{item(1), at(9)}});
  CHECK(contained(history, alice, {item(1)}, at(9)) == std::vector<std::uint8_t>{1});

  // Erase and forget take one user's, and no one else's.
  CHECK(history.erase(bob, Items{item(1), item(9)}).value() == 1);
  CHECK(contained(history, bob, {item(1), item(2)}) == std::vector<std::uint8_t>{0, 1});
  CHECK(contained(history, alice, {item(1)}) == std::vector<std::uint8_t>{1});
  CHECK(history.event_count(item(1)).value() == 3);
  CHECK(history.forget(bob).value());
  CHECK_FALSE(history.forget(bob).value());
  CHECK(seen(history, bob).empty());
  CHECK(history.item_count(alice, all_time).value() == 1);

  // A merge moves every event, keeps the later time, and can be called again.
  CHECK(append({{bob, item(1), at(20), "b1"}, {bob, item(2), at(3), "b2"}, {bob, item(1), at(9), "e2"}}) == 3);
  CHECK(history.merge(bob, alice).value());
  CHECK(seen(history, alice) == std::map<Item, Time>{{item(1), at(20)}, {item(2), at(3)}});
  CHECK(seen(history, bob).empty());
  CHECK(history.event_count(item(1)).value() == 4);  // e2 was both's, and is once
  CHECK_FALSE(history.merge(bob, alice).value());
  CHECK_FALSE(history.merge(alice, alice).value());
  CHECK(seen(history, alice).size() == 2);
  clear();
  CHECK(history.event_count(item(1)).value() == 0);

  // All users, page by page, each once; who is erased to the last item is gone.
  std::set<User> expected;
  for (int n = 0; n < 25; ++n) {
    append({{user(n), item(n), at(n), "u"}, {user(n), item(n + 1), at(n), "u"}});
    expected.insert(user(n));
  }
  for (const std::size_t page : {1U, 7U, 25U, 100U}) {
    const auto listed = all_users(history, page);
    CHECK(listed.size() == expected.size());
    CHECK(std::set<User>(listed.begin(), listed.end()) == expected);
  }
  CHECK(history.erase(user(3), Items{item(3), item(4)}).value() == 2);
  CHECK(all_users(history, 7).size() == 24);
  // The page goes on after a user who is gone.
  const auto first = history.users(std::nullopt, 5).value();
  history.forget(first.back()).value();
  CHECK(history.users(first.back(), 100).value().size() == 24 - 5);
  clear();
  CHECK(all_users(history, 7).empty());

  // More items in one question than a statement has places for.
  std::vector<Event> many;
  Items asked;
  for (int n = 0; n < 5'000; ++n) {
    if (n % 2 == 0) many.push_back({alice, item(n), at(n), {}});
    asked.push_back(item(n));
  }
  CHECK(append(many) == 2'500);
  const auto answers = contained(history, alice, asked);
  for (std::size_t n = 0; n < answers.size(); ++n) {
    if (answers[n] != (n % 2 == 0 ? 1 : 0)) FAIL("item " << n);
  }
  CHECK(history.item_count(alice, at(2'500)).value() == 1'250);
  clear();
}

/// `other` is the same history in another instance or process. The history is empty at first and at the end.
template <class History, class MakeUser, class MakeItem>
void check_hides(History& history, History& other, const MakeUser& user, const MakeItem& item) {
  static_assert(HidingHistory<History>);
  using Item = typename History::item_type;
  using Items = std::vector<Item>;
  const auto alice = user(1);
  const auto bob = user(2);
  const auto hide = [&](const auto& who, const std::vector<Hide<Item>>& hides) {
    return history.hide(who, std::span<const Hide<Item>>(hides)).value();
  };
  const auto hidden = [](History& any, const auto& who) {
    std::vector<std::pair<Item, Time>> list;
    const auto hides = any.hidden(who).value();
    for (const auto& [what, when] : hides) list.emplace_back(what, when);
    return list;
  };
  using Hides = std::vector<std::pair<Item, Time>>;
  const auto answers = [&](const auto& who, const Items& items, Time since = all_time) {
    std::vector<std::uint8_t> seen(items.size(), 77);
    std::vector<std::uint8_t> hides(items.size(), 77);
    other.contains(who, items, seen, hides, since).value();
    return std::pair(seen, hides);
  };
  using Flags = std::vector<std::uint8_t>;

  // In the order they were hidden, whatever the times and the items; a second time changes nothing.
  CHECK(hide(alice, {{item(3), at(50)}, {item(1), at(40)}}) == 2);
  CHECK(hide(alice, {{item(2), at(60)}, {item(3), at(70)}, {item(2), at(80)}}) == 1);
  CHECK(hide(alice, {}) == 0);
  CHECK(hide(bob, {{item(2), at(5)}}) == 1);
  CHECK(hidden(other, alice) == Hides{{item(3), at(50)}, {item(1), at(40)}, {item(2), at(60)}});
  CHECK(hidden(other, bob) == Hides{{item(2), at(5)}});
  CHECK(hidden(other, user(3)).empty());

  // One question: what was seen within the window, and what is hidden whatever the window.
  history.append(alice, Items{item(3), item(4)}, at(100)).value();
  CHECK(answers(alice, {item(4), item(3), item(2), item(5)}) == std::pair(Flags{1, 1, 0, 0}, Flags{0, 1, 1, 0}));
  CHECK(answers(alice, {item(4), item(3)}, at(101)) == std::pair(Flags{0, 0}, Flags{0, 1}));
  CHECK(answers(bob, {item(4), item(3), item(2)}) == std::pair(Flags{0, 0, 0}, Flags{0, 0, 1}));
  CHECK(answers(user(3), {item(4), item(3)}) == std::pair(Flags{0, 0}, Flags{0, 0}));
  CHECK(answers(alice, {}) == std::pair(Flags{}, Flags{}));
  CHECK(contained(other, alice, {item(1), item(3)}) == Flags{0, 1});  // a hide is no event
  CHECK(history.event_count(item(2)).value() == 0);
  CHECK(all_users(history, 10).size() == 1);  // who has events

  // Taken back, what was seen stays seen; an erase leaves hides, and hidden again it comes last.
  CHECK(history.unhide(alice, Items{item(3), item(9), item(1)}).value() == 2);
  CHECK(history.unhide(alice, Items{item(3)}).value() == 0);
  CHECK(history.unhide(user(3), Items{item(3)}).value() == 0);
  CHECK(hidden(other, alice) == Hides{{item(2), at(60)}});
  CHECK(answers(alice, {item(3)}) == std::pair(Flags{1}, Flags{0}));
  CHECK(hide(alice, {{item(1), at(90)}}) == 1);
  CHECK(history.erase(alice, Items{item(3), item(4), item(1)}).value() == 2);
  CHECK(hidden(other, alice) == Hides{{item(2), at(60)}, {item(1), at(90)}});
  CHECK(hidden(other, bob) == Hides{{item(2), at(5)}});

  // A merge moves them behind the other's own, once each, though there is no event; a forget takes one user's.
  CHECK(history.merge(alice, bob).value());
  CHECK_FALSE(history.merge(alice, bob).value());
  CHECK(hidden(other, bob) == Hides{{item(2), at(5)}, {item(1), at(90)}});
  CHECK(hidden(other, alice).empty());
  CHECK(hide(alice, {{item(7), at(1)}}) == 1);
  CHECK(history.forget(bob).value());
  CHECK_FALSE(history.forget(bob).value());
  CHECK(hidden(other, bob).empty());
  CHECK(hidden(other, alice) == Hides{{item(7), at(1)}});
  history.append(alice, Items{item(7)}, at(1)).value();
  CHECK(history.forget(alice).value());
  CHECK(answers(alice, {item(7)}) == std::pair(Flags{0}, Flags{0}));
  CHECK_FALSE(history.forget(alice).value());
}

/// Two users, many threads: merges back and forth and appends meanwhile lose nothing.
template <class History, class MakeUser, class MakeItem>
void check_history_under_merges(History& history, const MakeUser& user, const MakeItem& item, int appends) {
  using Event = SeenEvent<typename History::user_type, typename History::item_type>;
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (int n = 0; n < appends; ++n) {
        const Event event{user(writer + 1), item(2 * n + writer), at(n), "e"};
        if (!history.append(std::span<const Event>(&event, 1))) ++failed;
      }
    });
  }
  std::thread merger([&] {
    while (!stop) {
      if (!history.merge(user(1), user(2))) ++failed;
      if (!history.merge(user(2), user(1))) ++failed;
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  merger.join();
  CHECK(failed == 0);
  history.merge(user(2), user(1)).value();
  CHECK(history.item_count(user(1), all_time).value() == static_cast<std::uint64_t>(2 * appends));
  history.forget(user(1)).value();
}

}  // namespace seenby::test
