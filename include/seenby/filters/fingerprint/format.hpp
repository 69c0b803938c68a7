#pragma once
// SPDX-License-Identifier: MIT
// Format 2: the 48-byte header before a fingerprint table, and the sections behind it. tests/golden/FORMAT-TABLE.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/bits.hpp"
#include "seenby/filters/fingerprint_table.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby {

inline constexpr std::size_t table_header_bytes = 48;  ///< the encoded size of a TableHeader

/// A fingerprint table's header, decoded.
struct TableHeader {
  FingerprintShape shape{};           ///< where the bytes of the table are
  HashKind hash = HashKind::xxh3_64;  ///< which hash made the digests
  bool covers_body = false;           ///< the checksum covers what follows the header: not in values changed in place
  std::uint16_t seed_check = 0;       ///< tells two seeds apart
  std::uint64_t generation = 0;       ///< random; new with every create, grow and rebuild
  std::uint32_t slice_seconds = 0;    ///< what a slice covers; 0 without slices
  std::uint32_t sequence = 0;         ///< raised by every write
  std::uint32_t count = 0;            ///< lanes in use
  std::uint32_t newest = 0;           ///< the number of the newest slice: seconds since 1970 / slice_seconds
  double share = 0.01;                ///< what the table may err; kept to 0.07%, rounded down
  /// Sections that follow the table.
  std::uint16_t section_count = 0;
  std::uint32_t section_bytes = 0;  ///< their size together

  /// The whole value's size.
  [[nodiscard]] std::uint64_t value_bytes() const noexcept {
    return table_header_bytes + shape.bytes() + section_bytes;
  }
  friend bool operator==(const TableHeader&, const TableHeader&) = default;  ///< equal in every member
};

/// What a section holds. Writers keep the sections of kinds that they do not know.
enum class SectionKind : std::uint16_t {
  hides = 1,      ///< items a user hid for good
  kept_last = 2,  ///< the items a user saw last, the oldest first
  in_flight = 4,  ///< items reported as seen and not recorded yet, each until its time (3: blob/record.hpp)
};
/// An entry of such a section: exact, whatever the table says.
struct SectionEntry {
  Digest digest;          ///< the item's digest
  std::int64_t time = 0;  ///< seconds since 1970
  std::string text;       ///< the item as text or bytes, where the writer has it; at most 65,535 bytes

  friend bool operator==(const SectionEntry&, const SectionEntry&) = default;  ///< equal in every member
};
/// A section, undecoded.
struct Section {
  SectionKind kind = SectionKind::hides;  ///< what it holds
  std::span<const std::byte> bytes;       ///< within the value
};

/// A value, decoded in place: everything refers to its bytes.
struct TableValue {
  TableHeader header;                   ///< decoded and checked
  FingerprintView table;                ///< over the value's bytes
  std::span<const std::byte> sections;  ///< undecoded, behind the table

  /// The first section of a kind; empty when there is none.
  [[nodiscard]] std::span<const std::byte> section(SectionKind kind) const noexcept;
};

/// Writes the header into 48 bytes. `rest`, everything behind it, matters only when header.covers_body.
void encode_table_header(const TableHeader& header, std::span<const std::byte> rest,
                         std::span<std::byte, table_header_bytes> into);

/// Reads and checks a header; `value_bytes` is the whole value's size. Checks everything before the caller allocates.
/// Errors: truncated, bad_magic, unsupported_version, corrupt, too_large.
[[nodiscard]] Result<TableHeader> decode_table_header(std::span<const std::byte> bytes, std::uint64_t value_bytes);

/// Reads and checks a whole value: the header, the index, that each lane in use has a fingerprint, and where sections
/// end. O(buckets + lanes). The same errors.
[[nodiscard]] Result<TableValue> decode_table(std::span<const std::byte> bytes);

/// Whether a table of this header can be asked with digests of this hash: kind and seed check agree.
template <Hasher H>
[[nodiscard]] Result<void> check_hash(const TableHeader& header, const H& hash) {
  FilterHeader same;
  same.hash = header.hash;
  same.seed_check = header.seed_check;
  return check_hash(same, hash);
}

/// The entries of a section's bytes. Errors: corrupt.
[[nodiscard]] Result<std::vector<SectionEntry>> decode_entries(std::span<const std::byte> section);
/// Appends a section to a value's section list. Throws std::invalid_argument for a text over 65,535 bytes.
void append_section(std::vector<std::byte>& sections, SectionKind kind, std::span<const SectionEntry> entries);

}  // namespace seenby

SEENBY_DETAIL_BEGIN

inline constexpr std::uint8_t table_version = 2;
inline constexpr std::uint8_t table_layout = 4;
inline constexpr std::size_t section_header_bytes = 8;
inline constexpr std::size_t entry_header_bytes = 18;

/// Sequence, count, newest slice, and the sections' number and size change in place and stay outside where the body
/// does.
[[nodiscard]] inline std::uint32_t table_checksum(std::span<const std::byte> header, bool covers_body,
                                                  std::span<const std::byte> rest) noexcept {
  std::array<std::byte, 44> covered{};
  std::memcpy(covered.data(), header.data(), covered.size());
  if (!covers_body) {
    std::memset(covered.data() + 24, 0, 12);
    std::memset(covered.data() + 38, 0, 6);
  }
  const std::uint64_t rest_hash = covers_body ? xxh3_bytes(rest.data(), rest.size(), 2) : 0;
  return static_cast<std::uint32_t>(xxh3_bytes(covered.data(), covered.size(), rest_hash));
}

/// Takes a section off the front of a list; false, leaving it, when none is there whole.
[[nodiscard]] inline bool next_section(std::span<const std::byte>& rest, Section& section) noexcept {
  if (rest.size() < section_header_bytes) return false;
  const auto size = load_le<std::uint32_t>(rest.data() + 4);
  if (size > rest.size() - section_header_bytes) return false;
  section = {static_cast<SectionKind>(load_le<std::uint16_t>(rest.data())), rest.subspan(section_header_bytes, size)};
  rest = rest.subspan(section_header_bytes + size);
  return true;
}

/// Whether a header's fields allow each other, and its checksum holds.
[[nodiscard]] inline Result<void> check_table_header(const TableHeader& header, std::span<const std::byte> bytes,
                                                     std::uint64_t value_bytes) {
  const auto hash = static_cast<unsigned>(header.hash);
  if (hash < 1 || hash > 3 || !(header.share < 1)) {
    return header_error(ErrorCode::corrupt, "expected hash 1 to 3 and a share, got another");
  }
  if (header.shape.bucket_bits > FingerprintShape::max_bucket_bits ||
      header.shape.tail_bytes > FingerprintShape::max_tail_bytes) {
    std::string message = "expected at most 28 bucket bits and 4 tail bytes, got ";
    message.append(std::to_string(header.shape.bucket_bits)).append(" and ");
    return header_error(ErrorCode::too_large, message.append(std::to_string(header.shape.tail_bytes)));
  }
  if (header.count > header.shape.capacity || value_bytes != header.value_bytes()) {
    std::string message = "expected ";
    message.append(std::to_string(header.value_bytes())).append(" bytes (the table's and its sections'), got ");
    message.append(std::to_string(value_bytes));
    return header_error(value_bytes < header.value_bytes() ? ErrorCode::truncated : ErrorCode::corrupt, message);
  }
  if (header.covers_body && bytes.size() != value_bytes) {
    return header_error(ErrorCode::invalid_argument, "expected the whole value, since its checksum covers the body");
  }
  const auto expected = load_le<std::uint32_t>(bytes.data() + 44);
  const auto actual = table_checksum(bytes.first(table_header_bytes), header.covers_body,
                                     header.covers_body ? bytes.subspan(table_header_bytes) : bytes.first(0));
  if (expected == actual) return {};
  std::string message = "expected checksum ";
  message.append(std::to_string(expected)).append(", but the bytes give ").append(std::to_string(actual));
  return header_error(ErrorCode::corrupt, message.append("; the table was damaged"));
}

SEENBY_DETAIL_END

namespace seenby {

inline void encode_table_header(const TableHeader& header, std::span<const std::byte> rest,
                                std::span<std::byte, table_header_bytes> into) {
  std::byte* const at = into.data();
  at[0] = static_cast<std::byte>(detail::format_magic | detail::table_version);
  at[1] = static_cast<std::byte>(detail::table_layout | (header.covers_body ? detail::covers_bits_flag : 0U));
  at[2] = static_cast<std::byte>(header.shape.bucket_bits);
  at[3] = static_cast<std::byte>(header.hash);
  at[4] = static_cast<std::byte>(header.shape.tail_bytes);
  at[5] = std::byte{0};
  detail::store_le(at + 6, header.seed_check);
  detail::store_le(at + 8, header.generation);
  detail::store_le(at + 16, header.shape.sliced ? header.slice_seconds : 0U);
  detail::store_le(at + 20, header.shape.capacity);
  detail::store_le(at + 24, header.sequence);
  detail::store_le(at + 28, header.count);
  detail::store_le(at + 32, header.newest);
  detail::store_le(at + 36, detail::fpr_code(header.share));
  detail::store_le(at + 38, header.section_count);
  detail::store_le(at + 40, header.section_bytes);
  detail::store_le(at + 44, detail::table_checksum(into, header.covers_body, rest));
}

inline Result<TableHeader> decode_table_header(std::span<const std::byte> bytes, std::uint64_t value_bytes) {
  const std::byte* const at = bytes.data();
  if (!bytes.empty() && at[0] != static_cast<std::byte>(detail::format_magic | detail::table_version)) {
    const auto first = std::to_integer<unsigned>(at[0]);
    std::string message = "expected the first byte to be 0xb2 (a seenby table, format 2), got ";
    return detail::header_error(
        (first & 0xf0U) == detail::format_magic ? ErrorCode::unsupported_version : ErrorCode::bad_magic,
        message.append(std::to_string(first)));
  }
  if (bytes.size() < table_header_bytes || value_bytes < table_header_bytes) {
    std::string message = "expected a table of at least 48 bytes, got ";
    return detail::header_error(ErrorCode::truncated,
                                message.append(std::to_string(std::min<std::uint64_t>(bytes.size(), value_bytes))));
  }
  const auto layout = std::to_integer<unsigned>(at[1]);
  if ((layout & 0x7fU) != detail::table_layout || at[5] != std::byte{0}) {
    return detail::header_error(ErrorCode::corrupt, "expected layout 4 and a zero byte, got another");
  }
  TableHeader header;
  header.covers_body = (layout & detail::covers_bits_flag) != 0;
  header.shape.bucket_bits = std::to_integer<std::uint8_t>(at[2]);
  header.hash = static_cast<HashKind>(at[3]);
  header.shape.tail_bytes = std::to_integer<std::uint8_t>(at[4]);
  header.seed_check = detail::load_le<std::uint16_t>(at + 6);
  header.generation = detail::load_le<std::uint64_t>(at + 8);
  header.slice_seconds = detail::load_le<std::uint32_t>(at + 16);
  header.shape.sliced = header.slice_seconds != 0;
  header.shape.capacity = detail::load_le<std::uint32_t>(at + 20);
  header.sequence = detail::load_le<std::uint32_t>(at + 24);
  header.count = detail::load_le<std::uint32_t>(at + 28);
  header.newest = detail::load_le<std::uint32_t>(at + 32);
  header.share = std::exp2(-static_cast<double>(detail::load_le<std::uint16_t>(at + 36)) / detail::fpr_code_scale);
  header.section_count = detail::load_le<std::uint16_t>(at + 38);
  header.section_bytes = detail::load_le<std::uint32_t>(at + 40);
  if (auto sound = detail::check_table_header(header, bytes, value_bytes); !sound) return std::move(sound).error();
  return header;
}

inline Result<TableValue> decode_table(std::span<const std::byte> bytes) {
  auto header = decode_table_header(bytes, bytes.size());
  if (!header) return std::move(header).error();
  const auto body_bytes = static_cast<std::size_t>(header->shape.bytes());
  const std::byte* const body = bytes.data() + table_header_bytes;
  TableValue value{*header, FingerprintView(header->shape, header->count, body),
                   bytes.subspan(table_header_bytes + body_bytes)};
  if (!value.table.is_sound()) {
    return detail::header_error(ErrorCode::corrupt, "expected an index of the lanes in use, got another");
  }
  std::span<const std::byte> rest = value.sections;
  Section section;
  std::uint32_t count = 0;
  while (detail::next_section(rest, section)) ++count;
  if (!rest.empty() || count != header->section_count) {
    return detail::header_error(ErrorCode::corrupt, "expected whole sections to the value's end, got others");
  }
  return value;
}

inline std::span<const std::byte> TableValue::section(SectionKind kind) const noexcept {
  std::span<const std::byte> rest = sections;
  Section section;
  while (detail::next_section(rest, section)) {
    if (section.kind == kind) return section.bytes;
  }
  return {};
}

inline Result<std::vector<SectionEntry>> decode_entries(std::span<const std::byte> section) {
  std::vector<SectionEntry> entries;
  while (section.size() >= detail::entry_header_bytes) {
    const auto size = detail::load_le<std::uint16_t>(section.data() + 16);
    if (size > section.size() - detail::entry_header_bytes) break;
    SectionEntry entry{Digest{detail::load_le<std::uint64_t>(section.data())},
                       static_cast<std::int64_t>(detail::load_le<std::uint64_t>(section.data() + 8)),
                       std::string(size, '\0')};
    if (size > 0) std::memcpy(entry.text.data(), section.data() + detail::entry_header_bytes, size);
    entries.push_back(std::move(entry));
    section = section.subspan(detail::entry_header_bytes + size);
  }
  if (!section.empty()) return detail::header_error(ErrorCode::corrupt, "expected whole entries in a section");
  return entries;
}

inline void append_section(std::vector<std::byte>& sections, SectionKind kind, std::span<const SectionEntry> entries) {
  const std::size_t from = sections.size();
  sections.resize(from + detail::section_header_bytes);
  for (const SectionEntry& entry : entries) {
    if (entry.text.size() > std::numeric_limits<std::uint16_t>::max()) {
      throw std::invalid_argument(std::string("seenby: expected an item's text of at most 65,535 bytes, got ")
                                      .append(std::to_string(entry.text.size())));
    }
    const std::size_t at = sections.size();
    sections.resize(at + detail::entry_header_bytes + entry.text.size());
    detail::store_le(sections.data() + at, entry.digest.value);
    detail::store_le(sections.data() + at + 8, static_cast<std::uint64_t>(entry.time));
    detail::store_le(sections.data() + at + 16, static_cast<std::uint16_t>(entry.text.size()));
    if (!entry.text.empty()) {
      std::memcpy(sections.data() + at + detail::entry_header_bytes, entry.text.data(), entry.text.size());
    }
  }
  detail::store_le(sections.data() + from, static_cast<std::uint16_t>(kind));
  detail::store_le(sections.data() + from + 2, std::uint16_t{0});
  detail::store_le(sections.data() + from + 4,
                   static_cast<std::uint32_t>(sections.size() - from - detail::section_header_bytes));
}

}  // namespace seenby
