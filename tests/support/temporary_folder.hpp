#pragma once
// SPDX-License-Identifier: MIT
// A folder of a test's own.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <ios>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace seenby::test {

/// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = "/tmp/seenby-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Where a file of this name is, or would be.
  [[nodiscard]] std::string path(std::string_view name) const { return std::string(path_).append("/").append(name); }
  /// Writes a file; returns its path.
  std::string file(std::string_view name, std::string_view content) const {  // NOLINT(modernize-use-nodiscard)
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace seenby::test
