// SPDX-License-Identifier: MIT
// Names behind a gate: "free" is certain, and of callers that race for one name the database's constraint picks one.

#include <sqlite3.h>

#include <atomic>
#include <barrier>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "seenby/gates/existence_gate.hpp"
#include "support/temporary_folder.hpp"

namespace {

using seenby::Availability;
using Gate = seenby::ExistenceGate<std::string>;

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Connection = std::unique_ptr<sqlite3, Close>;

Connection connect(const std::string& path) {
  sqlite3* handle = nullptr;
  sqlite3_open(path.c_str(), &handle);
  sqlite3_busy_timeout(handle, 20'000);
  return Connection(handle);
}

/// SQLITE_DONE for the caller whose name it is from now on, SQLITE_CONSTRAINT for the others.
int take(const Connection& database, const std::string& name) {
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(database.get(), "INSERT INTO names VALUES (?)", -1, &insert, nullptr);
  sqlite3_bind_text(insert, 1, name.data(), static_cast<int>(name.size()), nullptr);
  const int done = sqlite3_step(insert);
  sqlite3_finalize(insert);
  return done;
}

}  // namespace

TEST_CASE("Of callers that find one name free at once the unique constraint lets one have it",
          "[sqlite][concurrent][004-07][004-19]") {
  constexpr int callers = 2;
  constexpr int names = 50;
  const seenby::test::TemporaryFolder folder;
  const std::string path = folder.path("names.sqlite");
  const Connection database = connect(path);
  REQUIRE(sqlite3_exec(database.get(),
                       "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; CREATE TABLE names (name TEXT PRIMARY KEY)",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  Gate gate({.target_fpr = 0.001});
  gate.begin_rebuild(1'000).commit();
  std::atomic<int> found_free{0};
  std::atomic<int> taken{0};
  std::atomic<int> refused{0};
  std::barrier all_have_asked(callers);
  {
    std::vector<std::jthread> threads;
    for (int caller = 0; caller < callers; ++caller) {
      threads.emplace_back([&] {
        const Connection mine = connect(path);
        for (int i = 0; i < names; ++i) {
          const std::string name = "name " + std::to_string(i);
          if (gate.available(name) == Availability::free) ++found_free;
          all_have_asked.arrive_and_wait();
          gate.add(name);
          const int done = take(mine, name);
          if (done == SQLITE_DONE) ++taken;
          if (done == SQLITE_CONSTRAINT) ++refused;
          all_have_asked.arrive_and_wait();
        }
      });
    }
  }
  CHECK(found_free > names);  // the gate alone would have given names away twice
  CHECK(taken == names);
  CHECK(refused == names * (callers - 1));
  for (int i = 0; i < names; ++i) { CHECK(gate.available("name " + std::to_string(i)) == Availability::ask_database); }
}
