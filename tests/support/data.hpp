#pragma once
// SPDX-License-Identifier: MIT
// The real events that some tests read where they are present.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "seenby_test_paths.hpp"

namespace seenby::test {

/// Where a data file is, or would be: in the folder that SEENBY_DATA_DIR names, else in ../shared/data from the
/// project's root. A test that does not find it there says so with SKIP.
[[nodiscard]] inline std::filesystem::path data_file(const std::string& name) {
  const char* folder = std::getenv("SEENBY_DATA_DIR");
  if (folder != nullptr) return std::filesystem::path(folder) / name;
  return std::filesystem::path(SEENBY_SOURCE_DIR) / ".." / "shared" / "data" / name;
}

}  // namespace seenby::test
