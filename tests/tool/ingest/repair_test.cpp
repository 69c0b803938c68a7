// SPDX-License-Identifier: MIT
// `seenby verify` finds what filters lost, and `seenby repair` mends it.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "seenby/lmdb/store.hpp"
#include "support/command.hpp"
#include "tool/ingest/ingest_fixture.hpp"

using seenby::test::event_lines;
using seenby::test::Files;
using seenby::test::Place;
using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

namespace {

/// 2,000 events of 20 users, ingested.
class Fixture : public Files, public Place {
 public:
  Fixture() : Place("sqlite:" + sqlite, "lmdb:" + lmdb) { REQUIRE(run("ingest", event_lines(2'000)).exit_code == 0); }

  void erase(const std::string& user) const {
    CHECK(seenby::LmdbStore<std::string>::open(lmdb, {}).value().forget(user).value());
  }
  /// Leaves a filter that holds one item, as of a user who saw nothing else.
  void empty(const std::string& user) const {
    erase(user);
    auto store = seenby::LmdbStore<std::string>::open(lmdb, {}).value();
    const std::string item = "item0";
    const seenby::Digest digest = store.hasher()(item);
    CHECK(store.record(user, seenby::ItemBatch<std::string>{std::span(&item, 1), std::span(&digest, 1)}));
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "an erased filter is unknown, which verify reports and repair mends") {
  erase("user3");
  erase("user4");
  const auto found = figures("verify");
  CHECK(found["unknown_users"] == 2);
  CHECK(found["false_negatives"] == 0);
  CHECK(found["users"] == 20);
  CHECK(found["events"] == 2'000);
  CHECK(run("verify").exit_code == 0);
  CHECK(select("user3", "item3\nnew\n").out == "item3\nnew\n");
  const auto one = figures("repair", {}, {"--user", "user3"});
  CHECK(one["users"] == 1);
  CHECK(one["missing"] == 1);
  CHECK(one["repaired"] == 1);
  CHECK(figures("verify")["unknown_users"] == 1);
  const auto rest = figures("repair");
  CHECK(rest["users"] == 20);
  CHECK(rest["missing"] == 1);
  CHECK(rest["repaired"] == 1);
  CHECK(rest["healthy"] == 19);
  CHECK(figures("verify")["unknown_users"] == 0);
  CHECK(select("user3", "item3\nnew\n").out == "new\n");
}

TEST_CASE_METHOD(Fixture, "a filter that lacks what the history says is a false negative, which repair mends") {
  empty("user5");
  const auto found = run("verify");
  CHECK(found.exit_code == 1);
  CHECK(found.err.find("user 'user5' saw 'item") != std::string::npos);
  CHECK(found.err.find("expected no false negatives, got ") != std::string::npos);
  CHECK(found.err.find("seenby repair") != std::string::npos);
  CHECK(figures("verify")["false_negatives"] == 100);
  const auto mended = figures("repair");
  CHECK(mended["incomplete"] == 1);
  CHECK(mended["false_negatives"] == 100);
  CHECK(mended["repaired"] == 1);
  CHECK(run("verify").exit_code == 0);
  CHECK(figures("verify")["false_negatives"] == 0);
}

TEST_CASE_METHOD(Fixture, "repair keeps to the rate it is told, and draws progress on a terminal only") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(run("repair", {}, {"--rate", "20"}).err.empty());
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::milliseconds(900));
  auto all = words("repair", {"--rate", "40"});
  all.insert(all.begin(), SEENBY_COMMAND);
  CHECK(seenby::test::shown_on_terminal(all).find("repairing [") != std::string::npos);
}
