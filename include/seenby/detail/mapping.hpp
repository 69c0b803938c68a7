#pragma once
// SPDX-License-Identifier: MIT
// Mapping: memory straight from the operating system, zeroed or backed by a file; and files replaced in one step.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "seenby/config.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

[[nodiscard]] inline Error system_error(const char* what, const std::string& path, int number = errno) {
  std::string message = "seenby: cannot ";
  message.append(what).append(" ").append(path).append(": ");
  return {ErrorCode::io, message.append(std::error_code(number, std::generic_category()).message())};
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

enum class MappingKind : std::uint8_t {
  private_copy,  ///< writes stay in this process
  shared,        ///< writes reach the file, and whoever else maps it
};

/// A range of mapped pages. Moves, does not copy.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }

  /// Zeroed memory, on huge pages where the machine grants them, taken as it is first touched. Throws std::bad_alloc.
  [[nodiscard]] static Mapping anonymous(std::size_t size) {
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    advise_huge(data, size);
    return Mapping(data, size);
  }

  /// The first `size` bytes of a file, which must have them. With `prefault`, pages are read in before it returns.
  [[nodiscard]] static Result<Mapping> of_file(const FileHandle& file, std::size_t size, MappingKind kind,
                                               bool prefault, const std::string& path) {
    const int flags =
        (kind == MappingKind::shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE) | (prefault ? MAP_POPULATE : 0);
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file.get(), 0);
    if (data == MAP_FAILED) return system_error("map", path);
    return Mapping(data, size);
  }

  /// Writes changed pages to the file and waits for the disk.
  Result<void> sync(const std::string& path) const {
    if (::msync(data_, size_, MS_SYNC) != 0) return system_error("write", path);
    return {};
  }

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  Mapping(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
  static void advise_huge([[maybe_unused]] void* data, [[maybe_unused]] std::size_t size) noexcept {
#if defined(MADV_HUGEPAGE)
    if (size >= std::size_t{4} << 20) ::madvise(data, size, MADV_HUGEPAGE);
#endif
  }
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A new file beside `target`, which takes its place in one step: whoever opens the path gets the old file or the new
/// one, whole. Removed again when it is not committed.
class ReplacementFile {
 public:
  [[nodiscard]] static Result<ReplacementFile> create(const std::string& target, std::size_t size) {
    std::string name = target;
    name.append(".XXXXXX");
    const int descriptor = ::mkstemp(name.data());
    if (descriptor < 0) return system_error("create a file beside", target);
    ReplacementFile file(FileHandle(descriptor), target, name);
    // mkstemp makes the file private; the umask decides for the one that replaces it, as for any new file.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor, 0666 & ~mask) != 0) return system_error("set the mode of", name);
    // Reserving the space now turns a full disk into an error rather than a signal on the first write.
    if (const int failed = ::posix_fallocate(descriptor, 0, static_cast<off_t>(size)); failed != 0) {
      return system_error("reserve space for", name, failed);
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
    if (::fsync(file_.get()) != 0) return system_error("write", name_);
    if (::rename(name_.c_str(), target_.c_str()) != 0) return system_error("replace", target_);
    name_.clear();
    const std::size_t slash = target_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : target_.substr(0, std::max<std::size_t>(slash, 1));
    const FileHandle directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0) return system_error("write the folder", folder);
    return {};
  }

 private:
  ReplacementFile(FileHandle file, std::string target, std::string name)
      : file_(std::move(file)), target_(std::move(target)), name_(std::move(name)) {}
  FileHandle file_;
  std::string target_;
  std::string name_;
};

SEENBY_DETAIL_END
