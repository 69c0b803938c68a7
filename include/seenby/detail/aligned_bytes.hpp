#pragma once
// SPDX-License-Identifier: MIT
// A zeroed byte array on a cache-line boundary, on huge pages where it is large.

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// Owns `size` zeroed bytes, aligned to 64. Copies deep. From 4 MiB on it asks for 2 MiB pages: a probe into a large
/// filter then misses the cache, but not the TLB as well.
class AlignedBytes {
 public:
  AlignedBytes() noexcept = default;
  explicit AlignedBytes(std::size_t size) : size_(size) {
    if (size == 0) return;
    const std::size_t alignment = alignment_of(size);
    // Allocating whole alignment units lets the last page be huge as well.
    data_ = static_cast<std::byte*>(::operator new (size, std::align_val_t{alignment}));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= large) ::madvise(data_, size, MADV_HUGEPAGE);
#endif
    std::memset(data_, 0, size);
  }
  AlignedBytes(const AlignedBytes& other) : AlignedBytes(other.size_) {
    if (size_ != 0) std::memcpy(data_, other.data_, size_);
  }
  AlignedBytes(AlignedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBytes& operator=(AlignedBytes other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBytes() {
    if (data_ != nullptr) ::operator delete (data_, std::align_val_t{alignment_of(size_)});
  }

  [[nodiscard]] std::byte* data() noexcept { return data_; }
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const std::byte> span() const noexcept { return {data_, size_}; }

 private:
  static constexpr std::size_t large = std::size_t{4} << 20;
  [[nodiscard]] static constexpr std::size_t alignment_of(std::size_t size) noexcept {
    return size >= large ? std::size_t{2} << 20 : 64;
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

SEENBY_DETAIL_END
