// SPDX-License-Identifier: MIT
#include "redis/protocol/set_shape.hpp"

#include <charconv>

#include "seenby/detail/sizing_math.hpp"
#include "seenby/sizing.hpp"

namespace seenby::redis {
namespace {

/// At most a mebibyte a string: Redis copies one whole when it grows or is sent to a replica.
constexpr std::uint64_t largest_partition_blocks = 32'768;

}  // namespace

SetShape SetShape::make(std::uint64_t items, double fpr, HashKind hash, std::uint16_t seed_check) {
  const std::uint64_t blocks = sizing::shape_for(LayoutKind::split_block, items, fpr).bits / split_block_bits;
  SetShape shape{.expected_items = items, .target_fpr = fpr, .hash = static_cast<std::uint32_t>(hash)};
  shape.seed_check = seed_check;
  shape.partitions = static_cast<std::uint32_t>((blocks + largest_partition_blocks - 1) / largest_partition_blocks);
  shape.blocks = static_cast<std::uint32_t>((blocks + shape.partitions - 1) / shape.partitions);
  return shape;
}

std::string SetShape::encode() const {
  std::string text;
  for (const std::uint64_t field : {std::uint64_t{partitions}, std::uint64_t{blocks}, expected_items,
                                    std::uint64_t{hash}, std::uint64_t{seed_check}}) {
    text.append(std::to_string(field)).append(" ");
  }
  return text.append(detail::text_of(target_fpr));
}

std::optional<SetShape> SetShape::decode(std::string_view text) {
  SetShape shape;
  std::uint64_t fields[5] = {};
  for (std::uint64_t& field : fields) {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), field);
    if (failure != std::errc{} || end == text.data() + text.size() || *end != ' ') return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  }
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), shape.target_fpr);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (fields[0] < 1 || fields[0] > 65'536 || fields[1] < 1 || fields[1] > largest_partition_blocks) return std::nullopt;
  shape.partitions = static_cast<std::uint32_t>(fields[0]);
  shape.blocks = static_cast<std::uint32_t>(fields[1]);
  shape.expected_items = fields[2];
  shape.hash = static_cast<std::uint32_t>(fields[3]);
  shape.seed_check = static_cast<std::uint32_t>(fields[4]);
  return shape;
}

std::string SetShape::positions(std::span<const Digest> digests) const {
  std::string out;
  out.reserve(digests.size() * 40);
  for (const Digest digest : digests) {
    std::byte bytes[40];
    detail::store_le(bytes, partition_of(digest));
    detail::store_le(bytes + 4, block_of(digest));
    for (std::size_t word = 0; word < 8; ++word) {
      detail::store_le(bytes + 8 + 4 * word, detail::split_block_bit(digest, word));
    }
    out.append(reinterpret_cast<const char*>(bytes), sizeof bytes);
  }
  return out;
}

bool block_holds(std::string_view block, Digest digest) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(block.data());
  for (std::size_t word = 0; word < 8; ++word) {
    const std::uint32_t bit = detail::split_block_bit(digest, word);
    if ((detail::load_le<std::uint32_t>(bytes + 4 * word) & bit) == 0) return false;
  }
  return true;
}

std::string bytes_of(Digest digest) {
  std::byte bytes[8];
  detail::store_le(bytes, digest.value);
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

}  // namespace seenby::redis
