// SPDX-License-Identifier: MIT
// `seenby hide`, `unhide` and `hidden`: kept in the store, heeded by `select --store` of another process.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tool/ingest/ingest_fixture.hpp"

using seenby::test::CommandResult;
using seenby::test::event_line;
using seenby::test::Place;
using seenby::test::refused;
using seenby::test::run_seenby;
using seenby::test::TemporaryFolder;

namespace {

struct Files {
  TemporaryFolder folder;
  std::string store = "lmdb:" + folder.path("seen.lmdb");
};
class Fixture : public Files, public Place {
 public:
  Fixture() : Place("sqlite:" + folder.path("seen.sqlite"), store) {}

  [[nodiscard]] CommandResult act(const std::string& name, const std::string& user,
                                  const std::vector<std::string>& items = {}) const {
    std::vector<std::string> all{name, "--store", store, "--user", user};
    all.insert(all.end(), items.begin(), items.end());
    return run_seenby(all);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "what one process hid, another does not show, until it is taken back") {
  REQUIRE(run("ingest", event_line("1", "ann", "q1")).exit_code == 0);
  CHECK(act("hide", "ann", {"q3", "q2"}).out == "hid 2 of 2 from 'ann'\n");
  CHECK(act("hide", "ann", {"q2"}).out == "hid 0 of 1 from 'ann'; the others were hidden already\n");
  CHECK(select("ann", "q1\nq2\nq3\nq4\n").out == "q4\n");
  CHECK(select("ben", "q1\nq2\n").out == "q1\nq2\n");
  CHECK(act("hidden", "ann").out == "q3\nq2\n");
  CHECK(act("hidden", "ben").out.empty());
  CHECK(act("unhide", "ann", {"q3", "q1"}).out == "took back 1 of 2 hides of 'ann'; the others were not hidden\n");
  CHECK(select("ann", "q1\nq2\nq3\nq4\n").out == "q3\nq4\n");  // q1 was seen
  CHECK(act("hidden", "ann").out == "q2\n");
}

TEST_CASE_METHOD(Fixture, "items are hidden under the kind that --items says") {
  CHECK(act("hide", "ann", {"42", "--items", "integer"}).exit_code == 0);
  CHECK(select("ann", "42\n43\n", {"--items", "integer"}).out == "43\n");
  CHECK(act("hidden", "ann").out == "42\n");
  CHECK(refused(act("hide", "ann", {"x", "--items", "integer"}), "--items: expected integers"));
}

TEST_CASE_METHOD(Fixture, "hides are kept in a history as well, and listed in the order they were hidden") {
  const std::string history = "sqlite:" + folder.path("hides.sqlite");
  const auto act_on = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--history", history, "--user", "ann"});
    return run_seenby(arguments);
  };
  CHECK(refused(act_on({"hidden"}), "'sqlite:"));
  CHECK(act_on({"hide", "q3", "42", "q2"}).out == "hid 3 of 3 from 'ann'\n");
  CHECK(act_on({"hide", "q2"}).out == "hid 0 of 1 from 'ann'; the others were hidden already\n");
  CHECK(act_on({"hidden"}).out == "q3\n42\nq2\n");
  CHECK(act_on({"unhide", "q3", "q9"}).out == "took back 1 of 2 hides of 'ann'; the others were not hidden\n");
  CHECK(act_on({"hidden"}).out == "42\nq2\n");
  CHECK(refused(act_on({"hidden", "--items", "integer"}), "expected items of kind text, which the file holds"));
  CHECK(refused(act_on({"hide", "q1", "--store", store}), "expected --store or --history, got both"));
  CHECK(refused(run_seenby({"hidden", "--user", "ann"}), "expected --store or --history, got neither"));
}

TEST_CASE_METHOD(Fixture, "verify and repair leave hides alone") {
  REQUIRE(run("ingest", event_line("1", "ann", "q1")).exit_code == 0);
  REQUIRE(act("hide", "ann", {"q2"}).exit_code == 0);
  CHECK(figures("repair")["healthy"] == 1);
  CHECK(act("hidden", "ann").out == "q2\n");
}
