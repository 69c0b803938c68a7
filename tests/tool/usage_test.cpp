// SPDX-License-Identifier: MIT
// Help, version, and what happens to a command line that makes no sense.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "seenby/version.hpp"
#include "seenby_command.hpp"

using seenby::test::refused;
using seenby::test::run_command;
using seenby::test::run_seenby;

TEST_CASE("the command says its version") {
  const auto result = run_seenby({"--version"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "seenby " SEENBY_VERSION "\n");
}

TEST_CASE("every subcommand's help shows an example") {
  const auto top = run_seenby({"--help"});
  CHECK(top.exit_code == 0);
  for (const char* name : {"plan", "replay", "select", "generate"}) {
    INFO(name);
    CHECK(top.out.find(name) != std::string::npos);
    const auto help = run_seenby({name, "--help"});
    CHECK(help.exit_code == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find("  seenby " + std::string(name) + " ") != std::string::npos);
  }
}

TEST_CASE("a command line that makes no sense is one line and exit code 2") {
  CHECK(refused(run_seenby({}), "A subcommand is required"));
  CHECK(refused(run_seenby({"nosuch"}), "unknown command 'nosuch' (see seenby --help)"));
  CHECK(refused(run_seenby({"plna", "--items", "3"}), "unknown command 'plna'; did you mean plan?"));
  CHECK(refused(run_seenby({"--versoin"}), "unknown option '--versoin'; did you mean --version?"));
  CHECK(refused(run_seenby({"plan", "--frobnicate"}), "unknown option '--frobnicate' (see seenby plan --help)"));
  CHECK(refused(run_seenby({"plan", "--usres", "5"}), "unknown option '--usres'; did you mean --users?"));
  CHECK(refused(run_seenby({"plan", "--items", "5", "--uers=5"}), "unknown option '--uers'; did you mean --users?"));
  CHECK(refused(run_seenby({"replay", "a", "b"}), "unexpected argument 'b' (see seenby replay --help)"));
  CHECK(refused(run_seenby({"plan", "--items"}), ""));
  CHECK(refused(run_seenby({"plan", "--items", "1", "--layout", "cuckoo"}), "--layout"));
  CHECK(refused(run_seenby({"generate", "--seed", "x"}), ""));
}

TEST_CASE("a full disk is an error, not silence") {
  const auto result = run_command({"/bin/sh", "-c", "exec \"$0\" plan --items 10 > /dev/full", SEENBY_COMMAND});
  CHECK(result.exit_code == 1);
  CHECK(result.err == "seenby: cannot write to standard output\n");
}
