// SPDX-License-Identifier: MIT
// Feeds bytes to the decoders of everything made of several filters: a typed error, or a structure that behaves; never
// a crash or a large allocation.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "seenby/detail/bits.hpp"
#include "seenby/filters/container.hpp"
#include "seenby/filters/counting_bloom_filter.hpp"
#include "seenby/filters/partitioned_header.hpp"
#include "seenby/filters/rotating_filter.hpp"
#include "seenby/filters/scalable_filter.hpp"

namespace {

using namespace std::chrono_literals;
using seenby::Digest;
using Bytes = std::span<const std::byte>;
using Chain = seenby::ScalableFilter<std::uint64_t>;
using Window = seenby::RotatingFilter<std::uint64_t>;
using Counting = seenby::CountingBloomFilter<std::uint64_t>;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class T>
bool refused(const seenby::Result<T>& result) {
  if (!result) require(!result.error().message.empty());
  return !result;
}

void decode(Bytes bytes) {
  const Digest digest{0x0123456789abcdef ^ bytes.size()};
  if (auto chain = Chain::decode(bytes); !refused(chain)) {
    const auto again = Chain::decode(chain->encode());
    require(again.has_value() && *again == *chain && again->capacity() == chain->capacity());
    require(chain->may_contain(digest) == again->may_contain(digest));
    require(chain->estimated_fpr() >= 0 && chain->estimated_fpr() <= 1);
  }
  const auto clock = [] { return seenby::Time{1'700'000'000s}; };
  if (auto window = Window::decode(bytes, clock); !refused(window)) {
    const auto encoded = window->encode();
    const auto again = Window::decode(encoded, clock);
    require(again.has_value() && again->encode() == encoded);
    require(window->age_of(digest) == again->age_of(digest));
    require(window->planned_items() >= 1);
    window->expire();
    require(window->live_slices() <= window->options().slices + 1);
  }
  if (auto counting = Counting::decode(bytes); !refused(counting)) {
    require(counting->encode() == std::vector<std::byte>(bytes.begin(), bytes.end()));
    counting->insert(digest);
    require(counting->may_contain(digest) && counting->erase(digest));
  }
  const auto header = seenby::detail::decode_partitioned_header(bytes, bytes.size());
  if (!refused(header)) require(header->file_bytes() == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  decode(bytes);
  // A checksum and a size keep random bytes out; mended, they let them reach what lies behind.
  if (size < seenby::detail::container_header_bytes) return 0;
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  mended[0] = std::byte{0xC1};
  seenby::detail::store_le(mended.data() + 8, std::uint64_t{size});
  if (size >= seenby::detail::partitioned_header_bytes && mended[1] == std::byte{4}) {
    seenby::detail::store_le(mended.data() + 4, seenby::detail::partitioned_checksum(mended.data()));
  } else {
    mended[2] = mended[3] = std::byte{0};
    const auto covered = Bytes(mended).subspan(8);
    const auto seed = std::to_integer<std::uint64_t>(mended[1]);
    seenby::detail::store_le(mended.data() + 4, static_cast<std::uint32_t>(
                                                    seenby::detail::xxh3_bytes(covered.data(), covered.size(), seed)));
  }
  decode(mended);
  return 0;
}
