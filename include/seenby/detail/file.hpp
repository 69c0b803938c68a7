#pragma once
// SPDX-License-Identifier: MIT
// Files: handles that close themselves, errors that name the path, and files replaced in one step.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "seenby/config.hpp"
#include "seenby/detail/random_generation.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

[[nodiscard]] inline Error system_error(const char* what, const std::string& path, int number = errno) {
  std::string message = "seenby: cannot ";
  message.append(what).append(" ").append(path).append(": ");
  return {ErrorCode::io, message.append(std::error_code(number, std::generic_category()).message())};
}

[[nodiscard]] inline Error not_regular(const std::string& path) {
  std::string message = "seenby: expected a regular file at ";
  return {ErrorCode::io, message.append(path).append(", got a folder, device, pipe or socket")};
}

/// An open file, closed on the way out.
class FileHandle {
 public:
  explicit FileHandle(int descriptor) noexcept : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileHandle() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

[[nodiscard]] inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

/// A new file that replaces another in one step: opening the path gives the old file or the new one, whole.
/// It has no name until commit() where the file system can do that, so that a process that dies leaves nothing behind;
/// elsewhere it has one beside the target, and is removed when it is not committed. Only a regular file is replaced, or
/// none; links are followed; the new file has the old one's permissions.
class ReplacementFile {
 public:
  [[nodiscard]] static Result<ReplacementFile> create(const std::string& path, std::size_t size) {
    struct stat old {};
    const bool exists = ::stat(path.c_str(), &old) == 0;
    if (!exists && errno != ENOENT) return system_error("read", path);
    if (exists && !S_ISREG(old.st_mode)) return not_regular(path);
    ReplacementFile file(exists ? resolved(path) : path);
    if (!file.open()) return system_error("create a file beside", path);
    // The umask has decided for a new file.
    if (exists && ::fchmod(file.handle().get(), old.st_mode & 07777U) != 0)
      return system_error("set the mode of", path);
    // Reserving the space now turns a full disk into an error rather than a signal on the first write.
    if (const int failed = ::posix_fallocate(file.handle().get(), 0, static_cast<off_t>(size)); failed != 0) {
      return system_error("reserve space for", path, failed);
    }
    return file;
  }
  ReplacementFile(ReplacementFile&& other) noexcept
      : file_(std::move(other.file_)), target_(std::move(other.target_)), name_(std::exchange(other.name_, {})) {}
  ReplacementFile& operator=(ReplacementFile&&) = delete;
  ~ReplacementFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  [[nodiscard]] const FileHandle& handle() const noexcept { return file_; }

  /// Waits for the disk, takes the target's place, and waits for the folder.
  Result<void> commit() {
    if (::fsync(file_.get()) != 0) return system_error("write", target_);
    if (name_.empty()) {
      std::string name = beside_target();
      const std::string unnamed = "/proc/self/fd/" + std::to_string(file_.get());
      if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        return system_error("create a file beside", target_);
      }
      name_ = std::move(name);
    }
    if (::rename(name_.c_str(), target_.c_str()) != 0) return system_error("replace", target_);
    name_.clear();
    const std::string folder = folder_of(target_);
    const FileHandle directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0) return system_error("write the folder", folder);
    return {};
  }

 private:
  explicit ReplacementFile(std::string target) : file_(-1), target_(std::move(target)) {}

  [[nodiscard]] static std::string resolved(const std::string& path) {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
    return real ? std::string(real.get()) : path;
  }
  [[nodiscard]] std::string beside_target() const { return target_ + "." + std::to_string(random_generation()); }
  [[nodiscard]] bool open() {
#if defined(O_TMPFILE)
    file_ = FileHandle(::open(folder_of(target_).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
    if (file_.valid()) return true;
#endif
    std::string name = beside_target();
    file_ = FileHandle(::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
    if (file_.valid()) name_ = std::move(name);
    return file_.valid();
  }

  FileHandle file_;
  std::string target_;
  std::string name_;  // empty: it has none
};

SEENBY_DETAIL_END
