#pragma once
// SPDX-License-Identifier: MIT
// The bytes behind a key: filters in format v1 one after the other, the "building" mark, and the list of slices.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seenby/filters/format.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"
#include "seenby/sizing.hpp"

namespace seenby::redis {

/// The hash whose digests a store may ask filters with.
struct HashIdentity {
  HashKind kind = HashKind::xxh3_64;
  std::uint16_t seed_check = 0;
};

/// One filter of a value.
struct Frame {
  FilterHeader header;
  bool building = false;    ///< marked: not to be asked yet, its history is still being read
  std::size_t bits_at = 0;  ///< where its bits begin in the value

  [[nodiscard]] std::size_t end() const noexcept { return bits_at + static_cast<std::size_t>(header.shape.bytes()); }
};

/// In the header's second byte, beside the layout. Part of the identity, outside of the checksum's reading: the header
/// is valid once the mark is taken off.
inline constexpr unsigned char building_mark = 0x40;

/// Decodes the filter at `at`. `value` may be a prefix of the real value; `value_bytes` is its whole size.
[[nodiscard]] Result<Frame> decode_frame(std::string_view value, std::size_t at, std::uint64_t value_bytes,
                                         HashIdentity hash);
/// Decodes all filters of a whole value: at least one.
[[nodiscard]] Result<std::vector<Frame>> decode_frames(std::string_view value, HashIdentity hash);

/// Whether bytes are ours but not whole: cut, or contradicting themselves.
[[nodiscard]] inline bool is_damage(const Error& error) noexcept {
  return error.code == ErrorCode::truncated || error.code == ErrorCode::corrupt;
}

/// The first 16 bytes, which every write compares.
[[nodiscard]] inline std::string identity_of(std::string_view header) {
  return std::string(header.substr(0, identity_bytes));
}

/// An empty filter of a shape with a new generation.
[[nodiscard]] std::string make_frame(const FilterShape& shape, double target_fpr, HashIdentity hash);
/// Sets the items' bits in the value's first filter, bumps its sequence and item count. Returns how many changed bits.
std::size_t insert_into_first(std::string& value, const FilterHeader& header, std::span<const Digest> digests);
/// Marks a fresh frame as building.
void mark_building(std::string& frame) noexcept;

/// High half 0xD: a list of slices; low half: version 1. (0xB is a filter, 0xC a container.)
inline constexpr unsigned char slice_list_magic = 0xD1;

/// What version 1 kept for a windowed user, the list of their slices: 16 bytes of identity (0xD1, mark, 0, 0, slice
/// seconds, generation), then slice numbers of 8 bytes.
class SliceList {
 public:
  [[nodiscard]] static Result<SliceList> decode(std::string_view value);

  [[nodiscard]] std::span<const std::int64_t> slices() const noexcept { return slices_; }
  [[nodiscard]] std::int64_t slice_seconds() const noexcept { return slice_seconds_; }

 private:
  std::int64_t slice_seconds_ = 0;
  std::vector<std::int64_t> slices_;
};

/// Eight little-endian bytes.
[[nodiscard]] std::string packed_number(std::int64_t number);

}  // namespace seenby::redis
