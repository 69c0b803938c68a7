#pragma once
// SPDX-License-Identifier: MIT
// Format v1: the 32-byte header before a filter's bits, the same in files, containers and Redis.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby {

inline constexpr std::size_t header_bytes = 32;  ///< the encoded size of a FilterHeader
/// The first bytes of a header: what makes two filters' bits comparable, and this filter this one. A remote write
/// compares them and changes nothing when they differ.
inline constexpr std::size_t identity_bytes = 16;

/// A filter's header, decoded. Field by field in tests/golden/FORMAT.md.
struct FilterHeader {
  FilterShape shape;                  ///< layout, bits and k
  HashKind hash = HashKind::xxh3_64;  ///< which hash made the digests
  bool covers_bits = false;           ///< the checksum covers the bits too: files, not live values
  std::uint64_t generation = 0;       ///< random; new with every create, grow and rebuild
  std::uint32_t sequence = 0;         ///< bumped by every add, even one that changes no bit
  std::uint32_t items = 0;            ///< items added; saturates
  double target_fpr = 0.01;           ///< kept to 0.07%, rounded down
  std::uint16_t seed_check = 0;       ///< tells two seeds apart

  friend bool operator==(const FilterHeader&, const FilterHeader&) = default;  ///< equal in every member
};

/// Writes the header into 32 bytes. `bits` matters only when header.covers_bits.
void encode_header(const FilterHeader& header, std::span<const std::byte> bits,
                   std::span<std::byte, header_bytes> into);

/// Reads and checks a header: `bytes` is the whole value, or at least its header. Checks everything that can be
/// checked before the caller allocates for it; `value_bytes` is the size of the whole value (bytes.size() unless only a
/// part was read). Errors: truncated, bad_magic, unsupported_version, corrupt, too_large.
[[nodiscard]] Result<FilterHeader> decode_header(std::span<const std::byte> bytes, std::uint64_t value_bytes);
/// The same of bytes alone.
[[nodiscard]] inline Result<FilterHeader> decode_header(std::span<const std::byte> bytes) {
  return decode_header(bytes, bytes.size());
}

/// How long the value is that begins with these bytes, header and bits, as its size field claims; 0 when they are too
/// few to tell. Unchecked: for cutting values apart before decode_header judges each.
[[nodiscard]] std::uint64_t claimed_value_bytes(std::span<const std::byte> bytes) noexcept;

/// Whether a filter of this header can be asked with digests of this hash: kind and seed check agree.
template <Hasher H>
[[nodiscard]] Result<void> check_hash(const FilterHeader& header, const H& hash);

}  // namespace seenby

SEENBY_DETAIL_BEGIN

inline constexpr std::uint8_t format_magic = 0xB0;
inline constexpr std::uint8_t format_version = 1;
inline constexpr std::uint8_t covers_bits_flag = 0x80;
inline constexpr double fpr_code_scale = 1024;

[[nodiscard]] inline std::uint32_t header_checksum(std::span<const std::byte> header, bool covers_bits,
                                                   std::span<const std::byte> bits) noexcept {
  std::array<std::byte, 28> covered{};
  std::memcpy(covered.data(), header.data(), 28);
  // A live store bumps the sequence and the item count in place, so there they stay outside.
  if (!covers_bits) std::memset(covered.data() + 16, 0, 8);
  const std::uint64_t bits_hash = covers_bits ? xxh3_bytes(bits.data(), bits.size(), 1) : 0;
  return static_cast<std::uint32_t>(xxh3_bytes(covered.data(), covered.size(), bits_hash));
}

[[nodiscard]] inline std::uint64_t size_unit_bits(LayoutKind layout) noexcept {
  return layout == LayoutKind::split_block ? split_block_bits : 64;
}

/// -log2(p) in 1/1024ths, rounded up so that the decoded rate is never looser than the encoded one; 1 at the least.
[[nodiscard]] inline std::uint16_t fpr_code(double fpr) noexcept {
  // The small subtraction lets a decoded rate encode to the same code again.
  const double code = std::ceil(-std::log2(fpr) * fpr_code_scale - 1e-6);
  return static_cast<std::uint16_t>(std::min(65535.0, std::max(1.0, code)));
}

[[nodiscard]] inline Error header_error(ErrorCode code, std::string_view message) {
  return {code, std::string("seenby: ").append(message)};
}

// The steps of decode_header, in this order.

[[nodiscard]] inline Result<void> check_start(std::span<const std::byte> bytes, std::uint64_t value_bytes) {
  if (bytes.size() < header_bytes || value_bytes < header_bytes) {
    std::string message = "expected a filter of at least 32 bytes, got ";
    message.append(std::to_string(std::min<std::uint64_t>(bytes.size(), value_bytes)));
    return header_error(ErrorCode::truncated, message);
  }
  const auto first = std::to_integer<std::uint8_t>(bytes[0]);
  if ((first & 0xf0U) != format_magic) {
    std::string message = "expected the first byte to be 0xb1 (a seenby filter, format 1), got ";
    return header_error(ErrorCode::bad_magic, message.append(std::to_string(first)));
  }
  if ((first & 0x0fU) != format_version) {
    std::string message = "expected format version 1, got ";
    message.append(std::to_string(first & 0x0fU));
    if ((first & 0x0fU) > format_version) message.append("; a newer seenby wrote this filter");
    return header_error(ErrorCode::unsupported_version, message);
  }
  return {};
}

[[nodiscard]] inline FilterHeader header_fields(const std::byte* at) noexcept {
  const auto layout = std::to_integer<std::uint8_t>(at[1]);
  FilterHeader header;
  header.covers_bits = (layout & covers_bits_flag) != 0;
  header.shape.layout = static_cast<LayoutKind>(layout & 0x7fU);
  header.shape.hash_count = std::to_integer<std::uint8_t>(at[2]);
  header.shape.bits = load_le<std::uint32_t>(at + 4) * size_unit_bits(header.shape.layout);
  header.hash = static_cast<HashKind>(at[3]);
  header.generation = load_le<std::uint64_t>(at + 8);
  header.sequence = load_le<std::uint32_t>(at + 16);
  header.items = load_le<std::uint32_t>(at + 20);
  header.target_fpr = std::exp2(-load_le<std::uint16_t>(at + 24) / fpr_code_scale);
  header.seed_check = load_le<std::uint16_t>(at + 26);
  return header;
}

[[nodiscard]] inline Result<void> check_fields(const FilterHeader& header) {
  const auto corrupt = [](std::string message, std::uint64_t got) {
    return header_error(ErrorCode::corrupt, message.append(std::to_string(got)));
  };
  const auto [layout, k, bits] = header.shape;
  if (layout < LayoutKind::classic_v1 || layout > LayoutKind::classic) {
    return corrupt("expected layout 1 (classic, first form), 2 (split block) or 3 (classic), got ",
                   static_cast<unsigned>(layout));
  }
  if (header.hash < HashKind::xxh3_64 || header.hash > HashKind::mix64) {
    return corrupt("expected hash 1 (xxh3_64), 2 (xxh64) or 3 (mix64), got ", static_cast<unsigned>(header.hash));
  }
  if (layout == LayoutKind::split_block && k != 8) return corrupt("expected k = 8 in a split-block filter, got ", k);
  if (k < 1 || k > max_hash_count) return corrupt("expected k from 1 to 64, got ", k);
  if (bits == 0) return corrupt("expected 1 to 2^37 bits, got ", bits);
  if (bits > max_filter_bits) {
    return header_error(ErrorCode::too_large,
                        std::string("expected 1 to 2^37 bits, got ").append(std::to_string(bits)));
  }
  if (header.target_fpr >= 1) return corrupt("expected a target rate below 1, got ", 1);
  return {};
}

[[nodiscard]] inline Result<void> check_value_size(const FilterHeader& header, std::uint64_t value_bytes) {
  const std::uint64_t expected = header_bytes + header.shape.bytes();
  if (value_bytes == expected) return {};
  std::string message = "expected ";
  message.append(std::to_string(expected)).append(" bytes (32 of header and ");
  message.append(std::to_string(header.shape.bytes())).append(" of bits), got ").append(std::to_string(value_bytes));
  return header_error(value_bytes < expected ? ErrorCode::truncated : ErrorCode::corrupt, message);
}

[[nodiscard]] inline Result<void> check_checksum(const FilterHeader& header, std::span<const std::byte> bytes,
                                                 std::uint64_t value_bytes) {
  if (header.covers_bits && bytes.size() != value_bytes) {
    return header_error(ErrorCode::invalid_argument, "expected the whole value, since its checksum covers the bits");
  }
  const auto expected = load_le<std::uint32_t>(bytes.data() + 28);
  const auto actual = header_checksum(bytes.first(header_bytes), header.covers_bits,
                                      header.covers_bits ? bytes.subspan(header_bytes) : bytes.first(0));
  if (expected == actual) return {};
  std::string message = "expected checksum ";
  message.append(std::to_string(expected)).append(", but the bytes give ").append(std::to_string(actual));
  return header_error(ErrorCode::corrupt, message.append("; the filter was damaged"));
}

SEENBY_DETAIL_END

namespace seenby {

inline void encode_header(const FilterHeader& header, std::span<const std::byte> bits,
                          std::span<std::byte, header_bytes> into) {
  std::byte* at = into.data();
  at[0] = static_cast<std::byte>(detail::format_magic | detail::format_version);
  at[1] = static_cast<std::byte>(static_cast<unsigned>(header.shape.layout) |
                                 (header.covers_bits ? detail::covers_bits_flag : 0U));
  at[2] = static_cast<std::byte>(header.shape.hash_count);
  at[3] = static_cast<std::byte>(header.hash);
  const std::uint64_t units = header.shape.bits / detail::size_unit_bits(header.shape.layout);
  detail::store_le(at + 4, static_cast<std::uint32_t>(units));
  detail::store_le(at + 8, header.generation);
  detail::store_le(at + 16, header.sequence);
  detail::store_le(at + 20, header.items);
  detail::store_le(at + 24, detail::fpr_code(header.target_fpr));
  detail::store_le(at + 26, header.seed_check);
  detail::store_le(at + 28, detail::header_checksum(into, header.covers_bits, bits));
}

inline std::uint64_t claimed_value_bytes(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < header_bytes) return 0;
  const auto layout = static_cast<LayoutKind>(std::to_integer<std::uint8_t>(bytes[1]) & 0x7fU);
  return header_bytes + detail::load_le<std::uint32_t>(bytes.data() + 4) * detail::size_unit_bits(layout) / 8;
}

inline Result<FilterHeader> decode_header(std::span<const std::byte> bytes, std::uint64_t value_bytes) {
  if (auto start = detail::check_start(bytes, value_bytes); !start) return std::move(start).error();
  const FilterHeader header = detail::header_fields(bytes.data());
  if (auto fields = detail::check_fields(header); !fields) return std::move(fields).error();
  if (auto size = detail::check_value_size(header, value_bytes); !size) return std::move(size).error();
  if (auto sum = detail::check_checksum(header, bytes, value_bytes); !sum) return std::move(sum).error();
  return header;
}

template <Hasher H>
Result<void> check_hash(const FilterHeader& header, const H& hash) {
  if (header.hash != H::kind) {
    std::string message = "expected a filter of hash ";
    message.append(std::to_string(static_cast<unsigned>(H::kind))).append(", got hash ");
    return detail::header_error(ErrorCode::parameter_mismatch,
                                message.append(std::to_string(static_cast<unsigned>(header.hash))));
  }
  if (header.seed_check != seed_check(hash)) {
    return detail::header_error(ErrorCode::parameter_mismatch,
                                "expected a filter of this seed, got one of another: their digests do not agree");
  }
  return {};
}

}  // namespace seenby
