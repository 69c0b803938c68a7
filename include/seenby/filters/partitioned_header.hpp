#pragma once
// SPDX-License-Identifier: MIT
// The page before the bits of a PartitionedFilter's file, and how large its partitions are.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "seenby/detail/atomic_ref.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/detail/mapping.hpp"
#include "seenby/filters/container.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

SEENBY_DETAIL_BEGIN

/// A whole page, so that the bits start on one.
inline constexpr std::size_t partitioned_header_bytes = 4096;
inline constexpr std::size_t partitioned_items_at = 56;

/// 0 u8 0xC1 (container, version 1), 1 u8 kind 4, 2 u8 hash kind, 3 u8 flags (bit 0: the bits' checksum holds),
/// 4 u32 the header's checksum (low half of XXH3 over bytes 0 to 3 and 8 to 55), 8 u64 size of the file,
/// 16 u32 partitions, 20 u32 blocks in each, 24 u64 expected items, 32 f64 target rate, 40 u16 seed check, 42 six
/// zeros, 48 u64 XXH3 of the bits, 56 u64 items (changes in place, outside the checksum), 64 u32 size of the
/// note, 68 u32 its checksum (low half of XXH3), 72 the note; zeros up to 4,096.
struct PartitionedHeader {
  HashKind hash = HashKind::xxh3_64;
  bool checksum_valid = false;
  std::uint32_t partitions = 0;
  std::uint32_t blocks = 0;
  std::uint64_t expected_items = 0;
  double target_fpr = 0;
  std::uint16_t seed_check = 0;
  std::uint64_t bits_checksum = 0;

  [[nodiscard]] std::uint64_t file_bytes() const noexcept {
    return partitioned_header_bytes + std::uint64_t{partitions} * blocks * (split_block_bits / 8);
  }
};

/// The blocks of each partition, so that together they err at most at `fpr` with this many items. An item falls into
/// any block of any partition alike, so the rate is that of one filter with all the blocks.
[[nodiscard]] inline std::uint32_t partition_blocks(std::uint64_t items, double fpr, std::uint32_t partitions) {
  const auto rate_at = [&](std::uint64_t blocks) { return split_block_fpr(blocks, items, partitions); };
  const std::uint64_t most = max_filter_bits / split_block_bits;
  std::uint64_t high = 1;
  while (rate_at(high) > fpr) {
    if (high >= most) throw_too_large(items / partitions, fpr);
    high = std::min(high * 2, most);
  }
  std::uint64_t low = high / 2;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (rate_at(middle) > fpr ? low : high) = middle;
  }
  return static_cast<std::uint32_t>(high);
}

/// The count of items in a mapped header, little-endian. Processes that share the file add to it.
class FileItems {
 public:
  explicit FileItems(std::byte* header) noexcept
      : word_(*reinterpret_cast<std::uint64_t*>(header + partitioned_items_at)) {}
  [[nodiscard]] std::uint64_t load() const noexcept { return swap_unless_little(word_.load(relaxed)); }
  void store(std::uint64_t count) const noexcept { word_.store(swap_unless_little(count), relaxed); }
  void add(std::uint64_t count) const noexcept {
    std::uint64_t before = word_.load(relaxed);
    while (!word_.compare_exchange_weak(before, swap_unless_little(swap_unless_little(before) + count), relaxed)) {}
  }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  AtomicRef<std::uint64_t> word_;
};

[[nodiscard]] inline std::uint32_t partitioned_checksum(const std::byte* header) noexcept {
  std::array<std::byte, 52> covered;
  std::memcpy(covered.data(), header, 4);
  std::memcpy(covered.data() + 4, header + 8, 48);
  return static_cast<std::uint32_t>(xxh3_bytes(covered.data(), covered.size(), 0));
}

/// Writes all but the count of items. The first eight bytes go last and at once: they are all that changes in place.
inline void encode_partitioned_header(const PartitionedHeader& header, std::byte* into) noexcept {
  std::array<std::byte, partitioned_items_at> bytes{};
  bytes[0] = static_cast<std::byte>(container_magic | container_version);
  bytes[1] = static_cast<std::byte>(ContainerKind::partitioned);
  bytes[2] = static_cast<std::byte>(header.hash);
  bytes[3] = static_cast<std::byte>(header.checksum_valid ? 1 : 0);
  store_le(bytes.data() + 8, header.file_bytes());
  store_le(bytes.data() + 16, header.partitions);
  store_le(bytes.data() + 20, header.blocks);
  store_le(bytes.data() + 24, header.expected_items);
  store_le(bytes.data() + 32, std::bit_cast<std::uint64_t>(header.target_fpr));
  store_le(bytes.data() + 40, header.seed_check);
  store_le(bytes.data() + 48, header.bits_checksum);
  store_le(bytes.data() + 4, partitioned_checksum(bytes.data()));
  std::memcpy(into + 8, bytes.data() + 8, bytes.size() - 8);
  std::uint64_t first;
  std::memcpy(&first, bytes.data(), sizeof first);
  AtomicRef<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(into)).store(first, std::memory_order_release);
}

inline constexpr std::size_t note_at = 64;
inline constexpr std::size_t max_note_bytes = partitioned_header_bytes - note_at - 8;

inline void require_note(std::span<const std::byte> note) {
  if (note.size() <= max_note_bytes) return;
  std::string message = "seenby: expected a note of at most ";
  message.append(std::to_string(max_note_bytes)).append(" bytes, got ").append(std::to_string(note.size()));
  throw std::invalid_argument(message);
}
inline void encode_note(std::span<const std::byte> note, std::byte* header) noexcept {
  if (note.empty()) return;  // the page is zeros
  store_le(header + note_at, static_cast<std::uint32_t>(note.size()));
  store_le(header + note_at + 4, static_cast<std::uint32_t>(xxh3_bytes(note.data(), note.size(), 0)));
  std::memcpy(header + note_at + 8, note.data(), note.size());
}
[[nodiscard]] inline std::span<const std::byte> decode_note(const std::byte* header) noexcept {
  const auto size = load_le<std::uint32_t>(header + note_at);
  if (size == 0 || size > max_note_bytes) return {};
  const std::span<const std::byte> note(header + note_at + 8, size);
  const auto checksum = static_cast<std::uint32_t>(xxh3_bytes(note.data(), note.size(), 0));
  return load_le<std::uint32_t>(header + note_at + 4) == checksum ? note : std::span<const std::byte>{};
}

/// Checks everything in a header that can be checked against the size of its file.
[[nodiscard]] inline Result<PartitionedHeader> decode_partitioned_header(std::span<const std::byte> bytes,
                                                                         std::uint64_t file_bytes) {
  if (bytes.size() < partitioned_header_bytes || file_bytes < partitioned_header_bytes) {
    std::string message = "expected a file of at least 4096 bytes, got ";
    return container_error(ErrorCode::truncated, message.append(std::to_string(file_bytes)));
  }
  const std::byte* at = bytes.data();
  if (auto start = check_container_start(bytes, ContainerKind::partitioned); !start) return std::move(start).error();
  const std::uint32_t checksum = partitioned_checksum(at);
  if (const auto expected = load_le<std::uint32_t>(at + 4); expected != checksum) {
    std::string message = "expected header checksum ";
    message.append(std::to_string(expected)).append(", but the bytes give ").append(std::to_string(checksum));
    return container_error(ErrorCode::corrupt, message);
  }
  PartitionedHeader header;
  header.hash = static_cast<HashKind>(at[2]);
  header.checksum_valid = (at[3] & std::byte{1}) != std::byte{0};
  header.partitions = load_le<std::uint32_t>(at + 16);
  header.blocks = load_le<std::uint32_t>(at + 20);
  header.expected_items = load_le<std::uint64_t>(at + 24);
  header.target_fpr = std::bit_cast<double>(load_le<std::uint64_t>(at + 32));
  header.seed_check = load_le<std::uint16_t>(at + 40);
  header.bits_checksum = load_le<std::uint64_t>(at + 48);
  const bool sane = header.partitions >= 1 && header.partitions <= 65'536 && header.blocks >= 1 &&
                    header.blocks <= max_filter_bits / split_block_bits && header.target_fpr > 0 &&
                    header.target_fpr < 1 && header.file_bytes() == load_le<std::uint64_t>(at + 8);
  if (!sane) return container_error(ErrorCode::corrupt, "expected a partitioned filter, but its fields cannot be");
  if (header.file_bytes() != file_bytes) {
    std::string message = "expected a file of ";
    message.append(std::to_string(header.file_bytes())).append(" bytes, got ").append(std::to_string(file_bytes));
    return container_error(file_bytes < header.file_bytes() ? ErrorCode::truncated : ErrorCode::corrupt, message);
  }
  return header;
}

[[nodiscard]] inline Result<PartitionedHeader> read_partitioned_header(const FileHandle& file,
                                                                       const std::string& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error("read", path);
  if (!S_ISREG(status.st_mode)) return not_regular(path);
  std::array<std::byte, partitioned_header_bytes> bytes{};
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t part = ::pread(file.get(), bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return system_error("read", path);
    if (part == 0) break;
    got += static_cast<std::size_t>(part);
  }
  auto header = decode_partitioned_header(std::span(bytes).first(got), static_cast<std::uint64_t>(status.st_size));
  if (header) return header;
  Error error = std::move(header).error();
  error.message.append(" in ").append(path);
  return error;
}

/// Reads all the bits and compares them with their checksum.
[[nodiscard]] inline Result<void> verify_bits(const PartitionedHeader& header, const Mapping& map) {
  if (!header.checksum_valid) {
    return container_error(ErrorCode::unavailable, "expected a file with a checksum, got one written to in place");
  }
  const std::uint64_t actual =
      xxh3_bytes(map.data() + partitioned_header_bytes, map.size() - partitioned_header_bytes, 0);
  if (actual == header.bits_checksum) return {};
  std::string message = "expected bits of checksum ";
  message.append(std::to_string(header.bits_checksum)).append(", but they give ").append(std::to_string(actual));
  return container_error(ErrorCode::corrupt, message);
}

SEENBY_DETAIL_END
