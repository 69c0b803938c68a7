#pragma once
// SPDX-License-Identifier: MIT
// The envelope around structures made of several filters: a checked header, then little-endian fields.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "seenby/config.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

/// What an envelope holds.
enum class ContainerKind : std::uint8_t {
  scalable = 1,
  rotating = 2,
  counting = 3,
  partitioned = 4,
  blob_slices = 6  // 5 was never written
};

inline constexpr std::uint8_t container_magic = 0xC0;  // beside 0xB0, a single filter
inline constexpr std::uint8_t container_version = 1;
inline constexpr std::size_t container_header_bytes = 16;

/// Appends fields behind an envelope's header, which finish() fills in:
/// 0 u8 0xC1 (container, version 1), 1 u8 kind, 2 u16 zero, 4 u32 checksum (the low half of XXH3, seed = kind, over
/// everything behind it), 8 u64 the envelope's size in bytes.
class ContainerWriter {
 public:
  explicit ContainerWriter(ContainerKind kind) : kind_(kind), bytes_(container_header_bytes) {}

  template <class Word>
  requires std::is_arithmetic_v<Word>
  void put(Word word) {
    std::array<std::byte, sizeof(Word)> field;
    if constexpr (std::is_floating_point_v<Word>) {
      store_le(field.data(), std::bit_cast<std::uint64_t>(static_cast<double>(word)));
    } else {
      store_le(field.data(), static_cast<std::make_unsigned_t<Word>>(word));
    }
    append(field);
  }
  void put_bytes(std::span<const std::byte> part) {
    put(std::uint64_t{part.size()});
    append(part);
  }

  [[nodiscard]] std::vector<std::byte> finish() {
    bytes_[0] = static_cast<std::byte>(container_magic | container_version);
    bytes_[1] = static_cast<std::byte>(kind_);
    store_le(bytes_.data() + 8, std::uint64_t{bytes_.size()});
    const auto covered = std::span<const std::byte>(bytes_).subspan(8);
    const auto seed = static_cast<std::uint64_t>(kind_);
    store_le(bytes_.data() + 4, static_cast<std::uint32_t>(xxh3_bytes(covered.data(), covered.size(), seed)));
    return std::move(bytes_);
  }

 private:
  // Inlined into long encoders, the growth of the vector has GCC 12 at -O3 warn of an overflow that cannot be.
  [[gnu::noinline]] void append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes.size());
    std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
  }

  ContainerKind kind_;
  std::vector<std::byte> bytes_;
};

[[nodiscard]] inline Error container_error(ErrorCode code, std::string_view message) {
  return {code, std::string("seenby: ").append(message)};
}

/// Checks magic, version and kind: the first two bytes, which must be there.
[[nodiscard]] inline Result<void> check_container_start(std::span<const std::byte> bytes, ContainerKind kind) {
  const auto first = std::to_integer<std::uint8_t>(bytes[0]);
  if ((first & 0xf0U) != container_magic) {
    std::string message = "expected the first byte to be 0xc1 (a seenby container, version 1), got ";
    return container_error(ErrorCode::bad_magic, message.append(std::to_string(first)));
  }
  if ((first & 0x0fU) != container_version) {
    std::string message = "expected container version 1, got ";
    return container_error(ErrorCode::unsupported_version, message.append(std::to_string(first & 0x0fU)));
  }
  if (bytes[1] != static_cast<std::byte>(kind)) {
    std::string message = "expected a container of kind ";
    message.append(std::to_string(static_cast<unsigned>(kind))).append(", got kind ");
    return container_error(ErrorCode::wrong_type, message.append(std::to_string(std::to_integer<unsigned>(bytes[1]))));
  }
  return {};
}

/// Reads fields in the order they were put. Reading past the end gives zeros and makes ok() false permanently, so that
/// a decoder checks once, at the end of each group.
class ContainerReader {
 public:
  /// Checks an envelope's header, size and checksum. Errors: truncated, bad_magic, unsupported_version, wrong_type
  /// (another kind), corrupt.
  [[nodiscard]] static Result<ContainerReader> open(std::span<const std::byte> bytes, ContainerKind kind) {
    if (bytes.size() < container_header_bytes) {
      std::string message = "expected a container of at least 16 bytes, got ";
      return container_error(ErrorCode::truncated, message.append(std::to_string(bytes.size())));
    }
    if (auto start = check_container_start(bytes, kind); !start) return std::move(start).error();
    const auto size = load_le<std::uint64_t>(bytes.data() + 8);
    if (size != bytes.size()) {
      std::string message = "expected a container of ";
      message.append(std::to_string(size)).append(" bytes, got ").append(std::to_string(bytes.size()));
      return container_error(size > bytes.size() ? ErrorCode::truncated : ErrorCode::corrupt, message);
    }
    const auto covered = bytes.subspan(8);
    const auto seed = static_cast<std::uint64_t>(kind);
    const auto actual = static_cast<std::uint32_t>(xxh3_bytes(covered.data(), covered.size(), seed));
    const auto expected = load_le<std::uint32_t>(bytes.data() + 4);
    if (expected != actual || bytes[2] != std::byte{0} || bytes[3] != std::byte{0}) {
      std::string message = "expected checksum ";
      message.append(std::to_string(expected)).append(", but the bytes give ").append(std::to_string(actual));
      return container_error(ErrorCode::corrupt, message.append("; the container was damaged"));
    }
    return ContainerReader(bytes.subspan(container_header_bytes));
  }

  template <class Word>
  requires std::is_arithmetic_v<Word>
  [[nodiscard]] Word take() noexcept {
    if (rest_.size() < sizeof(Word)) return fail(), Word{};
    const std::byte* at = rest_.data();
    rest_ = rest_.subspan(sizeof(Word));
    if constexpr (std::is_floating_point_v<Word>) {
      static_assert(sizeof(Word) == 8);
      return std::bit_cast<Word>(load_le<std::uint64_t>(at));
    } else {
      return static_cast<Word>(load_le<std::make_unsigned_t<Word>>(at));
    }
  }
  /// A part that put_bytes wrote; no copy.
  [[nodiscard]] std::span<const std::byte> take_bytes() noexcept {
    const auto size = take<std::uint64_t>();
    if (size > rest_.size()) return fail(), std::span<const std::byte>{};
    const auto part = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(part.size());
    return part;
  }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  /// Everything was read, and nothing past it.
  [[nodiscard]] bool complete() const noexcept { return ok_ && rest_.empty(); }

 private:
  explicit ContainerReader(std::span<const std::byte> rest) noexcept : rest_(rest) {}
  void fail() noexcept {
    ok_ = false;
    rest_ = {};
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

SEENBY_DETAIL_END
