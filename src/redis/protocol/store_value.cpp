// SPDX-License-Identifier: MIT
// Encoding and decoding of values.

#include "redis/protocol/store_value.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "seenby/detail/bits.hpp"
#include "seenby/detail/random_generation.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace seenby::redis {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }

Error mismatch(std::string message) { return {ErrorCode::parameter_mismatch, std::move(message)}; }

/// Kind and seed of the header against ours; decode_header has checked that the kind exists.
Result<void> check_hash_identity(const FilterHeader& header, HashIdentity hash) {
  if (header.hash != hash.kind) {
    std::string message = "seenby: expected a filter of hash ";
    message.append(std::to_string(static_cast<unsigned>(hash.kind))).append(", got hash ");
    return mismatch(message.append(std::to_string(static_cast<unsigned>(header.hash))));
  }
  if (header.seed_check != hash.seed_check) {
    return mismatch("seenby: expected a filter of this store's seed, got one of another: their digests do not agree");
  }
  return {};
}

}  // namespace

Result<Frame> decode_frame(std::string_view value, std::size_t at, std::uint64_t value_bytes, HashIdentity hash) {
  std::array<std::byte, header_bytes> header{};
  const auto available = bytes_of(value.substr(std::min(at, value.size())));
  if (available.size() < header_bytes) {
    // However short: a foreign value is no damaged filter.
    if (at == 0 && !available.empty() && (available.front() & std::byte{0xf0}) != std::byte{detail::format_magic}) {
      return Error{ErrorCode::bad_magic, "seenby: expected a filter, got a shorter value of something else"};
    }
    return decode_header(available).error();
  }
  std::copy_n(available.begin(), header_bytes, header.begin());
  Frame frame;
  frame.building = (std::to_integer<unsigned char>(header[1]) & building_mark) != 0;
  header[1] &= ~std::byte{building_mark};
  const std::uint64_t rest = value_bytes - at;
  auto decoded = decode_header(header, std::min(claimed_value_bytes(header), rest));
  if (!decoded) return std::move(decoded).error();
  if (decoded->shape.layout != LayoutKind::split_block) {
    return mismatch("seenby: expected a split-block filter in a Redis store's value, got a classic one");
  }
  if (auto same = check_hash_identity(*decoded, hash); !same) return std::move(same).error();
  frame.header = *decoded;
  frame.bits_at = at + header_bytes;
  return frame;
}

Result<std::vector<Frame>> decode_frames(std::string_view value, HashIdentity hash) {
  std::vector<Frame> frames;
  std::size_t at = 0;
  do {
    auto frame = decode_frame(value, at, value.size(), hash);
    // Behind a filter of ours, whatever is none is damage.
    if (!frame && at != 0) return Error{ErrorCode::corrupt, std::move(frame).error().message};
    if (!frame) return std::move(frame).error();
    at = frame->end();
    frames.push_back(*frame);
  } while (at < value.size());
  return frames;
}

std::string make_frame(const FilterShape& shape, double target_fpr, HashIdentity hash) {
  std::string frame(header_bytes + static_cast<std::size_t>(shape.bytes()), '\0');
  const FilterHeader header{.shape = shape,
                            .hash = hash.kind,
                            .generation = detail::random_generation(),
                            .target_fpr = target_fpr,
                            .seed_check = hash.seed_check};
  const auto bytes = std::as_writable_bytes(std::span(frame));
  encode_header(header, bytes.subspan(header_bytes), bytes.first<header_bytes>());
  return frame;
}

std::size_t insert_into_first(std::string& value, const FilterHeader& header, std::span<const Digest> digests) {
  const auto bytes = std::as_writable_bytes(std::span(value));
  std::size_t changed = 0;
  for (const Digest digest : digests) {
    changed += SplitBlockLayout::insert(bytes.data() + header_bytes, header.shape, digest) ? 1U : 0U;
  }
  const std::uint64_t items =
      std::min<std::uint64_t>(header.items + std::uint64_t{changed}, std::numeric_limits<std::uint32_t>::max());
  detail::store_le(bytes.data() + 16, header.sequence + 1);
  detail::store_le(bytes.data() + 20, static_cast<std::uint32_t>(items));
  return changed;
}

void mark_building(std::string& frame) noexcept {
  frame[1] = static_cast<char>(static_cast<unsigned char>(frame[1]) | building_mark);
}

Result<SliceList> SliceList::decode(std::string_view value) {
  if (!value.empty() && static_cast<unsigned char>(value[0]) != slice_list_magic) {
    std::string message = "seenby: expected a list of slices (first byte 209), got first byte ";
    return Error{ErrorCode::bad_magic, message.append(std::to_string(static_cast<unsigned char>(value[0])))};
  }
  if (value.size() < identity_bytes || value.size() % 8 != 0) {
    std::string message = "seenby: expected a list of slices (16 bytes and 8 a slice), got ";
    return Error{ErrorCode::truncated, message.append(std::to_string(value.size())).append(" bytes")};
  }
  SliceList list;
  const std::byte* bytes = bytes_of(value).data();
  list.slice_seconds_ = detail::load_le<std::uint32_t>(bytes + 4);
  for (std::size_t at = identity_bytes; at < value.size(); at += 8) {
    list.slices_.push_back(static_cast<std::int64_t>(detail::load_le<std::uint64_t>(bytes + at)));
  }
  return list;
}

std::string packed_number(std::int64_t number) {
  std::string out(8, '\0');
  detail::store_le(std::as_writable_bytes(std::span(out)).data(), static_cast<std::uint64_t>(number));
  return out;
}

}  // namespace seenby::redis
