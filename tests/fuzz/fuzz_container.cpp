// SPDX-License-Identifier: MIT
// Feeds bytes to the decoders of structures made of several filters: a typed error, or something that encodes to what
// it was decoded from; never a crash or an allocation larger than the bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "seenby/counting_bloom_filter.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/detail/container.hpp"
#include "seenby/rotating_filter.hpp"
#include "seenby/scalable_filter.hpp"

namespace {

using seenby::detail::ContainerKind;
using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Structure>
void decode_as(Bytes bytes) {
  const auto decoded = Structure::decode(bytes);
  if (!decoded) {
    require(!decoded.error().message.empty());
    return;
  }
  (void)decoded->may_contain(std::uint64_t{bytes.size()});
  const auto encoded = decoded->encode();
  const auto again = Structure::decode(encoded);
  require(again.has_value() && again->encode() == encoded);
}

void decode(Bytes bytes) {
  decode_as<seenby::ScalableFilter<std::uint64_t>>(bytes);
  decode_as<seenby::RotatingFilter<std::uint64_t>>(bytes);
  decode_as<seenby::CountingBloomFilter<std::uint64_t>>(bytes);
}

/// The bytes with an envelope that holds: what lies behind the checksum is reached.
std::vector<std::byte> mended(Bytes bytes, ContainerKind kind) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  copy[0] = std::byte{0xC1};
  copy[1] = static_cast<std::byte>(kind);
  copy[2] = copy[3] = std::byte{0};
  seenby::detail::store_le(copy.data() + 8, std::uint64_t{copy.size()});
  const Bytes covered = Bytes(copy).subspan(8);
  seenby::detail::store_le(copy.data() + 4, static_cast<std::uint32_t>(seenby::detail::xxh3_bytes(
                                                covered.data(), covered.size(), static_cast<std::uint64_t>(kind))));
  return copy;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  decode(bytes);
  if (size < seenby::detail::container_header_bytes) return 0;
  for (const auto kind : {ContainerKind::scalable, ContainerKind::rotating, ContainerKind::counting}) {
    decode(mended(bytes, kind));
  }
  return 0;
}
