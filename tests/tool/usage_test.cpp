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
  CHECK(refused(run_seenby({"frobnicate"}), ""));
  CHECK(refused(run_seenby({"plan", "--frobnicate"}), ""));
  CHECK(refused(run_seenby({"plan", "--items"}), ""));
  CHECK(refused(run_seenby({"plan", "--items", "1", "--layout", "cuckoo"}), "--layout"));
  CHECK(refused(run_seenby({"generate", "--seed", "x"}), ""));
}

TEST_CASE("a full disk is an error, not silence") {
  const auto result = run_command({"/bin/sh", "-c", "exec \"$0\" plan --items 10 > /dev/full", SEENBY_COMMAND});
  CHECK(result.exit_code == 1);
  CHECK(result.err == "seenby: cannot write to standard output\n");
}
