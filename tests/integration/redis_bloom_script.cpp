// SPDX-License-Identifier: MIT
// RedisBloomStore's script under Debian's Lua 5.1, with commands of the test's own: no module is needed.

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <fstream>
#include <string>

#include "redis/protocol/bloom_state.hpp"
#include "seenby_test_paths.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"

using namespace seenby;

TEST_CASE("The script that adds to RedisBloom keeps its promises", "[redis]") {
  const auto lua = test::program_path("lua5.1");
  if (!lua) SKIP("SKIPPED: lua5.1 is not installed");
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/add.lua";
  std::ofstream(file) << redis::bloom_add_script().source();
  std::string command = *lua + " " SEENBY_SOURCE_DIR "/tests/integration/redis_bloom_script.lua ";
  command.append(file).append(" 2>&1");
  FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  std::array<char, 4'096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) said += buffer.data();
  const int status = ::pclose(pipe);
  INFO(said);
  CHECK(status == 0);
}
