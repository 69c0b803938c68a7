#pragma once
// SPDX-License-Identifier: MIT
// Mapping: memory straight from the operating system, zeroed or backed by a file.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "seenby/config.hpp"
#include "seenby/detail/file.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

enum class MappingKind : std::uint8_t {
  private_copy,  ///< writes stay in this process
  shared,        ///< writes reach the file and every other mapping of it
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

SEENBY_DETAIL_END
