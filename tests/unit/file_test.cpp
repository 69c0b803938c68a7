// SPDX-License-Identifier: MIT
// Files that are replaced: in one step, with the old one's permissions, and nothing but regular files.

#include "seenby/detail/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "seenby/filters/partitioned_filter.hpp"
#include "support/temporary_folder.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using seenby::detail::ReplacementFile;
using seenby::test::TemporaryFolder;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

seenby::Result<void> replace(const std::string& path, const std::string& text) {
  auto file = ReplacementFile::create(path, text.size());
  if (!file) return std::move(file).error();
  REQUIRE(::pwrite(file->handle().get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return file->commit();
}

TEST_CASE("a replaced file keeps its permissions, a new one has those of the umask") {
  const TemporaryFolder folder;
  const std::string path = folder.path("filter");
  REQUIRE(replace(path, "new"));
  const mode_t mask = ::umask(022);
  ::umask(mask);
  CHECK(mode_of(path) == (0666U & ~mask));
  for (const mode_t mode : {0600U, 0660U, 0604U}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    REQUIRE(replace(path, "newer"));
    CHECK(mode_of(path) == mode);
  }
  CHECK(text_of(path) == "newer");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("replacing a file leaves the process's umask alone") {
  const TemporaryFolder folder;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const mode_t mask = ::umask(022);
  ::umask(027);
  {
    const std::jthread other([&] {
      for (int i = 0; !stop; ++i) {
        const std::string path = folder.path("other" + std::to_string(i % 16));
        const int made = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0666);
        struct stat status {};
        if (made < 0 || ::fstat(made, &status) != 0 || (status.st_mode & 0777U) != 0640U) ++wrong;
        ::close(made);
        ::unlink(path.c_str());
      }
    });
    for (int i = 0; i < 500; ++i) REQUIRE(ReplacementFile::create(folder.path("filter"), 64));
    stop = true;
  }
  CHECK(::umask(mask) == 027);
  CHECK(wrong == 0);
}

TEST_CASE("a link is followed: its target is replaced, the link stays") {
  const TemporaryFolder folder;
  const std::string target = folder.path("target");
  const std::string link = folder.path("link");
  write(target, "old");
  std::filesystem::create_symlink("target", link);
  REQUIRE(replace(link, "new"));
  CHECK(std::filesystem::is_symlink(link));
  CHECK_FALSE(std::filesystem::is_symlink(target));
  CHECK(text_of(target) == "new");
  CHECK(entries(folder.path()) == 2);
}

TEST_CASE("a file that is not committed leaves nothing behind, and the old one as it was") {
  const TemporaryFolder folder;
  const std::string path = folder.path("filter");
  write(path, "old");
  { REQUIRE(ReplacementFile::create(path, 1'000)); }
  CHECK(text_of(path) == "old");
  CHECK(entries(folder.path()) == 1);
  CHECK_FALSE(replace(folder.path("missing/filter"), "x"));
}

TEST_CASE("folders, pipes and devices are neither replaced nor opened as filters") {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& path) {
    const auto replaced = replace(path, "x");
    REQUIRE_FALSE(replaced);
    CHECK(replaced.error().code == seenby::ErrorCode::io);
    CHECK_THAT(replaced.error().message, ContainsSubstring("expected a regular file at " + path));
    const auto opened = seenby::PartitionedFilter<std::string>::open(path);
    REQUIRE_FALSE(opened);
    CHECK_THAT(opened.error().message, ContainsSubstring("expected a regular file at " + path));
  };
  refused(folder.path());
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  refused(pipe);
  const std::string device = folder.path("null");
  if (::mknod(device.c_str(), S_IFCHR | 0600U, makedev(1, 3)) == 0) {
    refused(device);
    struct stat status {};
    REQUIRE(::stat(device.c_str(), &status) == 0);
    CHECK(S_ISCHR(status.st_mode));
  } else {
    WARN("no device node could be made: only root may");
  }
}

}  // namespace
