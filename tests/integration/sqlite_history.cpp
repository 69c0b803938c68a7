// SPDX-License-Identifier: MIT
// SqliteHistory: what every history promises, in a file that is killed, filled up, shared and misused.

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "seenby/histories/replay.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/sqlite/history.hpp"
#include "seenby/stores/history_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "support/history_contract.hpp"
#include "support/picks.hpp"
#include "support/random.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace seenby;
using namespace seenby::test;
using Integers = SqliteHistory<std::uint64_t, std::uint64_t>;
using Texts = SqliteHistory<std::string, std::string>;
using Bytes = std::vector<std::byte>;

static_assert(EventHistory<Integers>);
static_assert(EventHistory<Texts>);

std::uint64_t number(int n) { return static_cast<std::uint64_t>(n); }
std::string text(int n) { return std::string("'; DROP TABLE events; -- \0 \xff\xfe ", 33).append(std::to_string(n)); }

/// Runs SQL on the file, as another program would; the first column of its last row.
std::string sql(const std::string& path, const std::string& statement) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  sqlite3_busy_timeout(database, 5'000);
  std::string answer;
  char* message = nullptr;
  const auto keep = [](void* into, int, char** values, char**) {
    *static_cast<std::string*>(into) = values[0] == nullptr ? "NULL" : values[0];
    return 0;
  };
  const int code = sqlite3_exec(database, statement.c_str(), keep, &answer, &message);
  INFO((message == nullptr ? "" : message));
  REQUIRE(code == SQLITE_OK);
  sqlite3_free(message);
  sqlite3_close(database);
  return answer;
}

TEST_CASE("SqliteHistory keeps the contract of a history", "[sqlite][002-21]") {
  const TemporaryFolder folder;
  auto integers = Integers::open(folder.path("integers")).or_throw();
  check_history(integers, number, number);
  // Unsigned numbers over 2^63 are numbers like others.
  check_history(
      integers, [](int n) { return ~number(n); }, [](int n) { return ~number(n) - 7; });
  auto texts = Texts::open(folder.path("texts")).or_throw();
  check_history(texts, text, text);
  CHECK(sql(folder.path("texts"), "SELECT count(*) FROM sqlite_schema WHERE name = 'events'") == "1");
  auto bytes = SqliteHistory<Bytes, Bytes>::open(folder.path("bytes")).or_throw();
  const auto key = [](int n) { return Bytes{std::byte{0}, static_cast<std::byte>(n >> 8), static_cast<std::byte>(n)}; };
  check_history(bytes, key, key);
}

TEST_CASE("SqliteHistory keeps hides, for every instance of the file", "[sqlite][003-07]") {
  const TemporaryFolder folder;
  auto integers = Integers::open(folder.path("integers")).or_throw();
  auto same_integers = Integers::open(folder.path("integers")).or_throw();
  check_hides(integers, same_integers, number, number);
  auto texts = Texts::open(folder.path("texts")).or_throw();
  auto same_texts = Texts::open(folder.path("texts")).or_throw();
  check_hides(texts, same_texts, text, text);
  CHECK(sql(folder.path("texts"), "SELECT count(*) FROM hides") == "0");
}

TEST_CASE("What was appended is there when the file is opened again", "[sqlite]") {
  const TemporaryFolder folder;
  {
    auto history = Texts::open(folder.path("file")).or_throw();
    history.append("alice", std::vector<std::string>{"", "a"}, at(5)).or_throw();
  }
  auto history = Texts::open(folder.path("file")).or_throw();
  CHECK(seen(history, "alice") == std::map<std::string, Time>{{"", at(5)}, {"a", at(5)}});
  // The file serves a person's counts too.
  CHECK(sql(folder.path("file"),
            "SELECT user || ' ' || item || ' ' || seen_at FROM impressions ORDER BY item DESC LIMIT 1") ==
        "alice a 1970-01-01 00:00:05");
}

TEST_CASE("SqliteHistory loses nothing when users are merged while both are written", "[sqlite][concurrent]") {
  const TemporaryFolder folder;
  auto history = Integers::open(folder.path("file"), {.durable = false}).or_throw();
  check_history_under_merges(history, number, number, 300);
}

TEST_CASE("Readers and writers of a file get on, in one process and in two", "[sqlite][concurrent]") {
  const TemporaryFolder folder;
  // Two opens of one file stand for two processes: they share nothing but the file.
  auto one = Integers::open(folder.path("file"), {.durable = false, .readers = 1}).or_throw();
  auto two = Integers::open(folder.path("file"), {.durable = false, .readers = 2}).or_throw();
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Integers history = thread % 2 == 0 ? one : two;
      for (int n = 0; n < 100; ++n) {
        const std::vector<std::uint64_t> item{number(thread * 1'000 + n)};
        if (!history.append(7, item, at(n))) ++failed;
        std::vector<std::uint8_t> out(1);
        if (!(thread < 2 ? one : two).contains(7, item, out) || out[0] != 1) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(one.item_count(7).or_throw() == 400);
}

TEST_CASE("Processes that create one file at once all succeed", "[sqlite][concurrent]") {
  for (int round = 0; round < 50; ++round) {
    const TemporaryFolder folder;
    std::mutex guard;
    std::vector<std::string> errors;
    std::barrier start(4);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        if (auto opened = Integers::open(folder.path("file")); !opened) {
          const std::lock_guard lock(guard);
          errors.push_back(opened.error().message);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(errors == std::vector<std::string>());
  }
}

/// Runs `work` in a child process; its exit code, or minus the signal that ended it.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("A kill -9 at any moment leaves every acknowledged batch, and no part of another", "[sqlite]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("killed");
  constexpr std::uint64_t batch = 20;
  SEENBY_RANDOM(random);
  std::uint64_t acknowledged = 0;
  for (int round = 0; round < 25; ++round) {
    std::array<int, 2> acknowledgements{};
    REQUIRE(::pipe(acknowledgements.data()) == 0);
    const std::uint64_t first = acknowledged;
    const pid_t child = ::fork();
    if (child == 0) {
      auto history = Integers::open(path);
      for (std::uint64_t n = first; history; ++n) {
        std::vector<Integers::Event> events;
        for (std::uint64_t i = 0; i < batch; ++i) events.push_back({n % 3, n * batch + i, at(1), "e"});
        if (!history->append(events)) ::_exit(1);
        const std::array<Hide<std::uint64_t>, 2> hides{{{2 * n, at(1)}, {2 * n + 1, at(1)}}};
        if (!history->hide(n % 3, hides)) ::_exit(1);
        if (::write(acknowledgements[1], &n, sizeof n) != sizeof n) ::_exit(2);
      }
      ::_exit(3);
    }
    ::close(acknowledgements[1]);
    const std::uint64_t before_kill = 1 + random.below(10);
    std::uint64_t n = 0;
    for (std::uint64_t i = 1; ::read(acknowledgements[0], &n, sizeof n) == sizeof n; ++i) {
      acknowledged = n + 1;
      if (i != before_kill) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(2'000)));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    ::close(acknowledgements[0]);
    const int outcome = in_child([&] {
      auto history = Integers::open(path);
      if (!history) return 2;
      std::uint64_t items = 0;
      std::uint64_t hides = 0;
      for (std::uint64_t user = 0; user < 3; ++user) {
        items += history->item_count(user).or_throw();
        hides += history->hidden(user).or_throw().size();
      }
      // The batch under way may be there as well, whole, with or without its hides.
      if (items != acknowledged * batch && items != (acknowledged + 1) * batch) return 1;
      return hides == 2 * acknowledged || (hides == 2 * (acknowledged + 1) && hides * batch == 2 * items) ? 0 : 3;
    });
    REQUIRE(outcome == 0);
  }
}

TEST_CASE("A file of the first version opens with its events and takes hides, whoever opens it at once",
          "[sqlite][concurrent]") {
  for (int round = 0; round < 10; ++round) {
    const TemporaryFolder folder;
    const std::string path = folder.path("file");
    Integers::open(path).or_throw().append(7, std::vector<std::uint64_t>{1, 2}, at(5)).or_throw();
    sql(path, "DROP TABLE hides; PRAGMA user_version = 1");
    std::array<std::thread, 3> processes;
    std::array<int, 3> outcomes{};
    for (std::uint64_t i = 0; i < processes.size(); ++i) {
      processes[i] = std::thread([&, i] {
        outcomes[i] = in_child([&] {
          auto history = Integers::open(path);
          if (!history) return 1;
          const Hide<std::uint64_t> hide{i, at(9)};
          const auto hidden = history->hide(7, {&hide, 1});
          return hidden && *hidden == 1 ? 0 : 2;
        });
      });
    }
    for (std::thread& process : processes) process.join();
    CHECK(outcomes == std::array<int, 3>{});
    auto history = Integers::open(path).or_throw();
    CHECK(seen(history, 7) == std::map<std::uint64_t, Time>{{1, at(5)}, {2, at(5)}});
    CHECK(history.hidden(7).or_throw().size() == 3);
    CHECK(sql(path, "PRAGMA user_version") == "2");
  }
}

TEST_CASE("What one process hides in a SQLite file, another's page leaves out", "[sqlite][003-07]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("seen");
  auto history = Integers::open(path).or_throw();
  SeenFilter filter{HistoryStore{history}};
  filter.record(1, std::uint64_t{4}).or_throw();
  const int outcome = in_child([&] {
    auto same = Integers::open(path).or_throw();
    SeenFilter other{HistoryStore{same}};
    return other.hide(1, std::uint64_t{5}).or_throw() && other.hide(2, std::uint64_t{6}).or_throw() ? 0 : 1;
  });
  REQUIRE(outcome == 0);
  const CandidatePool<std::uint64_t> pool(std::vector<std::uint64_t>{4, 5, 6, 7});
  CHECK(picked(filter.select_unseen(pool, {1, 2}, {.relax = {SeenByAtMost{2}}})) == Ids{7, 4});
  CHECK(filter.hidden(2).or_throw() == Ids{6});
}

TEST_CASE("On a full disk an append or a hide is an io error, stores nothing, and works again when there is room",
          "[sqlite]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("full");
  const int outcome = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    auto history = Texts::open(path);
    if (!history) return 1;
    const rlimit limit{1 << 18, RLIM_INFINITY};  // stands for the disk's end
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<Texts::Event> events;
    for (int n = 0; n < 2'000; ++n)
      events.push_back({"alice", std::string(500, 'x').append(std::to_string(n)), at(1), {}});
    const auto refused = history->append(events);
    if (refused || refused.error().code != ErrorCode::io) return 2;
    if (history->item_count("alice").or_throw() != 0) return 3;
    std::vector<Hide<std::string>> hides;
    for (const Texts::Event& event : events) hides.push_back({event.item, at(1)});
    const auto not_hidden = history->hide("alice", hides);
    if (not_hidden || not_hidden.error().code != ErrorCode::io) return 5;
    if (!history->hidden("alice").or_throw().empty()) return 6;
    const rlimit room{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &room);
    if (history->hide("alice", hides).or_throw() != hides.size()) return 7;
    auto done = history->append(events);
    return done && *done == events.size() && history->item_count("alice").or_throw() == events.size() ? 0 : 4;
  });
  CHECK(outcome == 0);
}

TEST_CASE("A key that is too long is refused with its whole batch, and the longest is kept", "[sqlite]") {
  const TemporaryFolder folder;
  auto history = Texts::open(folder.path("file")).or_throw();
  const std::string longest(max_key_bytes, 'x');
  history.append(longest, std::vector<std::string>{longest}, at(1)).or_throw();
  CHECK(contained(history, longest, {longest}) == std::vector<std::uint8_t>{1});
  const std::string huge(1'000'000, 'x');
  const auto refused = history.append("alice", std::vector<std::string>{"a", huge}, at(1));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::too_large);
  CHECK(refused.error().message.find("1000000") != std::string::npos);
  CHECK_FALSE(history.append(huge, std::vector<std::string>{"a"}, at(1)));
  CHECK_FALSE(history.merge(longest, huge));
  const std::vector<Hide<std::string>> hides{{longest, at(1)}, {huge, at(1)}};
  CHECK(history.hide("alice", hides).error().code == ErrorCode::too_large);
  CHECK(history.hide(huge, std::span(hides).first(1)).error().code == ErrorCode::too_large);
  CHECK(history.hidden("alice").or_throw().empty());
  CHECK(history.hide("alice", std::span(hides).first(1)).or_throw() == 1);
  CHECK(history.unhide("alice", std::vector<std::string>{huge, longest}).or_throw() == 1);
  CHECK(seen(history, "alice").empty());
  CHECK(contained(history, "alice", {huge, "a"}) == std::vector<std::uint8_t>{0, 0});
  // An event's id may be as long as it likes.
  const Texts::Event event{"alice", "a", at(1), huge};
  CHECK(history.append(std::span(&event, 1)).or_throw() == 1);
  CHECK(history.append(std::span(&event, 1)).or_throw() == 0);
}

TEST_CASE("A file of another kind, another program or a newer version is refused and left as it is", "[sqlite]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  (void)Texts::open(path).or_throw();
  const auto other_items = SqliteHistory<std::string, std::uint64_t>::open(path);
  REQUIRE_FALSE(other_items);
  CHECK(other_items.error().code == ErrorCode::parameter_mismatch);
  CHECK(other_items.error().message.find("items of kind text") != std::string::npos);
  CHECK(other_items.error().message.find("got integer") != std::string::npos);
  CHECK(SqliteHistory<std::uint64_t, std::string>::open(path).error().code == ErrorCode::parameter_mismatch);

  CHECK(Texts::open(folder.file("words", std::string(4'096, 'w'))).error().code == ErrorCode::wrong_type);
  sql(folder.path("theirs"), "CREATE TABLE theirs(a)");
  CHECK(Texts::open(folder.path("theirs")).error().code == ErrorCode::wrong_type);
  CHECK(sql(folder.path("theirs"), "PRAGMA journal_mode") == "delete");

  sql(path, "PRAGMA user_version = 77");
  const auto newer = Texts::open(path);
  REQUIRE_FALSE(newer);
  CHECK(newer.error().code == ErrorCode::unsupported_version);
  CHECK(newer.error().message.find("77") != std::string::npos);

  CHECK(Texts::open(folder.path("no/such/folder")).error().code == ErrorCode::io);
  CHECK(Texts::open(":memory:").error().code == ErrorCode::invalid_argument);
}

TEST_CASE("A write that another process's transaction holds up for too long is timed out, and stores nothing",
          "[sqlite]") {
  const TemporaryFolder folder;
  auto history = Integers::open(folder.path("file"), {.busy_timeout = std::chrono::milliseconds(50)}).or_throw();
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open(folder.path("file").c_str(), &other) == SQLITE_OK);
  REQUIRE(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
  const std::vector<std::uint64_t> items{1};
  CHECK(history.append(1, items, at(1)).error().code == ErrorCode::timed_out);
  CHECK(contained(history, 1, items) == std::vector<std::uint8_t>{0});  // readers do not wait
  REQUIRE(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(other);
  history.append(1, items, at(1)).or_throw();
  CHECK(contained(history, 1, items) == std::vector<std::uint8_t>{1});
}

TEST_CASE("The longest busy_timeout there is can be kept", "[sqlite][concurrent]") {
  const TemporaryFolder folder;
  auto history = Integers::open(folder.path("file"), {.busy_timeout = std::chrono::milliseconds::max()}).or_throw();
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open(folder.path("file").c_str(), &other) == SQLITE_OK);
  REQUIRE(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
  Result<void> appended = Error{ErrorCode::timed_out, "not tried"};
  std::thread writer([&] { appended = history.append(1, std::vector<std::uint64_t>{1}, at(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr) == SQLITE_OK);
  writer.join();
  sqlite3_close(other);
  CHECK(appended);
}

TEST_CASE("A value that SQLite does not take is an error, and not a NULL that is left out", "[sqlite]") {
  const TemporaryFolder folder;
  auto log = sqlite::Log::open(folder.path("file"), ItemKind::integer, ItemKind::text).or_throw();
  // Longer than SQLite's longest value; it is refused unread.
  const KeyView endless{ItemKind::text, 0, {"x", std::size_t{1} << 32}};
  const KeyView user{ItemKind::integer, 1, {}};
  const KeyedEvent event{.user = user, .item = endless, .event = 1, .seen_at = at(1)};
  const auto appended = log.append({&event, 1});
  REQUIRE_FALSE(appended);
  CHECK(appended.error().code == ErrorCode::too_large);
  // Nor is it "not seen".
  const KeyedEvent short_event{.user = user, .item = {ItemKind::text, 0, "x"}, .event = 1, .seen_at = at(1)};
  CHECK(log.append({&short_event, 1}).or_throw() == 1);
  std::uint8_t seen = 7;
  CHECK(log.contains(user, {&endless, 1}, {&seen, 1}, all_time).error().code == ErrorCode::too_large);
  CHECK(log.contains(user, {&short_event.item, 1}, {&seen, 1}, all_time).has_value());
  CHECK(seen == 1);
}

TEST_CASE("Old events are dropped, and users who have no others with them", "[sqlite]") {
  const TemporaryFolder folder;
  auto history = Integers::open(folder.path("file")).or_throw();
  history.append(1, std::vector<std::uint64_t>{1, 2}, at(100)).or_throw();
  history.append(1, std::vector<std::uint64_t>{2}, at(200)).or_throw();
  history.append(2, std::vector<std::uint64_t>{1}, at(100)).or_throw();
  CHECK(history.drop_before(at(200)).or_throw() == 3);
  CHECK(seen(history, 1) == std::map<std::uint64_t, Time>{{2, at(200)}});
  CHECK(all_users(history, 10) == std::vector<std::uint64_t>{1});
}

TEST_CASE("A filter lost with its process is rebuilt from the file", "[sqlite][002-12][002-15]") {
  const TemporaryFolder folder;
  auto history = Texts::open(folder.path("file")).or_throw();
  const auto fresh = [&] { return SeenFilter{MemoryStore<std::string>{{.wrong_hide_rate = 0.001}}, history}; };
  fresh().record_all("alice", std::vector<std::string>{"a", "b"}).or_throw();
  auto restarted = fresh();
  CHECK(restarted.ask(std::string("alice"), "a") == Answer::unknown);
  restarted.record("alice", "c").or_throw();
  for (const char* item : {"a", "b", "c"}) CHECK(restarted.ask(std::string("alice"), item) == Answer::seen);
  CHECK(restarted.ask(std::string("alice"), "d") == Answer::unseen);
}

TEST_CASE("A SQLite file answers exactly behind the same SeenFilter", "[sqlite][003-10]") {
  const TemporaryFolder folder;
  auto history = Texts::open(folder.path("file")).or_throw();
  SeenFilter filter{HistoryStore{history, {.users_per_request = 2}}};
  filter.record("alice", "a").or_throw();
  filter.record("bob", "b").or_throw();
  const CandidatePool<std::string> pool(std::vector<std::string>{"a", "b", "c"});
  const auto page = filter.select_unseen(pool, {std::string("alice"), std::string("bob")});
  REQUIRE(page.size() == 1);
  CHECK(page[0].index == 2);
}

}  // namespace
