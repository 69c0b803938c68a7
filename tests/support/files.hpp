#pragma once
// SPDX-License-Identifier: MIT
// Files of the tests, whole.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "seenby_test_paths.hpp"

namespace seenby::test {

/// A file of the source tree, by its path from the root.
[[nodiscard]] inline std::filesystem::path source_file(const std::string& path) {
  return std::filesystem::path(SEENBY_SOURCE_DIR) / path;
}

/// All bytes of a file. Throws std::runtime_error when it cannot be read.
[[nodiscard]] inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot read all of " + path.string());
  return bytes;
}

/// Writes a file anew.
inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace seenby::test
